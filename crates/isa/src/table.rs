//! The document.

use std::fmt::Write;

use crate::counts::Counts;

/// What stands before the tables.
pub(crate) const HEAD: &str = "# What GPU compilers make of the kernels

For developers of kernels. `cargo xtask isa` compiles every kernel with Mesa's drivers for cards that are not there and writes
this file. The numbers are counts of instructions and registers. They are not speeds: nothing runs, and neither caches nor
memory are in them. NVIDIA's own compiler is not Mesa's.

*Matrix*, *vector* and *shared loads* are those of the innermost loop that multiplies matrices; of the whole kernel if there is
none. *Ratio* is vector instructions for each matrix instruction. *Subgroups* is how many run at a time: on a SIMD of AMD, on a
multiprocessor of NVIDIA. *Estimate* is the compiler's own: inverse throughput of AMD's, cycles of NVIDIA's, for the whole kernel
with every loop once.
";

/// One kernel.
pub(crate) struct Row {
    pub(crate) name: String,
    /// Or why it did not compile.
    pub(crate) counts: Result<Counts, String>,
}

/// The table of a card.
pub(crate) fn section(card: &str, device: &str, rows: &[Row]) -> String {
    let mut text = format!("\n## {card}\n\n{device}\n\n");
    text += "| kernel | matrix | vector | ratio | tap | rest | shared loads | threads | registers | subgroups | spills | \
             estimate |\n|---|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|\n";
    for Row { name, counts } in rows {
        let line = match counts {
            Ok(c) => {
                let ratio = c.inner.ratio().map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"));
                let loads: Vec<String> =
                    c.inner.shared_loads.iter().map(|(name, n)| format!("{n} {name}")).collect();
                let (outer, rest) = (c.outer.vector + c.short.vector, c.rest.vector);
                let Counts { inner, subgroup, registers, occupancy, spills, estimate, .. } = c;
                format!(
                    "{} | {} | {ratio} | {outer} | {rest} | {} | {subgroup} | {registers} | {occupancy} | {spills} | {estimate:.0}",
                    inner.matrix,
                    inner.vector,
                    loads.join(", ")
                )
            }
            Err(reason) => format!("{} | | | | | | | | | |", reason.lines().next().unwrap_or_default()),
        };
        let _ = writeln!(text, "| {name} | {line} |");
    }
    text
}
