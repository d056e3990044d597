//! Cards whose drivers compile here without them.

use std::path::Path;
use std::process::Command;

use remaster_compute::gpu::MatrixUnits;

/// A card that Mesa can pretend to have, and what its maker says of the one that ceilings are for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Card {
    /// Trade name, or the name of its chip.
    pub(crate) name: &'static str,
    pub(crate) maker: Maker,
    /// How the library that stands for its kernel driver is told which card it is.
    id: &'static str,
    /// The card of its kind that ceilings are for, by its trade name and as drivers report it.
    pub(crate) product: &'static str,
    /// Compute units of AMD, multiprocessors of NVIDIA.
    pub(crate) units: u32,
    /// Boost clock in GHz.
    pub(crate) clock: f64,
    /// Memory in GB/s.
    pub(crate) bandwidth: f64,
    /// f16 with f32 sums on matrix units, in 10^12 operations a second, a multiply-add being two.
    pub(crate) tflops: f64,
    /// Where this is said.
    pub(crate) source: &'static str,
}

/// Who makes it. That decides the driver and how instructions share the issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    Amd,
    Nvidia,
}

/// All of them.
pub(crate) const CARDS: [Card; 10] = [
    Card {
        name: "RX 7900 XTX",
        maker: Maker::Amd,
        id: "navi31",
        product: "RX 7900 XTX",
        units: 96,
        clock: 2.5,
        bandwidth: 960.0,
        tflops: 122.9,
        source: "amd.com, specifications; gpuopen.com/learn/wmma_on_rdna3: 32 cycles a WMMA",
    },
    Card {
        name: "RX 9070 XT",
        maker: Maker::Amd,
        id: "gfx1201",
        product: "RX 9070 XT",
        units: 64,
        clock: 2.97,
        bandwidth: 640.0,
        tflops: 195.0,
        source: "amd.com, specifications: 195 TFLOPS of dense f16 matrices",
    },
    Card {
        name: "Turing",
        maker: Maker::Nvidia,
        id: "162",
        product: "RTX 2080 Ti",
        units: 68,
        clock: 1.545,
        bandwidth: 616.0,
        tflops: 53.8,
        source: "NVIDIA, Turing architecture whitepaper, appendix",
    },
    Card {
        name: "Ampere",
        maker: Maker::Nvidia,
        id: "172",
        product: "RTX 3090",
        units: 82,
        clock: 1.695,
        bandwidth: 936.0,
        tflops: 71.0,
        source: "NVIDIA, Ampere GA102 whitepaper, appendix",
    },
    Card {
        name: "Ada",
        maker: Maker::Nvidia,
        id: "192",
        product: "RTX 4090",
        units: 128,
        clock: 2.52,
        bandwidth: 1008.0,
        tflops: 165.2,
        source: "NVIDIA, Ada architecture whitepaper, appendix",
    },
    Card {
        name: "Blackwell",
        maker: Maker::Nvidia,
        id: "1b2",
        product: "RTX 5090",
        units: 170,
        clock: 2.407,
        bandwidth: 1792.0,
        tflops: 209.5,
        source: "NVIDIA, RTX Blackwell architecture whitepaper, appendix",
    },
    Card {
        name: "RX 7600",
        maker: Maker::Amd,
        id: "navi33",
        product: "RX 7600",
        units: 32,
        clock: 2.655,
        bandwidth: 288.0,
        tflops: 43.5,
        source: "amd.com, specifications",
    },
    Card {
        name: "RTX 3060",
        maker: Maker::Nvidia,
        id: "176",
        product: "RTX 3060",
        units: 28,
        clock: 1.777,
        bandwidth: 360.0,
        tflops: 25.5,
        source: "NVIDIA, specifications; as the RTX 3090 by units and clock",
    },
    Card {
        name: "RTX 4060",
        maker: Maker::Nvidia,
        id: "197",
        product: "RTX 4060",
        units: 24,
        clock: 2.46,
        bandwidth: 272.0,
        tflops: 30.2,
        source: "NVIDIA, specifications; as the RTX 4090 by units and clock",
    },
    Card {
        name: "RTX 5070 Ti",
        maker: Maker::Nvidia,
        id: "1b3",
        product: "RTX 5070 Ti",
        units: 70,
        clock: 2.452,
        bandwidth: 896.0,
        tflops: 87.9,
        source: "NVIDIA, RTX Blackwell architecture whitepaper, appendix",
    },
];

impl Card {
    /// Cycles in a second of all parts that issue instructions on their own: two SIMDs of a unit of AMD, four partitions of
    /// NVIDIA's.
    pub(crate) fn cycles(&self) -> f64 {
        let issuers = match self.maker {
            Maker::Amd => 2.0,
            Maker::Nvidia => 4.0,
        };
        f64::from(self.units) * issuers * self.clock * 1e9
    }

    /// Multiply-adds of matrices in a second.
    pub(crate) fn peak(&self) -> f64 {
        self.tflops * 1e12 / 2.0
    }

    /// Multiply-adds of matrices in a cycle of such a part.
    pub(crate) fn macs_a_cycle(&self) -> f64 {
        self.peak() / self.cycles()
    }

    /// Its matrix units. Subgroups have up to 64 threads on AMD; matrices have 16 rows on all cards.
    pub(crate) fn matrix_units(&self) -> MatrixUnits {
        let subgroup = match self.maker {
            Maker::Amd => 64,
            Maker::Nvidia => 32,
        };
        MatrixUnits { size: 16, subgroup, fixed: self.maker == Maker::Nvidia }
    }

    /// A command that runs a program with the card's driver out of a Debian tree, and with the C library of that tree.
    pub(crate) fn command(&self, mesa: &Path, program: &Path) -> Command {
        let (shim, variable, driver) = match self.maker {
            Maker::Amd => ("libamdgpu_noop_drm_shim.so", "AMDGPU_GPU_ID", "radeon_icd.json"),
            Maker::Nvidia => ("libnouveau_noop_drm_shim.so", "NOUVEAU_CHIPSET", "nouveau_icd.json"),
        };
        let libraries = mesa.join("usr/lib/x86_64-linux-gnu");
        let mut command = Command::new(mesa.join("lib64/ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(&libraries).arg(program);
        command
            .env("LD_PRELOAD", libraries.join(shim))
            .env("VK_DRIVER_FILES", mesa.join("usr/share/vulkan/icd.d").join(driver))
            .env(variable, self.id)
            .env("MESA_SHADER_CACHE_DISABLE", "1")
            .env("NVK_I_WANT_A_BROKEN_VULKAN_DRIVER", "1");
        command
    }
}

/// The cards of these names; all if there are none.
pub(crate) fn named(wanted: &[&str]) -> Result<Vec<&'static Card>, String> {
    let find = |name: &&str| {
        let names: Vec<&str> = CARDS.iter().map(|card| card.name).collect();
        let found = CARDS.iter().find(|card| card.name == *name);
        found.ok_or_else(|| format!("no card is named {name}; there are {}", names.join(", ")))
    };
    if wanted.is_empty() { Ok(CARDS.iter().collect()) } else { wanted.iter().map(find).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrix_instructions_take_the_cycles_that_makers_say() {
        // A product of 16x16x16 on AMD, of 16x8x16 on NVIDIA.
        let cycles = |card: &Card, macs: f64| macs / card.macs_a_cycle();
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.01;
        for card in &CARDS {
            let (macs, expected) = match card.name {
                "RX 7900 XTX" | "RX 7600" => (4096.0, 32.0),
                "RX 9070 XT" => (4096.0, 16.0),
                _ => (2048.0, 32.0),
            };
            assert!(near(cycles(card, macs), expected), "{}: {}", card.name, cycles(card, macs));
        }
    }
}
