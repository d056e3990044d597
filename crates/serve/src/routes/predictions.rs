//! Jobs: made, looked at, ordered, ended.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use remaster::Task;
use remaster_disk::hex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::task::block_in_place;

use super::inside::{self, Sent, TAKEN};
use super::{FEW, Id, Shared, Words, content, number, object, only, query};
use crate::app::App;
use crate::hosts::Purpose;
use crate::input::{self, Asked};
use crate::job::{Job, Media, Status, Viewer, Webhook};
use crate::jobs::{Action, Change, Cursor};
use crate::problem::Problem;
use crate::uploads::display_name;
use crate::{id, runner, time};

/// Bytes of a request at most, with a film inside as a `data:` URL.
const MOST_BODY: usize = 24 << 20;

/// Letters of a path or an address at most.
const MOST_TEXT: usize = 8 << 10;

/// Jobs on a page of the list.
const PAGE: usize = 100;

/// How long an answer may be waited for.
const WAIT: u64 = 60;

/// Names of a request. Some are of clients, and mean nothing here.
const NAMES: [&str; 6] =
    ["version", "input", "webhook", "webhook_completed", "webhook_events_filter", "stream"];

/// Events that a webhook can be told of.
const EVENTS: [&str; 4] = ["start", "output", "logs", "completed"];

pub(super) async fn create(
    State(app): State<Shared>,
    viewer: Viewer,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let asked = inside::object(&app, body, MOST_BODY).await?;
    let version = asked.map.get("version").and_then(Value::as_str).map(str::to_owned);
    make(&app, &viewer, &headers, version.as_deref(), asked).await
}

pub(super) async fn create_for_model(
    State(app): State<Shared>,
    viewer: Viewer,
    headers: HeaderMap,
    Words(words): Words,
    body: Body,
) -> Result<Response, Problem> {
    if words.get("owner").map(String::as_str) != Some("remaster") {
        return Err(Problem::missing("model"));
    }
    let asked = inside::object(&app, body, MOST_BODY).await?;
    make(&app, &viewer, &headers, words.get("name").map(String::as_str), asked).await
}

async fn make(
    app: &Shared,
    viewer: &Viewer,
    headers: &HeaderMap,
    model: Option<&str>,
    asked: Sent<'_>,
) -> Result<Response, Problem> {
    let Sent { map: asked, film } = asked;
    only(&asked, &NAMES)?;
    let wait = wait(headers)?;
    let key = key(headers)?;
    let webhook = webhook(app, &asked)?;
    let (wanted, mut given) = wanted(app, model, &asked)?;
    let film = film.filter(|_| wanted.media == TAKEN);
    if let Some(film) = &film {
        // Two films are two requests.
        given.insert("media".into(), json!(format!("{TAKEN}{}", film.digest())));
    }
    let hash = key.as_ref().map(|_| {
        let asked = json!([wanted.model, given]).to_string();
        hex(&Sha256::digest(asked))
    });
    if let (Some(key), Some(hash)) = (&key, &hash)
        && let Some(id) = app.jobs.with_key(key, hash)?
    {
        return answer(app, viewer, &id, wait).await;
    }
    if !input::is_inside(&wanted.model) {
        // A model that is not installed would fail hours later, when it is its turn.
        app.look(Task::Networks(Box::new(wanted.how.models.clone())), None).await?;
    }
    let mut inside = Inside { app, id: None };
    let (media, name) = match film {
        Some(film) => {
            let upload = app.on_disk(|| film.finish(Map::new())).await?;
            inside.id = Some(upload.id.clone());
            (Media::File { id: upload.id }, upload.name)
        }
        None => media(app, &wanted.media)?,
    };
    let picture = block_in_place(|| is_picture(app, &media, &name));
    let ending = input::ending(wanted.format.as_deref(), picture)?;
    if let Some(id) = &inside.id {
        // A film is kept once.
        given.insert("media".into(), json!(format!("{}/v1/files/{id}", viewer.base)));
    }
    let job = Job {
        id: id::new().map_err(|error| Problem::busy("input-output", error.to_string()))?,
        model: wanted.model,
        input: given,
        media,
        name,
        ending: ending.to_owned(),
        how: wanted.how,
        target: wanted.target,
        status: Status::Starting,
        paused: false,
        stop: None,
        rank: 0.0,
        created: time::now(),
        started: None,
        completed: None,
        error: None,
        error_kind: None,
        frames: None,
        seconds: None,
        memory: None,
        saved: None,
        webhook,
        key,
        asked: hash,
        base: viewer.base.clone(),
    };
    let added = app.jobs.add(job).await;
    if matches!(added, Ok((_, true))) {
        inside.id = None;
    }
    drop(inside);
    answer(app, viewer, &added?.0, wait).await
}

/// The film that was inside a request. It is removed when no job needs it.
struct Inside<'a> {
    app: &'a App,
    id: Option<String>,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // A request that ends while its job is saved leaves the job.
        if let Some(id) = self.id.take().filter(|id| !self.app.jobs.knows(id)) {
            let _ = block_in_place(|| self.app.uploads.remove(&id));
        }
    }
}

/// A job that was made, after its end if the client waits for that.
async fn answer(
    app: &Shared,
    viewer: &Viewer,
    id: &str,
    wait: Option<Duration>,
) -> Result<Response, Problem> {
    let mut changes = app.jobs.watch();
    if let Some(wait) = wait {
        let until_over = async {
            while !app.jobs.is_over(id) {
                match changes.recv().await {
                    Ok(Change::State(_) | Change::Removed(_) | Change::Line { .. }) => {}
                    Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                    Err(tokio::sync::broadcast::error::RecvError::Closed) => break,
                }
            }
        };
        let _ = tokio::time::timeout(wait, until_over).await;
    }
    let mut shown = app.jobs.shown(id, viewer).ok_or_else(|| Problem::missing("prediction"))?;
    if wait.is_some() && !app.jobs.is_over(id) {
        // Clients that wait take any other word for the end.
        shown["status"] = json!(Status::Starting);
    }
    Ok((StatusCode::CREATED, Json(shown)).into_response())
}

/// The input of a request, checked and as it was given.
pub(super) fn wanted(
    app: &Shared,
    model: Option<&str>,
    asked: &Map<String, Value>,
) -> Result<(Asked, Map<String, Value>), Problem> {
    let given = match asked.get("input") {
        Some(Value::Object(given)) => given.clone(),
        _ => return Err(Problem::value("`input` is missing; send an object with `media`")),
    };
    if asked.get("version").is_some_and(|version| !version.is_string()) {
        return Err(Problem::value("`version` has to be the name of a model"));
    }
    Ok((input::read(model, &given, &app.settings.how)?, given))
}

/// Where the film is, and what it is called.
pub(super) fn media(app: &Shared, text: &str) -> Result<(Media, String), Problem> {
    if text.starts_with(TAKEN) {
        return Err(inside::wrong());
    }
    if text.len() > MOST_TEXT || text.chars().any(char::is_control) {
        return Err(Problem::value("input.media is no path and no address"));
    }
    if let Some(at) =
        text.find("/v1/files/").filter(|_| !text.starts_with('/') || text.starts_with("/v1/files/"))
    {
        let id = text.get(at + "/v1/files/".len()..).unwrap_or_default().trim_end_matches("/content");
        // The host is that by which the client knows us.
        if let Some(upload) = app.uploads.get(id) {
            upload.usable()?;
            return Ok((Media::File { id: id.to_owned() }, upload.name));
        }
        if id::is_id(id) {
            return Err(Problem::missing("file"));
        }
    }
    if text.starts_with("http://") || text.starts_with("https://") {
        app.settings.hosts.check(text, Purpose::Input).map_err(|refusal| {
            Problem::new(StatusCode::FORBIDDEN, "not-allowed", remaster::with_causes(&refusal))
        })?;
        let path = text.split(['?', '#']).next().unwrap_or_default();
        return Ok((Media::Url { url: text.to_owned() }, display_name(path)));
    }
    let place = app.folders.place(local(text))?;
    block_in_place(|| app.folders.open(&place))?;
    let name = place.names.last().map(|name| display_name(name)).unwrap_or_default();
    refuse_scripts(&name)?;
    Ok((Media::Path { folder: place.folder, names: place.names }, name))
}

/// The path in a file URL, or the path that it is. `/C:/films` is one of Windows.
fn local(text: &str) -> &str {
    let path = text.strip_prefix("file://").unwrap_or(text);
    let drive =
        |path: &str| matches!(path.as_bytes(), [b'/', letter, b':', ..] if letter.is_ascii_alphabetic());
    if cfg!(windows) && drive(path) { &path[1..] } else { path }
}

/// A script is a program and no film.
pub(super) fn refuse_scripts(name: &str) -> Result<(), Problem> {
    let lower = name.to_ascii_lowercase();
    match lower.ends_with(".vpy") || lower.ends_with(".avs") {
        false => Ok(()),
        true => {
            let detail =
                format!("{name} is a script, which only the command line runs; use `remaster {name}` there");
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "script-not-typed", detail))
        }
    }
}

/// True if a file is a single picture. What is not here yet is judged by its name.
fn is_picture(app: &Shared, media: &Media, name: &str) -> bool {
    match app.film(media) {
        Ok(film) => remaster::is_still(&film.path),
        Err(_) => {
            let lower = name.to_ascii_lowercase();
            [".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp"]
                .iter()
                .any(|ending| lower.ends_with(ending))
        }
    }
}

/// How long the client wants to wait: `Prefer: wait` or `Prefer: wait=5`.
fn wait(headers: &HeaderMap) -> Result<Option<Duration>, Problem> {
    let Some(prefer) = headers.get("prefer") else { return Ok(None) };
    let wrong = || {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "usage",
            "Prefer has to be `wait` or `wait=N` with N seconds from 1 to 60",
        )
    };
    let word = prefer.to_str().map_err(|_| wrong())?.trim().to_ascii_lowercase();
    // Other preferences may be ignored.
    let mut words = word.split([',', ';']).map(|word| word.split_once('=').unwrap_or((word, "")));
    let Some((_, seconds)) = words.find(|(name, _)| name.trim() == "wait") else { return Ok(None) };
    let seconds = match seconds.trim() {
        "" => WAIT,
        seconds => seconds.parse::<u64>().map_err(|_| wrong())?,
    };
    Ok(Some(Duration::from_secs(seconds.clamp(1, WAIT))))
}

/// The key of a request that may be sent twice.
fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let wrong = || {
        Problem::new(
            StatusCode::BAD_REQUEST,
            "usage",
            "Idempotency-Key has to have 1 to 200 letters, digits or signs",
        )
    };
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().map_err(|_| wrong())?;
    if (1..=200).contains(&key.len()) { Ok(Some(key.to_owned())) } else { Err(wrong()) }
}

/// Whom to tell.
fn webhook(app: &Shared, asked: &Map<String, Value>) -> Result<Option<Webhook>, Problem> {
    let text = |name: &str| match asked.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() <= MOST_TEXT => Ok(Some(text.clone())),
        Some(_) => Err(Problem::value(format!("`{name}` has to be an address"))),
    };
    // The second is an old spelling.
    let (url, only_end) = match (text("webhook")?, text("webhook_completed")?) {
        (Some(url), _) => (url, false),
        (None, Some(url)) => (url, true),
        (None, None) => return Ok(None),
    };
    app.settings.hosts.check(&url, Purpose::Webhook).map_err(|refusal| {
        Problem::new(StatusCode::FORBIDDEN, "not-allowed", remaster::with_causes(&refusal))
    })?;
    let known = |event: &Value| event.as_str().filter(|event| EVENTS.contains(event)).map(str::to_owned);
    let events = match asked.get("webhook_events_filter") {
        _ if only_end => vec!["completed".to_owned()],
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(events)) => {
            let wrong = || Problem::value(format!("`webhook_events_filter` can hold {}", EVENTS.join(", ")));
            events.iter().take(EVENTS.len() + 1).map(known).collect::<Option<Vec<_>>>().ok_or_else(wrong)?
        }
        Some(_) => return Err(Problem::value("`webhook_events_filter` has to be a list")),
    };
    Ok(Some(Webhook::new(url, events)))
}

pub(super) async fn list(
    State(app): State<Shared>,
    viewer: Viewer,
    uri: Uri,
) -> Result<Json<Value>, Problem> {
    let words = query(&uri, &["cursor", "limit"])?;
    let limit = number(&words, "limit", 1, PAGE, "a whole number from 1 to 100")?.unwrap_or(PAGE);
    let cursor = words.get("cursor").map(|cursor| cursor.parse::<Cursor>()).transpose();
    let cursor = cursor.map_err(|()| {
        Problem::new(StatusCode::BAD_REQUEST, "usage", "cursor has to be the one of a page before")
    })?;
    let (results, next) = app.jobs.list(cursor.as_ref(), limit, &viewer);
    let next = next.map(|cursor| format!("{}/v1/predictions?cursor={cursor}&limit={limit}", viewer.base));
    Ok(Json(json!({"results": results, "next": next, "previous": null})))
}

pub(super) async fn about(
    State(app): State<Shared>,
    viewer: Viewer,
    Id(id): Id,
) -> Result<Json<Value>, Problem> {
    shown(&app, &viewer, &id)
}

fn shown(app: &Shared, viewer: &Viewer, id: &str) -> Result<Json<Value>, Problem> {
    app.jobs.shown(id, viewer).map(Json).ok_or_else(|| Problem::missing("prediction"))
}

/// Does what a client asks of a job, and shows the job.
async fn act(app: &Shared, viewer: &Viewer, id: &str, action: Action) -> Result<Json<Value>, Problem> {
    if let Some(saving) = app.jobs.request(id, action)? {
        saving.settle().await;
    }
    shown(app, viewer, id)
}

/// Handlers that change a job and show it.
macro_rules! actions {
    ($($name:ident $action:ident)*) => {$(
        pub(super) async fn $name(State(app): State<Shared>, viewer: Viewer, Id(id): Id) -> Result<Json<Value>, Problem> {
            act(&app, &viewer, &id, Action::$action).await
        }
    )*};
}

actions!(cancel Cancel pause Pause resume Resume retry Retry);

pub(super) async fn place(
    State(app): State<Shared>,
    viewer: Viewer,
    Id(id): Id,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let asked = object(body, FEW).await?;
    only(&asked, &["position"])?;
    let position = asked.get("position").and_then(Value::as_u64);
    let position =
        position.ok_or_else(|| Problem::value("`position` has to be a whole number, 0 for the next"))?;
    let saves = app.jobs.place(&id, usize::try_from(position).unwrap_or(usize::MAX))?;
    // Usually there is one. Of many, the last one is written last.
    if let Some(saving) = saves.into_iter().last() {
        saving.settle().await;
    }
    shown(&app, &viewer, &id)
}

pub(super) async fn remove(State(app): State<Shared>, Id(id): Id) -> Result<StatusCode, Problem> {
    app.jobs.remove(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn content(
    State(app): State<Shared>,
    headers: HeaderMap,
    uri: Uri,
    Id(id): Id,
) -> Result<Response, Problem> {
    let words = query(&uri, &["download"])?;
    let job = app.jobs.get(&id)?;
    if job.status != Status::Succeeded {
        return Err(Problem::conflict("there is no result yet; wait until the job has succeeded"));
    }
    let file = block_in_place(|| app.jobs.folder(&id).and_then(|folder| folder.read(job.result())));
    let file = file.map_err(|_| Problem::missing("result"))?;
    let tag = format!("{id}-{}", job.completed.unwrap_or_default());
    let download = words.get("download").is_some_and(|word| word == "1" || word == "true");
    content::answer(&app, (file, ()), &headers, &content::About::file(&job.output_name(), tag, download))
}

pub(super) async fn source(
    State(app): State<Shared>,
    headers: HeaderMap,
    Id(id): Id,
) -> Result<Response, Problem> {
    let job = app.jobs.get(&id)?;
    let opened = match &job.media {
        Media::File { id } => {
            let upload = app.uploads.get(id);
            upload.and_then(|upload| block_in_place(|| app.uploads.content(&upload)).ok())
        }
        Media::Path { folder, names } => {
            let place = crate::folders::Place { folder: folder.clone(), names: names.clone() };
            app.on_share(|| app.folders.open(&place)).await?.ok()
        }
        Media::Url { .. } => {
            block_in_place(|| app.jobs.folder(&id).and_then(|folder| folder.read("fetched"))).ok()
        }
    };
    let file = opened.ok_or_else(|| Problem::missing("source"))?;
    content::answer(
        &app,
        (file, ()),
        &headers,
        &content::About::file(&job.name, format!("{id}-source"), false),
    )
}

pub(super) async fn picture(
    State(app): State<Shared>,
    headers: HeaderMap,
    uri: Uri,
    Id(id): Id,
) -> Result<Response, Problem> {
    // The moment is there so that a new picture has a new address.
    query(&uri, &["at"])?;
    let found = block_in_place(|| {
        let newest = runner::newest(&app, &id)?;
        let folder = app.jobs.folder(&id).and_then(|folder| folder.folder(runner::NEWEST));
        Some((newest, folder.and_then(|folder| folder.read(format!("{newest}.jpg"))).ok()?))
    });
    let (newest, file) = found.ok_or_else(|| Problem::missing("picture"))?;
    let about = content::About::picture("picture.jpg", format!("{id}-{newest}"));
    content::answer(&app, (file, ()), &headers, &about)
}
