//! What the hub says about a file before it is downloaded.

use ureq::http::{HeaderMap, StatusCode, Uri, header};

use crate::address::{Origin, host};
use crate::caller::Caller;
use crate::client::{Client, MOST_REDIRECTS, Method, leads, number};
use crate::error::HubError;
use crate::settings::{Wanted, is_sha256};
use crate::tries::{Fault, Tries};

/// Longest name of a blob. The hub's are 40 or 64 characters.
const MOST_ETAG: usize = 128;

/// A file on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    pub(crate) repo: String,
    pub(crate) file: String,
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
    /// The commit of the repository.
    pub(crate) commit: String,
    /// Name of the blob in the cache: what the hub calls its content.
    pub(crate) blob: String,
}

impl Remote {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What responses say, the first that says it.
#[derive(Default)]
struct Said {
    commit: Option<String>,
    etag: Option<String>,
    bytes: Option<u64>,
}

impl Said {
    fn is_complete(&self) -> bool {
        self.commit.is_some() && self.etag.is_some() && self.bytes.is_some()
    }

    fn note(&mut self, headers: &HeaderMap, last: bool) {
        let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        self.commit = self.commit.take().or_else(|| text("x-repo-commit"));
        self.etag = self.etag.take().or_else(|| text("x-linked-etag").and_then(|e| plain(&e)));
        self.bytes = self.bytes.or_else(|| number(headers, "x-linked-size"));
        if last {
            self.etag = self.etag.take().or_else(|| text(header::ETAG.as_str()).and_then(|e| plain(&e)));
            self.bytes = self.bytes.or_else(|| number(headers, header::CONTENT_LENGTH.as_str()));
        }
    }
}

/// An ETag as the name of a file: without quotes and the mark of a weak one.
fn plain(etag: &str) -> Option<String> {
    let etag = etag.trim();
    let etag = etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"');
    let fits = !etag.is_empty()
        && etag.len() <= MOST_ETAG
        && etag.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    fits.then(|| etag.to_owned())
}

/// Asks the hub for size, commit and content.
pub(crate) fn ask(client: &Client, wanted: &Wanted<'_>, caller: &mut Caller<'_>) -> Result<Remote, HubError> {
    let mut tries = Tries::new(client.limits());
    loop {
        caller.going_on()?;
        match head(client, wanted) {
            Ok(remote) => return Ok(remote),
            Err(fault) => tries.again(fault, caller)?,
        }
    }
}

fn head(client: &Client, wanted: &Wanted<'_>) -> Result<Remote, Fault> {
    let first = client.address(wanted.repo, wanted.file)?;
    let (mut uri, mut said) = (first.clone(), Said::default());
    for _ in 0..=MOST_REDIRECTS {
        let response = client.ask(Method::Head, &uri, &HeaderMap::new())?;
        let next = leads(&uri, &response)?;
        said.note(response.headers(), response.status() == StatusCode::OK);
        match next {
            // The host of the bytes need not answer such a request; the hub has said all already.
            Some(next) if Origin::of(&next) != Origin::of(&uri) && said.is_complete() => {
                return Ok(remote(&uri, wanted, said)?);
            }
            Some(next) => uri = next,
            None if response.status() == StatusCode::OK => return Ok(remote(&uri, wanted, said)?),
            None => return Err(client.refusal(&uri, &response, wanted.repo, wanted.file)),
        }
    }
    Err(HubError::Redirects { host: host(&first), most: MOST_REDIRECTS }.into())
}

fn remote(uri: &Uri, wanted: &Wanted<'_>, said: Said) -> Result<Remote, HubError> {
    let not = |what| HubError::NotAHub { host: host(uri), what };
    let commit = said.commit.ok_or_else(|| not("it names no commit"))?;
    if commit.len() != 40 || !commit.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(not("its commit is no hash"));
    }
    let bytes = said.bytes.or(wanted.bytes).ok_or_else(|| not("it names no size"))?;
    let changed = |what, found: String, expected: String| {
        let (file, repo) = (wanted.file.to_owned(), wanted.repo.to_owned());
        HubError::Changed { file, repo, what, found, expected }
    };
    if let Some(expected) = wanted.bytes.filter(|expected| *expected != bytes) {
        return Err(changed("size", format!("{bytes} bytes"), format!("{expected} bytes")));
    }
    // Small files are named by the hash of git, large ones by that of their content.
    let etag = said.etag.unwrap_or_else(|| wanted.sha256.to_owned());
    if is_sha256(&etag) && etag != wanted.sha256 {
        return Err(changed("SHA-256", etag, wanted.sha256.to_owned()));
    }
    Ok(Remote {
        repo: wanted.repo.to_owned(),
        file: wanted.file.to_owned(),
        sha256: wanted.sha256.to_owned(),
        bytes,
        commit,
        blob: etag,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_becomes_a_file_name_or_nothing() {
        assert_eq!(plain("\"abc-1_2\"").as_deref(), Some("abc-1_2"));
        assert_eq!(plain(" W/\"abc\" ").as_deref(), Some("abc"));
        for etag in ["", "\"\"", "../x", "a/b", "a b", "a.incomplete", &"a".repeat(129)] {
            assert_eq!(plain(etag), None, "{etag}");
        }
    }
}
