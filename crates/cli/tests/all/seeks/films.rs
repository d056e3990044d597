//! Films to begin in the middle of: codecs with their groups of pictures, containers, and what is done to their index.

use std::path::Path;

use crate::desk::{bytes, ffmpeg};

/// Frames a second; groups of pictures that are longer than a run-up are what matters, and not pixels.
const RATE: usize = 10;
/// Seconds of a film: longer than the longest run-up.
pub(super) const SECONDS: usize = 26;

/// A codec with its groups of pictures.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Filters behind the source.
    filters: &'static str,
    coder: &'static str,
    /// Containers, by their ending.
    endings: &'static str,
}

const fn kind(name: &'static str, coder: &'static str, endings: &'static str) -> Kind {
    Kind { name, filters: "", coder, endings }
}

/// Two frames of light every 3.7 s: x264 gives them I frames, and frames behind them refer across.
const FLASHES: &str = ",eq=brightness='if(lt(mod(n,37),1),0.8,0)':eval=frame";

/// No key frame where the scene changes, so that groups are as long as they are asked for.
const NO_CUTS: &str = "-sc_threshold 1000000000";

const ALL: &str = "mkv mp4 mov ts nut";
const HEVC: &str = "mkv mp4 ts";

/// Every codec with the containers that it goes into. AVI and MPEG-PS are read from their start.
pub(super) const KINDS: [Kind; 38] = [
    kind("mpeg2-closed", "-c:v mpeg2video -g 12 -bf 2 -flags +cgop NO_CUTS", "mkv mov ts nut mpg avi"),
    kind("mpeg2-open", "-c:v mpeg2video -g 12 -bf 2 NO_CUTS", "mkv mp4 ts nut mpg"),
    kind("mpeg2-long", "-c:v mpeg2video -g 200 -bf 2 NO_CUTS", ALL),
    kind("mpeg2-fields", "-c:v mpeg2video -g 12 -bf 2 -flags +ildct+ilme", "mkv ts mpg"),
    kind("mpeg4", "-c:v mpeg4 -g 20 -bf 2 NO_CUTS", "mkv mp4 mov ts nut avi"),
    kind("mpeg4-long", "-c:v mpeg4 -g 900 -bf 2 NO_CUTS", "mkv mp4 mov ts nut avi"),
    kind("mpeg4-plain", "-c:v mpeg4 -g 900 -bf 0 NO_CUTS", ALL),
    kind("h264", "-c:v libx264 -g 20 -bf 3", "mkv mp4 mov ts nut avi"),
    kind("h264-open", "-c:v libx264 -g 20 -bf 3 -x264-params open-gop=1", ALL),
    kind("h264-long", "-c:v libx264 -g 900 -bf 3 -sc_threshold 0", ALL),
    kind("h264-refresh", "-c:v libx264 -g 20 -bf 3 -x264-params intra-refresh=1", ALL),
    kind("h264-refresh-late", "-c:v libx264 -g 150 -bf 0 -x264-params intra-refresh=1", ALL),
    kind("h264-fields", "-c:v libx264 -g 20 -bf 2 -x264-params tff=1:interlaced=1", "mkv mp4 ts"),
    Kind {
        name: "h264-across",
        filters: FLASHES,
        coder: "-c:v libx264 -refs 2 -bf 0 -g 250 -keyint_min 250 -x264-params scenecut=60",
        endings: ALL,
    },
    Kind {
        name: "h264-across-b",
        filters: FLASHES,
        coder: "-c:v libx264 -refs 3 -bf 3 -g 250 -x264-params open-gop=1",
        endings: ALL,
    },
    kind("hevc", "-c:v libx265 -preset ultrafast -x265-params QUIET:keyint=20:open-gop=0:bframes=3", HEVC),
    kind(
        "hevc-open",
        "-c:v libx265 -preset ultrafast -x265-params QUIET:keyint=20:open-gop=1:bframes=4",
        HEVC,
    ),
    kind(
        "hevc-refresh",
        "-c:v libx265 -preset ultrafast -x265-params QUIET:keyint=20:intra-refresh=1:bframes=0",
        HEVC,
    ),
    kind(
        "hevc-long",
        "-c:v libx265 -preset ultrafast -x265-params QUIET:keyint=900:scenecut=0:bframes=3",
        HEVC,
    ),
    kind("vp8", "-c:v libvpx -g 20 -auto-alt-ref 1 -lag-in-frames 8 -b:v 200k", "mkv webm nut"),
    kind("vp8-long", "-c:v libvpx -g 900 -b:v 200k", "mkv nut"),
    kind("vp9", "-c:v libvpx-vp9 -g 20 -cpu-used 8 -lag-in-frames 8 -b:v 200k", "mkv webm mp4"),
    kind("vp9-long", "-c:v libvpx-vp9 -g 900 -cpu-used 8 -deadline realtime -b:v 200k", "mkv mp4"),
    kind(
        "vp9-alpha",
        "-pix_fmt yuva420p -c:v libvpx-vp9 -auto-alt-ref 0 -g 20 -cpu-used 8 -deadline realtime -b:v 200k",
        "webm",
    ),
    kind("av1", "-c:v libaom-av1 -cpu-used 8 -usage realtime -g 20", "mkv mp4"),
    kind("av1-long", "-c:v libaom-av1 -cpu-used 8 -usage realtime -g 900", "mkv mp4"),
    kind("prores", "-c:v prores_ks", "mov mkv nut"),
    kind("dnxhd", "-vf scale=256:144 -c:v dnxhd -profile:v dnxhr_lb -pix_fmt yuv422p", "mov mkv nut"),
    kind("ffv1", "-c:v ffv1 -g 1", "mkv mov nut avi"),
    kind("ffv1-groups", "-c:v ffv1 -g 20 -context 1", "mkv nut"),
    kind("ffv1-long", "-c:v ffv1 -g 900", "mkv nut"),
    kind("mjpeg", "-c:v mjpeg -q:v 3 -pix_fmt yuvj420p", "mkv mov nut avi"),
    kind("dv", "-t 9 -vf scale=720:576,fps=25 -c:v dvvideo -pix_fmt yuv420p", "mov mkv avi"),
    kind("theora", "-c:v libtheora -g 20 -q:v 5", "mkv nut"),
    kind("wmv2", "-c:v wmv2 -g 20", "mkv nut"),
    kind("h263", "-vf scale=128:96 -c:v h263 -g 20", "mov mkv nut"),
    kind("qtrle", "-c:v qtrle -g 20", "mov"),
    kind("cinepak", "-t 9 -c:v cinepak -g 20", "mov"),
];

/// What is done to the index or the clock of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    /// As it was written.
    Whole,
    /// None.
    Lost,
    /// It says that every frame is a key frame.
    Lies,
    /// It names other frames than key frames.
    Moved,
    /// An edit list begins in the middle of a group.
    Edited,
    /// Fragments with an index each.
    Fragments,
    /// The first frame is shown after half a minute.
    Late,
}

/// A film to make.
#[derive(Clone)]
pub(super) struct Film {
    pub(super) kind: usize,
    pub(super) ending: &'static str,
    pub(super) index: Index,
}

impl Film {
    pub(super) fn name(&self) -> String {
        format!("{}-{:?}.{}", KINDS[self.kind].name, self.index, self.ending).to_lowercase()
    }

    /// Makes it in a folder.
    pub(super) fn make(&self, folder: &Path) {
        let Kind { filters, coder, .. } = KINDS[self.kind];
        let coder = coder.replace("NO_CUTS", NO_CUTS).replace("QUIET", "log-level=error");
        let source = format!("-f lavfi -i testsrc2=s=64x48:r={RATE}:d={SECONDS}{filters}");
        let encode = |more: &str, name: &str| ffmpeg(folder, &format!("{source} {coder} {more} {name}"));
        let name = &self.name();
        match (self.index, self.ending) {
            (Index::Whole, _) => drop(encode("", name)),
            (Index::Lost, _) => {
                encode("", name);
                without_index(folder, name);
            }
            (Index::Lies, _) => {
                encode("", &format!("{name}.mp4"));
                without_index(folder, &format!("{name}.mp4"));
                ffmpeg(folder, &format!("-i {name}.mp4 -c copy {name}"));
            }
            (Index::Moved, _) => {
                encode("", name);
                move_index(folder, name);
            }
            (Index::Edited, ending) => {
                encode("", &format!("{name}.{ending}"));
                ffmpeg(folder, &format!("-ss 1.33 -i {name}.{ending} -c copy {name}"));
            }
            (Index::Fragments, _) => {
                drop(encode("-movflags frag_keyframe+empty_moov+default_base_moof", name));
            }
            (Index::Late, _) => drop(encode("-output_ts_offset 37.123", name)),
        }
    }
}

/// Where the box with the numbers of key frames begins.
fn index(film: &[u8]) -> Option<usize> {
    film.windows(4).position(|name| name == b"stss")
}

/// In MP4 every frame counts as a key frame then; a film of which each frame is one has no index. Matroska has cues, and a
/// reference to them.
fn without_index(folder: &Path, name: &str) {
    const CUES: [u8; 4] = [0x1c, 0x53, 0xbb, 0x6b];
    let mut film = bytes(folder, name);
    if let Some(place) = index(&film) {
        film[place..place + 4].copy_from_slice(b"free");
    }
    while let Some(place) = film.windows(4).position(|name| name == CUES) {
        film[place + 3] += 1;
    }
    std::fs::write(folder.join(name), film).unwrap();
}

/// The numbers of key frames, each seven higher.
fn move_index(folder: &Path, name: &str) {
    let mut film = bytes(folder, name);
    if let Some(place) = index(&film) {
        let number = |film: &[u8], at: usize| u32::from_be_bytes(film[at..at + 4].try_into().unwrap());
        for entry in 0..number(&film, place + 8) as usize {
            let at = place + 12 + 4 * entry;
            let moved = number(&film, at) + 7;
            film[at..at + 4].copy_from_slice(&moved.to_be_bytes());
        }
    }
    std::fs::write(folder.join(name), film).unwrap();
}

/// All films.
pub(super) fn all() -> Vec<Film> {
    let mut films = Vec::new();
    for (kind, Kind { endings, .. }) in KINDS.iter().enumerate() {
        for ending in endings.split(' ') {
            let has_mp4 = endings.contains("mp4");
            let more: &[Index] = match ending {
                "mp4" => &[Index::Lost, Index::Moved, Index::Edited, Index::Fragments, Index::Late],
                "mov" => &[Index::Lost, Index::Moved],
                "mkv" if has_mp4 => &[Index::Lost, Index::Lies, Index::Late],
                "mkv" | "webm" => &[Index::Lost],
                // Without an index ffmpeg calls it damaged.
                "nut" if has_mp4 => &[Index::Lies, Index::Late],
                "ts" => &[Index::Late],
                _ => &[],
            };
            let film = |index: Index| Film { kind, ending, index };
            films.extend(std::iter::once(Index::Whole).chain(more.iter().copied()).map(film));
        }
    }
    films
}
