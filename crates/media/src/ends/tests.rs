//! Headers made to do harm: none may reach a panic, hold more than the file, or take long.

use std::io::Cursor;

use remaster_testkit::hostile::attack;

use super::gaps::Gap;
use super::places::Places;
use super::{Fault, asf, avi, flv, mp4, rm, ts};
use crate::child::Stop;

const ALLOWED: usize = 8 << 20;

fn places(bytes: &[u8]) -> Places {
    let length = bytes.len() as u64;
    Places::of(Box::new(Cursor::new(bytes.to_vec())), length, &Stop::never(), 4096)
}

/// A file of a few frames as ffmpeg writes it.
fn made(args: &[&str]) -> Vec<u8> {
    let source = ["-v", "error", "-f", "lavfi", "-i", "testsrc2=s=16x8:r=10:d=0.6"];
    let made = std::process::Command::new("ffmpeg").args(source).args(args).arg("-").output().unwrap();
    assert!(!made.stdout.is_empty(), "{args:?}");
    made.stdout
}

#[test]
fn headers_made_to_do_harm_end_in_an_answer() {
    let file = tempfile::NamedTempFile::with_suffix(".avi").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    made_at(&path, &["-c:v", "mpeg4"]);
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(avi::look(&mut places(&whole), 0).unwrap().chunks.unwrap().all, 6);
    let piped = made(&["-c:v", "mpeg4", "-f", "avi"]);
    attack("avi", &[whole, piped], ALLOWED, |bytes| {
        let _ = avi::look(&mut places(bytes), 0);
    });
    let fragments = made(&["-c:v", "mpeg4", "-f", "mp4", "-movflags", "frag_keyframe+empty_moov"]);
    assert!(mp4::look(&mut places(&fragments), mp4::ALL_BOXES).is_all);
    attack("mp4", &[fragments], ALLOWED, |bytes| {
        let _ = mp4::look(&mut places(bytes), mp4::ALL_BOXES);
    });
    let wmv = made(&["-c:v", "wmv2", "-f", "asf"]);
    assert_eq!(asf::look(&mut places(&wmv)), None);
    attack("asf", &[wmv], ALLOWED, |bytes| {
        let _ = asf::look(&mut places(bytes));
    });
    let tags = made(&["-c:v", "flv", "-f", "flv"]);
    let has = tags.len() as u64;
    assert_eq!(flv::look(&mut places(&tags)), None);
    // Some writers leave out the size of the last tag.
    assert_eq!(flv::look(&mut places(&tags[..tags.len() - 4])), None);
    let fault = Some(Fault::Bytes { has: has - 9, needs: has - 4 });
    assert_eq!(flv::look(&mut places(&tags[..tags.len() - 9])), fault);
    attack("flv", &[tags], ALLOWED, |bytes| {
        let _ = flv::look(&mut places(bytes));
    });
    let real = [&b".RMF\0\0\0\x12"[..], &[0; 10], b"DATA\0\0\0\x20", &[7; 24]].concat();
    assert_eq!(rm::look(&mut places(&real)), None);
    let fault = Some(Fault::Bytes { has: 33, needs: 50 });
    assert_eq!(rm::look(&mut places(&real[..33])), fault);
    attack("rm", &[real], ALLOWED, |bytes| {
        let _ = rm::look(&mut places(bytes));
    });
    let stream = made(&["-c:v", "mpeg2video", "-f", "mpegts"]);
    let gaps = [Gap { frame: 3, from: 1.5, to: 1.9 }];
    assert_eq!(ts::look(&mut places(&stream), 0x100, "mpeg2video", &gaps), None);
    attack("ts", &[stream], ALLOWED, |bytes| {
        let _ = ts::look(&mut places(bytes), 0x100, "mpeg2video", &gaps);
    });
}

fn made_at(path: &str, args: &[&str]) {
    let source = ["-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=s=16x8:r=10:d=0.6"];
    let done = std::process::Command::new("ffmpeg").args(source).args(args).arg(path).status().unwrap();
    assert!(done.success());
}

#[test]
fn what_is_behind_the_end_of_a_file_is_not_there() {
    let mut file = places(b"0123456789");
    assert_eq!(file.bytes::<4>(6), Some(*b"6789"));
    assert_eq!(file.bytes::<4>(2), Some(*b"2345"));
    for at in [7, 10, u64::MAX - 1, u64::MAX] {
        assert_eq!(file.bytes::<4>(at), None, "{at}");
    }
    assert_eq!(file.bytes::<4>(0), Some(*b"0123"));
    assert_eq!(file.bytes::<0>(10), Some([]));
}
