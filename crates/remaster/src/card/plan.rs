//! What a restoration takes of a card that is not there.

use remaster_plan::{Plan, Tiers};
use serde::Serialize;

use super::Card;

/// What a restoration takes of a card that is not there.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CardPlan {
    /// Trade name of the card.
    pub name: &'static str,
    /// All of its memory.
    pub memory_bytes: u64,
    /// What a run may use of it.
    pub allowed_bytes: u64,
    /// Networks that are on the card with all that they need.
    pub stays: Vec<&'static str>,
    /// What comes and goes.
    pub streamed: Vec<Streamed>,
    /// The least time, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
}

/// Tensors of a network that come and go while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Streamed {
    /// Whose they are: `encoder`, `transformer`, `decoder` or `upscaler`.
    pub network: &'static str,
    /// What they are.
    pub what: Tensors,
    /// Where they wait.
    pub place: KeptIn,
    /// Only those of more bytes than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_bytes: Option<u64>,
}

/// Kinds of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tensors {
    /// Weights.
    Weights,
    /// Activations.
    Activations,
    /// What a slice leaves for the next one.
    State,
}

/// Where tensors wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeptIn {
    /// In the model file.
    Model,
    /// In host memory.
    Host,
    /// In the spill file.
    Disk,
}

/// The least time in shots longer than a window, by the instructions and bytes of compiled kernels. No run was timed.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Ceiling {
    /// The networks that it counts; the others come on top.
    pub networks: Vec<&'static str>,
    /// Of a frame.
    pub seconds_per_frame: f64,
    /// Of the whole film, if its length is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl CardPlan {
    /// Of networks that were planned for so many bytes of this card.
    pub(crate) fn new(card: &Card, allowed_bytes: u64, plans: &[Plan], ceiling: Option<Ceiling>) -> Self {
        let streamed: Vec<Streamed> = plans.iter().flat_map(streamed).collect();
        let whole = |name: &&str| streamed.iter().all(|s| s.network != *name);
        CardPlan {
            name: card.name,
            memory_bytes: card.memory().bytes,
            allowed_bytes,
            stays: plans.iter().map(network).filter(whole).collect(),
            streamed,
            ceiling,
        }
    }

    /// What stays on the card, in words.
    pub fn stays_in_words(&self) -> String {
        match (self.stays.is_empty(), self.streamed.is_empty()) {
            (_, true) => "everything".into(),
            (true, false) => "no network as a whole".into(),
            (false, false) => self.stays.join(", "),
        }
    }

    /// What comes and goes, in words.
    pub fn streamed_in_words(&self) -> String {
        if self.streamed.is_empty() {
            return "nothing".into();
        }
        let alike = |a: &Streamed, b: &Streamed| (a.network, a.place) == (b.network, b.place);
        self.streamed.chunk_by(alike).map(together).collect::<Vec<_>>().join("; ")
    }
}

/// Tensors of one network that wait in one place: `large decoder activations and state in host memory`.
fn together(list: &[Streamed]) -> String {
    let kind = |streamed: &Streamed| match streamed.what {
        Tensors::Weights => "weights",
        Tensors::Activations => "activations",
        Tensors::State => "state",
    };
    let (network, place) = list.first().map_or(("", KeptIn::Model), |first| (first.network, first.place));
    let place = match place {
        KeptIn::Model => "from the model file",
        KeptIn::Host => "in host memory",
        KeptIn::Disk => "on disk",
    };
    let large = if list.iter().any(|streamed| streamed.over_bytes.is_some()) { "large " } else { "" };
    let kinds: Vec<&str> = list.iter().map(kind).collect();
    format!("{large}{network} {} {place}", kinds.join(" and "))
}

/// Names of networks that have ceilings.
pub(crate) const TRANSFORMER: &str = "transformer";
pub(crate) const DECODER: &str = "decoder";

/// The network of a plan.
fn network(plan: &Plan) -> &'static str {
    match plan.job.network.name.as_str() {
        "encode" => "encoder",
        "dit" => TRANSFORMER,
        "decode" => DECODER,
        _ => "upscaler",
    }
}

/// What does not stay on the device.
fn streamed(plan: &Plan) -> Vec<Streamed> {
    let (network, how) = (network(plan), &plan.how);
    let mut list = Vec::new();
    if how.stream_weights {
        list.push(Streamed { network, what: Tensors::Weights, place: KeptIn::Model, over_bytes: None });
    }
    for (what, tiers) in [(Tensors::Activations, how.activations), (Tensors::State, how.state)] {
        let far = |place, over: u64| {
            let over_bytes = Some(over).filter(|over| *over > 0);
            Streamed { network, what, place, over_bytes }
        };
        match tiers {
            Tiers { device: None, .. } => {}
            Tiers { device: Some(n), host: None } => list.push(far(KeptIn::Host, n)),
            Tiers { device: Some(n), host: Some(m) } if m <= n => list.push(far(KeptIn::Disk, n)),
            Tiers { device: Some(n), host: Some(m) } => {
                list.extend([far(KeptIn::Host, n), far(KeptIn::Disk, m)]);
            }
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_streamed_is_said_by_network_and_place() {
        let of = |network, what, place, over_bytes| Streamed { network, what, place, over_bytes };
        let plan = |stays: &[&'static str], streamed: &[Streamed]| CardPlan {
            name: "RTX 4060",
            memory_bytes: 8 << 30,
            allowed_bytes: 7 << 30,
            stays: stays.to_vec(),
            streamed: streamed.to_vec(),
            ceiling: None,
        };
        let all = plan(&["encoder", DECODER], &[]);
        assert_eq!([all.stays_in_words(), all.streamed_in_words()], ["everything", "nothing"]);
        let streamed = [
            of(TRANSFORMER, Tensors::Weights, KeptIn::Model, None),
            of(DECODER, Tensors::Activations, KeptIn::Host, Some(5)),
            of(DECODER, Tensors::State, KeptIn::Host, Some(7)),
            of(DECODER, Tensors::State, KeptIn::Disk, Some(9)),
        ];
        let some = plan(&["encoder"], &streamed);
        assert_eq!(some.stays_in_words(), "encoder");
        assert_eq!(
            some.streamed_in_words(),
            "transformer weights from the model file; large decoder activations and state in host memory; large decoder state on disk"
        );
        assert_eq!(plan(&[], &streamed).stays_in_words(), "no network as a whole");
    }
}
