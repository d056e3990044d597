//! OpenDML: AVI of more than one RIFF.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use super::avi::video;
use super::plain;
use crate::common::{clip, tools};
use remaster_media::MediaError;

/// An OpenDML file with some frames in each of its RIFFs, the first of which is larger than a gigabyte: most of it is a hole.
struct OpenDml {
    file: std::fs::File,
    /// Where RIFFs and lists begin that are open.
    open: Vec<u64>,
    /// Where the second RIFF begins.
    second: u64,
}

impl OpenDml {
    fn put(&mut self, bytes: &[u8]) {
        self.file.write_all(bytes).unwrap();
    }

    fn at(&mut self) -> u64 {
        self.file.stream_position().unwrap()
    }

    fn begin(&mut self, name: &[u8], kind: &[u8]) {
        let at = self.at();
        self.open.push(at);
        self.put(&[name, &[0; 4], kind].concat());
    }

    fn end(&mut self) {
        let (from, at) = (self.open.pop().unwrap(), self.at());
        self.file.seek(SeekFrom::Start(from + 4)).unwrap();
        self.put(&((at - from - 8) as u32).to_le_bytes());
        self.file.seek(SeekFrom::Start(at)).unwrap();
    }

    fn chunk(&mut self, name: &[u8], data: &[u8]) {
        let size = (data.len() as u32).to_le_bytes();
        self.put(&[name, &size, data, &[0][..data.len() % 2]].concat());
    }

    /// Frames of a RIFF, and an index of them: its place.
    fn movie(&mut self, frames: &[&[u8]], hole: u32) -> u64 {
        self.begin(b"LIST", b"movi");
        let base = self.at();
        let mut entries = Vec::new();
        for (number, frame) in frames.iter().enumerate() {
            if number == frames.len() / 2 && hole > 0 {
                self.put(&[&b"JUNK"[..], &hole.to_le_bytes()].concat());
                self.file.seek(SeekFrom::Current(hole.into())).unwrap();
            }
            let at = (self.at() + 8 - base) as u32;
            entries.extend([at, frame.len() as u32].map(u32::to_le_bytes).concat());
            self.chunk(b"00dc", frame);
        }
        let index = self.at();
        let head = [&2u16.to_le_bytes()[..], &[0, 1], &(frames.len() as u32).to_le_bytes(), b"00dc"].concat();
        self.chunk(b"ix00", &[&head[..], &base.to_le_bytes(), &[0; 4], &entries].concat());
        self.end();
        index
    }

    fn make(path: &Path, frames: &[&[u8]], announced: u32) -> Self {
        let file = std::fs::File::create(path).unwrap();
        let mut avi = OpenDml { file, open: Vec::new(), second: 0 };
        let (first, second) = frames.split_at(frames.len() / 2);
        let number = |n: usize| (n as u32).to_le_bytes();
        avi.begin(b"RIFF", b"AVI ");
        avi.begin(b"LIST", b"hdrl");
        let numbers = |all: &[u32]| all.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        avi.chunk(b"avih", &numbers(&[40_000, 0, 0, 0x10, first.len() as u32, 0, 1, 0, 32, 32, 0, 0, 0, 0]));
        avi.begin(b"LIST", b"strl");
        let strh = numbers(&[0, 0, 0, 1, 25, 0, announced, 0, u32::MAX, 0, 0, 32 << 16 | 32]);
        avi.chunk(b"strh", &[&b"vidsMJPG"[..], &strh].concat());
        let strf =
            [&numbers(&[40, 32, 32, 24 << 16 | 1])[..], b"MJPG", &numbers(&[3072, 0, 0, 0, 0])].concat();
        avi.chunk(b"strf", &strf);
        let indx = avi.at() + 8 + 24;
        avi.chunk(b"indx", &[&4u16.to_le_bytes()[..], &[0, 0], &number(2), b"00dc", &[0; 12 + 32]].concat());
        avi.end();
        avi.begin(b"LIST", b"odml");
        avi.chunk(b"dmlh", &[&announced.to_le_bytes()[..], &[0; 244]].concat());
        avi.end();
        avi.end();
        let mut indexes = vec![avi.movie(first, 1_100_000_000)];
        avi.end();
        avi.second = avi.at();
        avi.begin(b"RIFF", b"AVIX");
        indexes.push(avi.movie(second, 0));
        avi.end();
        for (i, (place, half)) in indexes.iter().zip([first, second]).enumerate() {
            avi.file.seek(SeekFrom::Start(indx + 16 * i as u64)).unwrap();
            let size = number(8 + 24 + 8 * half.len());
            avi.put(&[&place.to_le_bytes()[..], &size, &number(half.len())].concat());
        }
        avi
    }
}

#[test]
fn opendml_files_of_more_than_a_gigabyte_are_counted_as_a_whole() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let source = clip(folder.path(), "a.avi", "testsrc2=s=32x32:r=25:d=4", &["-c:v", "mjpeg"]);
    let bytes = std::fs::read(source).unwrap();
    let frames: Vec<&[u8]> = video(&bytes).iter().map(|(at, size)| &bytes[at + 8..at + 8 + size]).collect();
    let path = folder.path().join("large.avi");
    let OpenDml { file, second, .. } = OpenDml::make(&path, &frames, 100);
    assert!(second > 1 << 30);
    let read = plain(&tools, &path).unwrap();
    assert_eq!((read.frames.len(), read.late.len()), (100, 0));
    // Without the second RIFF there is no end in the middle of anything.
    file.set_len(second).unwrap();
    let error = plain(&tools, &path).err().unwrap();
    assert!(matches!(error, MediaError::Truncated { got: 50, stated: 100, .. }), "{error}");
}
