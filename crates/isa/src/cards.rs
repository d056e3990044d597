//! Cards whose drivers compile here without them.

use std::path::Path;
use std::process::Command;

use remaster_compute::gpu::MatrixUnits;

/// A card that Mesa can pretend to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Card {
    /// As people know it.
    pub(crate) name: &'static str,
    /// The library that stands for its kernel driver, and how that is told which card it is.
    shim: &'static str,
    variable: &'static str,
    id: &'static str,
    /// The Vulkan driver.
    driver: &'static str,
    /// Most threads of a subgroup. Matrices have 16 rows on all of them.
    pub(crate) subgroup: usize,
}

const fn amd(name: &'static str, id: &'static str) -> Card {
    let (shim, driver) = ("libamdgpu_noop_drm_shim.so", "radeon_icd.json");
    Card { name, shim, variable: "AMDGPU_GPU_ID", id, driver, subgroup: 64 }
}

const fn nvidia(name: &'static str, id: &'static str) -> Card {
    let (shim, driver) = ("libnouveau_noop_drm_shim.so", "nouveau_icd.json");
    Card { name, shim, variable: "NOUVEAU_CHIPSET", id, driver, subgroup: 32 }
}

/// All of them.
pub(crate) const CARDS: [Card; 6] = [
    amd("RX 7900 XTX", "navi31"),
    amd("RX 9070 XT", "gfx1201"),
    nvidia("Turing", "162"),
    nvidia("Ampere", "172"),
    nvidia("Ada", "192"),
    nvidia("Blackwell", "1b2"),
];

impl Card {
    /// Its matrix units.
    pub(crate) fn units(&self) -> MatrixUnits {
        MatrixUnits { size: 16, subgroup: self.subgroup }
    }

    /// A command that runs a program with the card's driver out of a Debian tree, and with the C library of that tree.
    pub(crate) fn command(&self, mesa: &Path, program: &Path) -> Command {
        let libraries = mesa.join("usr/lib/x86_64-linux-gnu");
        let mut command = Command::new(mesa.join("lib64/ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(&libraries).arg(program);
        command
            .env("LD_PRELOAD", libraries.join(self.shim))
            .env("VK_DRIVER_FILES", mesa.join("usr/share/vulkan/icd.d").join(self.driver))
            .env(self.variable, self.id)
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
