//! `remaster probe`.

use remaster::Machine;
use remaster_media::{Probe, Tag};

use super::frames;
use crate::args::ProbeArgs;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;

pub(crate) fn run(args: &ProbeArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let control = interrupt.watch()?.control();
    let probe = remaster::probe(&args.input, &args.source(), &Machine::this(), control)?;
    out.result(&probe, || describe(&probe));
    Ok(())
}

fn describe(probe: &Probe) -> String {
    let v = &probe.video;
    let mut text = format!("{}\n", probe.path.display());
    let mut line = |what: &str, value: String| text += &format!("  {what:10} {value}\n");
    line("container", probe.format.clone());
    if let Some(duration) = probe.duration {
        line("duration", format!("{duration:.3} s"));
    }
    let rate = v.rate.map_or("unknown rate".into(), |r| format!("{:.3} fps", r.num as f64 / r.den as f64));
    let frames = frames(v.frames, v.frames_estimated, "unknown number of frames");
    line("video", format!("{} {} x {}, {rate}, {frames}", v.codec, v.width, v.height));
    let alpha = if v.alpha { ", alpha" } else { "" };
    line("samples", format!("{}, {} bit{alpha}", v.pixel_format, v.depth));
    if v.sample_aspect != [1, 1] {
        line("pixels", format!("{}:{} wide", v.sample_aspect[0], v.sample_aspect[1]));
    }
    let c = &v.colour;
    let tag = |t: &Tag| format!("{}{}", t.value, if t.guessed { " (guessed)" } else { "" });
    line("colour", format!("matrix {}, range {}", tag(&c.matrix), tag(&c.range)));
    line("", format!("primaries {}, transfer {}", tag(&c.primaries), tag(&c.transfer)));
    if let Some(fields) = &v.fields {
        line("fields", format!("interlaced, {fields}"));
    }
    if c.is_hdr() {
        line("hdr", format!("{}: needs --hdr keep", c.transfer.value));
    }
    for s in &probe.others {
        let language = s.language.as_ref().map_or(String::new(), |l| format!(" ({l})"));
        let cover = if s.cover { ", cover picture" } else { "" };
        line(&s.kind, format!("{}{language}{cover}", s.codec));
    }
    if probe.chapters > 0 {
        line("chapters", probe.chapters.to_string());
    }
    for note in v.notes.iter().filter(|n| !n.starts_with("untagged")) {
        line("note", note.clone());
    }
    text
}
