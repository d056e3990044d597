//! Plans for graphics cards that are not there.

pub mod ceilings;
mod plan;

pub use plan::{CardPlan, Ceiling, KeptIn, Streamed, Tensors};
pub(crate) use plan::{DECODER, TRANSFORMER};

use crate::error::Error;
use crate::machine::CardMemory;

/// A graphics card that can be planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Trade name.
    pub name: &'static str,
    /// Its memory in GB as makers count them, which are GiB.
    pub memory_gb: u64,
}

/// All of them.
pub const CARDS: [Card; 10] = [
    Card { name: "RTX 2080 Ti", memory_gb: 11 },
    Card { name: "RTX 3060", memory_gb: 12 },
    Card { name: "RTX 3090", memory_gb: 24 },
    Card { name: "RTX 4060", memory_gb: 8 },
    Card { name: "RTX 4090", memory_gb: 24 },
    Card { name: "RTX 5070 Ti", memory_gb: 16 },
    Card { name: "RTX 5090", memory_gb: 32 },
    Card { name: "RX 7600", memory_gb: 8 },
    Card { name: "RX 7900 XTX", memory_gb: 24 },
    Card { name: "RX 9070 XT", memory_gb: 16 },
];

/// Words that names have in front and that tell no cards apart.
const BRANDS: [&str; 4] = ["nvidia", "geforce", "amd", "radeon"];

impl Card {
    /// The card of this name. Capitals, spaces, hyphens and brands do not count.
    pub fn named(word: &str) -> Result<Self, Error> {
        let wanted = plain(word);
        CARDS.into_iter().find(|card| plain(card.name) == wanted).ok_or_else(|| {
            let known = CARDS.map(|card| format!("{} ({} GB)", card.name, card.memory_gb)).join(", ");
            Error::UnknownCard { word: word.to_owned(), known }
        })
    }

    /// Its memory while no other program uses it.
    pub fn memory(&self) -> CardMemory {
        let bytes = self.memory_gb << 30;
        CardMemory { bytes, free_bytes: Some(bytes), shared: false }
    }
}

/// A name without what may be written in several ways.
fn plain(name: &str) -> String {
    let lower = name.to_lowercase();
    let parts = lower.split(|c: char| !c.is_alphanumeric());
    parts.filter(|part| !BRANDS.contains(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_found_by_its_usual_names() {
        for word in ["RTX 4060", "rtx4060", "NVIDIA GeForce RTX 4060", "rtx-4060"] {
            assert_eq!(Card::named(word).unwrap().name, "RTX 4060", "{word}");
        }
        assert_eq!(Card::named("AMD Radeon RX 7900 XTX").unwrap().memory_gb, 24);
    }

    #[test]
    fn an_unknown_card_is_refused_with_the_known_ones() {
        for word in ["RTX 4060 Ti", "4060", "RTX", "", "nvidia"] {
            let error = Card::named(word).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("`{word}`")) && text.contains("RX 9070 XT (16 GB)"), "{text}");
            assert_eq!((error.kind(), error.class().exit_code()), ("unknown-card", 2));
        }
    }

    #[test]
    fn a_card_has_the_headroom_of_a_real_one() {
        let memory = Card::named("RTX 4060").unwrap().memory();
        assert_eq!(memory.allowed(), (8 << 30) - (8 << 30) / 10);
    }
}
