//! The same clips decoded by every version of ffmpeg: the same frames at the same times.
//!
//! `REMASTER_FFMPEGS` names folders with an ffmpeg in each, as `.ci/ffmpegs` prints them.

use std::path::{Path, PathBuf};

use crate::common::{clip, media, read};
use remaster_media::{Deinterlace, ReadOptions, Secrets, Stop, Tools};

/// FNV-1a.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// An MP4 whose pictures are to be turned: the matrix of its track header is put in by hand, since versions of ffmpeg
/// differ in how they are asked to.
fn rotated(folder: &Path) -> PathBuf {
    let mut bytes = std::fs::read(media("fullrange_709.mp4")).unwrap();
    let at = bytes.windows(4).position(|w| w == b"tkhd").unwrap() + 4 + 40;
    let quarter: [i32; 9] = [0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30];
    for (i, n) in quarter.iter().enumerate() {
        bytes[at + 4 * i..at + 4 * i + 4].copy_from_slice(&n.to_be_bytes());
    }
    let path = folder.join("rotated.mp4");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
#[ignore = "ffmpegs: several versions, which REMASTER_FFMPEGS names"]
fn every_version_gives_the_same_frames_at_the_same_times() {
    let others = std::env::var("REMASTER_FFMPEGS").expect("REMASTER_FFMPEGS names folders with an ffmpeg");
    let mut programs = vec![PathBuf::from("ffmpeg")];
    programs.extend(others.split_whitespace().map(|folder| Path::new(folder).join("ffmpeg")));
    assert!(programs.len() > 1, "there is no other version in {others:?}");

    let folder = tempfile::tempdir().unwrap();
    let h264 = ["-c:v", "libx264", "-bf", "2"];
    let h264 = clip(folder.path(), "h264.mp4", "testsrc2=s=160x96:r=25:d=1", &h264);
    let film = "testsrc2=s=96x480:r=24000/1001:d=3,scroll=h=0.01,telecine=first_field=top:pattern=23";
    let film = clip(folder.path(), "film.mkv", film, &["-r", "30000/1001", "-c:v", "ffv1"]);
    let keep = ReadOptions { keep_hdr: true, ..ReadOptions::default() };
    let double = ReadOptions { deinterlace: Deinterlace::Double, ..keep.clone() };
    let clips = [
        (h264, keep.clone()),
        (media("hdr10_hevc10.mp4"), keep.clone()),
        (media("interlaced_sar_mpeg2.mpg"), keep.clone()),
        (media("interlaced_sar_mpeg2.mpg"), double),
        (media("ffv1_gbr.mkv"), keep.clone()),
        // Of other ProRes files newer versions know colours that older ones do not.
        (media("prores4444_alpha.mov"), keep.clone()),
        (media("vp9_alpha.webm"), keep.clone()),
        (media("vfr.mkv"), keep.clone()),
        (film, keep.clone()),
        (rotated(folder.path()), keep.clone()),
    ];
    for (clip, options) in clips {
        let mut answers = Vec::new();
        for program in &programs {
            let tools = Tools::find(Some(program), Stop::never(), Secrets::default()).unwrap();
            assert_eq!(tools.note(), None);
            let found = read(&tools, &clip, options.clone()).unwrap_or_else(|e| panic!("{program:?}: {e}"));
            let values = found.frames.iter().flat_map(|f| &f.data).flat_map(|v| v.to_le_bytes());
            let seconds: Vec<i64> = found.seconds().iter().map(|s| (s * 1e6).round() as i64).collect();
            let f = found.format;
            answers.push((hash(values), seconds, f.width, f.height, f.rate, f.frames, f.hdr, found.notes));
        }
        for (program, answer) in programs.iter().zip(&answers) {
            assert_eq!(answer, &answers[0], "{} with {}", clip.display(), program.display());
        }
    }
}
