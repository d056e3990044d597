//! Encoders and options that a plan may hold.

use serde::{Deserialize, Serialize};

use super::value::Value::{self, Flags, Number, Numbers, Or, Params, Samples};
use super::{AskedError, Encoding, unlisted};
use crate::words::Words;

const ENCODERS: Words = Words(
    "libx264 libx264rgb libx265 libvpx libvpx-vp9 libaom-av1 libsvtav1 librav1e ffv1 ffvhuff huffyuv \
    utvideo prores_ks prores_aw prores dnxhd mpeg2video mpeg4 libxvid mjpeg v210 h264_nvenc hevc_nvenc \
    av1_nvenc h264_qsv hevc_qsv av1_qsv h264_amf hevc_amf av1_amf h264_videotoolbox hevc_videotoolbox",
);

const PRESETS: &str = "ultrafast superfast veryfast faster fast medium slow slower veryslow placebo \
    p1 p2 p3 p4 p5 p6 p7 hq default";

const TUNES: &str = "film animation grain stillimage psnr ssim fastdecode zerolatency hq ll ull lossless vq \
    vmaf_without_preprocessing";

const PROFILES: &str = "baseline main high high10 high422 high444 high444p main10 main12 main422-10 \
    main444-8 main444-10 mainstillpicture rext auto proxy lt standard hq 4444 4444xq dnxhd dnxhr_lb \
    dnxhr_sq dnxhr_hq dnxhr_hqx dnxhr_444";

const TAGS: &str = "hvc1 hev1 avc1 av01 vp09 apch apcn apcs apco ap4h ap4x mp4v xvid XVID";

/// Threads. `--encoder-threads` has the same range.
const THREADS: (i64, i64) = (0, 64);

/// Frames that an encoder looks ahead, and holds in memory: as many as x264 and x265 take.
const AHEAD: (i64, i64) = (-1, 250);

/// Frames from one key frame to the next: no encoder keeps them.
const INTERVAL: (i64, i64) = (-1, 1_000_000);

/// Bits in a second, or for a buffer.
const BITS: (i64, i64) = (0, i32::MAX as i64);

/// The same in thousands.
const KILOBITS: (i64, i64) = (0, 1_000_000);

/// Quantisers and qualities.
const QUALITY: (i64, i64) = (-1, 255);

/// Shares, weights, modes and switches that only change how bits are spent.
const PLAIN: (i64, i64) = (-1000, 1000);

/// Parameters of x264 and x265 that are numbers or words. Those that name files are not among them: `film-grain` is a file
/// for x265.
const PARAMS: Value = Params(&[
    ("threads lookahead-threads pools", THREADS.0, THREADS.1),
    ("frame-threads bframes ref", -1, 16),
    ("sliced-threads wpp pmode pme", 0, 1),
    ("slices lookahead-slices", 0, 256),
    ("rc-lookahead sync-lookahead", AHEAD.0, AHEAD.1),
    ("keyint min-keyint", INTERVAL.0, INTERVAL.1),
    ("merange", 0, 512),
    ("mvrange", -1, 65_536),
    ("nr slice-max-size", 0, 100_000),
    ("crf crf-max qp qpmin qpmax", QUALITY.0, QUALITY.1),
    ("bitrate vbv-maxrate vbv-bufsize", KILOBITS.0, KILOBITS.1),
    (
        "scenecut b-adapt b-bias b-pyramid open-gop qpstep vbv-init ratetol ipratio pbratio ip-factor \
        pb-factor chroma-qp-offset cbqpoffs crqpoffs aq-mode aq-strength aq-motion qcomp cplxblur qblur \
        mbtree cutree me subme psy psy-rd psy-rdoq rdoq-level rd rd-refine trellis fast-pskip dct-decimate \
        nr-intra nr-inter deadzone-inter deadzone-intra deblock partitions direct weightb weightp \
        mixed-refs chroma-me 8x8dct cabac interlaced tff bff nal-hrd filler level level-idc profile ctu \
        min-cu-size max-tu-size rect amp early-skip fast-intra b-intra limit-refs limit-modes limit-tu \
        tu-intra-depth tu-inter-depth max-merge strong-intra-smoothing constrained-intra sao \
        sao-non-deblock limit-sao signhide tskip info hash hrd hdr10 hdr10-opt repeat-headers aud \
        const-vbv rskip rskip-edge-threshold qg-size hevc-aq lossless cu-lossless tune preset",
        PLAIN.0,
        PLAIN.1,
    ),
]);

/// The same of SVT-AV1 and libaom.
const AV1_PARAMS: Value = Params(&[
    ("lp", THREADS.0, THREADS.1),
    ("lookahead", AHEAD.0, AHEAD.1),
    ("keyint", -2, INTERVAL.1),
    ("crf qp", QUALITY.0, QUALITY.1),
    ("tbr mbr", KILOBITS.0, KILOBITS.1),
    ("tile-rows tile-columns arnr-maxframes", -1, 64),
    (
        "aq-mode scm tune lossless preset enable-qm qm-min qm-max film-grain film-grain-denoise \
        enable-overlays enable-tf enable-cdef enable-restoration enable-variance-boost \
        variance-boost-strength variance-octile sharpness scd fast-decode irefresh-type rc enable-dlf \
        enable-mfmv deltaq-mode enable-chroma-deltaq quant-b-adapt arnr-strength enable-fwd-kf \
        disable-trellis-quant denoise-noise-level",
        PLAIN.0,
        PLAIN.1,
    ),
]);

/// Names of options and what their value may be. ffmpeg refuses those that an encoder does not know.
const OPTIONS: &[(&str, Value)] = &[
    ("threads", Number(THREADS.0, THREADS.1)),
    ("rc-lookahead rc_lookahead look_ahead_depth lag-in-frames", Number(AHEAD.0, AHEAD.1)),
    ("bf refs arnr-maxframes", Number(-1, 16)),
    ("slices", Number(0, 256)),
    ("tile-columns tile-rows tile_columns tile_rows", Number(-1, 64)),
    ("g keyint_min", Number(INTERVAL.0, INTERVAL.1)),
    ("b maxrate minrate bufsize", Number(BITS.0, BITS.1)),
    ("crf qp cq cq-level qmin qmax qdiff", Number(QUALITY.0, QUALITY.1)),
    ("me_range", Number(-1, 512)),
    ("bits_per_mb", Number(0, 8192)),
    ("sc_threshold static-thresh", Number(-1_000_000_000, 1_000_000_000)),
    (
        "q qscale global_quality qcomp slicecrc context subq trellis aq-strength spatial-aq spatial_aq \
        temporal-aq temporal_aq psy look_ahead b_strategy weightb mixed-refs 8x8dct fast-pskip mbtree \
        cplxblur forced-idr bluray-compat cpu-used speed row-mt auto-alt-ref arnr-strength undershoot-pct \
        overshoot-pct frame-parallel enable-cdef enable-restoration enable-global-motion enable-intrabc \
        denoise-noise-level denoise-block-size lossless mbs_per_slice alpha_bits compression_level \
        intra_vlc non_linear_quant dc allow_sw",
        Number(PLAIN.0, PLAIN.1),
    ),
    ("coder", Or("rice range_def range_tab ac cavlc cabac vlc default auto")),
    ("level", Or("auto")),
    ("profile", Or(PROFILES)),
    ("preset", Or(PRESETS)),
    ("tune", Or(TUNES)),
    ("pix_fmt", Samples),
    ("motion-est", Or("dia hex umh esa tesa")),
    ("aq-mode", Or("none variance autovariance autovariance-biased complexity cyclic")),
    ("aq_mode", Or("none variance complexity cyclic")),
    ("psy-rd deblock", Numbers(PLAIN.0, PLAIN.1)),
    ("tiles", Numbers(0, 64)),
    ("rc", Or("constqp vbr cbr cqp vbr_latency vbr_peak qvbr")),
    ("b_ref_mode", Or("disabled each middle")),
    ("multipass", Or("disabled qres fullres")),
    ("b-pyramid", Or("none strict normal")),
    ("weightp", Or("none simple smart")),
    ("nal-hrd", Or("none vbr cbr")),
    ("deadline", Or("best good realtime")),
    ("quality", Or("best good realtime speed balanced")),
    ("arnr-type", Or("backward forward centered")),
    ("usage", Or("good realtime allintra transcoding")),
    ("tune-content", Or("default screen film")),
    ("vendor", Or("apl0")),
    ("quant_mat", Or("auto default proxy lt standard hq")),
    ("pred", Or("left plane gradient median none")),
    ("mbd", Or("simple bits rd")),
    ("flags", Flags("cgop bitexact ilme ildct qpel mv4 loop gray low_delay global_header")),
    ("tag vtag", Or(TAGS)),
    (
        "movflags",
        Flags("faststart write_colr frag_keyframe empty_moov default_base_moof negative_cts_offsets"),
    ),
    ("x264-params x264opts x265-params", PARAMS),
    ("svtav1-params aom-params", AV1_PARAMS),
];

/// An encoder and options that a plan may hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ListedEncoding(Encoding);

impl ListedEncoding {
    /// The same as what a person typed.
    pub fn encoding(&self) -> Encoding {
        self.0.clone()
    }
}

impl TryFrom<&Encoding> for ListedEncoding {
    type Error = AskedError;

    fn try_from(encoding: &Encoding) -> Result<Self, AskedError> {
        if !ENCODERS.has(&encoding.name) {
            return Err(unlisted("encoder", &encoding.name));
        }
        for [option, value] in &encoding.options {
            let name = option.strip_prefix('-').unwrap_or_default();
            let (base, stream) =
                name.split_once(':').map_or((name, None), |(base, stream)| (base, Some(stream)));
            let known = OPTIONS.iter().find(|(names, _)| Words(names).has(base));
            let Some((_, kind)) = known.filter(|_| matches!(stream, None | Some("v" | "v:0"))) else {
                return Err(unlisted("encoder option", option));
            };
            if !kind.takes(value) {
                return Err(unlisted("value", value));
            }
        }
        Ok(ListedEncoding(encoding.clone()))
    }
}

impl TryFrom<String> for ListedEncoding {
    type Error = AskedError;

    fn try_from(text: String) -> Result<Self, AskedError> {
        ListedEncoding::try_from(&Encoding::typed(&text)?)
    }
}

impl From<ListedEncoding> for String {
    fn from(listed: ListedEncoding) -> Self {
        listed.0.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_encoders_are_listed_and_those_that_open_files_are_not() {
        let listed = |text: &str| ListedEncoding::try_from(text.to_owned());
        for good in [
            "libx264 -crf 12 -preset medium -tune film -g 250 -b:v 0 -pix_fmt yuv420p",
            "libx265 -crf 14 -preset slow -x265-params aq-mode=3:no-sao=1:deblock=-1,-1 -tag:v hvc1",
            "libvpx-vp9 -crf 18 -b:v 0 -row-mt 1 -cpu-used 2 -deadline good",
            "libaom-av1 -crf 20 -cpu-used 4 -tiles 2x2",
            "libsvtav1 -crf 20 -preset 6 -svtav1-params tune=0:film-grain=8",
            "ffv1 -level 3 -g 1 -slices 16 -slicecrc 1",
            "prores_ks -profile:v 4444 -alpha_bits 16",
            "dnxhd -profile:v dnxhr_hq",
            "mpeg2video -q:v 2 -flags +ilme+ildct -movflags +faststart",
            "libx264 -threads 64 -x264-params keyint=900:rc-lookahead=60:ref=16",
            "libx265 -b:v 20M -maxrate 40M -bufsize 80M -threads 0",
        ] {
            assert_eq!(String::from(listed(good).unwrap()), good);
        }
        for bad in [
            "libx264 -x264-params stats=/victim",
            "libx264 -x264-params crf=12:log-file=/victim",
            "libx264 -x264opts cqmfile=/victim",
            "libx264 -x264opts opencl=1:opencl-clbin=/victim",
            "libx265 -x265-params csv=/victim",
            "libx265 -x265-params film-grain=8",
            "libx265 -x265-params analysis-save=/victim",
            "libx264 -passlogfile /victim",
            "libx264 -pass 1",
            "libx264 -stats /victim",
            "libx264 -fpre /victim",
            "libx264 -bsf:v h264_metadata",
            "libx264 -crf:a 12",
            "libx264 -preset /victim",
            "libx264 -threads 100000",
            "libx264 -threads 65",
            "libx264 -threads -1",
            "libx264 -threads:v:0 1k",
            "libx264 -x264-params threads=100000",
            "libx264 -x264-params lookahead-threads=1000",
            "libx264 -x264-params rc-lookahead=2500",
            "libx265 -x265-params pools=100000",
            "libx265 -x265-params pools=64,64,64,64,64,64,64,64,64",
            "libx265 -x265-params frame-threads=1000",
            "libx265 -x265-params vbv-bufsize=999999999",
            "libsvtav1 -svtav1-params lp=100000",
            "libaom-av1 -tiles 1000x1000",
            "libaom-av1 -lag-in-frames 100000",
            "libx264 -refs 500",
            "ffv1 -slices 100000",
            "libx264 -level 999999",
            "libx264 -metadata a=b",
            "ffv1 -y /victim.mkv -c:v ffv1",
            "rawvideo",
            "libtheora",
        ] {
            assert!(listed(bad).is_err(), "{bad}");
        }
    }
}
