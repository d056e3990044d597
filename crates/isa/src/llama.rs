//! llama.cpp's kernels through the same compilers, as a measure. Its test program of Debian runs a product, and the driver
//! prints what it compiles.

use std::path::{Path, PathBuf};

use crate::cards::{Card, Maker};
use crate::child::{self, LIMIT};
use crate::counts::Counts;

/// What its test program is asked to run.
#[derive(Clone, Copy, Debug)]
enum Ask {
    /// A product of f16 weights with values of this type of ggml's, sums in f32, as the program reads it from a file.
    Product(u32),
    /// An operation and a filter of the cases that it knows.
    Known(&'static str, &'static str),
}

/// The cases that ours are compared with: its default, and the one that computes what ours do.
pub(crate) const MEASURES: [&str; 2] = [DEFAULT, SAME];

const DEFAULT: &str = "llama.cpp MUL_MAT f16 by f32, sums f16";
const SAME: &str = "llama.cpp MUL_MAT f16 by f16, sums f32";

/// What is run, by name.
const CASES: [(&str, Ask); 4] = [
    (DEFAULT, Ask::Known("MUL_MAT", "type_a=f16,type_b=f32,m=4096,n=512,k=14336")),
    (SAME, Ask::Product(F16)),
    ("llama.cpp MUL_MAT f16 by f32, sums f32", Ask::Product(F32)),
    ("llama.cpp CONV_2D 3x3 128 to 512 f16", Ask::Known("CONV_2D", "3,3,128,512.*type_kernel=f16.*cwhn=0")),
];

/// Types of ggml.
const F32: u32 = 0;
const F16: u32 = 1;

/// A product of 2560 by 2560 for 4096 tokens in the form that `test-export-graph-ops` writes: number of the operation, type and
/// sizes of the result, its parameters (10 is precision f32), and for both operands type, sizes and steps in bytes.
fn product(values: u32) -> String {
    // The number that MUL_MAT has in the enumeration of operations of ggml 0.27.
    const MUL_MAT: u32 = 29;
    const PRECISE: u32 = 10;
    let (channels, tokens) = (2560u64, 4096u64);
    let operand = |kind: u32, rows: u64| {
        let value = if kind == F16 { 2 } else { 4 };
        let (line, all) = (value * channels, value * channels * rows);
        format!("{kind} {channels} {rows} 1 1 {value} {line} {all} {all}")
    };
    let operands = format!("{} {}", operand(F16, channels), operand(values, tokens));
    format!("{MUL_MAT} {F32} {channels} {tokens} 1 1 1 {PRECISE} 2 {operands} -\n")
}

fn program(mesa: &Path) -> PathBuf {
    mesa.join("usr/libexec/x86_64-linux-gnu/llama.cpp-tests/test-backend-ops")
}

/// Whether `.ci/mesa llama` fetched it.
pub(crate) fn is_there(mesa: &Path) -> bool {
    program(mesa).exists()
}

/// Every case by name: the kernel that multiplies most matrices in a loop.
pub(crate) fn all(mesa: &Path, card: &Card) -> Vec<(&'static str, Result<Counts, String>)> {
    CASES.map(|(name, ask)| (name, counts(mesa, card, ask))).into()
}

fn counts(mesa: &Path, card: &Card, ask: Ask) -> Result<Counts, String> {
    let backend = mesa.join("usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-vulkan.so");
    let file = std::env::temp_dir().join(format!("remaster-isa-{}.ops", std::process::id()));
    let mut command = card.command(mesa, &program(mesa));
    command.arg("perf").env("GGML_BACKEND_PATH", backend);
    let operation = match ask {
        Ask::Product(values) => {
            std::fs::write(&file, product(values)).map_err(|e| format!("{}: {e}", file.display()))?;
            command.arg("--test-file").arg(&file);
            "MUL_MAT"
        }
        Ask::Known(operation, filter) => {
            command.args(["-o", operation, "-p", filter]);
            operation
        }
    };
    match card.maker {
        Maker::Amd => command.env("RADV_DEBUG", "shaders,shaderstats,nocache"),
        Maker::Nvidia => command.env("NAK_DEBUG", "print"),
    };
    let said = child::run(&mut command, LIMIT);
    let _ = std::fs::remove_file(&file);
    let said = said?;
    if !said.stdout.contains(&format!("  {operation}(")) {
        return Err(format!("it did not run {operation}"));
    }
    let kernels = kernels(&said.stderr);
    let all = kernels.iter().map(|(text, numbers)| Counts::new(text, numbers, 0));
    let best = all.max_by_key(|counts| counts.inner.matrix_macs).filter(|counts| counts.inner.matrix > 0);
    best.ok_or_else(|| format!("none of its {} kernels multiplies matrices", kernels.len()))
}

/// Lines in front of the assembly of a kernel, of its numbers, and behind them: what AMD's and what NVIDIA's driver prints.
const ASSEMBLY: [&str; 2] = ["disasm:", "NAK IR after calc_instr_deps:"];
const NUMBERS: [&str; 2] = ["Compute Shader:", "Stage: compute"];
const END: [&str; 2] = ["********************", "Encoded shader:"];

/// Assembly and numbers of each kernel in what a driver prints.
fn kernels(printed: &str) -> Vec<(String, Vec<(String, f64)>)> {
    let lines: Vec<&str> = printed.lines().collect();
    let kernel = |lines: &[&str]| {
        let mut lines = lines.iter();
        let assembly = lines.by_ref().take_while(|line| !NUMBERS.contains(line));
        let assembly = assembly.map(|line| format!("{line}\n")).collect();
        let numbers = lines.take_while(|line| !END.contains(line)).filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        });
        (assembly, numbers.collect())
    };
    lines.split(|line| ASSEMBLY.contains(line)).skip(1).map(kernel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_written_as_the_program_reads_it() {
        assert_eq!(
            product(F32),
            "29 0 2560 4096 1 1 1 10 2 1 2560 2560 1 1 2 5120 13107200 13107200 \
             0 2560 4096 1 1 4 10240 41943040 41943040 -\n"
        );
    }

    #[test]
    fn kernels_are_found_in_what_amds_driver_prints() {
        let printed = "ACO IR\nCompute Shader\ndisasm:\nBB0:\n\tv_mov_b32 v0, 1\n\ts_endpgm\n\nCompute Shader:\n*** SHADER STATS ***\n\
                       VGPRs: 192\nInverse Throughput: 10791\n********************\nmore\n";
        let found = kernels(printed);
        assert_eq!(found.len(), 1);
        let counts = Counts::new(&found[0].0, &found[0].1, 0);
        assert_eq!((counts.inner.vector, counts.registers, counts.estimate), (1, 192, 10791.0));
    }

    #[test]
    fn kernels_are_found_in_what_nvidias_driver_prints() {
        let printed = "NAK IR after opt_dce:\nblock 0 L0 [] -> {\n r1 = mov r2\n}\nNAK IR after calc_instr_deps:\nblock 0 L0 [] -> {\n  \
                       r1 = mov r2 // delay=3\n} -> []\n\nStage: compute\nStatic cycle count: 90\nNum GPRs: 104\nEncoded shader:\n  00ff\n";
        let found = kernels(printed);
        assert_eq!(found.len(), 1);
        let counts = Counts::new(&found[0].0, &found[0].1, 0);
        assert_eq!((counts.inner.vector, counts.inner.cycles, counts.registers), (1, 3, 104));
    }
}
