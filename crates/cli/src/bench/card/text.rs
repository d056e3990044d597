//! The report as a block for an issue.

use remaster_plan::bytes;

use super::Report;

pub(super) fn block(r: &Report) -> String {
    let mut text =
        format!("```text\nremaster {} bench card: {:.0} s of {} min\n", r.version, r.seconds, r.minutes);
    let mut line = |what: &str, value: &str| text += &format!("{what:13} {value}\n");
    line("card", &format!("{} ({}, {})", r.name, r.kind, r.device));
    line("driver", &r.driver);
    line("system", &r.system);
    let memory = r.memory.map(|m| match m.free_bytes {
        Some(free) => format!("{} of {} free", bytes(free), bytes(m.bytes)),
        None => format!("{}, free memory not reported", bytes(m.bytes)),
    });
    line("memory", &memory.unwrap_or("not reported".into()));
    let units = if r.matrix_units.is_empty() { "none".into() } else { r.matrix_units.join(", ") };
    line("matrix units", &units);
    line("kernels", if r.tuned { "tuned" } else { "not tuned; `remaster tune` finds the fastest" });
    let ceilings = r.ceilings.as_ref().map(|c| format!("{}, by Mesa {}", c.card, c.mesa));
    line("ceilings", &ceilings.unwrap_or("not known for this card; measurements only".into()));

    if !r.networks.is_empty() {
        text += &format!("\n{:46} {:>9} {:>9}  s per megapixel and frame\n", "network", "best s", "median s");
    }
    for n in &r.networks {
        let blocks = n.blocks.map_or(String::new(), |[some, all]| format!(", {some} of {all} blocks"));
        let what = format!("{} {}, {} x {} x {}{blocks}", n.network, n.dtype, n.frames, n.width, n.height);
        let (min, median) = (n.samples.min, n.samples.median);
        let scaled = if n.blocks.is_some() { ", all blocks" } else { "" };
        text += &format!("{what:46} {min:9.3} {median:9.3}  {:.4}{scaled}", n.seconds_per_megapixel);
        text += &of(n.reached, n.ceiling.map(|c| format!("{c:.4}")));
    }
    if !r.kernels.is_empty() {
        text += &format!("\n{:46} {:>9} {:>9}  best rate (median)\n", "kernel", "best ms", "median ms");
    }
    for k in &r.kernels {
        let (min, median) = (1e3 * k.samples.min, 1e3 * k.samples.median);
        let rate = format!("{} ({}) {}", digits(k.rate), digits(k.median_rate), k.unit.name());
        text += &format!("{:46} {min:9.3} {median:9.3}  {rate}", k.kernel);
        text += &of(k.reached, k.ceiling.map(digits));
    }
    if !r.skipped.is_empty() {
        text += "\nskipped\n";
    }
    for s in &r.skipped {
        text += &format!("{}: {}\n", s.what, s.reason);
    }
    text + "```\n"
}

/// The share of the ceiling that was reached, and the end of the line.
fn of(reached: Option<f64>, ceiling: Option<String>) -> String {
    match (reached, ceiling) {
        (Some(reached), Some(ceiling)) => format!(", {:.0} % of {ceiling}\n", 100.0 * reached),
        _ => "\n".into(),
    }
}

/// Three digits, whether it is a card or a processor.
fn digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.4}"),
    }
}
