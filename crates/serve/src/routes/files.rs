//! Uploads, and films that are on the disk already.

use axum::Json;
use axum::extract::multipart::{Field, Multipart};
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use std::time::Duration;

use super::{Id, Shared, base, content, query};
use crate::job::Media;
use crate::problem::Problem;
use crate::uploads::{Incoming, Upload};

/// Parts of a form at most.
const MOST_PARTS: usize = 16;

/// Bytes of what a client says about a file at most.
const MOST_METADATA: usize = 64 << 10;

/// Bytes that a form adds to a file at most.
const FORM: u64 = 1 << 20;

/// How long a client may be silent.
const SILENCE: Duration = Duration::from_secs(60);

pub(super) async fn create(
    State(app): State<Shared>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    // A client that says what it will send is not let send it in vain.
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > app.uploads.limit().saturating_add(FORM)) {
        let detail = format!(
            "a file may have {} bytes now; the server's --upload-limit or its disk allows no more",
            app.uploads.limit()
        );
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail));
    }
    let upload = receive(&app, request).await?;
    Ok((StatusCode::CREATED, Json(upload.shown(&base(&headers), app.settings.keep))).into_response())
}

async fn receive(app: &Shared, request: Request) -> Result<Upload, Problem> {
    let bad = |detail: String| Problem::new(StatusCode::BAD_REQUEST, "usage", detail);
    let mut form = Multipart::from_request(request, app).await.map_err(|_| {
        bad("an upload has to be multipart/form-data with a file in the field `content`".into())
    })?;
    let (mut incoming, mut metadata) = (None::<Incoming<'_>>, Map::new());
    for _ in 0..MOST_PARTS {
        let next = in_time(form.next_field()).await?;
        let Some(mut field) = next.map_err(|error| bad(format!("the upload is cut off: {error}")))? else {
            let incoming = incoming
                .ok_or_else(|| Problem::value("the upload has no field `content`; send the file there"))?;
            return tokio::task::block_in_place(|| incoming.finish(metadata));
        };
        match field.name() {
            Some("content") if incoming.is_none() => {
                let name = field.file_name().unwrap_or("film").to_owned();
                let kind = field.content_type().unwrap_or_default().to_owned();
                let mut file = app.uploads.begin(&name, &kind)?;
                while let Some(bytes) = chunk(&mut field).await? {
                    tokio::task::block_in_place(|| file.write(&bytes))?;
                }
                incoming = Some(file);
            }
            Some("metadata") => {
                let mut text = Vec::new();
                while let Some(bytes) = chunk(&mut field).await? {
                    text.extend_from_slice(&bytes);
                    if text.len() > MOST_METADATA {
                        return Err(Problem::value(format!("metadata may have {MOST_METADATA} bytes")));
                    }
                }
                let parsed = serde_json::from_slice::<Map<String, Value>>(&text);
                metadata = parsed.map_err(|_| Problem::value("`metadata` has to be a JSON object"))?;
            }
            _ => {
                return Err(Problem::value(
                    "an upload has the fields `content`, once, and `metadata`, and no others",
                ));
            }
        }
    }
    Err(bad(format!("an upload has {MOST_PARTS} parts at most")))
}

async fn chunk(field: &mut Field<'_>) -> Result<Option<axum::body::Bytes>, Problem> {
    let cut =
        |error| Problem::new(StatusCode::BAD_REQUEST, "usage", format!("the upload is cut off: {error}"));
    in_time(field.chunk()).await?.map_err(cut)
}

async fn in_time<T>(work: impl Future<Output = T>) -> Result<T, Problem> {
    let late = |_| {
        let detail = format!("nothing came for {} seconds; send the file again", SILENCE.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", detail)
    };
    tokio::time::timeout(SILENCE, work).await.map_err(late)
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
    let media = Media::File { id: id.clone() };
    if app.jobs.all().iter().any(|job| job.media == media && !job.status.is_over()) {
        return Err(Problem::conflict("a job needs this file; cancel it first"));
    }
    tokio::task::block_in_place(|| app.uploads.remove(&id))?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn content(
    State(app): State<Shared>,
    headers: HeaderMap,
    Id(id): Id,
) -> Result<Response, Problem> {
    let upload = app.uploads.get(&id).ok_or_else(|| Problem::missing("file"))?;
    let file = app.uploads.content(&upload).map_err(|_| Problem::missing("file"))?;
    content::answer(file, &headers, &content::About { name: &upload.name, tag: &upload.id, download: false })
}

pub(super) async fn folders(State(app): State<Shared>, uri: Uri) -> Result<Json<Value>, Problem> {
    let words = query(&uri, &["path"])?;
    let path = words.get("path").map(String::as_str);
    tokio::task::block_in_place(|| app.folders.list(path)).map(Json)
}
