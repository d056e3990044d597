//! The time of the diffusion as a vector. The model does one step, at one time, so it is a constant of the checkpoint.

use std::sync::Arc;

use remaster_compute::SourceError;

use super::{DitConfig, Embedding};
use crate::params::{Origin, Scope, Values};

/// Sines, then cosines, of a time at falling frequencies.
pub fn sinusoids(time: f32) -> Vec<f32> {
    let half = DitConfig::TIME / 2;
    // Rounded where the original rounds: at time 1000 a frequency that is off by its last bit turns by 6e-5.
    let angle = |k: usize| {
        let power = -libm::log(10_000.0) as f32 * k as f32 / half as f32;
        time * libm::exp(f64::from(power)) as f32
    };
    let of = |function: fn(f64) -> f64| (0..half).map(move |k| function(f64::from(angle(k))) as f32);
    of(libm::sin).chain(of(libm::cos)).collect()
}

/// `emb_in` of a checkpoint at `time`: two layers with SiLU behind each and one without, computed when it is first
/// asked for.
pub fn embedding(config: &DitConfig, scope: &mut Scope<'_>, time: f32) -> Embedding {
    let scope = &mut scope.at("emb_in");
    let d = config.width;
    let layers = [
        Dense::new(scope, "proj_in", DitConfig::TIME, d),
        Dense::new(scope, "proj_hid", d, d),
        Dense::new(scope, "proj_out", d, 6 * d),
    ];
    Embedding::new(move || {
        let silu = |v: &mut f32| *v /= 1.0 + libm::exp(f64::from(-*v)) as f32;
        let [first, second, third] = &layers;
        let mut x = first.apply(&sinusoids(time))?;
        x.iter_mut().for_each(silu);
        let mut x = second.apply(&x)?;
        x.iter_mut().for_each(silu);
        third.apply(&x)
    })
}

/// A linear layer that is computed once per checkpoint, on the host.
pub(super) struct Dense {
    matrix: Arc<dyn Values>,
    bias: Arc<dyn Values>,
    cin: usize,
    cout: usize,
}

impl Dense {
    pub(super) fn new(scope: &mut Scope<'_>, name: &str, cin: usize, cout: usize) -> Self {
        let matrix = scope.values(Origin::Tensor(format!("{name}.weight")), vec![cout, cin]);
        let bias = scope.values(Origin::Tensor(format!("{name}.bias")), vec![cout]);
        Dense { matrix, bias, cin, cout }
    }

    /// `[n, cin]` to `[n, cout]`, one row of the matrix at a time.
    pub(super) fn apply(&self, x: &[f32]) -> Result<Vec<f32>, SourceError> {
        let mut bias = vec![0.0; self.cout];
        self.bias.read(0, &mut bias)?;
        let count = x.len() / self.cin.max(1);
        let mut y = vec![0.0; count * self.cout];
        let mut row = vec![0.0; self.cin];
        for (o, bias) in bias.iter().enumerate() {
            self.matrix.read(o * self.cin, &mut row)?;
            for (x, y) in x.chunks_exact(self.cin).zip(y.chunks_exact_mut(self.cout)) {
                y[o] = (dot(x, &row) + f64::from(*bias)) as f32;
            }
        }
        Ok(y)
    }
}

/// In f64, eight sums side by side.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut lanes = [0.0f64; 8];
    for (a, b) in a.chunks(8).zip(b.chunks(8)) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += f64::from(*a) * f64::from(*b);
        }
    }
    lanes.iter().sum()
}
