//! llama.cpp's kernels through the same compilers, as a measure. Its test program of Debian runs a product, and the driver
//! prints what it compiles.

use std::path::{Path, PathBuf};

use crate::cards::{Card, Maker};
use crate::child::{self, LIMIT};
use crate::counts::Counts;

/// What is run: a name, the operation and a filter of its cases. The products have sums in f16, which need half the
/// registers of ours.
pub(crate) const CASES: [(&str, &str, &str); 2] = [
    ("llama.cpp MUL_MAT f16 by f32, sums f16", "MUL_MAT", "type_a=f16,type_b=f32,m=4096,n=512,k=14336"),
    ("llama.cpp CONV_2D 3x3 128 to 512 f16", "CONV_2D", "3,3,128,512.*type_kernel=f16.*cwhn=0"),
];

fn program(mesa: &Path) -> PathBuf {
    mesa.join("usr/libexec/x86_64-linux-gnu/llama.cpp-tests/test-backend-ops")
}

/// Whether `.ci/mesa llama` fetched it.
pub(crate) fn is_there(mesa: &Path) -> bool {
    program(mesa).exists()
}

/// The kernel of a case that multiplies most matrices in a loop.
pub(crate) fn counts(mesa: &Path, card: &Card, operation: &str, filter: &str) -> Result<Counts, String> {
    let backend = mesa.join("usr/lib/x86_64-linux-gnu/ggml/backends0/libggml-vulkan.so");
    let mut command = card.command(mesa, &program(mesa));
    command.args(["perf", "-o", operation, "-p", filter]).env("GGML_BACKEND_PATH", backend);
    match card.maker {
        Maker::Amd => command.env("RADV_DEBUG", "shaders,shaderstats,nocache"),
        Maker::Nvidia => command.env("NAK_DEBUG", "print"),
    };
    let said = child::run(&mut command, LIMIT)?;
    let kernels = kernels(&said.stderr);
    let all = kernels.iter().map(|(text, numbers)| Counts::new(text, numbers, 0));
    let best = all.max_by_key(|counts| counts.inner.matrix_macs).filter(|counts| counts.inner.matrix > 0);
    best.ok_or_else(|| format!("none of its {} kernels multiplies matrices", kernels.len()))
}

/// Assembly and numbers of each kernel in what a driver prints.
fn kernels(printed: &str) -> Vec<(String, Vec<(String, f64)>)> {
    enum At {
        Between,
        Assembly,
        Numbers,
    }
    let mut found: Vec<(String, Vec<(String, f64)>)> = Vec::new();
    let mut at = At::Between;
    for line in printed.lines() {
        match (&at, line) {
            (_, "disasm:" | "NAK IR after calc_instr_deps:") => {
                found.push(Default::default());
                at = At::Assembly;
            }
            (At::Assembly, "Compute Shader:" | "Stage: compute") => at = At::Numbers,
            (At::Numbers, "Encoded shader:" | "********************") => at = At::Between,
            (At::Assembly, line) => {
                if let Some((text, _)) = found.last_mut() {
                    *text += line;
                    text.push('\n');
                }
            }
            (At::Numbers, line) => {
                let number =
                    line.split_once(": ").and_then(|(n, v)| Some((n.to_owned(), v.trim().parse().ok()?)));
                found.last_mut().into_iter().for_each(|(_, numbers)| numbers.extend(number.clone()));
            }
            (At::Between, _) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

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
