//! The kinds of outputs: a closed list, by the end of the name. Other endings are refused, since ffmpeg makes
//! several files, or files of a pattern, of some of them.

use std::path::Path;

use remaster_picture::StillFormat;
use serde::Serialize;

/// What a name says will be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// y4m to stdout.
    Pipe,
    /// A y4m file.
    Y4m,
    /// One picture.
    Picture,
    /// A folder of pictures.
    Folder,
    /// A video file.
    Video(Container),
}

/// Kinds of files that are written by ffmpeg: one file each, and every frame with its own time. AVI is not among
/// them: it has no times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Container {
    /// Takes everything.
    Mkv,
    /// For players.
    Mp4,
    /// For editors.
    Mov,
    /// For browsers.
    Webm,
    /// ffmpeg's own.
    Nut,
    /// For broadcast.
    Ts,
}

/// Endings of files, with ffmpeg's name for what writes them.
const CONTAINERS: [(&str, Container, &str); 8] = [
    ("mkv", Container::Mkv, "matroska"),
    ("mp4", Container::Mp4, "mp4"),
    ("m4v", Container::Mp4, "mp4"),
    ("mov", Container::Mov, "mov"),
    ("webm", Container::Webm, "webm"),
    ("nut", Container::Nut, "nut"),
    ("ts", Container::Ts, "mpegts"),
    ("m2ts", Container::Ts, "mpegts"),
];

/// Endings of single pictures, one for each format.
const PICTURES: [&str; 5] = ["jpg", "png", "webp", "tif", "exr"];

impl Container {
    /// ffmpeg's name for what writes it.
    pub(crate) fn muxer(self) -> &'static str {
        CONTAINERS.iter().find(|(_, container, _)| *container == self).map_or("", |(.., muxer)| muxer)
    }
}

impl OutputKind {
    /// What `path` is for; `None` if its ending is not known. A name without an ending, or with a slash behind it, is
    /// a folder.
    pub fn of(path: &Path) -> Option<Self> {
        if path.as_os_str() == "-" {
            return Some(OutputKind::Pipe);
        }
        let bytes = path.as_os_str().as_encoded_bytes();
        if bytes.last().is_some_and(|b| std::path::is_separator(char::from(*b))) {
            return Some(OutputKind::Folder);
        }
        let Some(ending) = path.extension() else { return Some(OutputKind::Folder) };
        let ending = ending.to_str().map(str::to_ascii_lowercase).unwrap_or_default();
        let container = CONTAINERS.iter().find(|(e, ..)| *e == ending);
        match ending.as_str() {
            "y4m" => Some(OutputKind::Y4m),
            _ if written_as(path).is_some() => Some(OutputKind::Picture),
            _ => container.map(|(_, container, _)| OutputKind::Video(*container)),
        }
    }

    /// The endings that are known, for messages.
    pub fn endings() -> String {
        let video = CONTAINERS.iter().map(|(ending, ..)| *ending);
        let all: Vec<String> = video.chain(["y4m"]).chain(PICTURES).map(|e| format!(".{e}")).collect();
        all.join(", ")
    }
}

/// The format in which a still is written at `path`; `None` if it names none that is.
pub(crate) fn written_as(path: &Path) -> Option<StillFormat> {
    StillFormat::of_ending(path).filter(|format| *format != StillFormat::Bmp)
}

/// The container that `path` is for.
pub(crate) fn container(path: &Path) -> Option<Container> {
    match OutputKind::of(path) {
        Some(OutputKind::Video(container)) => Some(container),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_make_one_thing_are_known() {
        let of = |name: &str| OutputKind::of(Path::new(name));
        assert_eq!(of("a.MKV"), Some(OutputKind::Video(Container::Mkv)));
        assert_eq!(of("a%03d.mp4"), Some(OutputKind::Video(Container::Mp4)));
        assert_eq!([of("-"), of("a.y4m")], [Some(OutputKind::Pipe), Some(OutputKind::Y4m)]);
        assert_eq!([of("a.png"), of("a.b/")], [Some(OutputKind::Picture), Some(OutputKind::Folder)]);
        assert_eq!([of("o%03d.jpg"), of("a.TIFF")], [Some(OutputKind::Picture); 2]);
        assert_eq!(of("folder"), Some(OutputKind::Folder));
        for name in [
            "a.mpd", "a.m3u8", "a.bmp", "a.gif", "a.heic", "a.h264", "a.ffmeta", "a.mp4 ", "a.", "a.sdp",
            "a.null",
        ] {
            assert_eq!(of(name), None, "{name}");
        }
        assert!(OutputKind::endings().starts_with(".mkv, .mp4"));
    }
}
