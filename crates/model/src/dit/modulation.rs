//! Scale, shift and gate of a block: parameters plus a part of the time embedding.

use std::sync::{Arc, OnceLock};

use remaster_compute::{SourceError, Weight, WeightSpec};

use crate::params::{Origin, Scope, Values};

/// The time embedding, `[6 d]`: for each channel shift, scale and gate of attention, then of the MLP. Computed when it is
/// first asked for.
#[derive(Clone)]
pub struct Embedding(Arc<Inner>);

struct Inner {
    make: Box<dyn Fn() -> Result<Vec<f32>, SourceError> + Send + Sync>,
    values: OnceLock<Result<Vec<f32>, SourceError>>,
}

impl Embedding {
    /// What `make` gives.
    pub fn new(make: impl Fn() -> Result<Vec<f32>, SourceError> + Send + Sync + 'static) -> Self {
        Embedding(Arc::new(Inner { make: Box::new(make), values: OnceLock::new() }))
    }

    /// All values.
    pub fn values(&self) -> Result<&[f32], SourceError> {
        let values = self.0.values.get_or_init(|| (self.0.make)());
        values.as_deref().map_err(SourceError::clone)
    }
}

/// A number of the six of a channel.
#[derive(Clone, Copy)]
enum Slot {
    Shift,
    Scale,
    Gate,
}

/// A parameter plus its slot of the embedding, times something else if there is one.
struct Modulated {
    embedding: Embedding,
    slot: usize,
    parameter: Arc<dyn Values>,
    times: Option<Arc<dyn Values>>,
}

impl Values for Modulated {
    fn read(&self, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        self.parameter.read(start, out)?;
        let slots = self.embedding.values()?.iter().skip(self.slot).step_by(6).skip(start);
        out.iter_mut().zip(slots).for_each(|(v, e)| *v += e);
        if let Some(times) = &self.times {
            let mut factors = vec![0.0; out.len()];
            times.read(start, &mut factors)?;
            out.iter_mut().zip(factors).for_each(|(v, f)| *v *= f);
        }
        Ok(())
    }
}

/// What goes on around attention, or around the MLP: `x * scale + shift` on the way in, `* gate` on the way out.
pub struct Modulation {
    /// Scale and shift of a normalisation.
    pub affine: Weight,
    /// A factor per channel.
    pub gate: Weight,
}

/// First of the six slots for each layer.
const LAYERS: [(&str, usize); 2] = [("attn", 0), ("mlp", 3)];

impl Modulation {
    /// Those of attention and MLP of one stream. `scope` is where the parameters lie.
    pub fn pair(scope: &mut Scope<'_>, width: usize, embedding: &Embedding) -> [Self; 2] {
        LAYERS.map(|(layer, first)| {
            let mut part = |slot: Slot| {
                let name = ["shift", "scale", "gate"][slot as usize];
                let parameter = scope.values(Origin::Tensor(format!("{layer}_{name}")), vec![width]);
                let embedding = embedding.clone();
                let slot = first + slot as usize;
                Origin::Computed(Arc::new(Modulated { embedding, slot, parameter, times: None }))
            };
            let (shift, scale, gate) = (part(Slot::Shift), part(Slot::Scale), part(Slot::Gate));
            let norm = WeightSpec::Norm { channels: width };
            let vector = WeightSpec::Vector { len: width };
            Modulation {
                affine: scope.made_of(layer, norm, scale, Some(shift)),
                gate: scope.made_of(&format!("{layer}_gate"), vector, gate, None),
            }
        })
    }

    /// Scale and shift of the 3B network's head, its norm's own scale included. It uses the slots of attention: the
    /// original keeps the embedding under a name that both share.
    pub fn head(scope: &mut Scope<'_>, width: usize, embedding: &Embedding) -> Weight {
        let norm = scope.values(Origin::Tensor("vid_out_norm.weight".into()), vec![width]);
        let mut part = |slot: Slot, times| {
            let name = ["out_shift", "out_scale"][slot as usize];
            let parameter = scope.values(Origin::Tensor(format!("vid_out_ada.{name}")), vec![width]);
            let slot = slot as usize;
            Origin::Computed(Arc::new(Modulated { embedding: embedding.clone(), slot, parameter, times }))
        };
        let (shift, scale) = (part(Slot::Shift, None), part(Slot::Scale, Some(norm)));
        scope.made_of("vid_out_ada", WeightSpec::Norm { channels: width }, scale, Some(shift))
    }
}
