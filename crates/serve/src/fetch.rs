//! A film behind a URL, streamed to whoever asked for it.

use std::io::{self, Read, Write};
use std::time::Duration;

use thiserror::Error;
use ureq::http::{HeaderMap, Response, StatusCode, Uri, header};
use ureq::{Agent, Body};

use crate::client::{NetError, Waits, agent, fault, watched};
use crate::hosts::{AllowedHosts, Purpose, Refusal, Target, parse_url};

/// Redirects that are followed. Stores of files need one or two.
const MOST_REDIRECTS: usize = 5;

/// Bytes passed on at once.
const PIECE: usize = 128 << 10;

/// Characters of a name.
const MOST_NAME: usize = 100;

/// What a transfer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub bytes: u64,
    /// From the first lookup to the last byte.
    pub total: Duration,
    /// Without a byte.
    pub idle: Duration,
}

/// What was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Bytes that were written.
    pub bytes: u64,
    /// What the server calls it, like `video/x-matroska`.
    pub content_type: Option<String>,
    /// What to call it. Not a path, and never to be made one.
    pub name: String,
}

/// Why a URL brought no file. What was written before is not one.
#[derive(Debug, Error)]
pub enum FetchError {
    /// It could not be asked, or did not answer.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A redirect led to something that is not asked, or does not answer.
    #[error("{from} redirects: {why}")]
    Redirected {
        /// Who sent us on.
        from: String,
        /// What happened there.
        why: Box<FetchError>,
    },
    /// Too many redirects.
    #[error("{host} redirects more than {MOST_REDIRECTS} times; give the URL where it ends")]
    Redirects {
        /// Who was asked last.
        host: String,
    },
    /// A redirect from https to http.
    #[error("{from} redirects from https to http, to {to}; give the URL of {to} itself if that is meant")]
    Downgrade {
        /// Who sent us on.
        from: String,
        /// Where to.
        to: String,
    },
    /// Another status than 200.
    #[error("{host} answers with HTTP {status}; check that the URL opens without an account")]
    Status {
        /// Who.
        host: String,
        /// What it says.
        status: u16,
    },
    /// Bytes that are not those of the file.
    #[error("{host} sends the file compressed, which was not asked for; upload the file instead")]
    Coded {
        /// Who.
        host: String,
    },
    /// Too many bytes.
    #[error(
        "{host} sends more than the limit of {limit} bytes; start the server with a larger --upload-limit"
    )]
    Large {
        /// Who.
        host: String,
        /// Bytes that are allowed.
        limit: u64,
    },
    /// The file cannot be written.
    #[error("the file cannot be written: {0}; check the disk of the server")]
    Write(#[source] io::Error),
}

impl From<Refusal> for FetchError {
    fn from(refusal: Refusal) -> Self {
        NetError::Refused(refusal).into()
    }
}

/// Writes the file behind `url` to `into`, within the limits. Ends soon after `stop` says so.
///
/// Only hosts of `--allow-host` are asked, over http or https, without a proxy and without passwords. Names are looked up
/// once per request, and the connection goes to the address that was checked. Redirects are checked like the first URL.
pub fn fetch(
    url: &str,
    hosts: &AllowedHosts,
    limits: Limits,
    stop: &dyn Fn() -> bool,
    into: &mut impl Write,
) -> Result<Fetched, FetchError> {
    let uri = parse_url(url)?;
    let (host, name) = (Target::of(&uri)?.to_string(), display_name(uri.path()));
    let waits = Waits { total: limits.total, idle: limits.idle };
    let agent = agent(hosts, Purpose::Input, waits);
    let worker = agent.clone();
    let work = move |tell: &dyn Fn(Vec<u8>) -> bool| follow(&worker, uri, limits.bytes, waits, tell);
    let take = |piece: Vec<u8>| into.write_all(&piece).map_err(FetchError::Write);
    let (bytes, content_type) = watched(&agent, &host, waits, stop, work, take)?;
    Ok(Fetched { bytes, content_type, name })
}

/// Asks, and asks where it is sent.
fn follow(
    agent: &Agent,
    mut uri: Uri,
    most: u64,
    waits: Waits,
    tell: &dyn Fn(Vec<u8>) -> bool,
) -> Result<(u64, Option<String>), FetchError> {
    let mut from: Option<String> = None;
    for _ in 0..=MOST_REDIRECTS {
        let host = Target::of(&uri)?.to_string();
        let response = agent.get(&uri).call().map_err(|error| {
            let why = fault(&host, error, waits).into();
            match &from {
                Some(from) => FetchError::Redirected { from: from.clone(), why: Box::new(why) },
                None => why,
            }
        })?;
        // An answer is something new, though no byte of the file.
        if !tell(Vec::new()) {
            return Err(NetError::Stopped.into());
        }
        match leads(&uri, &response)? {
            Some(next) => (uri, from) = (next, Some(host)),
            None => return receive(&host, response, most, waits, tell),
        }
    }
    Err(FetchError::Redirects { host: Target::of(&uri)?.to_string() })
}

/// Where a response leads, if it is a redirect. The host is checked when it is asked.
fn leads(uri: &Uri, response: &Response<Body>) -> Result<Option<Uri>, FetchError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
    next(uri, location.unwrap_or_default()).map(Some)
}

/// Where `location` leads from `base`.
fn next(base: &Uri, location: &str) -> Result<Uri, FetchError> {
    let from = Target::of(base)?;
    let wrong = |why: Refusal| FetchError::Redirected { from: from.to_string(), why: Box::new(why.into()) };
    let (Some(scheme), Some(authority)) = (base.scheme_str(), base.authority()) else {
        return Err(wrong(Refusal::Url { reason: "it has no host" }));
    };
    // What follows a # is for the reader of a page.
    let location = location.split('#').next().unwrap_or_default();
    let path = location.split('?').next().unwrap_or_default();
    let text = if location.is_empty() {
        return Err(wrong(Refusal::Url { reason: "it is empty" }));
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else if path.split('/').next().unwrap_or_default().contains(':') {
        location.to_owned()
    } else if location.starts_with('?') {
        format!("{scheme}://{authority}{}{location}", base.path())
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    let uri = parse_url(&text).map_err(wrong)?;
    let to = Target::of(&uri)?;
    if from.secure && !to.secure {
        return Err(FetchError::Downgrade { from: from.to_string(), to: to.to_string() });
    }
    Ok(uri)
}

/// Passes the body on, counting: what the server says about its size is a hint.
fn receive(
    host: &str,
    mut response: Response<Body>,
    most: u64,
    waits: Waits,
    tell: &dyn Fn(Vec<u8>) -> bool,
) -> Result<(u64, Option<String>), FetchError> {
    if response.status() != StatusCode::OK {
        return Err(FetchError::Status { host: host.to_owned(), status: response.status().as_u16() });
    }
    if is_coded(response.headers()) {
        return Err(FetchError::Coded { host: host.to_owned() });
    }
    let large = || FetchError::Large { host: host.to_owned(), limit: most };
    if announced(response.headers()).is_some_and(|bytes| bytes > most) {
        return Err(large());
    }
    let content_type = content_type(response.headers());
    let mut body = response.body_mut().as_reader();
    let mut bytes = 0;
    loop {
        let mut piece = vec![0; PIECE];
        let read = match body.read(&mut piece) {
            Ok(0) => return Ok((bytes, content_type)),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(fault(host, error.into(), waits).into()),
        };
        bytes += read as u64;
        if bytes > most {
            return Err(large());
        }
        piece.truncate(read);
        if !tell(piece) {
            return Err(NetError::Stopped.into());
        }
    }
}

fn is_coded(headers: &HeaderMap) -> bool {
    let coding = headers.get(header::CONTENT_ENCODING).map(|coding| coding.as_bytes());
    coding.is_some_and(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// Type and subtype, if they are words.
fn content_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let text = text.split(';').next()?.trim().to_ascii_lowercase();
    let is_word = |word: &str| {
        !word.is_empty()
            && word.len() <= 64
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let fits = text.split_once('/').is_some_and(|(kind, sub)| is_word(kind) && is_word(sub));
    fits.then_some(text)
}

/// The last segment of a path as a name to show: letters, digits and a few signs, neither hidden nor long.
fn display_name(path: &str) -> String {
    let segment = path.rsplit('/').next().unwrap_or_default();
    // What remains of an encoded path is its end.
    let decoded = decode(segment);
    let last = decoded.rsplit(['/', '\\']).next().unwrap_or_default();
    let fits = |c: &char| c.is_alphanumeric() || " ._-+,()[]'&@#".contains(*c);
    let clean: String = last.chars().filter(fits).collect();
    let clean = clean.trim_matches(['.', ' ', '-']);
    // The end of a long name tells more than its middle.
    let (stem, end) = match clean.rsplit_once('.') {
        Some((stem, end)) if (1..=8).contains(&end.chars().count()) => (stem, format!(".{end}")),
        _ => (clean, String::new()),
    };
    let stem: String = stem.chars().take(MOST_NAME - end.chars().count()).collect();
    if stem.is_empty() { format!("film{end}") } else { stem + &end }
}

/// Undoes percent-encoding; what is not UTF-8 then is left out.
fn decode(text: &str) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|b| char::from(*b).to_digit(16));
    let (bytes, mut out, mut i) = (text.as_bytes(), Vec::new(), 0);
    while let Some(&byte) = bytes.get(i) {
        match (byte, digit(bytes.get(i + 1)), digit(bytes.get(i + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                i += 3;
            }
            _ => {
                out.push(byte);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).replace(char::REPLACEMENT_CHARACTER, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_where_a_browser_would_go_but_never_from_https_to_http() {
        let base: Uri = "https://a.com/x/y/f?x=1".parse().unwrap();
        for (location, leads) in [
            ("https://b.com/x?sig=1", "https://b.com/x?sig=1"),
            ("//b.com/x", "https://b.com/x"),
            ("/api/x#part", "https://a.com/api/x"),
            ("g", "https://a.com/x/y/g"),
            ("g?u=http://c.com/", "https://a.com/x/y/g?u=http://c.com/"),
            ("?y=2", "https://a.com/x/y/f?y=2"),
        ] {
            assert_eq!(next(&base, location).unwrap().to_string(), leads, "{location}");
        }
        for location in [
            "",
            "ftp://a.com/x",
            "file:///etc/passwd",
            "https://me:word@a.com/",
            "https://",
            "/a b",
            "data:text/plain,x",
            "javascript:x",
            "https://127.1/",
            "//",
        ] {
            let error = next(&base, location);
            assert!(matches!(error, Err(FetchError::Redirected { .. })), "{location}: {error:?}");
        }
        // To a browser a backslash is a slash. Here it stays on the host.
        assert!(next(&base, "/\\b.com").is_ok_and(|uri| uri.host() == Some("a.com")));
        assert!(matches!(next(&base, "http://a.com/"), Err(FetchError::Downgrade { .. })));
        assert!(next(&"http://a.com/".parse().unwrap(), "https://a.com/").is_ok());
    }

    #[test]
    fn names_are_for_showing() {
        let long = "é".repeat(300);
        for (path, name) in [
            ("/films/tape.mkv", "tape.mkv"),
            ("/Mein%20Film%20(1).mp4", "Mein Film (1).mp4"),
            ("/%E6%98%A0%E7%94%BB.mkv", "映画.mkv"),
            ("/", "film"),
            ("", "film"),
            ("/..", "film"),
            ("/.mkv", "mkv"),
            ("/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "passwd"),
            ("/..%5c..%5cboot.ini", "boot.ini"),
            ("/C:%5Cx.mkv", "x.mkv"),
            ("/a%00b%0d%0aSet-Cookie:x.mkv", "abSet-Cookiex.mkv"),
            ("/x%E2%80%AEvkm.exe", "xvkm.exe"),
            ("/%3Cscript%3E.mkv", "script.mkv"),
            ("/-rf", "rf"),
            ("/%ff%fe.mkv", "mkv"),
            ("/100%.mkv", "100.mkv"),
            (&format!("/{long}.mkv"), &format!("{}.mkv", &long[..192])),
        ] {
            assert_eq!(display_name(path), name, "{path}");
        }
    }

    #[test]
    fn a_content_type_is_two_words_or_nothing() {
        let of = |text: &'static str| {
            content_type(&HeaderMap::from_iter([(header::CONTENT_TYPE, text.parse().unwrap())]))
        };
        assert_eq!(of("Video/MP4; codecs=x").as_deref(), Some("video/mp4"));
        for text in ["", "video", "video/", "/mp4", "video/mp4\"x", "a b/c", "video/mp4/x"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
