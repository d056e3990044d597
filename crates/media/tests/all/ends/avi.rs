//! AVI, whose headers, indexes and chunks each say how long it is.

use std::process::Command;

use super::{cut, plain, with_damage};
use crate::common::{clip, make, tools};
use remaster_media::MediaError;

/// The chunks of a file with one RIFF and their places, lists opened.
fn chunks(bytes: &[u8]) -> Vec<([u8; 4], usize, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at + 8 <= bytes.len() {
        let name: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
        let size = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        if &name == b"RIFF" || &name == b"LIST" {
            at += 12;
            continue;
        }
        found.push((name, at, size));
        at += 8 + size + size % 2;
    }
    found
}

pub(super) fn video(bytes: &[u8]) -> Vec<(usize, usize)> {
    chunks(bytes).into_iter().filter(|(name, ..)| name == b"00dc").map(|(_, at, size)| (at, size)).collect()
}

#[test]
fn half_an_avi_that_ends_between_two_chunks_is_refused_with_both_numbers() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let file = clip(folder.path(), "l.avi", "testsrc2=s=32x32:r=25:d=60", &["-c:v", "mpeg4", "-q:v", "5"]);
    let bytes = std::fs::read(&file).unwrap();
    let half = cut(&file, video(&bytes)[750].0);
    let error = plain(&tools, &half).err().unwrap();
    assert!(matches!(error, MediaError::Truncated { got: 750, stated: 1500, .. }), "{error}");
    let read = with_damage(&tools, &half).unwrap();
    assert_eq!(read.frames.len(), 750);
    assert_eq!(read.late, ["the input is cut off: 750 frames decoded"]);
    // Its last chunk is missing, and the index behind it.
    let last = cut(&file, video(&bytes)[1499].0);
    let error = plain(&tools, &last).err().unwrap();
    assert!(matches!(error, MediaError::Truncated { got: 1499, stated: 1500, .. }), "{error}");
    // Only the index is missing: all frames are there.
    let index = chunks(&bytes).iter().find(|(name, ..)| name == b"idx1").unwrap().1;
    for end in [index, index + 8, index + 1000] {
        let read = plain(&tools, &cut(&file, end)).unwrap();
        assert_eq!((read.frames.len(), read.late.len()), (1500, 0), "{end}");
    }
}

#[test]
fn an_avi_whose_sound_lacks_its_end_is_refused() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let file = folder.path().join("a.avi");
    let picture = ["-f", "lavfi", "-i", "testsrc2=s=32x32:r=25:d=2", "-c:v", "mjpeg"];
    make(&[&["-f", "lavfi", "-i", "sine=d=9:r=8000", "-c:a", "pcm_s16le"], &picture[..]].concat(), &file);
    let bytes = std::fs::read(&file).unwrap();
    let sound = chunks(&bytes).iter().rev().find(|(name, ..)| name.ends_with(b"wb")).unwrap().1;
    let error = plain(&tools, &cut(&file, sound)).err().unwrap();
    assert!(matches!(error, MediaError::CutOff { .. }), "{error}");
}

#[test]
fn dropped_frames_are_empty_chunks_and_not_missing() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    // A tenth of the frames, one by one, and the last two seconds but for one frame.
    let drop = "select='mod(n\\,10)*lt(n\\,200)+eq(n\\,249)'";
    let coder = ["-vf", drop, "-fps_mode", "passthrough", "-c:v", "mpeg4", "-q:v", "5"];
    let file = clip(folder.path(), "a.avi", "testsrc2=s=32x32:r=25:d=10", &coder);
    let bytes = std::fs::read(&file).unwrap();
    let empty = video(&bytes).iter().filter(|(_, size)| *size == 0).count();
    assert_eq!((video(&bytes).len(), empty), (250, 69));
    let read = plain(&tools, &file).unwrap();
    assert_eq!((read.frames.len(), read.late.len(), read.format.frames), (181, 0, Some(181)));
    let error = plain(&tools, &cut(&file, video(&bytes)[230].0)).err().unwrap();
    assert!(matches!(error, MediaError::Truncated { got: 230, stated: 250, .. }), "{error}");
}

#[test]
fn a_header_that_is_wrong_by_some_or_says_nothing_is_no_fault_of_a_whole_file() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let coder = ["-c:v", "mpeg4", "-q:v", "5"];
    let file = clip(folder.path(), "a.avi", "testsrc2=s=32x32:r=25:d=10", &coder);
    let bytes = std::fs::read(&file).unwrap();
    let place = |name: &[u8; 4]| chunks(&bytes).iter().find(|(found, ..)| found == name).unwrap().1 + 8;
    let (avih, strh) = (place(b"avih") + 16, place(b"strh") + 32);
    for (stated, fits) in
        [(0u32, true), (252, true), (254, true), (1 << 30, true), (u32::MAX, true), (500, false)]
    {
        let mut changed = bytes.clone();
        for at in [avih, strh] {
            changed[at..at + 4].copy_from_slice(&stated.to_le_bytes());
        }
        std::fs::write(&file, changed).unwrap();
        match plain(&tools, &file) {
            Ok(read) => assert!(fits && read.frames.len() == 250, "{stated}: {}", read.frames.len()),
            Err(MediaError::Truncated { got: 250, stated: 500, .. }) => assert!(!fits),
            Err(error) => panic!("{stated}: {error}"),
        }
    }
    // To a pipe ffmpeg writes neither sizes nor numbers nor an index.
    let source = ["-v", "error", "-f", "lavfi", "-i", "testsrc2=s=32x32:r=25:d=10"];
    let piped = Command::new("ffmpeg").args(source).args(coder).args(["-f", "avi", "-"]).output().unwrap();
    std::fs::write(&file, piped.stdout).unwrap();
    assert_eq!(plain(&tools, &file).unwrap().frames.len(), 250);
}
