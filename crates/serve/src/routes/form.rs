//! Forms with files, part by part. What is held of one is what came at once, and the head of a part.

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt;
use std::time::Duration;

use crate::problem::Problem;

/// Parts of a form at most.
const MOST_PARTS: usize = 16;

/// Bytes of the head of a part at most, and of what may stand before the first one. Browsers send 200.
const MOST_HEAD: usize = 8 << 10;

/// Bytes that a form adds to its files at most: heads and boundaries.
pub(super) const ADDED: u64 = 1 << 20;
const _: () = assert!(((MOST_PARTS + 1) * (MOST_HEAD + 2 * MOST_BOUNDARY)) as u64 <= ADDED);

/// Letters of a boundary.
const MOST_BOUNDARY: usize = 70;

/// How long a client may be silent.
const SILENCE: Duration = Duration::from_secs(60);

/// A form while it comes.
pub(super) struct Form {
    chunks: BodyDataStream,
    /// What came and was not given out.
    rest: Bytes,
    /// What stands before each part: a new line, two dashes, and the boundary.
    mark: Vec<u8>,
    /// Before a mark, and not behind one.
    inside: bool,
    parts: usize,
}

/// The head of a part.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: Option<String>,
    pub(super) file_name: Option<String>,
    pub(super) content_type: Option<String>,
}

impl Form {
    /// The form that a request says it has.
    pub(super) fn of(headers: &HeaderMap, body: Body) -> Result<Self, Problem> {
        let wrong = || bad("an upload has to be multipart/form-data with a file in the field `content`");
        let kind = headers.get(header::CONTENT_TYPE).ok_or_else(wrong)?.as_bytes();
        let (kind, words) = kind.split_at(kind.iter().position(|byte| *byte == b';').unwrap_or(kind.len()));
        let is_form = kind.trim_ascii().eq_ignore_ascii_case(b"multipart/form-data");
        let boundary = parameter(words, "boundary").filter(|text| (1..=MOST_BOUNDARY).contains(&text.len()));
        let boundary = boundary.filter(|_| is_form).ok_or_else(wrong)?;
        // The first part has no line before it.
        let (rest, mark) = (Bytes::from_static(b"\r\n"), [b"\r\n--", boundary.as_bytes()].concat());
        Ok(Form { chunks: body.into_data_stream(), rest, mark, inside: true, parts: 0 })
    }

    /// The next part; what is left of the one before is passed over. `None` behind the last one.
    pub(super) async fn part(&mut self) -> Result<Option<Part>, Problem> {
        let mut before = 0;
        while let Some(bytes) = self.bytes().await? {
            before += bytes.len();
            if before > MOST_HEAD {
                return Err(bad("the form has bytes that belong to no part"));
            }
        }
        // Two dashes end the form.
        while self.rest.len() < 2 {
            self.fill().await?;
        }
        if self.rest.starts_with(b"--") {
            return Ok(None);
        }
        self.parts += 1;
        if self.parts > MOST_PARTS {
            return Err(bad(format!("an upload has {MOST_PARTS} parts at most")));
        }
        let mut seen = 0;
        let end = loop {
            let rest = &self.rest;
            if let Some(at) = rest[seen..].windows(4).position(|four| four == b"\r\n\r\n") {
                break seen + at;
            }
            if rest.len() > MOST_HEAD {
                return Err(bad(format!("the head of a part has more than {MOST_HEAD} bytes")));
            }
            seen = rest.len().saturating_sub(3);
            self.fill().await?;
        };
        let head = self.rest.split_to(end + 4);
        let part = Part::read(&head[..end]).filter(|_| end <= MOST_HEAD);
        self.inside = true;
        part.map(Some).ok_or_else(|| bad("the head of a part cannot be read"))
    }

    /// Bytes of the part, as they came. `None` at its end.
    pub(super) async fn bytes(&mut self) -> Result<Option<Bytes>, Problem> {
        while self.inside {
            match find(&self.rest, &self.mark) {
                Found::At(0) => {
                    let _ = self.rest.split_to(self.mark.len());
                    self.inside = false;
                }
                // What could be the beginning of the mark waits for more.
                Found::Perhaps(0) => self.fill().await?,
                Found::At(length) | Found::Perhaps(length) => return Ok(Some(self.rest.split_to(length))),
            }
        }
        Ok(None)
    }

    /// Waits for more. What is left is a part of a mark or of a head, and is copied so that it does not hold the buffer of the
    /// connection.
    async fn fill(&mut self) -> Result<(), Problem> {
        let rest = std::mem::take(&mut self.rest).to_vec();
        let late = |_| {
            let detail = format!("nothing came for {} seconds; send the file again", SILENCE.as_secs());
            Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", detail)
        };
        let cut = || bad("the upload is cut off; send the file again");
        let next = tokio::time::timeout(SILENCE, self.chunks.next()).await.map_err(late)?;
        let next = next.ok_or_else(cut)?.map_err(|_| cut())?;
        self.rest = if rest.is_empty() { next } else { [rest, next.into()].concat().into() };
        Ok(())
    }
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "usage", detail)
}

/// Where a mark is in some bytes, or where it may begin if more come.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    At(usize),
    Perhaps(usize),
}

fn find(bytes: &[u8], mark: &[u8]) -> Found {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == mark[0]).map(|at| from + at) {
        let length = mark.len().min(bytes.len() - at);
        if bytes[at..at + length] == mark[..length] {
            return if length == mark.len() { Found::At(at) } else { Found::Perhaps(at) };
        }
        from = at + 1;
    }
    Found::Perhaps(bytes.len())
}

impl Part {
    /// Reads a head: what is behind the mark up to the empty line.
    fn read(head: &[u8]) -> Option<Self> {
        let mut lines = lines(head);
        // Blanks may stand behind the mark.
        if !lines.next()?.iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            return None;
        }
        let mut part = Part::default();
        for line in lines {
            let colon = line.iter().position(|byte| *byte == b':').filter(|at| *at > 0)?;
            let (name, value) = (&line[..colon], &line[colon + 1..]);
            if name.iter().any(|byte| !byte.is_ascii_graphic()) {
                return None;
            }
            if name.eq_ignore_ascii_case(b"content-disposition") {
                part.name = parameter(value, "name");
                part.file_name = parameter(value, "filename");
            } else if name.eq_ignore_ascii_case(b"content-type") {
                part.content_type = std::str::from_utf8(value).ok().map(|kind| kind.trim().to_owned());
            }
        }
        Some(part)
    }
}

/// The lines of a head.
fn lines(mut head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut over = false;
    std::iter::from_fn(move || {
        if over {
            return None;
        }
        let end = head.windows(2).position(|two| two == b"\r\n");
        let line = &head[..end.unwrap_or(head.len())];
        match end {
            Some(end) => head = &head[end + 2..],
            None => over = true,
        }
        Some(line)
    })
}

/// A parameter of a value: `name` of `form-data; name="content"`. Programs write names of files as they are, and a quotation
/// mark in one behind a backslash.
fn parameter(value: &[u8], wanted: &str) -> Option<String> {
    let mut rest = value;
    loop {
        rest = &rest[rest.iter().position(|byte| *byte == b';')? + 1..];
        let equals = rest.iter().position(|byte| matches!(byte, b'=' | b';'))?;
        if rest[equals] == b';' {
            rest = &rest[equals..];
            continue;
        }
        let name = rest[..equals].trim_ascii();
        rest = rest[equals + 1..].trim_ascii_start();
        let (text, behind) = match rest.strip_prefix(b"\"") {
            Some(quoted) => {
                let end = (0..quoted.len())
                    .find(|at| quoted[*at] == b'"' && (*at == 0 || quoted[*at - 1] != b'\\'))?;
                (&quoted[..end], &quoted[end + 1..])
            }
            None => rest.split_at(rest.iter().position(|byte| *byte == b';').unwrap_or(rest.len())),
        };
        if name.eq_ignore_ascii_case(wanted.as_bytes()) {
            let text = std::str::from_utf8(text.trim_ascii()).ok()?;
            return Some(text.replace("\\\"", "\""));
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests;
