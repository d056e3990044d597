//! Transport streams that lack packets in their midst.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{plain, with_damage};
use crate::common::{clip, dies_of, make, tools};
use remaster_media::MediaError;
use remaster_testkit::{Rng, nightly, not_run};

const PACKET: usize = 188;
const VIDEO: u16 = 0x100;

const MPEG2: &[&str] = &["-c:v", "mpeg2video", "-q:v", "4", "-bf", "2", "-g", "12"];
const H264: &[&str] =
    &["-c:v", "libx264", "-preset", "veryfast", "-g", "250", "-bf", "2", "-pix_fmt", "yuv420p"];

fn film(folder: &Path, name: &str, coder: &[&str]) -> Option<PathBuf> {
    let file = clip(folder, name, "testsrc2=s=64x48:r=25:d=6,scroll=h=0.01", coder);
    if dies_of(&file) {
        not_run(name, "this ffmpeg dies of MPEG-TS");
        return None;
    }
    Some(file)
}

/// Places at which pictures begin, and whether each can be decoded alone.
fn pictures(bytes: &[u8]) -> Vec<(usize, bool)> {
    let packets = bytes.chunks_exact(PACKET).enumerate();
    let of_video = packets.filter(|(_, p)| u16::from_be_bytes([p[1], p[2]]) & 0x1FFF == VIDEO);
    let starts = of_video.filter(|(_, p)| p[1] & 0x40 != 0);
    starts.map(|(i, p)| (i * PACKET, p[3] & 0x20 != 0 && p[4] > 0 && p[5] & 0x40 != 0)).collect()
}

/// Counters of all streams begin at 0 again, as they do in every file of a stream that is sent in pieces.
fn restarted(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut counters: BTreeMap<[u8; 2], u8> = BTreeMap::new();
    for packet in bytes.chunks_exact_mut(PACKET) {
        let next = counters.entry([packet[1] & 0x1F, packet[2]]).or_default();
        let has_data = packet[3] & 0x10 != 0;
        packet[3] = packet[3] & 0xF0 | if has_data { *next } else { next.wrapping_sub(1) & 15 };
        *next = (*next + u8::from(has_data)) & 15;
    }
    bytes
}

#[test]
fn pictures_that_are_lost_with_all_of_their_packets_are_missed() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let Some(file) = film(folder.path(), "a.ts", MPEG2) else { return };
    let whole = std::fs::read(&file).unwrap();
    let pictures = pictures(&whole);
    let key = pictures.iter().skip(20).position(|(_, is_key)| *is_key).unwrap() + 20;
    // Three pictures behind a key frame: no decoder complains, and all that refer to them are wrong.
    let (from, to) = (pictures[key + 1].0, pictures[key + 4].0);
    let lost = [&whole[..from], &whole[to..]].concat();
    let zeroed = [&whole[..from], &vec![0; to - from], &whole[to..]].concat();
    for (what, bytes) in [("lost", lost), ("overwritten", zeroed)] {
        std::fs::write(&file, &bytes).unwrap();
        let error = plain(&tools, &file).err().unwrap_or_else(|| panic!("{what}"));
        assert!(matches!(error, MediaError::Damaged { .. }), "{what}: {error}");
        assert!(
            error.to_string().contains("packets are missing: no frame is shown between "),
            "{what}: {error}"
        );
        let read = with_damage(&tools, &file).unwrap();
        assert_eq!((read.frames.len(), read.late.len()), (147, 1), "{what}: {:?}", read.late);
    }
}

#[test]
fn a_stream_that_was_joined_of_pieces_is_whole_and_one_that_jumps_gets_a_warning() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let coder = [MPEG2, &["-flags", "+cgop", "-sc_threshold", "1000000000"]].concat();
    let Some(file) = film(folder.path(), "a.ts", &coder) else { return };
    let whole = std::fs::read(&file).unwrap();
    let keys: Vec<usize> = pictures(&whole).iter().filter(|(_, key)| *key).map(|(at, _)| *at).collect();
    let pieces: Vec<Vec<u8>> = keys.windows(2).map(|w| restarted(&whole[w[0]..w[1]])).collect();
    let joined = [&whole[..keys[0]], &pieces.concat(), &whole[*keys.last().unwrap()..]].concat();
    std::fs::write(&file, joined).unwrap();
    let read = plain(&tools, &file).unwrap();
    assert_eq!((read.frames.len(), read.late.len()), (150, 0), "{:?}", read.late);
    // Somebody cut two seconds out between key frames.
    let (whole_frames, lost) = (150, pictures(&whole[keys[4]..keys[8]]).len());
    let jumps = [&whole[..keys[4]], &whole[keys[8]..]].concat();
    std::fs::write(&file, jumps).unwrap();
    let read = plain(&tools, &file).unwrap();
    assert_eq!(read.frames.len(), whole_frames - lost);
    assert_eq!(read.late.len(), 1, "{:?}", read.late);
    assert!(read.late[0].contains("packets are missing there, or the film was cut"), "{:?}", read.late);
}

#[test]
fn a_program_stream_that_lacks_pictures_gets_a_warning() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let args = [MPEG2, &["-c:a", "mp2"]].concat();
    let file = clip(folder.path(), "a.mpg", "testsrc2=s=64x48:r=25:d=6,scroll=h=0.01", &args);
    assert!(plain(&tools, &file).unwrap().late.is_empty());
    // Its packets have no counters: what is lost with all of it looks like a cut.
    let lacks = "setpts=PTS+gte(N\\,60)*0.2/TB";
    make(
        &[&["-f", "lavfi", "-i", "testsrc2=s=64x48:r=25:d=6", "-vf", lacks, "-fps_mode", "vfr"], &args[..]]
            .concat(),
        &file,
    );
    let read = plain(&tools, &file).unwrap();
    assert_eq!((read.frames.len(), read.late.len()), (150, 1), "{:?}", read.late);
    assert!(read.late[0].starts_with("no frame is shown between 2."), "{:?}", read.late);
}

/// A file with one kind of damage in its midst.
fn damaged(whole: &[u8], rng: &mut Rng) -> (Vec<u8>, String) {
    let mut bytes = whole.to_vec();
    let at = rng.between(whole.len() / 10, whole.len() * 8 / 10);
    let length = rng.pick(&[1, 100, 188, 400, 2000, 5000, whole.len() / 20, whole.len() / 10]);
    let end = (at + length).min(whole.len() * 9 / 10);
    let kind = rng.below(4);
    match kind {
        0 => drop(bytes.drain(at..end)),
        1 => bytes[at..end].fill(0),
        2 => bytes[at..end].fill_with(|| rng.bits() as u8),
        _ => {
            for _ in 0..rng.between(1, 30) {
                bytes[rng.between(at, end)] ^= 1 << rng.below(8);
            }
        }
    }
    (bytes, format!("kind {kind} from {at} to {end}"))
}

#[test]
fn no_frame_is_missing_in_the_midst_of_a_damaged_stream_without_a_word() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let mut rng = Rng::new(11);
    for (name, coder) in [("mpeg2.ts", MPEG2), ("h264.ts", H264)] {
        let Some(file) = film(folder.path(), name, coder) else { return };
        let whole = std::fs::read(&file).unwrap();
        for _ in 0..nightly(12, 200) {
            let (bytes, what) = damaged(&whole, &mut rng);
            std::fs::write(&file, bytes).unwrap();
            let Ok(read) = plain(&tools, &file) else { continue };
            let times = read.seconds();
            let gap = times.windows(2).find(|w| w[1] - w[0] > 0.06);
            assert!(gap.is_none() || !read.late.is_empty(), "{name}, {what}: no frame between {gap:?}");
        }
    }
}
