//! The op set: one trait, one descriptor per op, and for each descriptor a `check` that every backend
//! calls first and that turns views into the plain numbers a kernel, a workspace query or a meter needs.

mod attention;
mod conv;
mod linear;
mod norm;
mod shuffle;
mod tokens;
mod upsample;

pub use attention::{AttentionDesc, AttentionWork};
pub use conv::{ConvDesc, ConvWork, Padding, Prologue, RowSums, Shortcut};
pub use linear::{LinearDesc, LinearWork};
pub use norm::{CombineDesc, NormalizeDesc, RowSumsDesc};
pub use shuffle::ShuffleDesc;
pub use tokens::{
    ActivateDesc, Activation, AddGatedDesc, CommonQueries, Rotation, TokenNormDesc, Window,
    WindowAttentionDesc, WindowAttentionWork, WindowsDesc,
};
pub use upsample::{UpsampleDesc, UpsampleWork};

use std::ops::Range;

use crate::arena::Arena;
use crate::dtype::DType;
use crate::error::{Result, ensure};
use crate::meter::Counts;
use crate::store::{Extent, TensorStore};
use crate::tensor::{Band, Shape, Tensor, View};
use crate::weight::{Weight, WeightSpec};

/// The ops of a backend that does each in a function of its own, named `..._now`, once its operands were checked.
macro_rules! checked_ops {
    () => {
        $crate::ops::checked_ops!(but copy);

        fn copy(
            &mut self,
            from: $crate::tensor::View<'_>,
            to: $crate::tensor::View<'_>,
        ) -> $crate::error::Result<()> {
            $crate::ops::same_shape("copy", "output", &to, &from)?;
            $crate::ops::no_alias("copy", &to, &[Some(&from)])?;
            self.copy_now(&from, &to)
        }
    };
    (but copy) => {
        $crate::ops::checked_ops!(with numbers:
            conv ConvDesc conv_now, upsample UpsampleDesc upsample_now, linear LinearDesc linear_now,
            attention AttentionDesc attention_now, window_attention WindowAttentionDesc window_attention_now);
        $crate::ops::checked_ops!(without:
            row_sums RowSumsDesc row_sums_now, combine_sums CombineDesc combine_now,
            normalize NormalizeDesc normalize_now, shuffle ShuffleDesc shuffle_now,
            token_norm TokenNormDesc token_norm_now, activate ActivateDesc activate_now,
            add_gated AddGatedDesc add_gated_now, gather WindowsDesc gather_now, scatter WindowsDesc scatter_now);
    };
    (with numbers: $($op:ident $desc:ident $now:ident),*) => {
        $(fn $op(&mut self, desc: &$crate::ops::$desc<'_>) -> $crate::error::Result<()> {
            self.$now(desc, &desc.check()?)
        })*
    };
    (without: $($op:ident $desc:ident $now:ident),*) => {
        $(fn $op(&mut self, desc: &$crate::ops::$desc<'_>) -> $crate::error::Result<()> {
            desc.check()?;
            self.$now(desc)
        })*
    };
}
pub(crate) use checked_ops;

/// What a backend can do. Ops enqueue: they return as soon as the work is accepted, with an error only
/// for operands that do not fit or memory that is not there. Whether the work was done, and whether it
/// was cancelled, is known after `wait` or `download`.
///
/// A tensor may be dropped as soon as the ops that use it are enqueued: ops run in order.
pub trait Ops {
    /// Short name, as on the command line.
    fn name(&self) -> &'static str;

    /// Whether nothing is computed: values need not be made, only room for them.
    fn only_counts(&self) -> bool {
        false
    }

    /// The memory all tensors, weights and scratch of this backend come from.
    fn arena(&self) -> &Arena;

    /// What was counted so far. Only a meter counts.
    fn counts(&self) -> Counts {
        Counts::default()
    }

    /// Rows of tokens that a network should take at a time, where it can choose. The plan decides; no bit depends on it.
    fn group(&self) -> usize {
        usize::MAX
    }

    /// Bytes a weight takes when loaded.
    fn weight_bytes(&self, spec: &WeightSpec) -> u64;

    /// Reads, converts and lays out a weight. Nothing happens if it is loaded already.
    fn load(&mut self, weight: &Weight) -> Result<()>;

    /// Takes room for a weight that will be loaded soon, and starts to read and lay it out in another thread; `load`
    /// waits for it. Errors of memory come at once, those of reading from `load`. Nothing happens if the weight is
    /// loaded or on its way.
    fn prefetch(&mut self, weight: &Weight) -> Result<()>;

    /// Gives back the memory of a weight.
    fn evict(&mut self, weight: &Weight) {
        weight.forget(self.arena());
    }

    /// Copies host values, in `[t, h, w, c]` order, into a view, rounding to its format.
    fn upload(&mut self, from: &[f32], to: View<'_>) -> Result<()>;

    /// Waits for everything enqueued and copies a view out, widened to f32.
    fn download(&mut self, from: View<'_>, to: &mut [f32]) -> Result<()>;

    /// As `download`, to a vector.
    fn values(&mut self, from: View<'_>) -> Result<Vec<f32>> {
        let mut values = vec![0.0; from.shape().len()];
        self.download(from, &mut values)?;
        Ok(values)
    }

    /// Waits for everything enqueued; reports a failed or cancelled run.
    fn wait(&mut self) -> Result<()>;

    /// Waits for checks of results that are under way, for a few seconds at most; reports a device that computed wrong
    /// numbers. Results count only after it, at the end of a clip.
    fn finish_checks(&mut self) -> Result<()> {
        Ok(())
    }

    /// The first normalisation since this was asked last whose statistics were NaN or infinite, by its name. Waits
    /// for the device, so it is for runs whose result was found to be bad.
    fn first_spoiled(&mut self) -> Result<Option<String>> {
        Ok(None)
    }

    /// Causal 3-D convolution with everything that can be fused around it.
    fn conv(&mut self, desc: &ConvDesc<'_>) -> Result<()>;

    /// Twice the size, and twice the frames if the weight says so.
    fn upsample(&mut self, desc: &UpsampleDesc<'_>) -> Result<()>;

    /// Partial sums for a normalisation, one pair per frame, absolute row and group.
    fn row_sums(&mut self, desc: &RowSumsDesc<'_>) -> Result<()>;

    /// Row sums of a whole frame, added in row order, to mean and 1/deviation per frame and group.
    fn combine_sums(&mut self, desc: &CombineDesc<'_>) -> Result<()>;

    /// `(x - mean) / deviation * scale + shift`, then SiLU if asked for.
    fn normalize(&mut self, desc: &NormalizeDesc<'_>) -> Result<()>;

    /// Matrix product over the channels of every pixel.
    fn linear(&mut self, desc: &LinearDesc<'_>) -> Result<()>;

    /// Softmax attention inside each frame.
    fn attention(&mut self, desc: &AttentionDesc<'_>) -> Result<()>;

    /// Softmax attention inside windows of tokens, all of which also see some common tokens.
    fn window_attention(&mut self, desc: &WindowAttentionDesc<'_>) -> Result<()>;

    /// RMS norm of tokens, or of each head of them, with scale, shift and rotation.
    fn token_norm(&mut self, desc: &TokenNormDesc<'_>) -> Result<()>;

    /// A function of every value, times a factor.
    fn activate(&mut self, desc: &ActivateDesc<'_>) -> Result<()>;

    /// Adds to a residual, with a factor per channel.
    fn add_gated(&mut self, desc: &AddGatedDesc<'_>) -> Result<()>;

    /// Copies the tokens of windows out of the grid.
    fn gather(&mut self, desc: &WindowsDesc<'_>) -> Result<()>;

    /// Copies them back.
    fn scatter(&mut self, desc: &WindowsDesc<'_>) -> Result<()>;

    /// Moves channels to time, rows and columns.
    fn shuffle(&mut self, desc: &ShuffleDesc<'_>) -> Result<()>;

    /// Copies a view to another of the same shape, converting the format if it differs.
    fn copy(&mut self, from: View<'_>, to: View<'_>) -> Result<()>;

    /// Copies stored rows to a view: as many frames and rows as it has, in its format.
    fn fetch(&mut self, from: &mut dyn TensorStore, at: Extent, to: View<'_>) -> Result<()>;

    /// Waits for the view and copies its rows to a store.
    fn stow(&mut self, from: View<'_>, to: &mut dyn TensorStore, at: Extent) -> Result<()>;

    /// As `alloc`, for a tensor that is kept for the next slice. A backend with several memories may put
    /// it elsewhere.
    fn alloc_kept(&mut self, shape: Shape, dtype: DType) -> Result<Tensor> {
        self.alloc(shape, dtype)
    }

    /// A tensor that holds whole frames. Contents are undefined until written.
    fn alloc(&mut self, shape: Shape, dtype: DType) -> Result<Tensor> {
        self.alloc_band(shape, dtype, Band { first: 0, height: shape.h })
    }

    /// A tensor that holds some rows of a frame.
    fn alloc_band(&mut self, shape: Shape, dtype: DType, band: Band) -> Result<Tensor> {
        Tensor::new(self.arena().alloc(shape.bytes(dtype))?, dtype, shape, band)
    }
}

/// The part of an op that decides its cost, free of buffers.
#[derive(Clone, Debug)]
pub enum OpWork {
    /// See `ConvWork`.
    Conv(ConvWork),
    /// See `UpsampleWork`.
    Upsample(UpsampleWork),
    /// See `LinearWork`.
    Linear(LinearWork),
    /// See `AttentionWork`.
    Attention(AttentionWork),
    /// Row sums of a view of this shape.
    RowSums(Shape),
    /// Normalisation of a view of this shape.
    Normalize(Shape),
    /// Copy of a view of this shape.
    Copy(Shape),
    /// See `WindowAttentionWork`.
    WindowAttention(WindowAttentionWork),
    /// An op on each row of a view of this shape alone, with up to two operands.
    Rows(Shape),
}

/// The sizes a backend would use, without the backend: the meter predicts with it, the backend allocates
/// with it, so the two cannot drift apart.
pub trait Sizing: Send + Sync {
    /// Bytes a weight takes when loaded.
    fn weight_bytes(&self, spec: &WeightSpec) -> u64;

    /// Bytes of scratch that loading a weight takes from the arena, beside the weight itself.
    fn load_scratch_bytes(&self, _spec: &WeightSpec) -> u64 {
        0
    }

    /// Bytes of scratch an op takes from the arena while it runs; 0 for none.
    fn scratch_bytes(&self, work: &OpWork) -> u64;

    /// Bytes that the device takes beside the arena, whatever runs on it.
    fn fixed_bytes(&self) -> u64 {
        0
    }
}

/// Checks that are the same for every op.
pub(crate) fn same_shape(op: &'static str, what: &'static str, a: &View<'_>, b: &View<'_>) -> Result<()> {
    ensure(a.shape() == b.shape(), op, what, a.shape(), b.shape())
}

pub(crate) fn same_dtype(op: &'static str, what: &'static str, a: &View<'_>, b: &View<'_>) -> Result<()> {
    ensure(a.dtype() == b.dtype(), op, what, a.dtype(), b.dtype())
}

/// Checks that a view has exactly the absolute rows `expected`.
pub(crate) fn same_rows(
    op: &'static str,
    what: &'static str,
    view: &View<'_>,
    expected: &Range<usize>,
) -> Result<()> {
    let rows = view.row_range();
    ensure(rows == *expected, op, what, format!("{rows:?}"), format!("{expected:?}"))
}

/// Input, output and weight of a product have one format.
pub(crate) fn one_format(op: &'static str, input: &View<'_>, output: &View<'_>, weight: DType) -> Result<()> {
    same_dtype(op, "output format", output, input)?;
    ensure(weight == input.dtype(), op, "weight format", weight, input.dtype())
}

/// An output must not share memory with anything the op reads.
pub(crate) fn no_alias(op: &'static str, output: &View<'_>, inputs: &[Option<&View<'_>>]) -> Result<()> {
    for input in inputs.iter().flatten() {
        let apart = !input.tensor().buffer().same_as(output.tensor().buffer());
        ensure(apart, op, "output", "the buffer of an input", "a buffer of its own")?;
    }
    Ok(())
}

/// A new tail may take the place of the old one, but then of all of it.
pub(crate) fn tail_alias(op: &'static str, carry: &View<'_>, carried: Option<&View<'_>>) -> Result<()> {
    let Some(old) = carried.filter(|v| v.tensor().buffer().same_as(carry.tensor().buffer())) else {
        return Ok(());
    };
    let same = old.row_range() == carry.row_range() && old.first_frame() == carry.first_frame();
    ensure(same, op, "new tail", format!("{:?}", carry.row_range()), "the rows of the old one, or apart")
}

/// Checks a buffer of row sums or statistics: f32, `groups` pairs of values per frame (and row).
pub(crate) fn pairs(op: &'static str, what: &'static str, view: &View<'_>, expected: Shape) -> Result<()> {
    ensure(view.dtype() == DType::F32, op, what, view.dtype(), DType::F32)?;
    ensure(view.shape() == expected, op, what, view.shape(), expected)
}

/// Checks that `channels` can be cut into `groups` equal groups.
pub(crate) fn divisible(op: &'static str, channels: usize, groups: usize) -> Result<()> {
    let ok = groups > 0 && channels > 0 && channels.is_multiple_of(groups);
    ensure(ok, op, "channels", channels, format!("a multiple of {groups} groups"))
}
