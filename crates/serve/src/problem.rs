//! What a request is refused with: one sentence that ends in a next step.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Why a request is refused.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Problem {
    title: &'static str,
    detail: String,
    status: u16,
    /// A word for programs.
    kind: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: impl Into<String>, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Refused");
        Problem { title, detail: detail.into(), status: status.as_u16(), kind: kind.into() }
    }

    /// The sentence.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// A value that cannot be used.
    pub(crate) fn value(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "out-of-range", detail)
    }

    /// There is no such thing.
    pub(crate) fn missing(what: &str) -> Self {
        let detail = format!("there is no such {what}; it may have expired or been removed");
        Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// There never was such an address.
    pub(crate) fn no_address() -> Self {
        let detail = "there is no such address; /openapi.json lists those that there are";
        Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// It is in another state.
    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::CONFLICT, "conflict", detail)
    }

    /// Too much is going on.
    pub(crate) fn busy(kind: &str, detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, kind, detail)
    }

    /// The disk or the system failed.
    pub(crate) fn system(what: &str, error: &std::io::Error) -> Self {
        let status = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                StatusCode::INSUFFICIENT_STORAGE
            }
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Problem::new(
            status,
            "input-output",
            format!("{what}: {error}; look at the disk of the server and try again"),
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&self)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}
