//! Files that end early are refused wherever their container says how long they are, and whole ones are not.

mod avi;
mod holes;
// Its holes take no space there.
#[cfg(unix)]
mod opendml;

use std::path::{Path, PathBuf};

use crate::common::{Read, clip, dies_of, make, read, read_part, span, tools};
use remaster_media::{MediaError, ReadOptions, Tools};
use remaster_testkit::{Rng, nightly, not_run};

/// What is known of a file that was cut.
#[derive(Clone, Copy, PartialEq)]
enum Says {
    /// How long it is, or where it ends.
    All,
    /// Nothing: what is left of it is a whole film, too.
    Nothing,
}
use Says::{All, Nothing};

const X264: &[&str] =
    &["-c:v", "libx264", "-preset", "veryfast", "-g", "50", "-bf", "2", "-pix_fmt", "yuv420p"];

/// Ten seconds of 25 frames per second with sound.
const FRAMES: usize = 250;

/// Containers by their files: their streams, and what they say.
const CONTAINERS: [(&str, &[&str], Says); 24] = [
    ("a.avi", &["-c:v", "mpeg4", "-q:v", "5", "-c:a", "mp3"], All),
    ("mjpeg.avi", &["-c:v", "mjpeg", "-c:a", "pcm_s16le"], All),
    ("mute.avi", &["-c:v", "ffv1", "-an"], All),
    ("a.mov", &["-c:a", "aac"], All),
    ("front.mp4", &["-c:a", "aac", "-movflags", "+faststart"], All),
    ("fragments.mp4", &["-c:a", "aac", "-movflags", "+frag_keyframe+empty_moov"], Nothing),
    (
        "index.mp4",
        &["-c:a", "aac", "-movflags", "+frag_keyframe+empty_moov+default_base_moof+global_sidx"],
        All,
    ),
    ("a.mkv", &["-c:a", "aac"], All),
    ("a.webm", &["-c:v", "libvpx", "-b:v", "200k", "-c:a", "libvorbis"], All),
    ("live.mkv", &["-c:a", "aac", "-live", "1"], Nothing),
    ("a.flv", &["-c:a", "aac"], All),
    ("a.wmv", &["-c:v", "wmv2", "-b:v", "300k", "-c:a", "wmav2"], All),
    ("a.nut", &["-c:a", "aac"], All),
    ("a.rm", &["-c:v", "rv20", "-c:a", "ac3"], All),
    ("a.ivf", &["-c:v", "libvpx", "-b:v", "200k", "-an"], All),
    ("a.mxf", &["-c:v", "mpeg2video", "-q:v", "8", "-c:a", "pcm_s16le", "-ar", "48000"], All),
    ("a.ts", &["-c:a", "aac"], Nothing),
    ("a.m2ts", &["-c:a", "ac3", "-mpegts_m2ts_mode", "1"], Nothing),
    ("mpeg2.ts", &["-c:v", "mpeg2video", "-q:v", "4", "-bf", "2", "-c:a", "mp2"], Nothing),
    ("a.mpg", &["-c:v", "mpeg2video", "-q:v", "4", "-bf", "2", "-c:a", "mp2"], Nothing),
    ("a.ogv", &["-c:v", "libtheora", "-q:v", "6", "-c:a", "libvorbis"], Nothing),
    ("a.h264", &["-an"], Nothing),
    ("a.mjpeg", &["-c:v", "mjpeg", "-an"], Nothing),
    ("a.gif", &["-an", "-c:v", "gif", "-pix_fmt", "rgb8"], Nothing),
];

fn film(folder: &Path, name: &str, codec: &[&str]) -> PathBuf {
    let sound = ["-f", "lavfi", "-i", "sine=d=10:r=44100"];
    let coder = if codec.contains(&"-c:v") { &[][..] } else { X264 };
    let format = if name.starts_with("live") { &["-f", "matroska"][..] } else { &[] };
    // Something moves everywhere: Ogg drops frames that are the same.
    clip(folder, name, "testsrc2=s=64x48:r=25:d=10,scroll=h=0.01", &[&sound, coder, codec, format].concat())
}

fn plain(tools: &Tools, file: &Path) -> Result<Read, MediaError> {
    read(tools, file, ReadOptions::default())
}

fn with_damage(tools: &Tools, file: &Path) -> Result<Read, MediaError> {
    read(tools, file, ReadOptions { keep_damaged: true, ..ReadOptions::default() })
}

/// The first part of a file.
fn cut(file: &Path, bytes: usize) -> PathBuf {
    let name = format!("cut {}", file.file_name().unwrap().to_str().unwrap());
    let path = file.with_file_name(name);
    let all = std::fs::read(file).unwrap();
    std::fs::write(&path, &all[..bytes.min(all.len())]).unwrap();
    path
}

#[test]
fn every_container_is_whole_or_refused_wherever_it_is_cut() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let mut rng = Rng::new(7);
    for (name, codec, says) in CONTAINERS {
        let file = film(folder.path(), name, codec);
        if name.ends_with("ts") && dies_of(&file) {
            not_run(name, "this ffmpeg dies of MPEG-TS");
            continue;
        }
        let whole = plain(&tools, &file).unwrap_or_else(|e| panic!("{name} is whole: {e}"));
        let frames = whole.frames.len();
        // Ogg has no frame that is the one before once more.
        assert!(frames == FRAMES || name == "a.ogv", "{name}: {frames}");
        assert!(whole.late.is_empty(), "{name}: {:?}", whole.late);
        let bytes = std::fs::metadata(&file).unwrap().len() as usize;
        for _ in 0..nightly(2, 40) {
            let at = rng.between(bytes / 3, bytes - 1);
            let part = cut(&file, at);
            let about = format!("{name} of {bytes} bytes, cut at {at}");
            match plain(&tools, &part) {
                Ok(read) if read.frames.len() == frames => {}
                Ok(read) => {
                    assert!(says == Nothing, "{about}: {} frames and no word", read.frames.len());
                    continue;
                }
                Err(
                    MediaError::Damaged { .. }
                    | MediaError::Truncated { .. }
                    | MediaError::CutOff { .. }
                    | MediaError::Unreadable { .. },
                ) => {}
                Err(error) => panic!("{about}: {error}"),
            }
            // What can be decoded can be had, with a warning.
            match with_damage(&tools, &part) {
                Ok(read) if read.frames.len() < frames => {
                    assert_eq!(read.late.len(), 1, "{about}: {:?}", read.late);
                }
                Ok(_) | Err(MediaError::Unreadable { .. }) => {}
                Err(error) => panic!("{about}: {error}"),
            }
        }
    }
}

#[test]
fn a_fragment_that_lacks_its_end_is_refused() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let file =
        film(folder.path(), "fragments.mp4", &["-c:a", "aac", "-movflags", "+frag_keyframe+empty_moov"]);
    let bytes = std::fs::read(&file).unwrap();
    let boxes = boxes(&bytes);
    let last = boxes.iter().rev().find(|(name, ..)| name == b"mdat").unwrap();
    // All pictures of the fragment are there; the end of its sound is not.
    let error = plain(&tools, &cut(&file, last.2 - 40)).err().unwrap();
    assert!(matches!(error, MediaError::CutOff { needs, .. } if needs == last.2 as u64), "{error}");
    // Between two fragments nothing says that there should be another one.
    let first = boxes.iter().filter(|(name, ..)| name == b"moof").nth(2).unwrap();
    let read = plain(&tools, &cut(&file, first.1)).unwrap();
    assert_eq!(read.frames.len(), 100);
}

#[test]
fn a_file_of_fragments_that_says_how_long_they_are_is_held_to_it() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let file = film(
        folder.path(),
        "fragments.mp4",
        &["-c:a", "aac", "-movflags", "+frag_keyframe+empty_moov+default_base_moof"],
    );
    // `mehd` takes the place of another box: 10 s in thousandths.
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(4).position(|w| w == b"mvex").unwrap() + 4;
    let mehd = [&16u32.to_be_bytes()[..], b"mehd", &[0; 4], &10_040u32.to_be_bytes()].concat();
    bytes.splice(at..at, mehd);
    for name in [&b"mvex"[..], b"moov"] {
        let at = bytes.windows(4).position(|w| w == name).unwrap() - 4;
        let size = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) + 16;
        bytes[at..at + 4].copy_from_slice(&size.to_be_bytes());
    }
    // An index of random places would tell by itself.
    let end = boxes(&bytes).iter().find(|(name, ..)| name == b"mfra").unwrap().1;
    std::fs::write(&file, &bytes[..end]).unwrap();
    assert_eq!(plain(&tools, &file).unwrap().frames.len(), FRAMES);
    let third = boxes(&bytes).iter().filter(|(name, ..)| name == b"moof").nth(2).unwrap().1;
    let error = plain(&tools, &cut(&file, third)).err().unwrap().to_string();
    assert!(error.contains("its video ends after 4.0 s of 10.0 s"), "{error}");
}

/// Boxes of an MP4: names, and where they begin and end.
fn boxes(bytes: &[u8]) -> Vec<([u8; 4], usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 8 <= bytes.len() {
        let size = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        found.push((bytes[at + 4..at + 8].try_into().unwrap(), at, at + size));
        at += size;
    }
    found
}

/// A name, options before and behind the picture, a filter, and the frames of three seconds.
type Odd<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a str, usize);

#[test]
fn whole_films_of_odd_lengths_are_not_taken_for_cut_ones() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let picture = "testsrc2=s=64x48:r=25:d=4,scroll=h=0.01";
    let sound = |seconds: &'static str| ["-f", "lavfi", "-i", seconds, "-c:a", "aac"];
    // A still of five seconds in the middle, and one at the end.
    let uneven = "setpts=PTS+gte(N\\,50)*5/TB+gte(N\\,99)*8/TB";
    let even: &[&str] = &[];
    let (longer, late) = (sound("sine=d=12:r=44100"), sound("sine=d=9:r=44100"));
    let cases: [Odd<'_>; 5] = [
        ("longer sound", even, &longer, "", 75),
        ("no sound", even, even, "", 75),
        ("an uneven rate", even, &["-fps_mode", "vfr"], uneven, 37),
        ("a picture that comes late", &["-itsoffset", "5"], &late, "", 75),
        (
            "sound that comes late",
            even,
            &["-itsoffset", "5", "-f", "lavfi", "-i", "sine=d=4:r=44100", "-c:a", "aac"],
            "",
            75,
        ),
    ];
    for ending in ["mkv", "mp4", "mov", "ts", "flv", "nut", "avi", "webm", "wmv", "live.mkv"] {
        for (what, before, behind, filter, frames) in &cases {
            let name = format!("{what}.{ending}");
            let coder: &[&str] = match ending {
                "webm" => &["-c:v", "libvpx", "-b:v", "300k"],
                "wmv" => &["-c:v", "wmv2", "-b:v", "300k"],
                _ => X264,
            };
            let mut args = [*before, &["-f", "lavfi", "-i", picture], behind, coder].concat();
            match ending {
                "webm" if behind.contains(&"aac") => args.extend(["-c:a", "libvorbis"]),
                "wmv" if behind.contains(&"aac") => args.extend(["-c:a", "wmav2"]),
                "live.mkv" => args.extend(["-live", "1"]),
                _ => {}
            }
            if !filter.is_empty() {
                args.extend(["-vf", filter]);
            }
            let file = folder.path().join(&name);
            make(&args, &file);
            if ending == "ts" && dies_of(&file) {
                continue;
            }
            let read = plain(&tools, &file).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(
                read.frames.len() >= 100 && read.late.is_empty(),
                "{name}: {} {:?}",
                read.frames.len(),
                read.late
            );
            let part = read_part(&tools, &file, ReadOptions::default(), span(0.5, 3.5));
            let part = part.unwrap_or_else(|e| panic!("part of {name}: {e}"));
            assert!(part.frames.len().abs_diff(*frames) <= 1, "{name}: {}", part.frames.len());
        }
    }
}

#[test]
fn an_edit_that_leaves_out_both_ends_is_a_whole_film() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let file = film(folder.path(), "a.mov", &["-c:a", "aac"]);
    for (name, args) in [
        ("start.mp4", &["-ss", "3.5"][..]),
        ("end.mp4", &["-t", "5.3"]),
        ("both.mov", &["-ss", "1.3", "-t", "4.7"]),
        ("both.mkv", &["-ss", "1.3", "-t", "4.7"]),
        ("both.ts", &["-ss", "1.3", "-t", "4.7"]),
    ] {
        let edited = folder.path().join(name);
        make(&[args, &["-i", file.to_str().unwrap(), "-c", "copy"]].concat(), &edited);
        if name.ends_with("ts") && dies_of(&edited) {
            continue;
        }
        let read = plain(&tools, &edited).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(read.late.is_empty() && read.frames.len() > 100, "{name}: {}", read.frames.len());
    }
}

#[test]
fn a_part_in_front_of_the_cut_is_used_and_one_that_reaches_it_is_refused() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    for (name, codec, says) in
        CONTAINERS.iter().filter(|(name, ..)| ["a.flv", "mute.avi", "a.wmv"].contains(name))
    {
        assert!(*says == All);
        let file = film(folder.path(), name, codec);
        let bytes = std::fs::metadata(&file).unwrap().len() as usize;
        let file = cut(&file, bytes * 6 / 10);
        let part = |from, to| read_part(&tools, &file, ReadOptions::default(), span(from, to));
        let front = part(1.0, 3.0).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(front.frames.len(), 50, "{name}");
        let error = part(1.0, 9.0).err().unwrap_or_else(|| panic!("{name} is cut"));
        let words = error.to_string();
        assert!(words.contains("--damaged keep"), "{name}: {words}");
    }
}
