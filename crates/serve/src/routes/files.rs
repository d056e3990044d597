//! Uploads, and films that are on the disk already.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::form::{ADDED, Form};
use super::{Id, Shared, base, content, query};
use crate::problem::Problem;
use crate::uploads::{Incoming, Upload};

/// Bytes of what a client says about a file at most.
const MOST_METADATA: usize = 64 << 10;

/// Values in it at most: in memory one takes up to thirty times the bytes of its text.
const MAX_METADATA_VALUES: usize = 1000;

pub(super) async fn create(
    State(app): State<Shared>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    // A client that says what it will send is not let send it in vain.
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let limit = tokio::task::block_in_place(|| app.uploads.limit());
    if length.is_some_and(|length| length > limit.saturating_add(ADDED)) {
        let detail = format!(
            "a file may have {limit} bytes now; the server's --upload-limit or its disk allows no more"
        );
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail));
    }
    let upload = receive(&app, &headers, body).await?;
    Ok((StatusCode::CREATED, Json(upload.shown(&base(&headers), app.settings.keep))).into_response())
}

async fn receive(app: &Shared, headers: &HeaderMap, body: Body) -> Result<Upload, Problem> {
    let mut form = Form::of(headers, body)?;
    let (mut incoming, mut metadata) = (None::<Incoming<'_>>, Map::new());
    while let Some(part) = form.part().await? {
        match part.name.as_deref() {
            Some("content") if incoming.is_none() => {
                let name = part.file_name.unwrap_or_else(|| "film".into());
                let kind = part.content_type.unwrap_or_default();
                let mut file = app.on_disk(|| app.uploads.begin(&name, &kind)).await?;
                while let Some(bytes) = form.bytes().await? {
                    app.on_disk(|| file.write(&bytes)).await?;
                }
                incoming = Some(file);
            }
            Some("metadata") => {
                let mut text = Vec::new();
                while let Some(bytes) = form.bytes().await? {
                    text.extend_from_slice(&bytes);
                    if text.len() > MOST_METADATA {
                        return Err(Problem::value(format!("metadata may have {MOST_METADATA} bytes")));
                    }
                }
                let parsed = serde_json::from_slice::<Map<String, Value>>(&text);
                metadata = parsed.map_err(|_| Problem::value("`metadata` has to be a JSON object"))?;
                if metadata.values().map(count).sum::<usize>() > MAX_METADATA_VALUES {
                    return Err(Problem::value(format!("metadata may have {MAX_METADATA_VALUES} values")));
                }
            }
            _ => {
                return Err(Problem::value(
                    "an upload has the fields `content`, once, and `metadata`, and no others",
                ));
            }
        }
    }
    let incoming =
        incoming.ok_or_else(|| Problem::value("the upload has no field `content`; send the file there"))?;
    app.on_disk(|| incoming.finish(metadata)).await
}

/// How many values a value is. The parser limits how deep they lie.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count).sum::<usize>(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

pub(super) async fn list(State(app): State<Shared>, headers: HeaderMap) -> Json<Value> {
    let base = base(&headers);
    let results: Vec<Value> =
        app.uploads.list().iter().map(|file| file.shown(&base, app.settings.keep)).collect();
    Json(json!({"results": results, "next": null, "previous": null}))
}

pub(super) async fn about(
    State(app): State<Shared>,
    headers: HeaderMap,
    Id(id): Id,
) -> Result<Json<Value>, Problem> {
    let upload = app.uploads.get(&id).ok_or_else(|| Problem::missing("file"))?;
    Ok(Json(upload.shown(&base(&headers), app.settings.keep)))
}

pub(super) async fn remove(State(app): State<Shared>, Id(id): Id) -> Result<StatusCode, Problem> {
    if app.jobs.uses(&id) {
        return Err(Problem::conflict("a job needs this file; cancel or remove it first"));
    }
    app.on_disk(|| app.uploads.remove(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn content(
    State(app): State<Shared>,
    headers: HeaderMap,
    Id(id): Id,
) -> Result<Response, Problem> {
    let upload = app.uploads.get(&id).ok_or_else(|| Problem::missing("file"))?;
    let file = tokio::task::block_in_place(|| app.uploads.content(&upload));
    let file = file.map_err(|_| Problem::missing("file"))?;
    content::answer(&app, (file, ()), &headers, &content::About::file(&upload.name, upload.id, false))
}

pub(super) async fn folders(State(app): State<Shared>, uri: Uri) -> Result<Json<Value>, Problem> {
    let words = query(&uri, &["path"])?;
    let path = words.get("path").map(String::as_str);
    app.on_share(|| app.folders.list(path)).await?.map(Json)
}
