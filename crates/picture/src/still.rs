//! Still pictures in files: one door for all formats.
//!
//! A file is what its first bytes say, whatever its name is. Its header is read first and refused if the picture would
//! take more memory than the caller allows. Pictures come upright: the orientation in EXIF is applied and reset.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Seek};
use std::path::Path;

use crate::coding::{Coding, Matrix, Range, Siting};
use crate::error::PictureError;
use crate::exr::ExrInfo;
use crate::file::{of_file, write_whole};
use crate::frame::{Frame, upright};
use crate::{bmp, exif, exr, jpeg, png, tiff, webp};

/// Most bytes of one colour profile, EXIF or XMP block: larger ones are not read.
pub(crate) const MAX_BLOCK: usize = 16 << 20;

/// What a decoder makes of a file.
pub(crate) type Decoded = Result<(Frame, StillInfo), PictureError>;

/// Bytes that tell the formats apart.
const HEAD: usize = 18;

/// A file format of still pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StillFormat {
    /// 8 bits, lossy.
    Jpeg,
    /// 8 or 16 bits, lossless.
    Png,
    /// 8 bits; written lossless.
    WebP,
    /// 8 or 16 bits, lossless.
    Tiff,
    /// 8 bits; read only.
    Bmp,
    /// Linear floats.
    Exr,
}

/// The formats as people call them, and the usual endings of their files.
const FORMATS: [(StillFormat, &str, &[&str]); 6] = [
    (StillFormat::Jpeg, "JPEG", &["jpg", "jpeg", "jpe", "jfif"]),
    (StillFormat::Png, "PNG", &["png"]),
    (StillFormat::WebP, "WebP", &["webp"]),
    (StillFormat::Tiff, "TIFF", &["tif", "tiff"]),
    (StillFormat::Bmp, "BMP", &["bmp", "dib"]),
    (StillFormat::Exr, "EXR", &["exr"]),
];

impl StillFormat {
    /// The endings of files that can be written, for messages.
    pub const WRITTEN: &str = ".png, .jpg, .webp, .tif or .exr";

    /// The usual endings, whether the format can be written or only read.
    pub fn of_ending(path: &Path) -> Option<StillFormat> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        FORMATS.iter().find(|(.., endings)| endings.contains(&&*ending)).map(|(format, ..)| *format)
    }

    /// What the first bytes of a file say; 18 of them are enough.
    pub fn of_bytes(head: &[u8]) -> Option<StillFormat> {
        let at = |from: usize, bytes: &[u8]| head.get(from..).is_some_and(|rest| rest.starts_with(bytes));
        // "BM" alone begins many files; behind it a bitmap has the size of its header.
        let bitmap = at(0, b"BM")
            && head.get(14..18).is_some_and(|n| bmp::HEADERS.iter().any(|h| n == h.to_le_bytes()));
        Some(match () {
            () if at(0, b"\xff\xd8\xff") => StillFormat::Jpeg,
            () if at(0, b"\x89PNG\r\n\x1a\n") => StillFormat::Png,
            () if at(0, b"RIFF") && at(8, b"WEBP") => StillFormat::WebP,
            () if at(0, b"II*\0") || at(0, b"MM\0*") || at(0, b"II+\0") || at(0, b"MM\0+") => {
                StillFormat::Tiff
            }
            () if bitmap => StillFormat::Bmp,
            () if at(0, b"\x76\x2f\x31\x01") => StillFormat::Exr,
            () => return None,
        })
    }

    /// As people call it.
    pub fn name(self) -> &'static str {
        FORMATS.iter().find(|(format, ..)| *format == self).map_or("", |(_, name, _)| name)
    }

    /// Whether files of this format can hold 16 bits per sample.
    pub fn is_deep(self) -> bool {
        matches!(self, StillFormat::Png | StillFormat::Tiff | StillFormat::Exr)
    }

    /// Whether files of this format can hold alpha.
    pub fn has_alpha(self) -> bool {
        !matches!(self, StillFormat::Jpeg | StillFormat::Bmp)
    }
}

/// What a picture of whole-number samples says about itself besides its pixels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StillInfo {
    /// Bits of a value in the file: 1, 2, 4, 8 or 16. Written are 8 and 16.
    pub depth: u32,
    /// Whether it is transparent somewhere. What is written has alpha if the frame has.
    pub alpha: bool,
    /// Whether it is grey. Written is always RGB.
    pub gray: bool,
    /// Primaries, transfer, matrix (0) and full range of a PNG's `cICP` chunk, as in H.273. It outranks all below.
    pub cicp: Option<[u8; 4]>,
    /// The colour profile, if it is one for RGB. It outranks all below.
    pub icc: Option<Vec<u8>>,
    /// The rendering intent of a PNG's `sRGB` chunk, which says that the colours are sRGB. It outranks those below.
    pub srgb: Option<u8>,
    /// A PNG's `gAMA` chunk, times 100000.
    pub gamma: Option<u32>,
    /// A PNG's `cHRM` chunk: x and y of white, red, green and blue, times 100000.
    pub chromaticities: Option<[u32; 8]>,
    /// The EXIF block, from its byte order mark on.
    pub exif: Option<Vec<u8>>,
    /// The XMP packet.
    pub xmp: Option<Vec<u8>>,
    /// Notes about what of the file was left out.
    pub notes: Vec<&'static str>,
}

impl StillInfo {
    /// For a file of `depth` bits in sRGB.
    pub fn srgb(depth: u32) -> StillInfo {
        StillInfo { depth, srgb: Some(0), ..StillInfo::default() }
    }

    /// A `cICP` chunk can say that codes have limited range.
    pub(crate) fn coding(&self) -> Coding {
        let range = if self.cicp.is_some_and(|c| c[3] == 0) { Range::Limited } else { Range::Full };
        Coding { matrix: Matrix::Rgb, range, siting: Siting::Centre }
    }

    /// Keeps a profile that fits what is written, which is always RGB.
    pub(crate) fn keep_icc(&mut self, profile: Option<Vec<u8>>) {
        let Some(profile) = profile.filter(|p| !p.is_empty()) else { return };
        if profile.get(16..20) == Some(b"RGB ") {
            self.icc = Some(profile);
        } else {
            self.notes.push("its colour profile is not one for RGB and is dropped");
        }
    }

    /// What a file of `format` cannot hold of this.
    pub fn lost_in(&self, format: StillFormat) -> Vec<&'static str> {
        let jpeg_limit =
            |block: &Option<Vec<u8>>, most: usize| block.as_ref().is_some_and(|b| b.len() > most);
        let bare = matches!(format, StillFormat::Exr | StillFormat::Bmp);
        let too_long = format == StillFormat::Jpeg;
        let mut lost = Vec::new();
        if self.icc.is_some() && bare {
            lost.push("the colour profile");
        }
        if self.exif.is_some() && (bare || too_long && jpeg_limit(&self.exif, jpeg::MAX_EXIF)) {
            lost.push("EXIF");
        }
        if self.xmp.is_some() && (bare || too_long && jpeg_limit(&self.xmp, jpeg::MAX_XMP)) {
            lost.push("XMP");
        }
        let chunks = self.cicp.is_some() || self.gamma.is_some() || self.chromaticities.is_some();
        if chunks && format != StillFormat::Png {
            lost.push("the colour description in PNG chunks");
        }
        lost
    }
}

/// What a picture says about itself besides its pixels.
#[derive(Clone, Debug, PartialEq)]
pub enum PictureInfo {
    /// Of whole-number samples.
    Still(StillInfo),
    /// Of linear floats.
    Exr(ExrInfo),
}

/// What the file at `path` begins with. Only ordinary files are looked into: others could keep a reader waiting.
pub fn sniff(path: &Path) -> Result<Option<StillFormat>, PictureError> {
    Ok(open(path)?.2)
}

fn open(path: &Path) -> Result<(BufReader<File>, u64, Option<StillFormat>), PictureError> {
    let failed = |source| PictureError::Read { path: path.to_owned(), source };
    let mut file = remaster_disk::read_named(path).map_err(failed)?;
    let stored = file.metadata().map_err(failed)?.len();
    let mut head = Vec::with_capacity(HEAD);
    file.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(failed)?;
    file.rewind().map_err(failed)?;
    Ok((BufReader::with_capacity(1 << 16, file), stored, StillFormat::of_bytes(&head)))
}

/// The picture in the file at `path`, upright. Reading it may take `most` bytes.
pub fn read(path: &Path, most: u64) -> Result<(Frame, PictureInfo), PictureError> {
    let (reader, stored, format) = open(path)?;
    decode_from(reader, stored, format, most).map_err(of_file(path))
}

/// The picture in the bytes of a file, upright. Reading it may take `most` bytes.
pub fn decode(bytes: &[u8], most: u64) -> Result<(Frame, PictureInfo), PictureError> {
    decode_from(Cursor::new(bytes), bytes.len() as u64, StillFormat::of_bytes(bytes), most)
}

fn decode_from(
    reader: impl BufRead + Seek,
    stored: u64,
    format: Option<StillFormat>,
    most: u64,
) -> Result<(Frame, PictureInfo), PictureError> {
    let (frame, mut info, turned) = match format {
        Some(StillFormat::Exr) => {
            let (frame, info) = exr::decode_from(reader, stored, most)?;
            return Ok((frame, PictureInfo::Exr(info)));
        }
        Some(StillFormat::Tiff) => tiff::decode_from(reader, stored, most)?,
        Some(StillFormat::Png) => told_by_exif(png::decode_from(reader, stored, most)?),
        Some(StillFormat::Jpeg) => told_by_exif(jpeg::decode_from(reader, most)?),
        Some(StillFormat::WebP) => told_by_exif(webp::decode_from(reader, most)?),
        Some(StillFormat::Bmp) => told_by_exif(bmp::decode_from(reader, stored, most)?),
        None => {
            let reason = "it is not a JPEG, PNG, WebP, TIFF, BMP or EXR".into();
            return Err(PictureError::Damaged { format: "picture", reason });
        }
    };
    info.exif = info.exif.and_then(exif::settled);
    info.xmp = info.xmp.map(exif::settled_xmp);
    Ok((upright(frame, turned), PictureInfo::Still(info)))
}

/// The orientation is in the EXIF block.
fn told_by_exif((frame, info): (Frame, StillInfo)) -> (Frame, StillInfo, u32) {
    let turned = info.exif.as_deref().map_or(1, exif::orientation);
    (frame, info, turned)
}

/// `frame` as a file of `format` at `path`, which appears whole or not at all. See [`encode`].
pub fn write(
    path: &Path,
    frame: &Frame,
    format: StillFormat,
    info: &PictureInfo,
) -> Result<(), PictureError> {
    write_whole(path, &encode(frame, format, info)?)
}

/// `frame` as the bytes of a file of `format`, in the depth of `info` as far as the format has it, with what `info`
/// says as far as the format can hold it: see [`StillInfo::lost_in`].
pub fn encode(frame: &Frame, format: StillFormat, info: &PictureInfo) -> Result<Vec<u8>, PictureError> {
    frame.check()?;
    if frame.channels == 4 && !format.has_alpha() {
        return Err(PictureError::Alpha { what: format!("the picture for a {} file", format.name()) });
    }
    let mut still = match (format, info) {
        (StillFormat::Exr, PictureInfo::Exr(info)) => return exr::encode(frame, info),
        (StillFormat::Exr, PictureInfo::Still(_)) => return exr::encode(frame, &ExrInfo::default()),
        (_, PictureInfo::Still(info)) => info.clone(),
        (_, PictureInfo::Exr(_)) => StillInfo::srgb(16),
    };
    still.exif = still.exif.map(|block| exif::resized(block, [frame.width, frame.height]));
    if !format.is_deep() {
        still.depth = 8;
    }
    if format != StillFormat::Png {
        // Only PNG can say that codes have limited range.
        still.cicp = None;
    }
    match format {
        StillFormat::Jpeg => jpeg::encode(frame, &still),
        StillFormat::Png => png::encode(frame, &still),
        StillFormat::WebP => webp::encode(frame, &still),
        StillFormat::Tiff => tiff::encode(frame, &still),
        StillFormat::Bmp | StillFormat::Exr => Err(PictureError::Unwritten { format: format.name() }),
    }
}
