//! Files as answers: whole, or the part that was asked for.

use std::fs::File;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use remaster_disk::read_at;
use tokio::sync::Semaphore;

use super::Shared;
use crate::problem::Problem;

/// Bytes that are read at once. All connections together hold 28 MiB of those.
const PIECE: u64 = 64 << 10;

/// What a file is, for its answer.
pub(super) struct About<'a> {
    name: &'a str,
    tag: String,
    /// To be saved, and not to be shown.
    download: bool,
    /// How long browsers may keep it.
    cached: &'static str,
}

impl<'a> About<'a> {
    pub(super) fn file(name: &'a str, tag: String, download: bool) -> Self {
        About { name, tag, download, cached: "private, no-cache" }
    }

    /// A picture that never changes under its address.
    pub(super) fn picture(name: &'a str, tag: String) -> Self {
        About { name, tag, download: false, cached: "private, max-age=3600" }
    }
}

/// A file, or the part of it that the headers ask for. It comes with what must stay until it is sent.
pub(super) fn answer<H: Send + Sync + 'static>(
    app: &Shared,
    file: (File, H),
    headers: &HeaderMap,
    about: &About<'_>,
) -> Result<Response, Problem> {
    let (file, held) = file;
    let length = file.metadata().map_err(|error| Problem::system("the file cannot be read", &error))?.len();
    let tag = format!("\"{}\"", about.tag);
    let fresh = headers.get(header::IF_RANGE).is_none_or(|given| given.as_bytes() == tag.as_bytes());
    let range =
        headers.get(header::RANGE).filter(|_| fresh && headers.get_all(header::RANGE).iter().count() == 1);
    let part = range.and_then(|range| range.to_str().ok()).map(|range| part(range, length));
    let (status, [from, to]) = match part {
        None | Some(Part::Whole) => (StatusCode::OK, [0, length]),
        Some(Part::Of(part)) => (StatusCode::PARTIAL_CONTENT, part),
        Some(Part::Outside) => {
            let detail = format!("the file has {length} bytes, and the range begins behind them");
            let mut response =
                Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "out-of-range", detail).into_response();
            let value = HeaderValue::from_str(&format!("bytes */{length}"));
            value
                .into_iter()
                .for_each(|value| drop(response.headers_mut().insert(header::CONTENT_RANGE, value)));
            return Ok(response);
        }
    };
    let body = Body::from_stream(pieces(Arc::clone(&app.disk), file, [from, to], held));
    let mut response = (status, body).into_response();
    let disposition = if about.download { "attachment" } else { "inline" };
    let mut all = vec![
        (header::CONTENT_TYPE, kind(about.name).to_owned()),
        (header::CONTENT_LENGTH, (to - from).to_string()),
        (header::ACCEPT_RANGES, "bytes".to_owned()),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, about.cached.to_owned()),
        (header::CONTENT_DISPOSITION, format!("{disposition}; filename*=UTF-8''{}", encoded(about.name))),
    ];
    if status == StatusCode::PARTIAL_CONTENT {
        all.push((header::CONTENT_RANGE, format!("bytes {from}-{}/{length}", to - 1)));
    }
    for (name, value) in all {
        value.parse().into_iter().for_each(|value| drop(response.headers_mut().insert(&name, value)));
    }
    Ok(response)
}

/// Bytes of a file. A file that becomes shorter meanwhile breaks the answer off.
fn pieces<H: Send + Sync + 'static>(
    disk: Arc<Semaphore>,
    file: File,
    [from, to]: [u64; 2],
    held: H,
) -> impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    // In this order: what it comes with goes when it is closed.
    let file = Arc::new((file, held));
    stream::try_unfold(from, move |at| {
        let (file, disk) = (Arc::clone(&file), Arc::clone(&disk));
        async move {
            if at >= to {
                return Ok(None);
            }
            let length = PIECE.min(to - at);
            let _turn = disk.acquire_owned().await.map_err(std::io::Error::other)?;
            let read = move || {
                let mut bytes = vec![0; length as usize];
                read_at(&file.0, &mut bytes, at).map(|()| bytes)
            };
            let bytes = tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other)??;
            Ok(Some((Bytes::from(bytes), at + length)))
        }
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// From the first byte to behind the last.
    Of([u64; 2]),
    /// Nothing that can be understood was asked for, which means all.
    Whole,
    Outside,
}

/// The part that a header asks for. Several parts are answered with all.
fn part(range: &str, length: u64) -> Part {
    let Some(words) = range.strip_prefix("bytes=") else { return Part::Whole };
    let Some((from, to)) = words.trim().split_once('-') else { return Part::Whole };
    let number = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse::<u64>().ok(),
        false => None,
    };
    match (from, to) {
        ("", to) => match number(to) {
            Some(0) => Part::Outside,
            Some(_) if length == 0 => Part::Outside,
            Some(last) => Part::Of([length.saturating_sub(last), length]),
            None => Part::Whole,
        },
        (from, to) => match (number(from), if to.is_empty() { Some(u64::MAX) } else { number(to) }) {
            (Some(from), Some(to)) if from > to => Part::Whole,
            (Some(from), Some(_)) if from >= length => Part::Outside,
            (Some(from), Some(to)) => Part::Of([from, to.saturating_add(1).min(length)]),
            _ => Part::Whole,
        },
    }
}

/// What a browser does with a file of this name. Nothing of it is ever a page.
pub(super) fn kind(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "mkv" => "video/x-matroska",
        "mp4" | "m4v" => "video/mp4",
        "mov" => "video/quicktime",
        "webm" => "video/webm",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "tif" | "tiff" => "image/tiff",
        _ => "application/octet-stream",
    }
}

/// A name in a header.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let letter = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_the_file() {
        for (range, expected) in [
            ("bytes=0-", Part::Of([0, 100])),
            ("bytes=0-0", Part::Of([0, 1])),
            ("bytes=90-200", Part::Of([90, 100])),
            ("bytes=-10", Part::Of([90, 100])),
            ("bytes=-1000", Part::Of([0, 100])),
            ("bytes=99-18446744073709551615", Part::Of([99, 100])),
            ("bytes=100-", Part::Outside),
            ("bytes=-0", Part::Outside),
            ("bytes=5-4", Part::Whole),
            ("bytes=0-1,5-6", Part::Whole),
            ("bytes=99999999999999999999-", Part::Whole),
            ("bytes=+1-2", Part::Whole),
            ("lines=1-2", Part::Whole),
            ("bytes", Part::Whole),
        ] {
            assert_eq!(part(range, 100), expected, "{range}");
        }
        assert_eq!(part("bytes=-5", 0), Part::Outside);
        assert_eq!(part("bytes=0-", 0), Part::Outside);
    }

    #[test]
    fn names_fit_into_a_header_and_no_file_is_a_page() {
        assert_eq!(encoded("Tür 1\".mkv"), "T%C3%BCr%201%22.mkv");
        assert_eq!(
            (kind("a.MKV"), kind("a.html"), kind("a.svg")),
            ("video/x-matroska", "application/octet-stream", "application/octet-stream")
        );
    }
}
