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

/// Parameters of x264 and x265 that are numbers or words. Those that name files are not among them: `film-grain` is a file
/// for x265.
const PARAMS: Value = Params(
    "keyint min-keyint scenecut bframes b-adapt b-bias b-pyramid open-gop ref crf qp bitrate qpmin qpmax \
    qpstep crf-max vbv-maxrate vbv-bufsize vbv-init ratetol ipratio pbratio ip-factor pb-factor \
    chroma-qp-offset cbqpoffs crqpoffs aq-mode aq-strength aq-motion qcomp cplxblur qblur mbtree cutree \
    rc-lookahead lookahead-slices lookahead-threads sync-lookahead me merange mvrange subme psy psy-rd \
    psy-rdoq rdoq-level rd rd-refine trellis fast-pskip dct-decimate nr nr-intra nr-inter deadzone-inter \
    deadzone-intra deblock partitions direct weightb weightp mixed-refs chroma-me 8x8dct cabac \
    interlaced tff bff slices slice-max-size threads sliced-threads nal-hrd filler level level-idc \
    profile ctu min-cu-size max-tu-size rect amp early-skip fast-intra b-intra limit-refs limit-modes \
    limit-tu tu-intra-depth tu-inter-depth max-merge strong-intra-smoothing constrained-intra sao \
    sao-non-deblock limit-sao signhide tskip wpp pmode pme pools frame-threads info hash hrd hdr10 \
    hdr10-opt repeat-headers aud const-vbv rskip rskip-edge-threshold qg-size hevc-aq lossless \
    cu-lossless tune preset",
);

/// The same of SVT-AV1 and libaom.
const AV1_PARAMS: Value = Params(
    "keyint crf qp aq-mode scm tune lossless preset enable-qm qm-min qm-max film-grain film-grain-denoise \
    enable-overlays enable-tf enable-cdef enable-restoration enable-variance-boost \
    variance-boost-strength variance-octile sharpness scd lookahead tile-rows tile-columns fast-decode \
    irefresh-type lp rc tbr mbr enable-dlf enable-mfmv deltaq-mode enable-chroma-deltaq quant-b-adapt \
    arnr-strength arnr-maxframes enable-fwd-kf disable-trellis-quant denoise-noise-level",
);

/// Names of options and what their value may be. ffmpeg refuses those that an encoder does not know.
const OPTIONS: &[(&str, Value)] = &[
    (
        "crf qp cq cq-level b maxrate minrate bufsize g keyint_min bf refs q qscale global_quality qmin \
        qmax qdiff qcomp sc_threshold threads slices slicecrc context me_range subq trellis aq-strength \
        spatial-aq spatial_aq temporal-aq temporal_aq psy rc-lookahead rc_lookahead look_ahead \
        look_ahead_depth b_strategy weightb mixed-refs 8x8dct fast-pskip mbtree cplxblur forced-idr \
        bluray-compat cpu-used speed row-mt tile-columns tile-rows tile_columns tile_rows lag-in-frames \
        auto-alt-ref arnr-maxframes arnr-strength undershoot-pct overshoot-pct static-thresh \
        frame-parallel enable-cdef enable-restoration enable-global-motion enable-intrabc \
        denoise-noise-level denoise-block-size lossless bits_per_mb mbs_per_slice alpha_bits \
        compression_level intra_vlc non_linear_quant dc allow_sw",
        Number,
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
    ("psy-rd deblock tiles", Numbers),
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
            "libx264 -metadata a=b",
            "ffv1 -y /victim.mkv -c:v ffv1",
            "rawvideo",
            "libtheora",
        ] {
            assert!(listed(bad).is_err(), "{bad}");
        }
    }
}
