//! What restorations take of cards of several sizes, as a table for documents.

use remaster_media::{Colour, Format, FrameSource, MediaError, Said, TimeBase};
use remaster_picture::{Frame, Kind, Layout};
use remaster_plan::{Peaks, bytes};
use remaster_restore::Resize;

use super::film::Film;
use super::networks::Networks;
use crate::card::Card;
use crate::control::Control;
use crate::error::Error;
use crate::limits::{Amount, Limits, Room};
use crate::machine::{Machine, SystemMemory};
use crate::media::{Opened, Size, Target};
use crate::plan::threads;
use crate::request::{Models, Restoration};
use crate::site::Site;

/// One card for each size of memory.
const EXAMPLES: [&str; 4] = ["RTX 4060", "RTX 3060", "RTX 5070 Ti", "RX 7900 XTX"];
/// Columns and rows of the film.
const SIZES: [[usize; 2]; 3] = [[1280, 720], [1920, 1080], [3840, 2160]];
const MODELS: [&str; 2] = ["3b", "7b"];
/// Frames of the film: ten seconds.
const FRAMES: usize = 240;
const RATE: TimeBase = TimeBase { num: 24, den: 1 };
/// Host memory and disk that the plans may use.
const RAM: u64 = 28 << 30;
const DISK: u64 = 200 << 30;
const CORES: usize = 8;

const HEAD: &str = "\
| card memory | frames | model | stays on the card | streamed | card | host | disk | ceiling, s a frame |
|---|---|---|---|---|---:|---:|---:|---:|
";

/// What a film takes on cards of 8, 12, 16 and 24 GB, in Markdown. `machine` only has to have a folder for temporary files.
pub fn card_table(machine: &Machine) -> Result<String, Error> {
    Ok(HEAD.to_owned() + &rows(machine, &SIZES)?.concat())
}

/// The rows of films of these sizes.
fn rows(machine: &Machine, sizes: &[[usize; 2]]) -> Result<Vec<String>, Error> {
    let memory = Some(SystemMemory { total: Some(RAM), free: Some(RAM) });
    let machine = Machine { cores: CORES, memory, free_space: Some(DISK), ..machine.clone() };
    // Installed models must not change the table.
    let machine = machine.without_environment();
    let mut rows = Vec::new();
    for name in EXAMPLES {
        let card = Card::named(name)?;
        for size in sizes {
            for model in MODELS {
                rows.push(row(&card, *size, model, &machine)?);
            }
        }
    }
    Ok(rows)
}

fn row(card: &Card, size: [usize; 2], model: &str, machine: &Machine) -> Result<String, Error> {
    let film = film(card, size, model, machine)?;
    let plan = film.on_card(card);
    let most =
        |of: fn(&Peaks) -> u64| bytes(film.plans.iter().map(|plan| of(&plan.peaks)).max().unwrap_or(0));
    let ceiling = match &plan.ceiling {
        Some(ceiling) => format!("{:.2} ({})", ceiling.seconds_per_frame, ceiling.networks.join(", ")),
        None => "-".into(),
    };
    Ok(format!(
        "| {} GB ({}) | {} x {} | {} | {} | {} | {} | {} | {} | {ceiling} |\n",
        card.memory_gb,
        card.name,
        size[0],
        size[1],
        model.to_uppercase(),
        plan.stays_in_words(),
        plan.streamed_in_words(),
        most(|peaks| peaks.device),
        bytes(film.total.ram()),
        most(|peaks| peaks.disk),
    ))
}

/// A film of images of this size, planned for a card.
fn film(card: &Card, size: [usize; 2], model: &str, machine: &Machine) -> Result<Film, Error> {
    let how = Restoration {
        models: Models { model: model.into(), ..Models::default() },
        size: Size { resolution: Some(Resize::Keep), ..Size::default() },
        limits: Limits {
            ram: Amount::Bytes(RAM),
            disk: Amount::Bytes(DISK),
            spill: Some(machine.temporary.clone()),
            ..Limits::default()
        },
        ..Restoration::default()
    };
    let room = &Room::of_plan(machine);
    let site = Site::imagined(card, &how.device, &how.limits, room, &Control::default())?;
    let networks = Networks::imagined(&how.models, &site)?;
    let opened = Opened::plain(Box::new(NoFrames::new(size)), Vec::new(), true);
    let threads = threads(&how.limits, room)?;
    Film::new(&how, &opened, site, networks, threads, (&Target::default(), None), true)
}

/// A film that is only planned, so that it has no frames.
struct NoFrames(Format);

impl NoFrames {
    fn new(size: [usize; 2]) -> Self {
        let layout = Layout { kind: Kind::Yuv { across: 1, down: 1 }, depth: 8, alpha: false };
        let colour = Colour::new(Said::default(), &layout, size);
        NoFrames(Format { frames: Some(FRAMES), ..Format::even(size, layout, colour, RATE) })
    }
}

impl FrameSource for NoFrames {
    fn format(&self) -> &Format {
        &self.0
    }

    fn next(&mut self, _: &mut Frame) -> Result<Option<i64>, MediaError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- cards: begin -->\n";
    const END: &str = "<!-- cards: end -->\n";

    /// The largest frames take most of the time to plan, and are left to the night.
    #[test]
    fn the_table_of_cards_in_the_documents_is_computed() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gpu.md");
        let document = std::fs::read_to_string(path).unwrap();
        let (before, rest) = document.split_once(BEGIN).unwrap();
        let (shown, after) = rest.split_once(END).unwrap();
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| value == "1");
        let old = "docs/gpu.md is old: run this test with UPDATE=1";
        let machine = Machine::this();
        if !is_set("UPDATE") && !is_set("REMASTER_NIGHTLY") {
            for row in rows(&machine, &SIZES[..2]).unwrap() {
                assert!(shown.contains(&row), "{old}\n{row}");
            }
            return;
        }
        let made = format!("\n{}\n", card_table(&machine).unwrap());
        match is_set("UPDATE") {
            true => std::fs::write(path, format!("{before}{BEGIN}{made}{END}{after}")).unwrap(),
            false => assert!(shown == made, "{old}\n{made}"),
        }
    }
}
