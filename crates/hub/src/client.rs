//! HTTP: one request at a time, with limits on everything a server decides.

use std::time::Duration;

use ureq::http::{HeaderMap, HeaderValue, Response, Uri, header};
use ureq::{Agent, Body, Timeout};

use crate::address::{Origin, host, join};
use crate::error::HubError;
use crate::proxy::proxy;
use crate::settings::{HubSettings, Limits};
use crate::tries::Fault;
use crate::trust::trust;

/// Redirects that are followed. The hub needs one, and one more where a repository was renamed.
pub(crate) const MOST_REDIRECTS: usize = 5;

/// Bytes of a response's headers. Those of the hub have 4 KiB.
const MOST_HEADERS: usize = 64 << 10;

/// Characters of a server's words that are shown.
const MOST_SAID: usize = 200;

/// Talks to one hub, and to where it redirects.
pub(crate) struct Client {
    agent: Agent,
    endpoint: Uri,
    origin: Origin,
    /// `Bearer ...`
    token: Option<HeaderValue>,
    limits: Limits,
}

/// A request. Both are without a body, so both can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Head,
    Get,
}

impl Client {
    pub(crate) fn new(settings: &HubSettings) -> Result<Self, HubError> {
        let limits = settings.limits;
        let wrong = || HubError::Endpoint { value: settings.endpoint.clone() };
        let endpoint: Uri = settings.endpoint.trim_end_matches('/').parse().map_err(|_| wrong())?;
        let origin = Origin::of(&endpoint).ok_or_else(wrong)?;
        if endpoint.query().is_some() || endpoint.authority().is_some_and(|a| a.as_str().contains('@')) {
            return Err(wrong());
        }
        let token = settings.token.as_deref().map(str::trim).filter(|token| !token.is_empty());
        let token = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")));
        let mut token = token.transpose().map_err(|_| HubError::Token)?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // Followed here, so that the token goes to no other host.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_response_header_size(MOST_HEADERS)
            .accept_encoding("identity")
            .user_agent(concat!("remaster/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(limits.connect))
            .timeout_connect(Some(limits.connect))
            .timeout_send_request(Some(limits.connect))
            .timeout_recv_response(Some(limits.connect))
            .timeout_per_read(Some(limits.stall))
            .timeout_per_write(Some(limits.stall))
            // A connection that broke would be tried again by whoever finds it in the pool.
            .max_idle_connections(0)
            .tls_config(trust(settings.certificates.as_deref())?)
            // Otherwise the client reads the environment.
            .proxy(proxy(settings)?)
            .build();
        Ok(Client { agent: Agent::new_with_config(config), endpoint, origin, token, limits })
    }

    /// For whoever may have to end what is under way.
    pub(crate) fn agent(&self) -> Agent {
        self.agent.clone()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Where the file of a repository is.
    pub(crate) fn address(&self, repo: &str, file: &str) -> Result<Uri, HubError> {
        let text = format!("{}/{repo}/resolve/main/{file}", self.endpoint.to_string().trim_end_matches('/'));
        text.parse().map_err(|_| HubError::Endpoint { value: self.endpoint.to_string() })
    }

    /// One request, without following where it leads.
    pub(crate) fn ask(&self, method: Method, uri: &Uri, extra: &HeaderMap) -> Result<Response<Body>, Fault> {
        let mut request = match method {
            Method::Head => self.agent.head(uri),
            Method::Get => self.agent.get(uri),
        };
        for (name, value) in extra {
            request = request.header(name, value);
        }
        if let (Some(token), true) = (&self.token, Origin::of(uri).as_ref() == Some(&self.origin)) {
            request = request.header(header::AUTHORIZATION, token);
        }
        request.call().map_err(|error| self.fault(uri, &error))
    }

    /// One request and all redirects. `extra` may depend on the host.
    pub(crate) fn get(
        &self,
        from: &Uri,
        extra: impl Fn(&Uri) -> HeaderMap,
    ) -> Result<(Uri, Response<Body>), Fault> {
        let mut uri = from.clone();
        for _ in 0..=MOST_REDIRECTS {
            let response = self.ask(Method::Get, &uri, &extra(&uri))?;
            match leads(&uri, &response)? {
                Some(next) => uri = next,
                None => return Ok((uri, response)),
            }
        }
        Err(HubError::Redirects { host: host(from), most: MOST_REDIRECTS }.into())
    }

    fn fault(&self, uri: &Uri, error: &ureq::Error) -> Fault {
        let host = host(uri);
        let passing = |reason: String| Fault::Passing { host: host.clone(), reason, after: None };
        match error {
            ureq::Error::Timeout(Timeout::PerRead) => passing(silent(self.limits.stall)),
            ureq::Error::Timeout(_) => {
                passing(format!("{host} did not answer within {} s", self.limits.connect.as_secs_f32()))
            }
            ureq::Error::HostNotFound => passing(format!("the address of {host} cannot be found")),
            ureq::Error::LargeResponseHeader(..) => {
                HubError::NotAHub { host, what: "its headers are too large" }.into()
            }
            ureq::Error::ConnectProxyFailed(_) => HubError::Proxy { reason: "it refuses to connect" }.into(),
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => HubError::Redirect { host }.into(),
            // A certificate that is not trusted will not be at the next attempt.
            ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                HubError::Insecure { host, reason: error.to_string() }.into()
            }
            ureq::Error::Io(error) => passing(error.to_string()),
            ureq::Error::Rustls(error) => HubError::Insecure { host, reason: error.to_string() }.into(),
            other => passing(other.to_string()),
        }
    }

    /// What a status that is no success means.
    pub(crate) fn refusal(&self, uri: &Uri, response: &Response<Body>, repo: &str, file: &str) -> Fault {
        let (host, status) = (host(uri), response.status().as_u16());
        let (repo, file) = (repo.to_owned(), file.to_owned());
        let said_by = said(response.headers());
        let error = match status {
            401 | 403 => HubError::Refused { host, file, repo, status, said_by, token: self.token.is_some() },
            404 | 410 => HubError::Missing { host, file, repo, status, said_by },
            408 | 425 | 429 | 500 | 502 | 503 | 504 => match retry_after(response.headers()) {
                Some(wait) if wait > self.limits.longest_wait => {
                    HubError::Busy { host, status, seconds: wait.as_secs() }
                }
                after => {
                    let reason = format!("{host} answers with HTTP {status}");
                    return Fault::Passing { host, reason, after };
                }
            },
            _ => HubError::Status { host, status, said_by },
        };
        error.into()
    }
}

/// What a transfer without bytes is called.
pub(crate) fn silent(limit: Duration) -> String {
    format!("the transfer stalled for {} s", limit.as_secs_f32())
}

/// Where a response leads, if it is a redirect.
pub(crate) fn leads(uri: &Uri, response: &Response<Body>) -> Result<Option<Uri>, HubError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
    let next = location.and_then(|location| join(uri, location));
    next.map(Some).ok_or_else(|| HubError::Redirect { host: host(uri) })
}

/// Seconds to wait. A date is not read: our clock need not be the server's.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    number(headers, header::RETRY_AFTER.as_str()).map(Duration::from_secs)
}

/// What the hub says about an error.
fn said(headers: &HeaderMap) -> String {
    let text = headers.get("x-error-message").and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.chars().take(MOST_SAID).collect()
}

/// A header as a number.
pub(crate) fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// Whether the bytes are not those of the file.
pub(crate) fn is_coded(headers: &HeaderMap) -> bool {
    let coding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    coding.is_some_and(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}
