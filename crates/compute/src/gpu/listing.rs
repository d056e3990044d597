//! Texts of kernels for tools that compile them elsewhere.

use super::bindings::{Operand, Reach};
use super::choice::Variant;
use super::device::MatrixUnits;
use super::kernels::{Attend, Heads, Kernel, Role, attention_values, norm_team, window_values};
use super::ops::RUN;
use crate::dtype::DType;
use crate::weight::WeightSpec;

/// The text of a kernel as a device gets it whose bindings hold whole operands and whose conversions to f16 are right.
#[derive(Clone, Debug)]
pub struct KernelText {
    /// What it does.
    pub name: String,
    /// Its text. The entry point is `main`.
    pub wgsl: String,
    /// Buffers that are bound behind the parameters.
    pub buffers: usize,
    /// Whether indices are checked.
    pub checked: bool,
    /// Queries, keys and columns of a block, and threads of a workgroup, of attention on matrix units.
    pub attends: Option<[usize; 2]>,
    /// Values of a thread of the kernel that only normalises.
    pub normalises: Option<usize>,
}

/// How a layer is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerUse {
    /// Its input is normalised on the way.
    pub prologue: bool,
    /// The product of a shortcut is added.
    pub shortcut: bool,
}

fn text(name: String, kernel: Kernel) -> KernelText {
    let operands = kernel.operands();
    let mut bindings = [0; Operand::COUNT];
    operands.iter().for_each(|o| bindings[*o as usize] = 1);
    KernelText {
        name,
        wgsl: kernel.source(Reach { bindings, shift: 0 }, true),
        buffers: operands.len() + usize::from(kernel.merged().is_some()),
        checked: !kernel.on_matrix_units(),
        attends: match kernel.role {
            Role::Attention(Attend::Matrix(h)) | Role::WindowAttention(Attend::Matrix(h)) => {
                Some([h.queries(), h.threads()])
            }
            _ => None,
        },
        normalises: (kernel.role == Role::Normalize).then_some(4 * RUN),
    }
}

/// The kernel of a layer; `None` for one that is not multiplied.
pub fn product_text(spec: &WeightSpec, variant: &Variant, used: LayerUse) -> Option<KernelText> {
    let (cin, cout, dtype) = spec.product()?;
    let padded = match spec {
        WeightSpec::Conv { kernel, .. } => *kernel != [1; 3],
        other => matches!(other, WeightSpec::Upsample { .. }),
    };
    let product = variant.product;
    let edges = product.edges(cin, padded, false);
    let LayerUse { prologue, shortcut } = used;
    let (slopes, vec_out) = (spec.has_slopes(), cout.is_multiple_of(4));
    let role = Role::Conv { product, prologue, shortcut, slopes, vec_out, edges };
    let kernel = Kernel { role, dtype, vec_in: cin.is_multiple_of(4) };
    let on = |flag, word: &'static str| if flag { word } else { "" };
    let (norm, short, prelu) = (on(prologue, ", norm"), on(shortcut, ", shortcut"), on(slopes, ", PReLU"));
    Some(text(format!("{}{norm}{short}{prelu}: {variant}", super::layer_name(spec)), kernel))
}

/// The kernels that do not multiply weights, at the widths of the networks; attention also on these matrix units.
pub fn other_texts(dtype: DType, units: Option<MatrixUnits>) -> Vec<KernelText> {
    let heads = |width| units.filter(|_| dtype == DType::F16).and_then(|u| Heads::new(width, u));
    let on_units = [
        heads(512).map(|h| (format!("attention 512 {dtype}: {h}"), Role::Attention(Attend::Matrix(h)))),
        heads(128).map(|h| {
            (format!("window attention 128 {dtype}: {h}"), Role::WindowAttention(Attend::Matrix(h)))
        }),
    ];
    let roles = [
        ("attention 512", Role::Attention(Attend::Threads { values: attention_values(512) })),
        ("window attention 128", Role::WindowAttention(Attend::Threads { values: window_values(128) })),
        ("row sums and tail", Role::After { prologue: true }),
        ("norm", Role::Normalize),
        ("token norm 2560", Role::TokenNorm { from: dtype, team: norm_team(2560) }),
        ("token norm 128", Role::TokenNorm { from: dtype, team: norm_team(128) }),
        ("activate", Role::Activate),
        ("add gated", Role::AddGated { from: dtype }),
        ("shuffle", Role::Shuffle),
        ("gather", Role::Gather),
        ("scatter", Role::Scatter),
    ];
    let by_threads = roles.into_iter().map(|(name, role)| (format!("{name} {dtype}"), role));
    let all = on_units.into_iter().flatten().chain(by_threads);
    all.map(|(name, role)| text(name, Kernel { role, dtype, vec_in: true })).collect()
}
