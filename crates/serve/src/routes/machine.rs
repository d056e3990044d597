//! The server and its machine: models, devices, figures, the way in.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use remaster::Task;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::{FEW, Shared, Words, base, object, only};
use crate::door::Room;
use crate::input::{MODELS, NO_NETWORK, is_inside};
use crate::problem::Problem;
use crate::watched::Client;
use crate::{metrics, time};

pub(super) async fn session(
    State(app): State<Shared>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    app.door.check(&Method::GET, &uri, &headers, Room::Inside)?;
    let settings = &app.settings;
    let (limit, free) = block_in_place(|| (app.uploads.limit(), remaster_disk::free_space(&settings.state)));
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "token_required": app.door.has_token(),
        "folders": app.folders.shown(),
        "upload_limit": limit,
        "free_disk": free,
        "keep_seconds": settings.keep.as_secs(),
        "jobs_limit": settings.jobs,
    })))
}

pub(super) async fn enter(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    body: Body,
) -> Result<Response, Problem> {
    let asked = object(body, FEW).await?;
    only(&asked, &["token"])?;
    let token = asked.get("token").and_then(Value::as_str).unwrap_or_default();
    if !app.door.is_token(token) {
        // A guess takes time, and its place meanwhile only if nobody else needs it.
        client.penalty(std::time::Duration::from_millis(500)).await;
        return Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "token",
            "this is not the token; the server was started with another one",
        ));
    }
    let cookie =
        HeaderValue::from_str(&app.door.cookie()).map_err(|_| Problem::busy("internal", "try again"))?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

pub(super) async fn account() -> Json<Value> {
    Json(json!({"type": "user", "username": "local", "name": "Remaster", "github_url": null}))
}

pub(super) async fn secret(State(app): State<Shared>) -> Json<Value> {
    Json(json!({"key": app.secret.as_str()}))
}

pub(super) async fn models(State(app): State<Shared>, headers: HeaderMap) -> Result<Json<Value>, Problem> {
    let installed = installed(&app).await?;
    let base = base(&headers);
    // What is no model is not offered beside them; requests can name it.
    let offered = MODELS.iter().filter(|(name, _)| *name != NO_NETWORK);
    let results: Vec<Value> =
        offered.map(|(name, about)| described(name, about, &installed, &base)).collect();
    Ok(Json(json!({"results": results, "next": null, "previous": null})))
}

pub(super) async fn model(
    State(app): State<Shared>,
    headers: HeaderMap,
    Words(words): Words,
) -> Result<Json<Value>, Problem> {
    let (name, about) = known(&words)?;
    Ok(Json(described(name, about, &installed(&app).await?, &base(&headers))))
}

/// Clients ask for the version that they name before they run it.
pub(super) async fn version(Words(words): Words) -> Result<Json<Value>, Problem> {
    known(&words)?;
    let version =
        words.get("version").filter(|word| word.len() <= 100).ok_or_else(|| Problem::missing("version"))?;
    // Clients choose by these what kind of result to expect.
    let output = json!({"components": {"schemas": {"Output": {"type": "string", "format": "uri"}}}});
    let created = time::written(0);
    Ok(Json(json!({"id": version, "created_at": created, "cog_version": "0.9.0", "openapi_schema": output})))
}

fn known(words: &std::collections::HashMap<String, String>) -> Result<(&'static str, &'static str), Problem> {
    let word = |name: &str| words.get(name).map(String::as_str);
    let found = MODELS.into_iter().find(|(name, _)| word("name") == Some(name));
    found.filter(|_| word("owner") == Some("remaster")).ok_or_else(|| Problem::missing("model"))
}

async fn installed(app: &Shared) -> Result<Value, Problem> {
    app.ask("models", Task::Models { folder: app.settings.how.models.folder.clone() }).await
}

fn described(name: &str, about: &str, installed: &Value, base: &str) -> Value {
    let files = installed.get("files").and_then(Value::as_array);
    let usable = |file: &&Value| file["usable"] == true;
    let has = |test: &dyn Fn(&str, &Value) -> bool| {
        let kind =
            |file: &&Value| file.get("kind").and_then(Value::as_str).is_some_and(|kind| test(kind, file));
        files
            .and_then(|files| files.iter().filter(usable).find(kind))
            .and_then(|file| file.get("bytes"))
            .cloned()
    };
    let inside = is_inside(name);
    let file = |word: &str, file: &Value| {
        file["file"].as_str().is_some_and(|path| path.to_lowercase().contains(word))
    };
    let size = match name {
        "3b" => has(&|kind, f| kind.contains("3b") && f["revision"] != "first"),
        "3b-first" => has(&|kind, f| kind.contains("3b") && f["revision"] == "first"),
        "7b" => has(&|kind, f| kind.contains("7b") && !file("sharp", f)),
        "7b-sharp" => has(&|kind, f| kind.contains("7b") && file("sharp", f)),
        _ => None,
    };
    let vae = has(&|kind, _| kind == "vae");
    let ready = inside || (size.is_some() && vae.is_some());
    json!({
        "url": format!("{base}/v1/models/remaster/{name}"),
        "owner": "remaster",
        "name": name,
        "description": about,
        "visibility": "public",
        "run_count": 0,
        "latest_version": null,
        "kind": if inside { "upscaler" } else { "seedvr2" },
        "installed": ready,
        "size_bytes": size,
        "pull": (!ready).then(|| format!("remaster models pull {name}")),
    })
}

pub(super) async fn devices(State(app): State<Shared>) -> Result<Json<Value>, Problem> {
    let listed = app.ask("devices", Task::Devices).await?;
    let all = listed.get("devices").and_then(Value::as_array).cloned().unwrap_or_default();
    let auto = listed.get("auto").and_then(Value::as_str).unwrap_or("cpu");
    let used = app.settings.devices.iter().zip(app.jobs.slots()).map(|(name, busy)| {
        let real = if name == "auto" { auto } else { name };
        let found = all.iter().find(|device| device["device"] == real);
        let text = |field: &str| found.and_then(|device| device.get(field)).cloned().unwrap_or(Value::Null);
        json!({
            "name": name,
            "description": text("name"),
            "kind": text("kind"),
            "memory_bytes": found.and_then(|device| device.pointer("/memory/bytes")),
            "busy": busy,
        })
    });
    Ok(Json(json!({"results": used.collect::<Vec<_>>()})))
}

pub(super) async fn health() -> &'static str {
    "ok"
}

pub(super) async fn ready(State(app): State<Shared>) -> Result<&'static str, Problem> {
    // Without room on the disk nothing can be taken.
    match block_in_place(|| app.uploads.limit()) {
        0 => Err(Problem::busy("disk-full", "the disk is full; remove old results")),
        _ => Ok("ready"),
    }
}

pub(super) async fn metrics(State(app): State<Shared>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], block_in_place(|| metrics::written(&app))).into_response()
}
