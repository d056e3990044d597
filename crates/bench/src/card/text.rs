//! The report as a block for an issue.

use std::collections::BTreeMap;

use remaster_plan::bytes;

use super::CardReport;

pub(crate) fn block(r: &CardReport) -> String {
    let mut text = format!("```text\nremaster {} bench card, {:.0} s\n", r.version, r.seconds);
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
    let tuned: Vec<String> = r.tuned.iter().map(|(family, layers)| format!("{layers} {family}")).collect();
    let tuned = if tuned.is_empty() { "not tuned".into() } else { format!("tuned: {}", tuned.join(", ")) };
    line("kernels", &tuned);
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
        text += &format!("{what:46} {min:9.3} {median:9.3}  {}{scaled}", digits(n.seconds_per_megapixel));
        text += &of(n.reached, n.ceiling.map(digits));
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
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for s in &r.skipped {
        reasons.entry(&s.reason).or_default().push(&s.what);
    }
    for (reason, what) in reasons {
        text += &format!("\nskipped, {reason}:\n  {}\n", what.join("\n  "));
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

#[cfg(test)]
mod tests {
    use super::super::kernels::{Kernel, Unit};
    use super::super::networks::{Network, Which};
    use super::super::{Skipped, compared};
    use super::*;
    use crate::Samples;

    const TABLE: &str = r#"{"mesa":"26.2.6-1","cards":[{"name":"RTX 4090",
        "devices":["RTX 4090"],"decode":{"issue":0.1,"bandwidth":0.02},
        "transformer_3b":{"issue":0.01,"bandwidth":0.02},
        "kernels":[{"name":"conv 3x3x3 512 to 512 f16","tmacs":60.0,"kernel":"a"}]}]}"#;

    fn report() -> CardReport {
        let kernel = |name: &str, unit, rate| Kernel {
            kernel: name.into(),
            samples: Samples::new(vec![0.012, 0.010, 0.011]),
            unit,
            rate,
            median_rate: rate / 1.1,
            ceiling: None,
            reached: None,
        };
        CardReport {
            version: "1.2.3",
            system: "linux x86_64".into(),
            device: "vulkan:0".into(),
            name: "NVIDIA GeForce RTX 4090".into(),
            kind: "discrete",
            driver: "NVIDIA 570.1".into(),
            memory: None,
            matrix_units: vec!["16x16x16 f16 to f32".into()],
            tuned: BTreeMap::from([("direct".into(), 20), ("matrix".into(), 11)]),
            seconds: 250.0,
            ceilings: None,
            kernels: vec![
                kernel("conv 3x3x3 512 to 512 f16", Unit::Tflops, 90.0),
                kernel("norm f16", Unit::Gbytes, 812.0),
            ],
            networks: vec![Network {
                network: Which::Decoder.name(),
                dtype: "f16",
                frames: 5,
                height: 1080,
                width: 1920,
                blocks: None,
                load_seconds: 3.0,
                samples: Samples::new(vec![2.1, 2.0]),
                seconds_per_megapixel: 0.2,
                ceiling: None,
                reached: None,
            }],
            skipped: vec![Skipped { what: "norm f32".into(), reason: "no time left".into() }],
        }
    }

    #[test]
    fn a_card_is_compared_with_its_ceilings() {
        let text = block(&compared(report(), &serde_json::from_str(TABLE).unwrap()));
        for part in [
            "ceilings      RTX 4090, by Mesa 26.2.6-1",
            "90.0 (81.8) TFLOP/s, 75 % of 120",
            "812 (738) GB/s\n",
            "0.2000, 50 % of 0.1000",
            "kernels       tuned: 20 direct, 11 matrix",
            "skipped, no time left:\n  norm f32\n",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.starts_with("```text\n") && text.ends_with("\n```\n"));
        assert!(text.lines().all(|l| l.chars().count() <= 120), "{text}");
    }

    #[test]
    fn a_card_without_ceilings_is_measured_all_the_same() {
        let other = CardReport { name: "Intel Arc A770".into(), ..report() };
        let text = block(&compared(other, &serde_json::from_str(TABLE).unwrap()));
        assert!(text.contains("not known for this card"), "{text}");
        assert!(text.contains("90.0 (81.8) TFLOP/s\n") && !text.contains('%'), "{text}");
    }
}
