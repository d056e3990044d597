//! The ceilings as a file that `remaster bench card` compares with.

use remaster_compute::DType;
use remaster_compute::gpu::LayerUse;
use serde::Serialize;

use crate::budget::{Budget, best};
use crate::kernels::{layer, layers};
use crate::measured::Measured;
use crate::network::Task;

/// Where it is kept.
pub(crate) const FILE: &str = "crates/remaster/src/card/ceilings.json";

#[derive(Serialize)]
struct Ceilings<'a> {
    mesa: &'a str,
    cards: Vec<Ceiling<'a>>,
}

#[derive(Serialize)]
struct Ceiling<'a> {
    name: &'a str,
    /// Parts of the names that drivers report.
    devices: [&'a str; 1],
    /// Seconds per megapixel and frame.
    decode: Seconds,
    transformer_3b: Seconds,
    upscaler: Seconds,
    kernels: Vec<Rate>,
}

#[derive(Serialize)]
struct Seconds {
    issue: f64,
    bandwidth: f64,
}

#[derive(Serialize)]
struct Rate {
    name: String,
    /// 10^12 multiply-adds a second.
    tmacs: f64,
    /// The kernel that has it.
    kernel: String,
}

/// A card with the budgets of the decoder, of the 3B transformer and of the upscaler.
pub(crate) type Budgeted<'a> = (&'a Measured, [Budget; 3]);

/// The text of the file.
pub(crate) fn text(all: &[Budgeted<'_>]) -> Result<String, String> {
    let cards = all.iter().map(|(measured, [decode, transformer, upscaler])| {
        let card = measured.card;
        Ok(Ceiling {
            name: card.product,
            devices: [card.product],
            decode: seconds(decode),
            transformer_3b: seconds(transformer),
            upscaler: seconds(upscaler),
            kernels: kernels(measured)?,
        })
    });
    let mesa = all.first().map_or("", |(measured, _)| measured.mesa());
    let ceilings = Ceilings { mesa, cards: cards.collect::<Result<_, String>>()? };
    serde_json::to_string_pretty(&ceilings).map(|text| text + "\n").map_err(|e| e.to_string())
}

fn seconds(budget: &Budget) -> Seconds {
    Seconds { issue: rounded(budget.issue), bandwidth: rounded(budget.bandwidth) }
}

/// Four digits behind the first: more would pretend to be exact.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// The best ceiling of every layer in f16. Those with a shortcut are left out: its channels are not in their names.
fn kernels(measured: &Measured) -> Result<Vec<Rate>, String> {
    let found = measured.found();
    let rate = |(spec, used): (_, LayerUse)| {
        let task = Task::Product { spec, used, shortcut: 0 };
        let best = best(measured.card, &found, &task)?;
        Some(Rate { name: layer(&spec, used), tmacs: rounded(best.rate / 1e12), kernel: best.kernel })
    };
    Ok(layers(DType::F16)?.into_iter().filter(|(_, used)| !used.shortcut).filter_map(rate).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(rounded(0.123_456_789), 0.123_46);
        assert_eq!(rounded(61_234_567.0), 61_235_000.0);
    }
}
