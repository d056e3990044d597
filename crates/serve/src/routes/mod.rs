//! What can be asked for, one file for each kind of thing.

mod content;
mod events;
mod files;
mod looks;
mod machine;
mod page;
mod predictions;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use futures_util::StreamExt;
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::door::Room;
use crate::id;
use crate::openapi;
use crate::problem::Problem;

/// What every handler gets.
pub(crate) type Shared = Arc<App>;

/// How long the body of a small request may take.
const BODY: Duration = Duration::from_secs(30);

/// Values of a request at most.
const MOST_VALUES: usize = 10_000;

/// Bytes of a request that needs no turn. All connections together hold 32 MiB of those.
pub(crate) const SMALL: usize = 64 << 10;

/// What pages may load: only what this server sends.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
     media-src 'self' blob:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

/// All routes.
pub(crate) fn all(app: &Shared) -> Router {
    let api = Router::new()
        .route("/session", get(machine::session).post(machine::enter))
        .route("/account", get(machine::account))
        .route("/models", get(machine::models))
        .route("/models/{owner}/{name}", get(machine::model))
        .route("/models/{owner}/{name}/versions/{version}", get(machine::version))
        .route("/models/{owner}/{name}/predictions", post(predictions::create_for_model))
        .route("/devices", get(machine::devices))
        .route("/folders", get(files::folders))
        .route("/folders/picture", get(looks::picture_in_folder))
        .route("/folders/probe", get(looks::probe_in_folder))
        // Uploads count their bytes themselves.
        .route("/files", get(files::list).post(files::create).layer(DefaultBodyLimit::disable()))
        .route("/files/{id}", get(files::about).delete(files::remove))
        .route("/files/{id}/content", get(files::content))
        .route("/files/{id}/picture", get(looks::picture_of_file))
        .route("/files/{id}/probe", get(looks::probe_of_file))
        .route("/plans", post(looks::plan))
        .route("/previews", post(looks::preview))
        .route("/previews/{id}/{side}", get(looks::preview_picture))
        .route("/predictions", get(predictions::list).post(predictions::create))
        .route("/predictions/{id}", get(predictions::about).delete(predictions::remove))
        .route("/predictions/{id}/cancel", post(predictions::cancel))
        .route("/predictions/{id}/pause", post(predictions::pause))
        .route("/predictions/{id}/resume", post(predictions::resume))
        .route("/predictions/{id}/retry", post(predictions::retry))
        .route("/predictions/{id}/move", post(predictions::place))
        .route("/predictions/{id}/content", get(predictions::content))
        .route("/predictions/{id}/source", get(predictions::source))
        .route("/predictions/{id}/picture", get(predictions::picture))
        .route("/predictions/{id}/frames/{n}", get(looks::frame))
        .route("/predictions/{id}/events", get(events::of_job))
        .route("/predictions/{id}/stream", get(events::stream))
        .route("/events", get(events::of_all))
        .route("/webhooks/default/secret", get(machine::secret));
    Router::new()
        .nest("/v1", api)
        .route("/", get(page::index))
        .route("/assets/{name}", get(page::asset))
        .route("/favicon.ico", any(page::icon))
        .route("/healthz", get(machine::health))
        .route("/readyz", get(machine::ready))
        .route("/metrics", get(machine::metrics))
        .route("/openapi.json", get(openapi::document))
        .fallback(|| async { Problem::missing("address") })
        .method_not_allowed_fallback(|| async {
            let detail = "this address does not take this method; /openapi.json lists those that it takes";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
        })
        .layer(CatchPanicLayer::custom(|_| {
            let detail = "internal error, please report it";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response()
        }))
        .layer(from_fn_with_state(Arc::clone(app), guard))
        .with_state(Arc::clone(app))
}

/// Lets requests in, and adds what every answer says.
async fn guard(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let room = room(request.uri().path());
    let is_page = room == Room::Public && !request.uri().path().starts_with("/healthz");
    let checked = app.door.check(request.method(), request.uri(), request.headers(), room);
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    let mut add = |name, value: &'static str| drop(headers.insert(name, HeaderValue::from_static(value)));
    add(header::CONTENT_SECURITY_POLICY, if is_page { POLICY } else { "default-src 'none'; sandbox" });
    add(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    add(header::X_FRAME_OPTIONS, "DENY");
    add(header::REFERRER_POLICY, "no-referrer");
    add(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

fn room(path: &str) -> Room {
    match path {
        "/" | "/healthz" | "/readyz" | "/favicon.ico" => Room::Public,
        path if path.starts_with("/assets/") => Room::Public,
        "/v1/session" => Room::Session,
        _ => Room::Inside,
    }
}

/// The address of the server as the client knows it.
pub(crate) fn base(headers: &HeaderMap) -> String {
    // It was looked at by the door.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let tls = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme.as_bytes() == b"https");
    format!("{}://{host}", if tls { "https" } else { "http" })
}

/// An id in the path.
pub(crate) struct Id(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let words = words(parts, state).await?;
        words.get("id").filter(|id| id::is_id(id)).cloned().map(Id).ok_or_else(|| Problem::missing("id"))
    }
}

/// The words of the path by their names.
pub(crate) struct Words(pub(crate) HashMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Words {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        words(parts, state).await.map(Words)
    }
}

async fn words<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<HashMap<String, String>, Problem> {
    let path = Path::<HashMap<String, String>>::from_request_parts(parts, state).await;
    path.map(|Path(words)| words).map_err(|_| Problem::missing("address"))
}

/// The words behind the question mark. Names that are not known are refused.
pub(crate) fn query(uri: &Uri, known: &[&str]) -> Result<HashMap<String, String>, Problem> {
    let bad = |detail: String| Problem::new(StatusCode::BAD_REQUEST, "usage", detail);
    let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
        return Err(
            bad("the words behind the question mark cannot be read; write them as name=value".into()),
        );
    };
    let mut words = HashMap::new();
    for (name, value) in pairs {
        if !known.contains(&name.as_str()) || words.insert(name, value).is_some() {
            return Err(bad(format!(
                "behind the question mark, only {} can stand, each once",
                known.join(", ")
            )));
        }
    }
    Ok(words)
}

/// A number behind the question mark.
pub(crate) fn number<T: std::str::FromStr + PartialOrd>(
    words: &HashMap<String, String>,
    name: &str,
    least: T,
    most: T,
    range: &str,
) -> Result<Option<T>, Problem> {
    let Some(word) = words.get(name) else { return Ok(None) };
    let number = word.parse::<T>().ok().filter(|number| *number >= least && *number <= most);
    let wrong = || Problem::new(StatusCode::BAD_REQUEST, "usage", format!("{name} has to be {range}"));
    number.map(Some).ok_or_else(wrong)
}

/// The JSON object of a request.
pub(crate) struct Sent {
    map: Map<String, Value>,
    /// Of a large one; others wait until it is dropped.
    _turn: Option<OwnedSemaphorePermit>,
}

impl Deref for Sent {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

/// Reads the JSON object of a request, of `most` bytes at most.
pub(crate) async fn object(app: &App, body: Body, most: usize) -> Result<Sent, Problem> {
    let bad = |kind: &str, detail: String| Problem::new(StatusCode::BAD_REQUEST, kind, detail);
    let late =
        || Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "the request took too long; send it again");
    let read = tokio::time::timeout(BODY, bytes(app, body, most)).await;
    let (bytes, turn) = read.map_err(|_| late())?.ok_or_else(|| {
        let detail =
            format!("the request is cut off, or longer than {most} bytes; upload films to /v1/files");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    })?;
    // A value of two bytes takes hundreds in memory. Films in a request are base64, which has none of these signs.
    if bytes.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count() > MOST_VALUES {
        return Err(bad("usage", format!("a request has {MOST_VALUES} values at most")));
    }
    let value = serde_json::from_slice::<Value>(&bytes)
        .map_err(|error| bad("usage", format!("the request is not valid JSON ({error}); send an object")))?;
    match value {
        Value::Object(map) => Ok(Sent { map, _turn: turn }),
        _ => Err(bad("usage", "the request has to be a JSON object".into())),
    }
}

/// The bytes of a request, and its turn if they are many. `None` if it is cut off or too long.
async fn bytes(app: &App, body: Body, most: usize) -> Option<(Vec<u8>, Option<OwnedSemaphorePermit>)> {
    let (mut bytes, mut turn, mut chunks) = (Vec::new(), None, body.into_data_stream());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.ok()?;
        if bytes.len() + chunk.len() > most {
            return None;
        }
        if bytes.len() + chunk.len() > SMALL && turn.is_none() {
            turn = Some(Arc::clone(&app.large).acquire_owned().await.ok()?);
        }
        bytes.extend_from_slice(&chunk);
    }
    Some((bytes, turn))
}

/// Refuses names that mean nothing here.
pub(crate) fn only(map: &Map<String, Value>, known: &[&str]) -> Result<(), Problem> {
    match map.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let shown: String = name.chars().take(60).collect();
            Err(Problem::value(format!("a request has no `{shown}`; use {}", known.join(", "))))
        }
    }
}
