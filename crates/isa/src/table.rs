//! The table of a card: a line a kernel.

use std::fmt::Write;

use crate::counts::Counts;
use crate::measured::Measured;

const HEADER: &str = "| kernel | matrix | vector | ratio | cycles | tap | rest | shared loads | threads | registers | subgroups | spills | estimate |
|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|
";

/// The table of a card.
pub(crate) fn section(measured: &Measured) -> String {
    let mut text = format!("\n## {}\n\n{}\n\n{HEADER}", measured.card.name, measured.device);
    let ours = measured.kernels.iter().map(|(kernel, counts)| (kernel.label(), counts));
    let theirs = measured.llama.iter().map(|(name, counts)| ((*name).to_owned(), counts));
    for (name, counts) in ours.chain(theirs) {
        let line = match counts {
            Ok(counts) => line(counts),
            Err(reason) => format!("{} | | | | | | | | | | |", reason.lines().next().unwrap_or_default()),
        };
        let _ = writeln!(text, "| {name} | {line} |");
    }
    text
}

fn line(counts: &Counts) -> String {
    let or_dash = |value: Option<f64>, digits| value.map_or_else(|| "-".into(), |v| format!("{v:.digits$}"));
    let loads: Vec<String> =
        counts.inner.shared_loads.iter().map(|(name, n)| format!("{n} {name}")).collect();
    let (tap, rest) = (counts.outer.vector + counts.short.vector, counts.rest.vector);
    let Counts { inner, subgroup, registers, occupancy, spills, estimate, .. } = counts;
    let threads = if *subgroup == 0 { "-".to_owned() } else { subgroup.to_string() };
    let (matrix, vector, loads) = (inner.matrix, inner.vector, loads.join(", "));
    let (ratio, cycles) = (or_dash(inner.ratio(), 2), or_dash(inner.planned(), 1));
    format!(
        "{matrix} | {vector} | {ratio} | {cycles} | {tap} | {rest} | {loads} | {threads} | {registers} | {occupancy} | \
         {spills} | {estimate:.0}"
    )
}
