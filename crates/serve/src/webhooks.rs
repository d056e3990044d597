//! Webhooks: signed as [Standard Webhooks](https://www.standardwebhooks.com) has it, sent under limits.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::client::{NetError, Waits, agent, fault, watched};
use crate::hosts::{AllowedHosts, Purpose, Refusal, Target, parse_url};

/// How long a receiver may take, all in all.
pub const ATTEMPT: Duration = Duration::from_secs(10);

/// Waits between attempts: five of them within eight minutes.
const AGAIN: [Duration; 4] =
    [Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(120), Duration::from_secs(300)];

/// What a secret starts with, before its base64.
const PREFIX: &str = "whsec_";

/// Bytes of a new secret. Standard Webhooks allows 24 to 64.
const SECRET_BYTES: usize = 32;

/// What webhooks are signed with, and receivers check them with.
#[derive(Clone)]
pub struct Secret {
    text: String,
    key: hmac::Key,
}

/// No secret.
#[derive(Debug, Error)]
pub enum SecretError {
    /// It is not one.
    #[error(
        "the webhook secret is not {PREFIX} followed by the base64 of 24 to 64 bytes; remove it to have a new one made"
    )]
    Form,
    /// The system has no random numbers.
    #[error("the system gives no random numbers for a webhook secret; start the server again")]
    Random,
}

impl Secret {
    /// A new one, of the system's random numbers.
    pub fn random() -> Result<Self, SecretError> {
        let mut bytes = [0; SECRET_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| SecretError::Random)?;
        format!("{PREFIX}{}", STANDARD.encode(bytes)).parse()
    }

    /// `whsec_` and base64, as receivers need it.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let bytes = text.strip_prefix(PREFIX).and_then(|code| STANDARD.decode(code).ok());
        let bytes = bytes.filter(|bytes| (24..=64).contains(&bytes.len())).ok_or(SecretError::Form)?;
        Ok(Secret { text: text.to_owned(), key: hmac::Key::new(hmac::HMAC_SHA256, &bytes) })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why a webhook did not arrive.
#[derive(Debug, Error)]
pub enum DeliverError {
    /// It could not be sent, or nothing answered.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A header that cannot be sent.
    #[error("the header {name} of a webhook cannot be sent; check the id of the prediction")]
    Header {
        /// Its name.
        name: String,
    },
    /// The receiver answers with something else than success.
    #[error(
        "{host} answers the webhook with HTTP {status}; {}",
        if (300..400).contains(status) { "redirects are not followed: give the URL where it ends" }
        else { "check its log" }
    )]
    Status {
        /// Who.
        host: String,
        /// What it says.
        status: u16,
    },
}

impl DeliverError {
    /// Whether another attempt can be a success. A refused address, a redirect and 410 Gone stay what they are.
    pub fn is_passing(&self) -> bool {
        match self {
            DeliverError::Net(NetError::Refused(Refusal::Unknown { .. })) => true,
            DeliverError::Net(error) => !matches!(error, NetError::Refused(_) | NetError::Stopped),
            DeliverError::Header { .. } => false,
            DeliverError::Status { status, .. } => *status != 410 && !(300..400).contains(status),
        }
    }
}

/// The signature of a webhook: `v1,` and the base64 of the HMAC-SHA256 of `id.timestamp.body`.
pub fn sign(secret: &Secret, id: &str, timestamp: u64, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(&secret.key);
    context.update(format!("{id}.{timestamp}.").as_bytes());
    context.update(body);
    format!("v1,{}", STANDARD.encode(context.sign()))
}

/// The headers of a webhook for [`deliver`]. Every attempt has the id of the first, and its own time (Unix, in seconds).
pub fn signed(secret: &Secret, id: &str, timestamp: u64, body: &[u8]) -> [(&'static str, String); 3] {
    [
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", timestamp.to_string()),
        ("webhook-signature", sign(secret, id, timestamp, body)),
    ]
}

/// How long to wait after the failed attempt with this number, from 1; `None` after the last.
pub fn schedule(attempt: u32) -> Option<Duration> {
    AGAIN.get(usize::try_from(attempt.checked_sub(1)?).ok()?).copied()
}

/// Posts `body`, JSON, once and gives the status of success. Takes `limit` at most (usually [`ATTEMPT`]), and ends soon after
/// `stop` says so.
///
/// Any public address may be the target, over http or https, without `--allow-host`: the client that names it has the
/// token, and learns nothing but the status; the body is its own prediction. An address that is not public is posted to
/// only if `--allow-host` names that address. Redirects are not followed, the body of the answer is
/// not read, and no proxy is used.
pub fn deliver(
    url: &str,
    headers: &[(&str, String)],
    body: &[u8],
    hosts: &AllowedHosts,
    limit: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<u16, DeliverError> {
    let uri = parse_url(url).map_err(NetError::from)?;
    let host = Target::of(&uri).map_err(NetError::from)?.to_string();
    let all = header_map(headers)?;
    let waits = Waits { total: limit, idle: limit };
    let agent = agent(hosts, Purpose::Webhook, waits);
    let (worker, body, asked) = (agent.clone(), body.to_vec(), host.clone());
    let work = move |_: &dyn Fn(()) -> bool| {
        let mut request = worker.post(&uri);
        for (name, value) in &all {
            request = request.header(name, value);
        }
        let response = request.send(&body[..]).map_err(|error| fault(&asked, error, waits))?;
        let status = response.status();
        if status.is_success() {
            Ok(status.as_u16())
        } else {
            Err(DeliverError::Status { host: asked, status: status.as_u16() })
        }
    };
    watched(&agent, &host, waits, stop, work, |()| Ok(()))
}

fn header_map(headers: &[(&str, String)]) -> Result<HeaderMap, DeliverError> {
    let mut all = HeaderMap::new();
    all.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        let wrong = || DeliverError::Header { name: (*name).to_owned() };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        all.insert(name, HeaderValue::from_str(value).map_err(|_| wrong())?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        // The published vector, which its libraries are tested with.
        let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let signature =
            sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        // Of `standardwebhooks` from PyPI.
        let signature = sign(&secret, "pred_1:completed:é", 1, "ü".repeat(1000).as_bytes());
        assert_eq!(signature, "v1,MxAMYGS6tFnNZEuDREwYmhtq0lbi4z/SUyl0zUv26gY=");
    }

    #[test]
    fn secrets_are_random_and_of_their_form() {
        let (one, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_ne!(one.as_str(), other.as_str());
        assert_eq!(one.as_str().parse::<Secret>().unwrap().as_str(), one.as_str());
        assert!(!format!("{one:?}").contains(&one.as_str()[6..]));
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for text in [String::new(), "whsec_".into(), "whsec_!".into(), of(23), of(65), of(32)[6..].into()] {
            assert!(text.parse::<Secret>().is_err(), "{text}");
        }
        assert!(of(24).parse::<Secret>().is_ok() && of(64).parse::<Secret>().is_ok());
    }

    #[test]
    fn attempts_are_five_and_wait_longer_each_time() {
        let waits: Vec<_> = (1..).map_while(schedule).map(|wait| wait.as_secs()).collect();
        assert_eq!(waits, [5, 30, 120, 300]);
        assert_eq!((schedule(0), schedule(u32::MAX)), (None, None));
    }

    #[test]
    fn a_header_with_a_line_break_is_not_sent() {
        assert!(header_map(&[("webhook-id", "a\r\nx: y".into())]).is_err());
        assert!(header_map(&[("webhook id", "a".into())]).is_err());
        assert_eq!(header_map(&[("webhook-id", "a".into())]).unwrap().len(), 2);
    }
}
