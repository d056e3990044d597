//! Clips made on the spot, and what a decoder gives for them.

use std::path::{Path, PathBuf};
use std::process::Command;

use remaster_media::{
    Colour, Decoder, Deinterlace, Format, FrameSink, FrameSource, MediaError, ReadOptions, Said, Secrets,
    Span, Stop, TimeBase, Tools, Y4mWriter, probe,
};
use remaster_picture::{Frame, Layout, StillInfo, png};

/// The ffmpeg under test: `REMASTER_FFMPEG`, or the one of the system.
pub(crate) fn tools() -> Tools {
    let path = std::env::var_os("REMASTER_FFMPEG").map(PathBuf::from);
    Tools::find(path.as_deref(), Stop::never(), Secrets::default()).unwrap()
}

pub(crate) fn media(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/media").join(name)
}

/// Makes a file with the system's ffmpeg.
pub(crate) fn make(args: &[&str], file: &Path) {
    let mut command = Command::new("ffmpeg");
    let out = command.args(["-v", "error", "-nostdin", "-y"]).args(args).arg(file).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// A clip of what a source of ffmpeg gives.
pub(crate) fn clip(folder: &Path, name: &str, source: &str, coder: &[&str]) -> PathBuf {
    let path = folder.join(name);
    make(&[&["-f", "lavfi", "-i", source], coder].concat(), &path);
    path
}

/// Whether the ffmpeg under test dies of any MPEG-TS, as static builds do whose C library cannot load its tables of
/// characters.
pub(crate) fn dies_of(file: &Path) -> bool {
    let program = std::env::var_os("REMASTER_FFMPEG").unwrap_or_else(|| "ffmpeg".into());
    let mut command = Command::new(program);
    command.args(["-v", "quiet", "-nostdin", "-i"]).arg(file).args(["-f", "null", "-"]);
    // By a signal, or by an exception of Windows.
    let dies = command.status().unwrap().code().is_none_or(|code| code as u32 >> 24 == 0xC0);
    if dies {
        remaster_testkit::no_part("mpegts", &file.display().to_string(), "this ffmpeg dies of MPEG-TS");
    }
    dies
}

/// A script that stands in for ffmpeg, with an ffprobe beside it.
#[cfg(unix)]
pub(crate) fn script(folder: &Path, ffmpeg: &str) -> PathBuf {
    for (name, text) in [("ffmpeg", ffmpeg), ("ffprobe", "exec ffprobe \"$@\"")] {
        remaster_testkit::program(&folder.join(name), &format!("#!/bin/sh\n{text}\n"));
    }
    folder.join("ffmpeg")
}

/// Everything a decoder gives.
pub(crate) struct Read {
    pub(crate) format: Format,
    pub(crate) notes: Vec<String>,
    pub(crate) late: Vec<String>,
    pub(crate) times: Vec<i64>,
    pub(crate) frames: Vec<Frame>,
}

impl Read {
    /// Seconds of each frame.
    pub(crate) fn seconds(&self) -> Vec<f64> {
        let base = self.format.time_base;
        self.times.iter().map(|t| *t as f64 * base.num as f64 / base.den as f64).collect()
    }
}

pub(crate) fn read(tools: &Tools, file: &Path, options: ReadOptions) -> Result<Read, MediaError> {
    read_part(tools, file, options, Span::default())
}

/// The same for a part of the file.
pub(crate) fn read_part(
    tools: &Tools,
    file: &Path,
    options: ReadOptions,
    span: Span,
) -> Result<Read, MediaError> {
    let mut decoder = Decoder::open(tools, &probe(tools, file)?.within(span)?, options)?;
    let notes = decoder.notes().to_vec();
    let read = all(&mut decoder)?;
    Ok(Read { notes, late: decoder.late().take(), ..read })
}

/// All frames of a source.
pub(crate) fn all(source: &mut dyn FrameSource) -> Result<Read, MediaError> {
    let (mut times, mut frames) = (Vec::new(), Vec::new());
    let mut frame = Frame::new(0, 0, 3);
    while let Some(pts) = source.next(&mut frame)? {
        times.push(pts);
        frames.push(frame.clone());
    }
    Ok(Read { format: source.format().clone(), notes: Vec::new(), late: Vec::new(), times, frames })
}

/// What ffprobe says of a file, with commas between.
pub(crate) fn ask(file: &Path, args: &[&str]) -> String {
    let out = Command::new("ffprobe").args(["-v", "error", "-of", "csv=p=0"]).args(args).arg(file).output();
    String::from_utf8(out.unwrap().stdout).unwrap()
}

/// 25 frames per second.
pub(crate) const RATE: TimeBase = TimeBase { num: 25, den: 1 };

/// Frames that are each a hundredth brighter than the one before, as a y4m file and as a folder of pictures.
pub(crate) fn greys(folder: &Path, count: usize) -> (PathBuf, PathBuf) {
    let (file, pictures) = (folder.join("a.y4m"), folder.join("pictures"));
    std::fs::create_dir(&pictures).unwrap();
    let layout = Layout::from_name("rgb24").unwrap();
    let colour = Colour::new(Said { range: Some("pc"), ..Said::default() }, &layout, [8, 8]);
    let format = Format::even([8, 8], layout, colour, RATE);
    let mut writer = Box::new(Y4mWriter::create(Some((file.clone(), false)), &format).unwrap());
    for i in 0..count {
        let grey = Frame { data: vec![i as f32 / 100.0; 8 * 8 * 3], ..Frame::new(8, 8, 3) };
        writer.write(&grey, i as i64).unwrap();
        let bytes = png::encode(&grey, &StillInfo::srgb(8)).unwrap();
        std::fs::write(pictures.join(format!("{i}.png")), bytes).unwrap();
    }
    writer.finish().unwrap();
    (file, pictures)
}

/// From one time to another, in seconds.
pub(crate) fn span(start: f64, end: f64) -> Span {
    let time = |seconds: f64| Some(std::time::Duration::from_secs_f64(seconds));
    Span::new(time(start), time(end))
}

pub(crate) fn filtered(filters: &str) -> ReadOptions {
    ReadOptions { filters: Some(filters.into()), ..ReadOptions::default() }
}

pub(crate) fn deinterlaced(how: Deinterlace) -> ReadOptions {
    ReadOptions { deinterlace: how, ..ReadOptions::default() }
}

/// Mean of the absolute differences of two frames.
pub(crate) fn distance(a: &Frame, b: &Frame) -> f32 {
    assert_eq!(a.data.len(), b.data.len());
    a.data.iter().zip(&b.data).map(|(x, y)| (x - y).abs()).sum::<f32>() / a.data.len() as f32
}
