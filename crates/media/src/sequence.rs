//! Folders of pictures as clips, read and written without ffmpeg.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use remaster_picture::exr::ExrInfo;
use remaster_picture::{Frame, Kind, Layout, PictureError, PictureInfo, StillFormat, StillInfo, still};

use crate::child::Stop;
use crate::clip::{Format, FrameSink, FrameSource};
use crate::colour::{Colour, Said};
use crate::decode::ReadOptions;
use crate::error::MediaError;
use crate::excerpt::Excerpt;
use crate::kind::{OutputKind, written_as};
use crate::natural::natural;
use crate::nut::TimeBase;
use crate::place::PartialFile;
use crate::span::Span;

/// Whether the file at `path` is a still by what is in it, or claims to be one by its name. Streams of JPEGs and
/// animations begin like stills; their names tell them apart.
pub fn is_still(path: &Path) -> bool {
    let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    if matches!(ending.as_str(), "mjpeg" | "mjpg" | "apng") {
        return false;
    }
    StillFormat::of_ending(path).is_some() || still::sniff(path).is_ok_and(|format| format.is_some())
}

/// Light as a display would be told: the sRGB curve, which goes on below 0 and above 1.
fn encoded(light: f32) -> f32 {
    let x = light.abs();
    let y = if x <= 0.003_130_8 { 12.92 * x } else { 1.055 * x.powf(1.0 / 2.4) - 0.055 };
    y.copysign(light)
}

/// The way back.
fn light(encoded: f32) -> f32 {
    let y = encoded.abs();
    let x = if y <= 0.040_45 { y / 12.92 } else { ((y + 0.055) / 1.055).powf(2.4) };
    x.copysign(encoded)
}

/// The colours of every pixel, without alpha.
fn map(frame: &mut Frame, curve: fn(f32) -> f32) {
    for pixel in frame.data.chunks_exact_mut(frame.channels) {
        pixel[..3].iter_mut().for_each(|v| *v = curve(*v));
    }
}

fn read(path: &Path, most: u64) -> Result<(Frame, PictureInfo), MediaError> {
    let failed = |source| MediaError::Picture { path: path.to_owned(), source };
    let (mut frame, info) = still::read(path, most).map_err(failed)?;
    if let PictureInfo::Exr(_) = info {
        map(&mut frame, encoded);
    }
    Ok((frame, info))
}

fn write(path: &Path, frame: &Frame, format: StillFormat, info: &PictureInfo) -> Result<(), MediaError> {
    let written = if format == StillFormat::Exr {
        let mut frame = frame.clone();
        map(&mut frame, light);
        still::write(path, &frame, format, info)
    } else {
        still::write(path, frame, format, info)
    };
    written.map_err(|source| MediaError::Picture { path: path.to_owned(), source })
}

/// Curves and primaries of a `cICP` chunk, by number, in ffmpeg's words.
fn cicp_words(cicp: [u8; 4]) -> (Option<&'static str>, Option<&'static str>) {
    let primaries = match cicp[0] {
        1 => Some("bt709"),
        9 => Some("bt2020"),
        12 => Some("smpte432"),
        _ => None,
    };
    let transfer = match cicp[1] {
        1 => Some("bt709"),
        8 => Some("linear"),
        13 => Some("iec61966-2-1"),
        16 => Some("smpte2084"),
        18 => Some("arib-std-b67"),
        _ => None,
    };
    (primaries, transfer)
}

/// The pictures of a folder in natural order, and notes about files that were left out. EXRs are read on their own:
/// `exr` chooses between them and all other kinds.
fn listed(folder: &Path, exr: bool) -> Result<(Vec<PathBuf>, Vec<String>), MediaError> {
    let failed = |source| MediaError::Open { path: folder.to_owned(), source };
    let (mut paths, mut left_out) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (name, path) = (entry.file_name(), entry.path());
        if name.as_encoded_bytes().starts_with(b".") || !path.is_file() {
            continue;
        }
        let named = StillFormat::of_ending(&path);
        match still::sniff(&path).map_err(|source| MediaError::Picture { path: path.clone(), source })? {
            Some(format) if (format == StillFormat::Exr) == exr => paths.push(path),
            Some(_) => left_out += 1,
            // Called a picture but not one: found now, not in the middle of a run.
            None if named.is_some() => {
                let reason = "it is named like an image but is not one; remove it or get it again";
                return Err(MediaError::unreadable(&path, reason));
            }
            None => {}
        }
    }
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_owned();
    paths.sort_by(|a, b| natural(&name(a), &name(b)));
    let notes = match (left_out, exr) {
        (0, _) => Vec::new(),
        (n, false) => vec![format!("skipped what is EXR ({n}); use --exr to read only that")],
        (n, true) => vec![format!("skipped what is not EXR ({n}); read it without --exr")],
    };
    Ok((paths, notes))
}

/// Pictures in natural order of their names.
pub struct Pictures {
    paths: Vec<PathBuf>,
    format: Format,
    info: PictureInfo,
    notes: Vec<String>,
    first: Option<Frame>,
    next: usize,
    /// What is taken from the number of a picture, so that a part starts at 0.
    shift: i64,
    most: u64,
    stop: Stop,
}

impl Pictures {
    /// One picture, or all pictures of a folder, shown at `rate` frames per second. The first one says what the
    /// others must be. EXRs are only read if that is asked for: their light becomes the sRGB curve. Reading a picture
    /// may take `most` bytes.
    pub fn open(
        path: &Path,
        rate: TimeBase,
        options: ReadOptions,
        most: u64,
        stop: Stop,
    ) -> Result<Self, MediaError> {
        let (paths, mut notes) =
            if path.is_dir() { listed(path, options.exr)? } else { (vec![path.to_owned()], Vec::new()) };
        let Some(first) = paths.first() else {
            let kind =
                if options.exr { "an EXR" } else { "a PNG, JPEG, WebP, TIFF or BMP; --exr reads EXRs" };
            return Err(MediaError::unreadable(path, format!("it is a folder without {kind}")));
        };
        let (frame, mut info) = read(first, most)?;
        if let PictureInfo::Still(info) = &mut info {
            let name = first.file_name().unwrap_or_default().to_string_lossy().into_owned();
            notes.extend(info.notes.drain(..).map(|note| format!("{name}: {note}")));
            if path.is_dir() && (info.exif.take().is_some() | info.xmp.take().is_some()) {
                notes.push("EXIF and XMP of images in a folder are not copied".into());
            }
        }
        let (depth, cicp) = match &info {
            PictureInfo::Still(info) => (if info.depth > 8 { 16 } else { 8 }, info.cicp),
            PictureInfo::Exr(_) => (16, None),
        };
        let layout = Layout { kind: Kind::Packed, depth, alpha: frame.channels == 4 };
        let (primaries, transfer) = cicp.map_or((None, None), cicp_words);
        let said = Said { range: Some("pc"), primaries, transfer, ..Said::default() };
        let colour = Colour::new(said, &layout, [frame.width, frame.height]);
        if colour.is_hdr() && !options.keep_hdr {
            return Err(MediaError::Hdr { path: first.clone(), transfer: colour.transfer.value });
        }
        let format = Format::even([frame.width, frame.height], layout, colour, rate);
        let format = Format { frames: Some(paths.len()), ..format };
        Ok(Pictures { paths, format, info, notes, first: Some(frame), next: 0, shift: 0, most, stop })
    }

    /// Only a part of them. Pictures outside it are not read, but for the first of all.
    pub fn within(mut self, span: Span) -> Result<Self, MediaError> {
        if span.is_whole() {
            return Ok(self);
        }
        let length = self.format.time_base.seconds(self.paths.len() as i64);
        let folder = self.paths.first().and_then(|p| p.parent()).unwrap_or(Path::new("")).to_owned();
        span.check(&folder, Some(length))?;
        let ticks = span.counted(self.format.time_base);
        let count = self.paths.len();
        let at = |tick: i64| usize::try_from(tick.max(0)).unwrap_or(count).min(count);
        let (first, end) = (at(ticks.first), ticks.end.map_or(count, at));
        if first >= end {
            return Err(span.empty(&folder, Some(length)));
        }
        self.shift = ticks.shift;
        Ok(self.cut(first, end))
    }

    /// Only the pictures from `first` to `end`, both counted in all of them.
    fn cut(mut self, first: usize, end: usize) -> Self {
        if first > self.next {
            self.first = None;
        }
        self.paths.truncate(end);
        self.next = first;
        self.format.frames = Some(end - first);
        self
    }

    /// Only some of them, with the times that they have among all. Others are not read, but for the first of all.
    pub fn excerpt(self, excerpt: Excerpt) -> Result<Self, MediaError> {
        let (from, to) = (self.next, self.paths.len());
        let at = |pts: i64| usize::try_from(pts.saturating_add(self.shift)).ok();
        let first = match excerpt.first {
            None => from,
            Some(pts) => at(pts).filter(|i| (from..to).contains(i)).ok_or_else(|| excerpt.missing())?,
        };
        let end = excerpt.end.map_or(to, |pts| at(pts).unwrap_or(0).clamp(first, to));
        Ok(self.cut(first, end))
    }

    /// Notes about what was left out.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the first picture says about itself, and what those that will be read are called.
    pub fn originals(&self) -> Originals {
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_owned();
        let names = self.paths.get(self.next..).unwrap_or_default().iter().map(name).collect();
        Originals { info: self.info.clone(), names }
    }
}

/// What written pictures are like: descriptions and names.
#[derive(Clone, Debug)]
pub struct Originals {
    /// What the first picture says about itself.
    pub info: PictureInfo,
    /// File names in order.
    pub names: Vec<OsString>,
}

/// Bytes of a file's name on the usual file systems.
const LONGEST_NAME: usize = 255;

impl Originals {
    /// The names of these pictures with another ending, all different.
    fn renamed(&self, folder: &Path, ending: &str) -> Result<Vec<OsString>, MediaError> {
        let refused = |reason: String| Err(MediaError::Place { path: folder.to_owned(), reason });
        let mut taken: HashMap<OsString, &OsStr> = HashMap::with_capacity(self.names.len());
        let mut names = Vec::with_capacity(self.names.len());
        for original in &self.names {
            let path = Path::new(original);
            // What is not an ending of pictures is part of the name: `shot.0001`.
            let stem = StillFormat::of_ending(path).and_then(|_| path.file_stem()).unwrap_or(original);
            let mut name = stem.to_owned();
            name.push(".");
            name.push(ending);
            let shown = Path::new(original).display();
            if name.len() > LONGEST_NAME {
                return refused(format!("the name of {shown} is too long for .{ending}; make it shorter"));
            }
            if let Some(other) = taken.insert(name.clone(), original) {
                let other = Path::new(other).display();
                let both = Path::new(&name).display();
                return refused(format!("{other} and {shown} would both become {both}; rename one of them"));
            }
            names.push(name);
        }
        Ok(names)
    }
}

impl FrameSource for Pictures {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        if self.stop.is_stopped() {
            return Err(MediaError::Cancelled);
        }
        let Some(path) = self.paths.get(self.next) else { return Ok(None) };
        let picture = match self.first.take() {
            Some(first) => first,
            None => read(path, self.most)?.0,
        };
        let Format { width, height, .. } = self.format;
        if (picture.width, picture.height) != (width, height) {
            return Err(MediaError::SizeChange { path: path.clone(), frame: self.next });
        }
        if picture.channels != self.format.channels() {
            let reason = "it has alpha and the first picture has none, or the other way round";
            return Err(MediaError::unreadable(path, reason));
        }
        *frame = picture;
        self.next += 1;
        Ok(Some(self.next as i64 - 1 - self.shift))
    }
}

/// Writes pictures: a folder of PNGs or EXRs, or one of any kind.
pub struct PictureWriter {
    path: PathBuf,
    part: PartialFile,
    is_folder: bool,
    kind: StillFormat,
    info: PictureInfo,
    /// Of the files in a folder; without them they are numbered.
    names: Option<Vec<OsString>>,
    notes: Vec<String>,
    written: usize,
}

impl PictureWriter {
    /// `path` ends as a still does for one picture; otherwise it is a folder that does not exist yet, which gets EXRs
    /// if EXRs came in and PNGs if not. What is written says what the pictures it is `like` said, and has their names.
    pub fn create(
        path: &Path,
        format: &Format,
        like: Option<&Originals>,
        overwrite: bool,
    ) -> Result<Self, MediaError> {
        let (named, originals) = (written_as(path), like);
        let like = originals.map(|originals| &originals.info);
        let kind = match (named, like) {
            (Some(kind), _) => kind,
            (None, Some(PictureInfo::Exr(_))) => StillFormat::Exr,
            (None, _) => StillFormat::Png,
        };
        if format.layout.alpha && !kind.has_alpha() {
            return Err(MediaError::cannot_hold(path, "alpha", "write .png, .webp or .tif"));
        }
        let depth = if format.layout.depth > 8 { 16 } else { 8 };
        let mut notes = Vec::new();
        if depth > 8 && !kind.is_deep() {
            notes.push(format!("{} has 8 bits: reducing 16 bits to 8", kind.name()));
        }
        let info = match (kind, like.cloned()) {
            (StillFormat::Exr, Some(info @ PictureInfo::Exr(_))) => info,
            (StillFormat::Exr, like) => {
                notes.extend(lost(like.as_ref(), kind));
                PictureInfo::Exr(ExrInfo::default())
            }
            (_, Some(PictureInfo::Still(info))) => {
                let info = PictureInfo::Still(StillInfo { depth, ..info });
                notes.extend(lost(Some(&info), kind));
                info
            }
            (_, _) => PictureInfo::Still(StillInfo::srgb(depth)),
        };
        let is_folder = OutputKind::of(path) == Some(OutputKind::Folder);
        let names = match originals {
            Some(originals) if is_folder => Some(originals.renamed(path, ending(kind))?),
            _ => None,
        };
        let part = PartialFile::beside(path, overwrite && !is_folder)?;
        if is_folder {
            remaster_disk::make_folders(part.path()).map_err(|source| MediaError::writing(path, source))?;
        }
        Ok(PictureWriter { path: path.to_owned(), part, is_folder, kind, info, names, notes, written: 0 })
    }

    /// The name of the next file in a folder.
    fn name(&self) -> Result<OsString, MediaError> {
        let Some(names) = &self.names else {
            return Ok(format!("{:06}.{}", self.written, ending(self.kind)).into());
        };
        let more = || MediaError::broken("the output", "it has more frames than the input has pictures");
        names.get(self.written).cloned().ok_or_else(more)
    }

    /// Notes about what the files cannot hold.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// How files in a folder end.
fn ending(kind: StillFormat) -> &'static str {
    if kind == StillFormat::Exr { "exr" } else { "png" }
}

fn lost(info: Option<&PictureInfo>, kind: StillFormat) -> Option<String> {
    let Some(PictureInfo::Still(info)) = info else { return None };
    let lost = info.lost_in(kind);
    (!lost.is_empty()).then(|| format!("{} cannot store {}: dropped", kind.name(), lost.join(" and ")))
}

impl FrameSink for PictureWriter {
    fn write(&mut self, frame: &Frame, _pts: i64) -> Result<(), MediaError> {
        if !self.is_folder && self.written > 0 {
            let hint = "write to a folder or a video file";
            return Err(MediaError::cannot_hold(&self.path, "more than one frame", hint));
        }
        let to = match self.is_folder {
            true => self.part.path().join(self.name()?),
            false => self.part.path().to_owned(),
        };
        // Names that differ here can be one on a disk that ignores case.
        if self.is_folder && to.symlink_metadata().is_ok() {
            let name = to.file_name().unwrap_or_default();
            let reason = format!("this disk takes {} for another file; rename one of them", name.display());
            return Err(MediaError::Place { path: self.path.clone(), reason });
        }
        write(&to, frame, self.kind, &self.info).map_err(|e| match e {
            // The name of the part is internal.
            MediaError::Picture { source: PictureError::Write { source, .. }, .. } => {
                MediaError::writing(&self.path, source)
            }
            MediaError::Picture { source, .. } => MediaError::Picture { path: self.path.clone(), source },
            e => e,
        })?;
        self.written += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        self.part.put()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_goes_through_the_curve_and_back() {
        for value in [-2.0f32, -0.5, -1e-4, 0.0, 1e-4, 0.0031308, 0.18, 0.5, 1.0, 7.5, 100.0] {
            let back = light(encoded(value));
            assert!((back - value).abs() <= 2e-6 * value.abs().max(1.0), "{value} became {back}");
        }
        assert!((encoded(0.18) - 0.461_356).abs() < 1e-5);
    }
}
