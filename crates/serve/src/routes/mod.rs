//! What can be asked for, one file for each kind of thing.

mod content;
mod events;
mod files;
mod form;
mod inside;
mod looks;
mod machine;
mod page;
mod predictions;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, Version, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use futures_util::StreamExt;
use serde_json::{Map, Value};
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::door::Room;
use crate::job::Viewer;
use crate::places::{Class, Place};
use crate::problem::Problem;
use crate::watched::Client;
use crate::{id, openapi};

/// What every handler gets.
pub(crate) type Shared = Arc<App>;

/// How long the body of a request may take, and one of a few words.
const BODY: Duration = Duration::from_secs(30);
const WORDS: Duration = Duration::from_secs(5);

/// Bytes of a few words.
pub(crate) const FEW: usize = 4 << 10;

/// Values of a request at most. One of two bytes takes hundreds in memory.
const MOST_VALUES: usize = 10_000;

/// Bytes of a request at most, without a film that is inside. All connections together have 14 MiB of those.
pub(crate) const SMALL: usize = 32 << 10;

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
        .route("/files", get(files::list).post(files::create))
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
        .fallback(|| async { Problem::no_address() })
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
async fn guard(
    State(app): State<Shared>,
    Extension(client): Extension<Client>,
    Extension(place): Extension<Arc<Place>>,
    request: Request,
    next: Next,
) -> Response {
    let room = room(request.uri().path());
    let is_page = room == Room::Public && !request.uri().path().starts_with("/healthz");
    let checked = app.door.check(request.method(), request.uri(), request.headers(), room);
    let known = checked.is_ok() && room != Room::Public && app.door.knows_token(request.headers());
    let class = match request.body().is_end_stream() {
        _ if !known => Class::Unknown,
        true => Class::Asking,
        false => Class::Sending,
    };
    let checked = match place.is_free_for(request.headers(), class).await {
        true => checked,
        false => Err(Problem::busy("busy", "too many requests are under way; try again in a moment")),
    };
    let is_old = request.version() < Version::HTTP_11;
    let answer = async {
        match checked {
            Ok(()) => next.run(request).await,
            Err(problem) => problem.into_response(),
        }
    };
    let mut response = tokio::select! {
        biased;
        response = answer => response,
        // Nobody reads it; what was done for the client ends.
        () = client.gone(is_old) => Problem::busy("interrupted", "the client is gone").into_response(),
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

/// Headers of proxies. With one of them, a client on loopback is a proxy for another machine.
const FORWARDED: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

impl<S: Send + Sync> FromRequestParts<S> for Viewer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let headers = &parts.headers;
        let is_local = parts.extensions.get::<Client>().is_some_and(Client::is_local)
            && names_this_machine(headers)
            && !FORWARDED.iter().any(|name| headers.contains_key(*name));
        Ok(Viewer { base: base(headers), is_local })
    }
}

/// True if the client knows the server by an address that means its own machine.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(host) => host.split(']').next(),
        None => host.split(':').next(),
    };
    let name = name.unwrap_or_default();
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
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
    path.map(|Path(words)| words).map_err(|_| Problem::no_address())
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

/// Reads the JSON object of a request, of `most` bytes at most.
pub(crate) async fn object(body: Body, most: usize) -> Result<Map<String, Value>, Problem> {
    let mut text = Text::new(most);
    let read = async {
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            text.push(&chunk.map_err(|_| cut_off())?)?;
        }
        Ok(())
    };
    in_time(if most > FEW { BODY } else { WORDS }, read).await?;
    text.object()
}

/// Waits for a client, but not for ever.
async fn in_time<T>(limit: Duration, read: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let late =
        |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "the request took too long; send it again");
    tokio::time::timeout(limit, read).await.map_err(late)?
}

fn cut_off() -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "usage", "the request is cut off; send it again")
}

/// The text of a request, as it comes.
struct Text {
    bytes: Vec<u8>,
    most: usize,
    /// Signs before values.
    signs: usize,
}

impl Text {
    fn new(most: usize) -> Self {
        Text { bytes: Vec::new(), most, signs: 0 }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        self.signs += bytes.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
        if self.signs > MOST_VALUES {
            let detail = format!("a request has {MOST_VALUES} values at most");
            return Err(Problem::new(StatusCode::BAD_REQUEST, "usage", detail));
        }
        if self.bytes.len() + bytes.len() > self.most {
            let detail = format!("the request is longer than {} bytes; upload films to /v1/files", self.most);
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn object(&self) -> Result<Map<String, Value>, Problem> {
        let bad = |detail: String| Problem::new(StatusCode::BAD_REQUEST, "usage", detail);
        let value = serde_json::from_slice::<Value>(&self.bytes)
            .map_err(|error| bad(format!("the request is not valid JSON ({error}); send an object")))?;
        match value {
            Value::Object(map) => Ok(map),
            _ => Err(bad("the request has to be a JSON object".into())),
        }
    }
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
