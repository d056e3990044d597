//! The document: what was counted, what it means against llama.cpp, and ceilings.

use std::fmt::Write;

use crate::budget::{Budget, Line, best};
use crate::cards::{Card, Maker};
use crate::ceilings::Budgeted;
use crate::counts::Counts;
use crate::measured::Measured;
use crate::network::{DECODE, TRANSFORMER, Task, UPSCALER};
use crate::{llama, table};
use remaster_compute::gpu::{LayerUse, Variant};
use remaster_compute::{DType, WeightSpec};

/// Where it is kept.
pub(crate) const FILE: &str = "docs/gpu-isa.md";

const HEAD: &str = "# What GPU compilers make of the kernels

For developers of kernels. `cargo xtask isa` compiles every kernel of the networks with Mesa's drivers for cards that are not
there and writes this file. The numbers are counts of instructions and registers, and ceilings that follow from them. They are
not speeds: nothing runs, and neither caches nor latencies are in them. NVIDIA's own compiler is not Mesa's.

`remaster-isa MESA show CARD WORDS` prints the assembly of the kernels whose name contains the words. `cargo xtask isa --gate`
fails when a kernel got worse than recorded.
";

const CEILINGS: &str = "
## Ceilings

Seconds per megapixel and frame of the film that a card cannot go below with these kernels in f16, as Mesa compiles them. Two
assumptions can be on the slow side for NVIDIA: its own compiler may copy fewer registers, and f32 arithmetic of cards since Ampere takes 1
cycle instead of 2.

*Issue* counts instructions: each layer runs on the variant that is fastest by this count. A matrix instruction takes the cycles
that follow from the maker's peak with f32 sums, a vector instruction 2. On AMD both go through the same issue, so their
cycles add up. On NVIDIA the tensor cores are a pipe of their own, so the slower of both counts. A step along the channels, a tap and
a workgroup are counted as often as they run. Attention on matrix units computes its scores twice. Attention by threads is counted
by the mix of all its loops. Kernels that only move values are left to the other column.

A convolution whose input is normalised does that on the way in, for each of its taps again, or *after a pass* that writes the
normalised input first. The pass counts with the slower of its instructions and of the bytes that it reads and writes, and the
faster way is taken.

*Bandwidth* counts bytes of weights, inputs and outputs of every op, each once, at the maker's rate. *Both* takes the slower of the
two op by op: nothing overlaps.

";

const LLAMA: &str = "
## Against llama.cpp

llama.cpp's kernels are those of Debian, run by `test-backend-ops perf` through the same drivers. Two of them are the measure: the one that
it takes for a large product unless asked otherwise, with sums in f16, and the one for the same product with sums in f32, as ours have
them. On AMD the measure is vector instructions for each matrix instruction of the innermost loop; both
multiply 16x16x16. On NVIDIA it is cycles of that loop as the compiler plans them, for 2048 multiply-adds (one 16x8x16
instruction): the sum over the instructions of the loop of what the compiler adds up to its \"Static cycle count\". So tiles of
different sizes compare. Ours is the variant that is fastest by the count of issue; behind a pass, its loop is that of a convolution without a norm.

";

const TABLES: &str = "
## How to read the tables

One line a kernel, with all layers that it serves: kernels whose SPIR-V is the same are compiled once. *Matrix*, *vector* and *shared
loads* are those of the innermost loop that multiplies matrices, a step along the channels; without matrices those of all loops, or
of the whole kernel if it has none. *Ratio* is vector instructions for each matrix instruction. *Cycles* are those that
NVIDIA's compiler plans in that loop for 2048 multiply-adds. *Tap* is the vector instructions of the loop around it, without it, and of the
shortcut's loop; *rest* runs once a workgroup. *Threads* is the size of a subgroup. *Subgroups* is how many run at a time: on a SIMD of
AMD, on a multiprocessor of NVIDIA. *Estimate* is the compiler's own: inverse throughput of AMD's, cycles of NVIDIA's, for the whole kernel
with every loop once.
";

/// The whole text.
pub(crate) fn text(all: &[Budgeted<'_>]) -> String {
    let mut text = HEAD.to_owned() + CEILINGS + &ceilings(all) + &largest(all) + &limits(all);
    if all.iter().any(|(measured, _)| !measured.llama.is_empty()) {
        text += LLAMA;
        text += &against(all);
    }
    text += TABLES;
    all.iter().for_each(|(measured, _)| text += &table::section(measured));
    text
}

fn ceilings(all: &[Budgeted<'_>]) -> String {
    let mut text = format!(
        "Decoder: {DECODE}. Transformer: the 3B network, {TRANSFORMER}. Upscaler: `anime`, {UPSCALER}.\n\n\
         | card | decoder: issue | bandwidth | both | transformer: issue | bandwidth | both | upscaler: issue | bandwidth | both | rates |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n"
    );
    for (measured, [decode, transformer, upscaler]) in all {
        let Card { product, units, clock, bandwidth, tflops, source, .. } = measured.card;
        let numbers = |b: &Budget| format!("{:.3} | {:.3} | {:.3}", b.issue, b.bandwidth, b.both);
        // It takes a hundredth of the time.
        let small = |b: &Budget| format!("{:.5} | {:.5} | {:.5}", b.issue, b.bandwidth, b.both);
        let (decode, transformer, upscaler) = (numbers(decode), numbers(transformer), small(upscaler));
        let _ = writeln!(
            text,
            "| {product} | {decode} | {transformer} | {upscaler} | {units} units, {clock} GHz, {bandwidth} GB/s, {tflops} TFLOP/s \
             ({source}) |"
        );
    }
    text
}

/// What takes most of the decoder's ceiling on each card.
fn largest(all: &[Budgeted<'_>]) -> String {
    let mut text = String::from(
        "\nWhat takes most of the decoder's ceiling, and how much of it the matrix units would take at their peak:\n\n\
         | card | at the peak | largest part | share | kernel | share of the matrix peak |\n|---|---:|---|---:|---|---:|\n",
    );
    for (measured, [decode, ..]) in all {
        let peak = measured.card.peak();
        let Some((Line { name, both, .. }, best)) =
            decode.lines.iter().find_map(|line| Some((line, line.best.as_ref()?)))
        else {
            continue;
        };
        // Multiply-adds of each line, by the seconds that they would take at the peak.
        let least: f64 =
            decode.lines.iter().filter_map(|l| Some(l.issue * l.best.as_ref()?.rate / peak)).sum();
        let _ = writeln!(
            text,
            "| {} | {:.0} % | {name} | {:.1} % | {} | {:.0} % |",
            measured.card.product,
            least / decode.both * 100.0,
            both / decode.both * 100.0,
            best.kernel,
            best.rate / peak * 100.0
        );
    }
    text
}

/// What the decoder's ceiling should be at most.
const TARGETS: [(&str, f64); 2] = [("RTX 4090", 0.124), ("RX 7900 XTX", 0.19)];
/// Lines of a table of shares.
const LARGEST: usize = 12;

/// What limits, layer by layer.
fn limits(all: &[Budgeted<'_>]) -> String {
    let mut text = String::new();
    for (measured, [decode, transformer, upscaler]) in all {
        let card = measured.card.product;
        let Some((_, target)) = TARGETS.iter().find(|(name, _)| *name == card) else { continue };
        let slower = decode.issue.max(decode.bandwidth);
        let (reached, by) = (
            if slower <= *target { "reached" } else { "not reached" },
            if decode.issue > decode.bandwidth { "instructions limit it" } else { "memory limits it" },
        );
        let _ = writeln!(
            text,
            "\n### What limits the {card}\n\nTarget for the decoder: a ceiling of at most {target} s. It is {slower:.3} s: {reached}; {by}.\n"
        );
        for (name, budget) in [("decoder", decode), ("transformer", transformer), ("upscaler", upscaler)] {
            text += &shares(name, measured, budget);
        }
    }
    text
}

fn shares(network: &str, measured: &Measured, budget: &Budget) -> String {
    let mut text = format!(
        "| {network} | share | issue | bandwidth | best kernel | share of the matrix peak |\n|---|---:|---:|---:|---|---:|\n"
    );
    let digits = if budget.both < 0.01 { 6 } else { 4 };
    for Line { name, issue, bandwidth, both, best } in budget.lines.iter().take(LARGEST) {
        let peak = measured.card.peak();
        let (kernel, rate) = match best {
            Some(best) => (best.kernel.as_str(), format!("{:.0} %", best.rate / peak * 100.0)),
            None => ("-", "-".into()),
        };
        let share = both / budget.both * 100.0;
        let _ = writeln!(
            text,
            "| {name} | {share:.1} % | {issue:.digits$} | {bandwidth:.digits$} | {kernel} | {rate} |"
        );
    }
    text + "\n"
}

/// What is compared with llama.cpp: a name, the layer, how it is used, and how many times
/// as much it may be.
fn compared() -> [(&'static str, WeightSpec, LayerUse, f64); 3] {
    let dtype = DType::F16;
    let conv = WeightSpec::conv([512, 512], [3; 3], dtype);
    let linear = WeightSpec::Linear { cin: 2560, cout: 2560, dtype };
    let plain = LayerUse::default();
    let norm = LayerUse { prologue: true, ..plain };
    [
        ("linear", linear, plain, 1.25),
        ("conv 3x3x3", conv, plain, 1.25),
        ("conv 3x3x3, norm + SiLU", conv, norm, 2.0),
    ]
}

/// The measure of a card's maker.
fn measure(maker: Maker, counts: &Counts) -> Option<f64> {
    match maker {
        Maker::Amd => counts.inner.ratio(),
        Maker::Nvidia => counts.inner.planned(),
    }
}

fn against(all: &[Budgeted<'_>]) -> String {
    let mut text = String::from("| card | layer | ours | at most |");
    for name in llama::MEASURES {
        let _ = write!(text, " {name} | times |");
    }
    text += "\n|---|---|---:|---:|---:|---|---:|---|\n";
    for (measured, _) in all {
        let maker = measured.card.maker;
        for (name, spec, used, most) in compared() {
            let ours = ours(measured, spec, used).and_then(|counts| measure(maker, counts));
            let told = ours.map_or_else(|| "-".into(), |ours| format!("{ours:.2}"));
            let _ = write!(text, "| {} | {name} | {told} | {most} times |", measured.card.name);
            for wanted in llama::MEASURES {
                let theirs = measured.llama.iter().find(|(name, _)| *name == wanted);
                let theirs = theirs.and_then(|(_, counts)| measure(maker, counts.as_ref().ok()?));
                let _ = match ours.zip(theirs) {
                    Some((ours, theirs)) => {
                        let times = ours / theirs;
                        let kept = if times <= most { "kept" } else { "not kept" };
                        write!(text, " {theirs:.2} | {times:.2}, {kept} |")
                    }
                    None => write!(text, " - | not compared |"),
                };
            }
            text.push('\n');
        }
    }
    text
}

/// What the compiler makes of the fastest kernel for a layer.
fn ours(measured: &Measured, spec: WeightSpec, used: LayerUse) -> Option<&Counts> {
    let best = best(measured.card, &measured.found(), &Task::Product { spec, used, shortcut: 0 })?;
    let passed = best.pass.is_some();
    let layer = crate::kernels::layer(&spec, LayerUse { prologue: used.prologue && !passed, ..used });
    let name = |v: Variant| if passed { v.after_a_pass() } else { v }.to_string();
    let is = |kernel: &crate::kernels::Kernel| {
        kernel.layers.contains(&layer) && kernel.variant.is_some_and(|v| name(v) == best.kernel)
    };
    measured.kernels.iter().find(|(kernel, _)| is(kernel)).and_then(|(_, counts)| counts.as_ref().ok())
}
