//! Films inside of requests: a `data:` URL goes to the disk while it comes, and the rest of the request is small.

use std::time::Instant;

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use serde_json::{Map, Value};

use super::{BODY, SMALL, Shared, Text, cut_off, in_time};
use crate::problem::Problem;
use crate::uploads::Incoming;

/// What stands in place of a film that was taken out.
pub(super) const TAKEN: &str = "data:";

/// Letters before the data of a URL at most.
const MOST_KIND: usize = 200;

/// A request without its film, and the film.
pub(super) struct Sent<'a> {
    pub(super) map: Map<String, Value>,
    pub(super) film: Option<Incoming<'a>>,
}

/// Reads the JSON object of a request, of `most` bytes at most with the film in it.
pub(super) async fn object(app: &Shared, body: Body, most: usize) -> Result<Sent<'_>, Problem> {
    let (mut reader, mut left) = (Reader::default(), most);
    let (mut text, mut film) = (Text::new(SMALL), None::<Incoming<'_>>);
    let (mut chunks, mut time) = (body.into_data_stream(), BODY);
    loop {
        // The client has so long for all of it. What our own disk takes is not its fault.
        let begun = Instant::now();
        let Some(chunk) = in_time(time, async { Ok(chunks.next().await) }).await? else { break };
        time = time.saturating_sub(begun.elapsed());
        let chunk = chunk.map_err(|_| cut_off())?;
        left = left.checked_sub(chunk.len()).ok_or_else(|| {
            let detail = format!("the request is longer than {most} bytes; upload films to /v1/files");
            Problem::new(axum::http::StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
        })?;
        let found = reader.read(&chunk)?;
        text.push(&found.text)?;
        if let Some(kind) = found.kind {
            film = Some(app.on_disk(|| app.uploads.begin(name(&kind), &kind)).await?);
        }
        if let Some(film) = film.as_mut().filter(|_| !found.film.is_empty()) {
            app.on_disk(|| film.write(&found.film)).await?;
        }
    }
    Ok(Sent { map: text.object()?, film })
}

/// A name for a film of this kind.
fn name(kind: &str) -> &'static str {
    match kind.split(';').next().unwrap_or_default() {
        "video/x-matroska" => "film.mkv",
        "video/mp4" => "film.mp4",
        "video/webm" => "film.webm",
        "video/quicktime" => "film.mov",
        "image/png" => "picture.png",
        "image/jpeg" => "picture.jpg",
        "image/webp" => "picture.webp",
        _ => "film",
    }
}

pub(super) fn wrong() -> Problem {
    Problem::value("input.media: a data: URL has to be data:TYPE;base64,DATA")
}

/// Where a byte of JSON is.
#[derive(Default)]
enum At {
    #[default]
    Between,
    /// In a word, of which so many letters are those of `data:`.
    Start(usize),
    Word,
    /// Behind `data:`, before the data.
    Kind(String),
    Data,
}

/// Takes the film out of JSON. Whether it is JSON is found by others.
#[derive(Default)]
struct Reader {
    at: At,
    /// Behind a backslash: what came of the letters that stand for one.
    escaped: Option<Vec<u8>>,
    /// Letters of base64 that are no group of four yet. Between two reads there are three at most.
    letters: Vec<u8>,
    padded: bool,
    has_film: bool,
}

/// What some bytes of a request hold.
#[derive(Default)]
struct Found {
    text: Vec<u8>,
    /// A film begins, and is of this kind.
    kind: Option<String>,
    film: Vec<u8>,
}

impl Reader {
    fn read(&mut self, bytes: &[u8]) -> Result<Found, Problem> {
        let mut found = Found::default();
        for byte in bytes {
            match &mut self.at {
                At::Between | At::Start(_) | At::Word => self.outside(*byte, &mut found.text),
                At::Kind(_) | At::Data if *byte == b'"' && self.escaped.is_none() => {
                    // A URL without data: its end is that of the word.
                    if !matches!(self.at, At::Data) {
                        return Err(wrong());
                    }
                    self.decode(&mut found.film)?;
                    if !self.letters.is_empty() {
                        return Err(wrong());
                    }
                    found.text.push(*byte);
                    self.at = At::Between;
                }
                At::Kind(_) | At::Data => {
                    let Some(letter) = self.letter(*byte)? else { continue };
                    self.inside(letter, &mut found)?;
                }
            }
        }
        self.decode(&mut found.film)?;
        Ok(found)
    }

    fn outside(&mut self, byte: u8, text: &mut Vec<u8>) {
        text.push(byte);
        if self.escaped.take().is_some() {
            return;
        }
        self.at = match (&self.at, byte) {
            (At::Between, b'"') => At::Start(0),
            (At::Between, _) => At::Between,
            (_, b'"') => At::Between,
            (_, b'\\') => {
                self.escaped = Some(Vec::new());
                At::Word
            }
            (At::Start(count), byte) if byte == TAKEN.as_bytes()[*count] => match count + 1 {
                count if count == TAKEN.len() => At::Kind(String::new()),
                count => At::Start(count),
            },
            _ => At::Word,
        };
    }

    /// The letter that a byte of a word is or ends. Some programs write `\/` for `/`, or `\u002b` for `+`.
    fn letter(&mut self, byte: u8) -> Result<Option<u8>, Problem> {
        let Some(escaped) = &mut self.escaped else {
            if byte == b'\\' {
                self.escaped = Some(Vec::new());
                return Ok(None);
            }
            return Ok(Some(byte));
        };
        escaped.push(byte);
        let letter = match escaped.as_slice() {
            [b'/'] => b'/',
            [b'u'] | [b'u', _] | [b'u', _, _] | [b'u', _, _, _] => return Ok(None),
            [b'u', digits @ ..] => {
                let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
                u8::from_str_radix(digits, 16).map_err(|_| wrong())?
            }
            _ => return Err(wrong()),
        };
        self.escaped = None;
        Ok(Some(letter))
    }

    fn inside(&mut self, letter: u8, found: &mut Found) -> Result<(), Problem> {
        match &mut self.at {
            At::Kind(kind) if letter == b',' => {
                let kind = kind.strip_suffix(";base64").ok_or_else(wrong)?.to_owned();
                if std::mem::replace(&mut self.has_film, true) {
                    return Err(Problem::value("a request has one film at most; upload others to /v1/files"));
                }
                found.kind = Some(kind);
                self.at = At::Data;
            }
            At::Kind(kind) if letter.is_ascii_graphic() && kind.len() < MOST_KIND => kind.push(letter.into()),
            At::Data => self.letters.push(letter),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Decodes all groups of four letters that are there.
    fn decode(&mut self, film: &mut Vec<u8>) -> Result<(), Problem> {
        let whole = self.letters.len() / 4 * 4;
        if whole == 0 {
            return Ok(());
        }
        if self.padded {
            return Err(wrong());
        }
        let groups = &self.letters[..whole];
        STANDARD.decode_vec(groups, film).map_err(|_| wrong())?;
        self.padded = groups.last() == Some(&b'=');
        // Without the room that those of many bytes took.
        self.letters = self.letters[whole..].to_vec();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
