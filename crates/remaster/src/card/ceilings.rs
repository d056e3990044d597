//! What a card could reach at most, by instruction counts and bandwidth of compiled kernels.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The file that `cargo xtask isa` writes.
const FILE: &str = include_str!("ceilings.json");

/// End of the name of a layer whose input is normalised.
const NORM: &str = ", norm";

/// Words that make another card of a name that they follow.
const OTHERS: [&str; 9] = ["ti", "super", "xt", "xtx", "gre", "d", "laptop", "mobile", "max-q"];

/// Ceilings of all cards that have some.
#[derive(Debug, Deserialize)]
pub struct Table {
    /// Version of the compilers that the counts come from.
    pub mesa: String,
    cards: Vec<Ceilings>,
}

/// Ceilings of a card.
#[derive(Debug, Deserialize)]
pub struct Ceilings {
    /// Trade name.
    pub name: String,
    /// Parts of names as drivers report them.
    devices: Vec<String>,
    /// The VAE's decoder.
    pub decode: Least,
    /// The 3B transformer in the usual windows.
    pub transformer_3b: Least,
    kernels: Vec<Most>,
}

/// Least seconds per megapixel and frame.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Least {
    issue: f64,
    bandwidth: f64,
}

#[derive(Debug, Deserialize)]
struct Most {
    name: String,
    tmacs: f64,
    /// The kernel that has it.
    kernel: String,
}

impl Least {
    /// Whichever takes longer.
    pub fn seconds(&self) -> f64 {
        self.issue.max(self.bandwidth)
    }
}

impl Ceilings {
    /// The most operations of a kernel in a second: two for each multiply-add.
    pub fn rate(&self, kernel: &str) -> Option<f64> {
        self.kernels.iter().find(|k| k.name == kernel).map(|k| 2e12 * k.tmacs)
    }

    /// The kernels that have the ceilings, by layer: what a card would choose if they were its speeds. Of a layer that is
    /// used in several ways it is the one behind a normalisation.
    pub fn choices(&self) -> BTreeMap<String, String> {
        let (normalised, plain): (Vec<_>, Vec<_>) =
            self.kernels.iter().partition(|kernel| kernel.name.ends_with(NORM));
        let all = plain.into_iter().chain(normalised);
        let layer = |name: &str| name.strip_suffix(NORM).unwrap_or(name).to_owned();
        all.map(|kernel| (layer(&kernel.name), kernel.kernel.clone())).collect()
    }
}

impl Table {
    /// The table of this version. One that cannot be read, which a test rules out, has no cards.
    pub fn built_in() -> Self {
        let empty = |_| Table { mesa: String::new(), cards: Vec::new() };
        serde_json::from_str(FILE).unwrap_or_else(empty)
    }

    /// The ceilings of a device, by its name.
    pub fn find(&self, device: &str) -> Option<&Ceilings> {
        self.cards.iter().find(|card| card.devices.iter().any(|part| is(device, part)))
    }
}

/// Whether `part` is in a device's name as whole words, and not as the start of another card's.
fn is(device: &str, part: &str) -> bool {
    let (device, part) = (device.to_lowercase(), part.to_lowercase());
    device.match_indices(&part).any(|(at, _)| {
        let rest = &device[at + part.len()..];
        let ends = rest.chars().next().is_none_or(|c| !c.is_alphanumeric());
        ends && rest.split_whitespace().next().is_none_or(|word| !OTHERS.contains(&word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"{"mesa":"26.2.6-1","cards":[{"name":"RTX 4090",
        "devices":["RTX 4090"],"decode":{"issue":0.1,"bandwidth":0.02},
        "transformer_3b":{"issue":0.01,"bandwidth":0.02},
        "kernels":[{"name":"conv 3x3x3 512 to 512 f16, norm","tmacs":50.0,"kernel":"b after a pass"},
        {"name":"conv 3x3x3 512 to 512 f16","tmacs":60.0,"kernel":"a"}]}]}"#;

    #[test]
    fn the_built_in_table_can_be_read() {
        serde_json::from_str::<Table>(FILE).unwrap();
    }

    #[test]
    fn a_layer_chooses_the_kernel_behind_its_normalisation() {
        let table: Table = serde_json::from_str(TABLE).unwrap();
        let choices = table.find("RTX 4090").unwrap().choices();
        let expected = ("conv 3x3x3 512 to 512 f16".to_owned(), "b after a pass".to_owned());
        assert_eq!(choices.into_iter().collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn a_card_is_found_by_its_whole_name_only() {
        let table: Table = serde_json::from_str(TABLE).unwrap();
        for name in ["NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090 (NVK AD102)", "geforce rtx 4090"] {
            assert!(table.find(name).is_some(), "{name}");
        }
        for name in ["NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090 D", "RTX 40900", "RTX 409", ""] {
            assert!(table.find(name).is_none(), "{name}");
        }
        let card = table.find("RTX 4090").unwrap();
        assert_eq!((card.decode.seconds(), card.transformer_3b.seconds()), (0.1, 0.02));
        assert_eq!(card.rate("conv 3x3x3 512 to 512 f16"), Some(120e12));
        assert_eq!(card.rate("conv 3x3x3 512 to 512 f16, norm"), Some(100e12));
        assert_eq!(card.rate("conv 3x3x3 512 to 256 f16"), None);
    }
}
