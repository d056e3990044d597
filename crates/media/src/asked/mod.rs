//! Filters and encoders that ffmpeg is asked for. What a person types may be any of them. What stands in a plan, which
//! a stranger may have written, is from closed lists with checked values: nothing in it names a file, an address or a program.

mod encoders;
mod filters;
mod value;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::words::Words;

pub use encoders::ListedEncoding;
pub use filters::ListedFilters;

/// Bytes of filters or of an encoder with its options at most.
const MOST: usize = 16 << 10;

/// Words that are no encoder, or not one of the lists.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AskedError {
    /// Not an encoder and pairs of options and values.
    #[error("{word:?} {reason}")]
    Word {
        /// The word.
        word: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Something that a person may type and a plan may not hold.
    #[error("{what} {word:?} is not in the closed list of what a plan may hold")]
    Unlisted {
        /// A filter, an encoder, an option or a value.
        what: &'static str,
        /// Which.
        word: String,
    },
}

fn wrong(word: &str, reason: &'static str) -> AskedError {
    AskedError::Word { word: shown(word), reason }
}

fn unlisted(what: &'static str, word: &str) -> AskedError {
    AskedError::Unlisted { what, word: shown(word) }
}

fn shown(word: &str) -> String {
    word.chars().take(60).collect()
}

/// Options of ffmpeg without a value: the word behind one would be another output.
const WITHOUT_VALUE: Words = Words(
    "y n h L help version report hide_banner stats stdin shortest copyts start_at_zero xerror benchmark \
    benchmark_all dump hex re vn an sn dn accurate_seek autorotate autoscale bitexact copyinkf \
    ignore_unknown copy_unknown recast_media debug_ts find_stream_info fix_sub_duration intra psnr qphist \
    vstats",
);

/// Options of ffmpeg that are about inputs, outputs and other streams and not about an encoder.
const OF_OTHERS: Words = Words(
    "i f map map_metadata map_chapters map_channel attach dump_attachment filter filter_script \
    filter_complex filter_complex_script filter_complex_threads filter_threads lavfi vf af c codec vcodec \
    acodec scodec dcodec progress sdp_file vstats_file vstats_version init_hw_device filter_hw_device t to \
    ss sseof fs frames vframes target streamid loglevel v",
);

/// Names of codecs, which are not those of encoders. ffmpeg knows some, and takes for them whatever it finds first, which
/// differs from machine to machine.
const CODECS: [(&[&str], &str); 5] = [
    (&["h264", "h.264", "avc", "x264"], "is a codec; name its encoder: libx264"),
    (&["h265", "h.265", "hevc", "x265"], "is a codec; name its encoder: libx265"),
    (&["vp8"], "is a codec; name its encoder: libvpx"),
    (&["vp9"], "is a codec; name its encoder: libvpx-vp9"),
    (&["av1"], "is a codec; name its encoder: libsvtav1"),
];

/// An encoder and its options: a name and pairs, and nothing that would be another output or an option of ffmpeg itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Encoding {
    name: String,
    options: Vec<[String; 2]>,
}

impl Encoding {
    /// What a person typed, like `libx265 -crf 16`.
    pub fn typed(text: &str) -> Result<Self, AskedError> {
        if text.len() > MOST {
            return Err(wrong(text, "is too long"));
        }
        let mut words = text.split_whitespace();
        let name = words.next().ok_or_else(|| wrong("", "is no encoder"))?.to_owned();
        if name.starts_with('-')
            || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
        {
            return Err(wrong(&name, "is no encoder; its name comes first, as in 'libx264 -crf 16'"));
        }
        let is_one = |names: &[&str]| names.iter().any(|codec| codec.eq_ignore_ascii_case(&name));
        if let Some((_, reason)) = CODECS.iter().find(|(names, _)| is_one(names)) {
            return Err(wrong(&name, reason));
        }
        let mut options = Vec::new();
        while let Some(word) = words.next() {
            let option =
                word.strip_prefix('-').filter(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()));
            let Some(option) = option else {
                return Err(wrong(word, "belongs to no option of the encoder; write pairs like -crf 16"));
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':' | '.');
            let base = option.split(':').next().unwrap_or_default();
            let off = base.strip_prefix("no").unwrap_or(base);
            let other = WITHOUT_VALUE.has(base) || WITHOUT_VALUE.has(off) || OF_OTHERS.has(base);
            if other || !option.chars().all(plain) {
                return Err(wrong(word, "is no option of an encoder"));
            }
            let value = words.next().ok_or_else(|| wrong(word, "has no value"))?;
            options.push([word.to_owned(), value.to_owned()]);
        }
        Ok(Encoding { name, options })
    }

    /// The encoder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// In one way of writing it.
    pub fn text(&self) -> String {
        self.words().join(" ")
    }

    /// As words for ffmpeg.
    pub(crate) fn words(&self) -> Vec<String> {
        std::iter::once(self.name.clone()).chain(self.options.iter().flatten().cloned()).collect()
    }
}

impl std::str::FromStr for Encoding {
    type Err = AskedError;

    fn from_str(text: &str) -> Result<Self, AskedError> {
        Encoding::typed(text)
    }
}

impl TryFrom<String> for Encoding {
    type Error = AskedError;

    fn try_from(text: String) -> Result<Self, AskedError> {
        Encoding::typed(&text)
    }
}

impl From<Encoding> for String {
    fn from(encoding: Encoding) -> Self {
        encoding.text()
    }
}

/// Filters of ffmpeg, as a person typed them or from the closed lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filters(String);

impl Filters {
    /// What a person typed. It can be anything.
    pub fn typed(text: &str) -> Self {
        Filters(text.to_owned())
    }

    /// As it is written.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Filters {
    fn from(text: &str) -> Self {
        Filters::typed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_carries_no_other_output_and_no_option_of_ffmpeg() {
        let read = |text: &str| Encoding::typed(text).map(|e| e.text());
        let expected = "libx264 -crf 12 -x264-params:v:0 stats=/x";
        assert_eq!(read(" libx264  -crf 12 -x264-params:v:0 stats=/x ").unwrap(), expected);
        assert_eq!(read("libx264 -flags -cgop -b_qfactor -1").unwrap(), "libx264 -flags -cgop -b_qfactor -1");
        for (text, word) in [
            ("", "\"\""),
            ("-y", "\"-y\""),
            ("ffv1 -y /victim.mkv -c:v ffv1", "\"-y\""),
            ("h264", "libx264"),
            ("HEVC -crf 18", "libx265"),
            ("ffv1 /victim.mkv", "/victim.mkv"),
            ("ffv1 -crf 1 out.mkv", "out.mkv"),
            ("libx264 -crf -y /victim", "/victim"),
            ("libx264 -an out.mkv", "\"-an\""),
            ("libx264 -nostats out.mkv", "\"-nostats\""),
            ("libx264 -f matroska tcp://h:1", "\"-f\""),
            ("libx264 -i /etc/passwd", "\"-i\""),
            ("libx264 -/filter /etc/passwd", "-/filter"),
            ("libx264 -filter_complex:v movie=/x", "-filter_complex:v"),
            ("libx264 -", "\"-\""),
            ("libx264 -crf", "\"-crf\""),
            ("/bin/sh -c x", "/bin/sh"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
