//! Frames that a decoder may begin with in the middle of a film. What a container says of key frames is no proof: an index
//! may be lost or wrong. The codec or its decoder must say it.

use crate::probe::Video;
use crate::words::Words;

/// Codecs of which each frame stands alone. CineForm may have pairs; those before [`SETTLED`](crate::launch::SETTLED) are not used.
const ALONE: Words = Words(
    "prores prores_raw dnxhd cfhd mjpeg mjpegb jpegls jpeg2000 dvvideo huffyuv ffvhuff hymt utvideo magicyuv lagarith \
     sheervideo cllc hap dxv rawvideo v210 v210x v308 v408 v410 r10k r210 avrp avui ayuv y41p yuv4 012v png bmp tiff targa \
     targa_y216 dpx exr sgi pixlet speedhq media100 apv aic notchlc hq_hqa hqx asv1 asv2 amv thp",
);

/// Codecs whose decoders mark key frames, and of which no frame that is shown after one needs any before it. Frames of
/// other codecs, such as Dirac and AVS, may refer across.
const MARKED: Words = Words(
    "mpeg1video mpeg2video mpeg4 h263 flv1 msmpeg4v1 msmpeg4v2 msmpeg4v3 wmv1 wmv2 wmv3 vc1 rv10 rv20 rv30 rv40 svq1 svq3 \
     theora vp6 vp6f vp6a vp7 vp8 vp9 av1 hevc vvc ffv1",
);

/// A key frame. Decoders that mark none leave every frame marked in ffmpeg 5.1, but without a type.
const KEY: &str = "key*eq(pict_type,I)";

/// What shows that frames from some frame on are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Each frame stands alone.
    Alone,
    /// A key frame that the decoder marks.
    Key,
    /// The decoder gives nothing before a key frame.
    Withheld,
    /// A key frame that the decoder of H.264 marks, or a recovery point of the stream, before which it gives nothing. It also
    /// begins with an I frame that it takes for one, and frames behind that may refer to some before it.
    Recovery,
    /// Nothing: the film is decoded from its start.
    Start,
}

impl Entry {
    /// The proof that there is for frames of `video`.
    pub(crate) fn of(video: &Video) -> Self {
        match video.codec.as_str() {
            // The decoders of libvpx mark nothing.
            _ if video.decoder.is_some() => Entry::Withheld,
            // Where frames are not reordered, the decoder begins behind the I frame, which cannot be told from a recovery point.
            "h264" if video.is_reordered => Entry::Recovery,
            "h264" => Entry::Key,
            codec if ALONE.has(codec) => Entry::Alone,
            codec if MARKED.has(codec) => Entry::Key,
            _ => Entry::Start,
        }
    }

    /// A filter that lets nothing through before the first frame that is proven; `None` where every frame is. `settled` is when that
    /// one must have come, in seconds on the clock of the file. Half a second after it all frames are let through, so that the
    /// search has an end: the first one then shows that there was none.
    pub(crate) fn filter(self, settled: f64) -> Option<String> {
        let proven = match self {
            Entry::Alone | Entry::Withheld | Entry::Start => return None,
            Entry::Key => KEY.to_owned(),
            // The first frame of a recovery point is not of type I.
            Entry::Recovery => format!("{KEY}+eq(n,0)*not(eq(pict_type,I))"),
        };
        let late = settled + 0.5;
        Some(format!("select='if(ld(0),1,st(0,{proven}+gt(t,{late:.6})+isnan(t)))'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codec_is_in_one_list() {
        let both: Vec<&str> = ALONE.all().filter(|codec| MARKED.has(codec)).collect();
        assert!(both.is_empty() && !MARKED.has("h264") && !ALONE.has("h264"), "{both:?}");
    }

    #[test]
    fn the_search_for_a_frame_has_an_end() {
        for entry in [Entry::Key, Entry::Recovery] {
            let filter = entry.filter(16.5).unwrap();
            assert!(filter.contains("gt(t,17.000000)"), "{filter}");
        }
        for entry in [Entry::Alone, Entry::Withheld, Entry::Start] {
            assert_eq!(entry.filter(0.0), None);
        }
    }
}
