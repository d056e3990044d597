//! The packets of a file, as ffprobe lists them.

use std::ffi::OsString;
use std::path::Path;

use crate::child::Tools;
use crate::error::MediaError;
use crate::whitelist::opened;

/// Where the packets of a file end. Times are in seconds on its clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Packets {
    /// When the last packet of the video ends.
    pub(super) video_end: f64,
    /// When the last packet of any stream ends.
    pub(super) end: f64,
    /// Packets of the video that are shown later than its last frame.
    pub(super) later: usize,
}

impl Packets {
    /// Goes through the file at `path`, whose video is the stream `index` and has its last frame at `last`.
    pub(super) fn read(tools: &Tools, path: &Path, index: usize, last: f64) -> Result<Self, MediaError> {
        let entries = "packet=stream_index,pts_time,dts_time,duration_time,flags";
        let mut args: Vec<OsString> =
            ["-v", "error", "-show_entries", entries, "-of", "compact=p=0"].map(Into::into).into();
        args.extend(opened(path));
        let mut packets = Packets { video_end: f64::MIN, end: f64::MIN, later: 0 };
        tools.ffprobe_lines(&args, &mut |line| packets.add(line, index, last))?;
        Ok(packets)
    }

    fn add(&mut self, line: &str, index: usize, last: f64) {
        let field = |name: &str| line.split('|').find_map(|f| f.strip_prefix(name)?.strip_prefix('='));
        let number = |name| field(name).and_then(|text| text.trim().parse::<f64>().ok());
        let Some(shown) = number("pts_time").or_else(|| number("dts_time")) else { return };
        let end = shown + number("duration_time").unwrap_or(0.0);
        self.end = self.end.max(end);
        if field("stream_index").and_then(|text| text.parse::<usize>().ok()) != Some(index) {
            return;
        }
        self.video_end = self.video_end.max(end);
        // An edit leaves out what it marks so.
        let is_left_out = field("flags").is_some_and(|flags| flags.contains('D'));
        self.later += usize::from(shown > last && !is_left_out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_behind_the_last_frame_are_counted_without_those_that_an_edit_leaves_out() {
        let mut packets = Packets { video_end: f64::MIN, end: f64::MIN, later: 0 };
        for line in [
            "stream_index=0|pts_time=1.000000|dts_time=0.96|duration_time=0.040000|flags=K_",
            "stream_index=0|pts_time=1.080000|dts_time=1.0|duration_time=0.040000|flags=__",
            "stream_index=0|pts_time=1.120000|dts_time=1.04|duration_time=N/A|flags=_D_",
            "stream_index=0|pts_time=N/A|dts_time=1.16|duration_time=0.04|flags=__",
            "stream_index=1|pts_time=2.5|dts_time=2.5|duration_time=0.5|flags=K_",
            "",
            "stream_index=|pts_time=nonsense",
        ] {
            packets.add(line, 0, 1.01);
        }
        assert_eq!(packets, Packets { video_end: 1.2, end: 3.0, later: 2 });
    }
}
