//! Filters that a plan may hold.

use serde::{Deserialize, Serialize};

use super::value::Value::{self, Most, Numbers, Or, Pixels, Rate, Samples};
use super::{AskedError, Filters, MOST, unlisted};
use crate::words::Words;

/// Filters one behind the other: each holds some frames.
const MOST_FILTERS: usize = 16;

/// Strengths, shares and thresholds: no filter here takes memory by one of them.
const NUMBER: Value = Value::Number(-1_000_000, 1_000_000);

const SWITCH: Value = Or("true false");
const SCALERS: Value = Or("bilinear bicubic neighbor area bicublin gauss sinc lanczos spline");
const MATRICES: Value =
    Or("auto bt601 bt470 bt470bg smpte170m bt709 fcc smpte240m bt2020 bt2020nc bt2020ncl");
const RANGES: Value = Or("auto unknown full limited jpeg mpeg tv pc");
const FIELDS: &[(&str, Value)] = &[
    ("mode", Or("send_frame send_field send_frame_nospatial send_field_nospatial")),
    ("parity", Or("tff bff auto")),
    ("deint", Or("all interlaced")),
];
const TRANSFERS: Value =
    Or("auto bt709 gamma22 gamma28 smpte170m smpte240m linear srgb iec61966-2-1 bt2020-10 \
    bt2020-12 smpte2084 arib-std-b67");
const PRIMARIES: Value = Or("auto bt709 bt470m bt470bg smpte170m smpte240m film smpte431 smpte432 bt2020");

/// A filter's name, and its options in the order in which they can stand without a name, those that take the same
/// together. None of these filters opens anything, and values keep to numbers, sizes and words.
type Listed = (&'static str, &'static [(&'static str, Value)]);

const FILTERS: &[Listed] = &[
    ("null", &[]),
    ("copy", &[]),
    ("hflip", &[]),
    ("vflip", &[]),
    (
        "transpose",
        &[("dir", Or("cclock_flip clock cclock clock_flip")), ("passthrough", Or("none portrait landscape"))],
    ),
    ("crop", &[("w h x y", Pixels), ("keep_aspect exact", SWITCH)]),
    ("pad", &[("w h x y", Pixels), ("color", Or("black white gray"))]),
    (
        "scale",
        &[
            ("w h", Pixels),
            ("flags", SCALERS),
            ("interl", SWITCH),
            ("in_color_matrix out_color_matrix", MATRICES),
            ("in_range out_range", RANGES),
            ("force_original_aspect_ratio", Or("disable decrease increase")),
            ("force_divisible_by", Most(256)),
        ],
    ),
    ("setsar", &[("sar", Numbers(0, 1_000_000))]),
    ("setdar", &[("dar", Numbers(0, 1_000_000))]),
    ("format", &[("pix_fmts", Samples)]),
    (
        "setparams",
        &[
            ("field_mode", Or("auto bff tff prog")),
            ("range", RANGES),
            ("color_primaries", PRIMARIES),
            ("color_trc", TRANSFERS),
            ("colorspace", MATRICES),
        ],
    ),
    ("fps", &[("fps", Rate)]),
    ("yadif", FIELDS),
    ("bwdif", FIELDS),
    (
        "w3fdif",
        &[
            ("filter", Or("simple complex")),
            ("mode", Or("frame field")),
            ("parity", Or("tff bff auto")),
            ("deint", Or("all interlaced")),
        ],
    ),
    ("setfield", &[("mode", Or("auto bff tff prog"))]),
    ("fieldorder", &[("order", Or("tff bff"))]),
    ("pullup", &[("jl jr jt jb", Most(64)), ("sb", SWITCH), ("mp", Or("y u v"))]),
    ("dejudder", &[("cycle", Most(25))]),
    ("decimate", &[("cycle", Most(25)), ("dupthresh scthresh", NUMBER)]),
    ("mpdecimate", &[("max hi lo frac", NUMBER)]),
    ("hqdn3d", &[("luma_spatial chroma_spatial luma_tmp chroma_tmp", NUMBER)]),
    ("nlmeans", &[("s", NUMBER), ("p pc r rc", Most(31))]),
    ("atadenoise", &[("0a 0b 1a 1b 2a 2b", NUMBER), ("s", Most(33))]),
    (
        "vaguedenoiser",
        &[
            ("threshold", NUMBER),
            ("method", Or("hard soft garrote")),
            ("nsteps", Most(32)),
            ("percent planes", NUMBER),
        ],
    ),
    ("owdenoise", &[("depth", Most(16)), ("luma_strength chroma_strength", NUMBER)]),
    (
        "fftdnoiz",
        &[
            ("sigma amount", NUMBER),
            ("block", Most(256)),
            ("overlap", NUMBER),
            ("prev next", Most(1)),
            ("planes", NUMBER),
        ],
    ),
    ("chromanr", &[("thres", NUMBER), ("sizew sizeh", Most(100)), ("stepw steph", NUMBER)]),
    ("removegrain", &[("m0 m1 m2 m3", NUMBER)]),
    ("median", &[("radius", Most(127)), ("planes", NUMBER), ("radiusV", Most(127)), ("percentile", NUMBER)]),
    ("deblock", &[("filter", Or("weak strong")), ("block alpha beta gamma delta planes", NUMBER)]),
    ("deband", &[("1thr 2thr 3thr 4thr range direction", NUMBER), ("blur", SWITCH)]),
    ("gradfun", &[("strength radius", NUMBER)]),
    ("dedot", &[("m", Or("dotcrawl rainbows")), ("lt tl tc ct", NUMBER)]),
    ("deflicker", &[("size", Most(33)), ("mode", Or("am gm hm qm cm pm median")), ("bypass", SWITCH)]),
    ("delogo", &[("x y w h", Pixels)]),
    (
        "unsharp",
        &[("luma_msize_x luma_msize_y luma_amount chroma_msize_x chroma_msize_y chroma_amount", NUMBER)],
    ),
    ("cas", &[("strength planes", NUMBER)]),
    (
        "smartblur",
        &[(
            "luma_radius luma_strength luma_threshold chroma_radius chroma_strength chroma_threshold",
            NUMBER,
        )],
    ),
    ("gblur", &[("sigma", NUMBER), ("steps", Most(6)), ("planes sigmaV", NUMBER)]),
    ("avgblur", &[("sizeX", Most(1024)), ("planes", NUMBER), ("sizeY", Most(1024))]),
    ("noise", &[("all_seed", Most(i32::MAX as u32)), ("all_strength", NUMBER)]),
    ("tmix", &[("frames", Most(9))]),
    (
        "minterpolate",
        &[
            ("fps", Rate),
            ("mi_mode", Or("dup blend mci")),
            ("mc_mode", Or("obmc aobmc")),
            ("me_mode", Or("bidir bilat")),
        ],
    ),
    ("eq", &[("contrast brightness saturation gamma gamma_r gamma_g gamma_b gamma_weight", NUMBER)]),
    ("hue", &[("h s H b", NUMBER)]),
    ("vibrance", &[("intensity rbal gbal bbal", NUMBER)]),
    ("exposure", &[("exposure black", NUMBER)]),
    ("colorbalance", &[("rs gs bs rm gm bm rh gh bh", NUMBER)]),
    ("colorlevels", &[("rimin gimin bimin aimin rimax gimax bimax aimax", NUMBER)]),
    ("colortemperature", &[("temperature mix pl", NUMBER)]),
    (
        "colorspace",
        &[("all iall", Or("bt470m bt470bg bt601-6-525 bt601-6-625 bt709 smpte170m smpte240m bt2020"))],
    ),
    (
        "zscale",
        &[
            ("w h", Pixels),
            ("filter", Or("point bilinear bicubic spline16 spline36 lanczos")),
            ("range", RANGES),
            ("primaries", PRIMARIES),
            ("transfer", TRANSFERS),
            ("matrix", MATRICES),
            ("npl", NUMBER),
        ],
    ),
    (
        "tonemap",
        &[("tonemap", Or("none clip linear gamma reinhard hable mobius")), ("param desat peak", NUMBER)],
    ),
    ("normalize", &[("smoothing", Most(1000)), ("independence strength", NUMBER)]),
];

/// Filters that a plan may hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ListedFilters(String);

impl ListedFilters {
    /// The same as what a person typed.
    pub fn filters(&self) -> Filters {
        Filters(self.0.clone())
    }
}

impl TryFrom<&Filters> for ListedFilters {
    type Error = AskedError;

    fn try_from(filters: &Filters) -> Result<Self, AskedError> {
        let text = filters.0.trim();
        if text.len() > MOST {
            return Err(unlisted("filter", text));
        }
        if text.split(',').count() > MOST_FILTERS {
            return Err(unlisted("number of filters", text));
        }
        text.split(',').try_for_each(check)?;
        Ok(ListedFilters(text.to_owned()))
    }
}

impl TryFrom<String> for ListedFilters {
    type Error = AskedError;

    fn try_from(text: String) -> Result<Self, AskedError> {
        ListedFilters::try_from(&Filters(text))
    }
}

impl From<ListedFilters> for String {
    fn from(listed: ListedFilters) -> Self {
        listed.0
    }
}

/// One filter: `name`, or `name=value:option=value`.
fn check(filter: &str) -> Result<(), AskedError> {
    let (name, values) = filter.split_once('=').map_or((filter, None), |(name, values)| (name, Some(values)));
    let Some((_, options)) = FILTERS.iter().find(|(known, _)| *known == name) else {
        return Err(unlisted("filter", filter));
    };
    let options =
        || options.iter().flat_map(|(names, kind)| Words(names).all().map(move |name| (name, kind)));
    for (place, value) in values.into_iter().flat_map(|values| values.split(':').enumerate()) {
        let (kind, value) = match value.split_once('=') {
            Some((option, value)) => (options().find(|(known, _)| *known == option), value),
            None => (options().nth(place), value),
        };
        let Some((_, kind)) = kind else { return Err(unlisted("filter option", filter)) };
        if !kind.takes(value) {
            return Err(unlisted("filter value", filter));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_filters_are_listed_and_those_that_open_something_are_not() {
        let listed = |text: &str| ListedFilters::try_from(text.to_owned());
        let good = "hqdn3d,crop=704:576:8:0 hqdn3d=4:3:6:4.5 \
            crop=w=iw-16:h=ih-4:x=8:y=2,scale=-2:720:flags=lanczos bwdif=mode=send_field:parity=tff \
            eq=contrast=1.1:saturation=0.9 fps=24000/1001 setdar=16/9 format=yuv420p10le \
            unsharp=5:5:0.8 vflip";
        for good in good.split(' ') {
            assert_eq!(String::from(listed(good).unwrap()), good);
        }
        let bad = "metadata=mode=print:file=/victim movie=/etc/passwd[a];[in][a]overlay amovie=x \
            subtitles=/x.srt metadata=mode=add:key=x:value=y,metadata=mode=print:file=/victim ass=x \
            lut3d=file=/x lut3d=/x sendcmd=f=/x zmq drawtext=textfile=/etc/passwd curves=psfile=/x \
            psnr=stats_file=/x nnedi=weights=/x geq=lum=random(0) select=gt(scene\\,0.4) crop=w='iw':h=ih \
            [in]hflip[out] hflip;vflip hflip@a crop=enable=1 hqdn3d=file=/x hqdn3d=4:/x scale=99999:99999 \
            fps=1000000 format=| hflip, scale=16384:16384,tmix=frames=9,scale=48:48 tmix=frames=128 \
            scale=iw*100:ih*100 normalize=smoothing=268435455 normalize=268435455 pullup=jl=100000 setdar=9999999999 \
            hqdn3d=99999999";
        for bad in bad.split(' ').chain(["", &["hflip"; 17].join(",")]) {
            assert!(listed(bad).is_err(), "{bad}");
        }
    }
}
