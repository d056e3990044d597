//! What the kernels were like when it was last looked at, and whether they got worse.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::counts::{Counts, Mix};
use crate::measured::Measured;

/// Cards of the gate: one of each maker.
pub(crate) const CARDS: [&str; 2] = ["RX 7900 XTX", "Ada"];

/// Where it is kept.
pub(crate) const FILE: &str = "crates/isa/record.json";

/// Changes up to this share are let pass: compilers move single instructions.
const SLACK: f64 = 0.05;

const AGAIN: &str = "`cargo xtask isa` makes a new record";

/// The record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Version of the compilers.
    pub(crate) mesa: String,
    /// Kernels by card and name.
    pub(crate) cards: BTreeMap<String, BTreeMap<String, Entry>>,
}

/// What must not get worse.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Vector instructions for each matrix instruction in the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    pub(crate) spills: u32,
    pub(crate) occupancy: u32,
    /// Loads of single 16-bit values from workgroup memory.
    pub(crate) u16_loads: u32,
}

impl Entry {
    fn of(counts: &Counts) -> Self {
        let narrow = |mix: &Mix| -> u32 {
            mix.shared_loads.iter().filter(|(name, _)| name.contains("u16")).map(|(_, n)| n).sum()
        };
        Entry {
            // Three digits: a record should read well.
            ratio: counts.inner.ratio().map(|ratio| (ratio * 1000.0).round() / 1000.0),
            spills: counts.spills,
            occupancy: counts.occupancy,
            u16_loads: [&counts.inner, &counts.outer, &counts.short, &counts.rest].map(narrow).iter().sum(),
        }
    }

    /// In what it is worse than it was.
    fn worse(&self, was: &Entry) -> Vec<String> {
        let more = |what: &str, now: f64, was: f64| {
            (now > was * (1.0 + SLACK)).then(|| format!("{what} {now}, recorded {was}"))
        };
        let count = |what: &str, now: u32, was: u32| more(what, f64::from(now), f64::from(was));
        let fewer = f64::from(self.occupancy) < f64::from(was.occupancy) * (1.0 - SLACK);
        [
            self.ratio
                .zip(was.ratio)
                .and_then(|(now, was)| more("vector instructions for each matrix instruction", now, was)),
            (self.ratio.is_none() && was.ratio.is_some())
                .then(|| "no matrix instructions any more".to_owned()),
            count("spills", self.spills, was.spills),
            fewer.then(|| format!("subgroups at a time {}, recorded {}", self.occupancy, was.occupancy)),
            count("16-bit loads from workgroup memory", self.u16_loads, was.u16_loads),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl Record {
    /// Of the gate's cards among these.
    pub(crate) fn of(measured: &[Measured]) -> Result<Self, String> {
        let mut record = Record::default();
        for found in measured.iter().filter(|m| CARDS.contains(&m.card.name)) {
            record.mesa = found.mesa().to_owned();
            let card = record.cards.entry(found.card.name.to_owned()).or_default();
            for (kernel, counts) in &found.kernels {
                let counts =
                    counts.as_ref().map_err(|why| format!("{}: {}: {why}", found.card.name, kernel.key()))?;
                card.insert(kernel.key().to_owned(), Entry::of(counts));
            }
        }
        Ok(record)
    }

    /// What it says of `now`: a sentence if all is well, or every kernel that got worse.
    pub(crate) fn judge(&self, now: &Record) -> Result<String, String> {
        let mut wrong = Vec::new();
        for (card, kernels) in &now.cards {
            let recorded = self.cards.get(card);
            for (name, entry) in kernels {
                match recorded.and_then(|all| all.get(name)) {
                    Some(was) => {
                        wrong.extend(entry.worse(was).into_iter().map(|why| format!("{card}: {name}: {why}")))
                    }
                    None => wrong.push(format!("{card}: {name}: not in the record")),
                }
            }
        }
        if self.mesa != now.mesa {
            let differences =
                if wrong.is_empty() { "no kernel is worse".to_owned() } else { wrong.join("\n") };
            return Ok(format!(
                "the record is of Mesa {}, this is {}; {AGAIN}\n{differences}\n",
                self.mesa, now.mesa
            ));
        }
        if wrong.is_empty() {
            let count: usize = now.cards.values().map(BTreeMap::len).sum();
            return Ok(format!("{count} kernels are no worse than recorded, Mesa {}\n", now.mesa));
        }
        Err(format!("kernels got worse; if that is meant, {AGAIN}\n{}", wrong.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(mesa: &str, entry: Entry) -> Record {
        let kernels = BTreeMap::from([("linear".to_owned(), entry)]);
        Record { mesa: mesa.into(), cards: BTreeMap::from([("Ada".to_owned(), kernels)]) }
    }

    const WAS: Entry = Entry { ratio: Some(2.0), spills: 0, occupancy: 8, u16_loads: 40 };

    fn judged(now: Entry) -> Result<String, String> {
        record("26.2", WAS).judge(&record("26.2", now))
    }

    #[test]
    fn the_same_passes_and_so_does_a_little_worse_or_better() {
        assert!(judged(WAS).is_ok());
        assert!(judged(Entry { ratio: Some(2.09), u16_loads: 42, ..WAS }).is_ok());
        assert!(judged(Entry { ratio: Some(1.0), occupancy: 16, u16_loads: 0, ..WAS }).is_ok());
    }

    #[test]
    fn each_number_fails_alone() {
        for (worse, word) in [
            (Entry { ratio: Some(2.11), ..WAS }, "vector instructions"),
            (Entry { ratio: None, ..WAS }, "no matrix instructions"),
            (Entry { spills: 1, ..WAS }, "spills 1"),
            (Entry { occupancy: 7, ..WAS }, "subgroups at a time 7"),
            (Entry { u16_loads: 43, ..WAS }, "16-bit loads"),
        ] {
            let said = judged(worse).err().unwrap_or_default();
            assert!(said.contains(word) && said.contains("Ada: linear"), "{said}");
        }
    }

    #[test]
    fn a_kernel_that_is_not_recorded_fails_with_the_command() {
        let said = Record { mesa: "26.2".into(), ..Record::default() }.judge(&record("26.2", WAS));
        assert!(said.is_err_and(|s| s.contains("not in the record") && s.contains("cargo xtask isa")));
    }

    #[test]
    fn under_another_mesa_it_only_reports() {
        let said = record("26.2", WAS).judge(&record("26.3", Entry { spills: 9, ..WAS }));
        assert!(
            said.is_ok_and(|s| s.contains("26.3") && s.contains("spills 9") && s.contains("cargo xtask isa"))
        );
    }
}
