//! What was asked for, as options that a person types.

use std::time::Duration;

use remaster_media::{ListedEncoding, ListedFilters};
use remaster_units::{Asked, AskedSource, AskedTarget, Request, Resolution, Tiles};
use serde::Serialize;
use serde_json::Value;

use crate::numbers::clock;

/// Options and what was typed behind each; `None` if it was not given.
type Options = Vec<(&'static str, Option<String>)>;

/// Options that differ, in words: `--resolution was 720, now 480`.
pub(super) fn difference(before: &Request, now: &Request) -> String {
    let pairs = options(before).into_iter().zip(options(now));
    let different = pairs.filter(|(before, now)| before != now);
    let word = |value: Option<String>| value.unwrap_or_else(|| "not given".into());
    let words = different
        .map(|((option, before), (_, now))| format!("{option} was {}, now {}", word(before), word(now)));
    words.collect::<Vec<_>>().join(", ")
}

fn options(request: &Request) -> Options {
    let Request {
        seed,
        softness,
        window,
        input_noise,
        latent_noise,
        strength,
        color,
        color_pool,
        dither,
        resolution,
        edges,
        keep_sar,
        tiles,
        reading,
        writing,
    } = request;
    let mut options = vec![
        ("--seed", Some(seed.to_string())),
        ("--softness", Some(softness.get().to_string())),
        ("--window", Some(window.to_string())),
        ("--input-noise", Some(input_noise.get().to_string())),
        ("--latent-noise", Some(latent_noise.get().to_string())),
        ("--strength", Some(strength.get().to_string())),
        ("--color", Some(color.name().to_owned())),
        ("--color-pool", word(color_pool)),
        ("--dither", switch(*dither)),
        ("--resolution", resolution.map(size)),
        ("--edges", word(edges)),
        ("--keep-sar", switch(*keep_sar)),
        ("--mode", tiles.map(cut)),
    ];
    options.extend(of_source(reading));
    options.extend(of_target(writing));
    options
}

fn of_source(reading: &AskedSource) -> Options {
    let AskedSource { start, end, filters, rate, deinterlace, keep_hdr, keep_damaged, exr } = reading;
    vec![
        ("--ss", start.map(time)),
        ("--to", end.map(time)),
        (
            "--vf",
            filters
                .as_ref()
                .map(|asked| listed(asked, |filters: &ListedFilters| filters.filters().text().to_owned())),
        ),
        ("--fps", rate.map(|rate| format!("{}/{}", rate.num, rate.den))),
        ("--deinterlace", word(deinterlace)),
        ("--hdr", keep(*keep_hdr)),
        ("--damaged", keep(*keep_damaged)),
        ("--exr", switch(*exr)),
    ]
}

fn of_target(writing: &AskedTarget) -> Options {
    let AskedTarget { video, crf, pixel_format, lossless, silent } = writing;
    vec![
        (
            "--video",
            video
                .as_ref()
                .map(|asked| listed(asked, |video: &ListedEncoding| video.encoding().text().to_owned())),
        ),
        ("--crf", crf.map(|crf| crf.to_string())),
        ("--pixel-format", pixel_format.clone()),
        ("--lossless", switch(*lossless)),
        ("--audio", Some(if *silent { "none" } else { "copy" }.into())),
    ]
}

/// A word of a closed list, as it is typed.
fn word(value: &impl Serialize) -> Option<String> {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => Some(word),
        _ => None,
    }
}

fn switch(given: bool) -> Option<String> {
    given.then(|| "given".to_owned())
}

fn keep(kept: bool) -> Option<String> {
    Some(if kept { "keep" } else { "refuse" }.into())
}

fn size(resolution: Resolution) -> String {
    match resolution {
        Resolution::Short(side) => side.to_string(),
        Resolution::Exactly([width, height]) => format!("{width}x{height}"),
        Resolution::Percent(percent) => format!("{}x", f64::from(percent) / 100.0),
    }
}

fn cut(tiles: Tiles) -> String {
    match tiles {
        Tiles::SharedStats => "shared-stats".into(),
        Tiles::Blend([tile, overlap]) => format!("blend with --tile {tile} and --overlap {overlap}"),
    }
}

/// `1:30.5`, as it is typed.
fn time(nanoseconds: u64) -> String {
    let time = Duration::from_nanos(nanoseconds);
    let part = format!("{:09}", time.subsec_nanos());
    let part = part.trim_end_matches('0');
    let whole = clock(time.as_secs() as f64);
    if part.is_empty() { whole } else { format!("{whole}.{part}") }
}

/// What a plan holds by its hash alone cannot be shown.
fn listed<T>(asked: &Asked<T>, text: impl Fn(&T) -> String) -> String {
    match asked {
        Asked::Listed(listed) => text(listed),
        Asked::Typed(hash) => format!("one with the SHA-256 {hash}"),
    }
}

#[cfg(test)]
mod tests {
    use remaster_media::{Deinterlace, Filters, TimeBase};
    use remaster_restore::{Pool, Resize};

    use super::*;
    use crate::request::Request as Whole;
    use crate::units::pinned;

    /// What differs between the defaults and these.
    fn changed(change: impl Fn(&mut Whole)) -> String {
        let pinned = |request: &Whole| pinned::of(&request.how, &request.target).unwrap();
        let before = Whole::restore("film.mkv").output("out.mkv");
        let mut now = before.clone();
        change(&mut now);
        difference(&pinned(&before), &pinned(&now))
    }

    #[test]
    fn options_are_named_as_they_are_typed() {
        let filters = |text: &str| Some(Filters::typed(text));
        let said = changed(|request| request.how.size.resolution = Some(Resize::Short(480)));
        assert_eq!(said, "--resolution was not given, now 480");
        let said = changed(|request| request.how.size.resolution = Some(Resize::Times(250)));
        assert_eq!(said, "--resolution was not given, now 2.5x");
        let said = changed(|request| request.how.size.resolution = Some(Resize::Exactly([64, 48])));
        assert_eq!(said, "--resolution was not given, now 64x48");
        let said = changed(|request| {
            request.how.source.start = Some(Duration::from_millis(90_500));
            request.how.source.deinterlace = Deinterlace::Ivtc;
            request.how.source.keep_hdr = true;
        });
        assert_eq!(
            said,
            "--ss was not given, now 1:30.5, --deinterlace was auto, now ivtc, --hdr was refuse, now keep"
        );
        let said = changed(|request| {
            request.how.look.finish.color_pool = Pool::Window;
            request.how.look.finish.dither = true;
            request.how.source.rate = Some(TimeBase { num: 24000, den: 1001 });
        });
        assert_eq!(
            said,
            "--color-pool was frame, now window, --dither was not given, now given, --fps was not given, now 24000/1001"
        );
        assert_eq!(
            changed(|request| request.how.source.filters = filters("hflip")),
            "--vf was not given, now hflip"
        );
        let said = changed(|request| request.how.source.filters = filters("lut3d=file=film.cube"));
        assert!(said.starts_with("--vf was not given, now one with the SHA-256 "), "{said}");
        assert_eq!(changed(|request| request.target.no_audio = true), "--audio was copy, now none");
    }
}
