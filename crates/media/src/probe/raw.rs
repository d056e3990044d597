//! What ffprobe writes, as far as it is read.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::error::MediaError;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawProbe {
    pub(super) streams: Vec<RawStream>,
    pub(super) format: RawFormat,
    pub(super) chapters: Vec<serde::de::IgnoredAny>,
}

impl RawProbe {
    /// The first stream that is video.
    pub(super) fn video(&self, path: &Path) -> Result<&RawStream, MediaError> {
        self.streams.iter().find(|s| s.codec_type == "video" && !s.is_cover()).ok_or_else(|| {
            let found: Vec<String> =
                self.streams.iter().take(16).map(|s| super::short(&s.codec_type)).collect();
            let found = if found.is_empty() { "nothing".into() } else { found.join(", ") };
            MediaError::NoVideo { path: path.to_owned(), found }
        })
    }
}

impl RawStream {
    pub(super) fn is_cover(&self) -> bool {
        self.disposition.get("attached_pic").is_some_and(|n| *n != 0)
    }
}

#[derive(Default, Deserialize)]
pub(crate) struct RawFormat {
    #[serde(default)]
    pub(super) format_name: String,
    pub(super) duration: Option<String>,
    #[serde(default)]
    pub(super) tags: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub(crate) struct RawStream {
    pub(super) index: usize,
    #[serde(default)]
    pub(super) codec_name: String,
    #[serde(default)]
    pub(super) codec_type: String,
    pub(super) profile: Option<String>,
    #[serde(default)]
    pub(super) width: u64,
    #[serde(default)]
    pub(super) height: u64,
    #[serde(default)]
    pub(super) pix_fmt: String,
    pub(super) sample_aspect_ratio: Option<String>,
    pub(super) field_order: Option<String>,
    pub(super) color_range: Option<String>,
    pub(super) color_space: Option<String>,
    pub(super) color_transfer: Option<String>,
    pub(super) color_primaries: Option<String>,
    pub(super) chroma_location: Option<String>,
    #[serde(default)]
    pub(super) time_base: String,
    pub(super) avg_frame_rate: Option<String>,
    pub(super) r_frame_rate: Option<String>,
    pub(super) start_time: Option<String>,
    pub(super) duration: Option<String>,
    /// Number in its container, as `0x100`.
    pub(super) id: Option<String>,
    pub(super) nb_frames: Option<String>,
    /// Packets of a small file.
    pub(super) nb_read_packets: Option<String>,
    #[serde(default)]
    pub(super) has_b_frames: u32,
    #[serde(default)]
    pub(super) tags: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) disposition: BTreeMap<String, u32>,
    #[serde(default)]
    pub(super) side_data_list: Vec<SideData>,
}

#[derive(Deserialize)]
pub(crate) struct SideData {
    #[serde(default)]
    pub(super) side_data_type: String,
    pub(super) rotation: Option<f64>,
    pub(super) red_x: Option<String>,
    pub(super) red_y: Option<String>,
    pub(super) green_x: Option<String>,
    pub(super) green_y: Option<String>,
    pub(super) blue_x: Option<String>,
    pub(super) blue_y: Option<String>,
    pub(super) white_point_x: Option<String>,
    pub(super) white_point_y: Option<String>,
    pub(super) min_luminance: Option<String>,
    pub(super) max_luminance: Option<String>,
    pub(super) max_content: Option<u32>,
    pub(super) max_average: Option<u32>,
}

#[derive(Deserialize)]
pub(crate) struct RawFrames {
    #[serde(default)]
    pub(super) frames: Vec<RawFrame>,
}

#[derive(Deserialize)]
pub(crate) struct RawFrame {
    pub(super) width: Option<u64>,
    pub(super) height: Option<u64>,
    pub(super) best_effort_timestamp: Option<i64>,
    #[serde(default)]
    pub(super) interlaced_frame: u32,
    #[serde(default)]
    pub(super) top_field_first: u32,
    #[serde(default)]
    pub(super) side_data_list: Vec<SideData>,
}
