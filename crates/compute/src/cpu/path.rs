//! Which kernels a backend uses. Chosen once per machine, never per shape: it is part of what decides
//! the bits of a result.

use std::str::FromStr;

use super::kernels::amx;
use super::simd::Isa;

/// The kernels of a CPU backend. Every value is one that this machine can run: kernels rely on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CpuPath {
    /// Vector instructions.
    pub(super) isa: Isa,
    /// Tile multiplication for bf16.
    pub(super) amx: bool,
    /// Winograd for 3x3 convolutions with step 1 in f32.
    pub(super) winograd: bool,
}

impl CpuPath {
    /// The fastest this machine can do.
    pub fn detect() -> Self {
        CpuPath { isa: Isa::detect(), amx: amx::available(), winograd: true }
    }

    /// True if bf16 is multiplied in tiles.
    pub fn has_amx(&self) -> bool {
        self.amx
    }

    /// True if 3x3 convolutions with step 1 use Winograd in f32.
    pub fn has_winograd(&self) -> bool {
        self.winograd
    }

    /// True if no vector instructions are used.
    pub fn is_portable(&self) -> bool {
        self.isa == Isa::Portable
    }

    /// The same vectors, without tiles.
    pub fn without_amx(self) -> Self {
        CpuPath { amx: false, ..self }
    }

    /// The same vectors and tiles, with or without Winograd.
    pub fn with_winograd(self, winograd: bool) -> Self {
        CpuPath { winograd, ..self }
    }

    /// All paths this machine can run, slowest first.
    pub fn all() -> Vec<Self> {
        let sets = ["portable,direct", "portable", "neon,direct", "neon", "avx2,direct", "avx2"];
        let wide = ["avx512,direct", "avx512", "amx"];
        sets.iter().chain(&wide).filter_map(|w| w.parse().ok()).collect()
    }
}

impl std::fmt::Display for CpuPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.amx, self.isa) {
            (true, _) => "amx",
            (false, Isa::Avx512) => "avx512",
            (false, Isa::Avx2) => "avx2",
            (false, Isa::Neon) => "neon",
            (false, Isa::Portable) => "portable",
        })?;
        f.write_str(if self.winograd { "" } else { ",direct" })
    }
}

impl FromStr for CpuPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let best = CpuPath::detect();
        let mut path = best;
        for word in text.split(',') {
            match word {
                "auto" => {}
                "portable" => path = CpuPath { isa: Isa::Portable, amx: false, ..path },
                "neon" if best.isa == Isa::Neon => path = CpuPath { isa: Isa::Neon, amx: false, ..path },
                "avx2" if matches!(best.isa, Isa::Avx2 | Isa::Avx512) => {
                    path = CpuPath { isa: Isa::Avx2, amx: false, ..path }
                }
                "avx512" if best.isa == Isa::Avx512 => {
                    path = CpuPath { isa: Isa::Avx512, amx: false, ..path }
                }
                "amx" if best.amx => path = best,
                "direct" => path.winograd = false,
                "neon" | "avx2" | "avx512" | "amx" => {
                    return Err(format!("this CPU has no {word}; it has {best}"));
                }
                _ => {
                    return Err(format!(
                        "unknown CPU path `{word}`; use auto, portable, neon, avx2, avx512 or amx, and ,direct"
                    ));
                }
            }
        }
        Ok(path)
    }
}
