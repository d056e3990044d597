//! The op set of Remaster.
//!
//! A network is a sequence of a few ops over activations `[t, h, w, c]`. The trait [`Ops`] names
//! them; a backend does them:
//!
//! * [`cpu`]: threads and SIMD, what people run;
//! * `gpu`: WGSL on Vulkan, DX12 or Metal, with the feature of that name;
//! * [`mod@reference`]: naive loops, the slow twin every other backend is tested against;
//! * [`staged`]: a backend with stores beside it, for tensors that do not fit;
//! * [`meter`]: computes nothing, counts bytes and multiplications. It predicts what a run will take.
//!
//! All memory comes from an [`Arena`] with a hard cap; ops never allocate behind its back.
//!
//! ```
//! use remaster_compute::{Ops, DType, Shape, reference::Reference};
//!
//! let mut ops = Reference::new(1 << 20)?;
//! let x = ops.alloc(Shape::new(1, 2, 2, 4), DType::F32)?;
//! ops.upload(&[1.0; 16], x.view())?;
//! let mut back = [0.0; 16];
//! ops.download(x.view(), &mut back)?;
//! assert_eq!(back, [1.0; 16]);
//! # Ok::<(), remaster_compute::ComputeError>(())
//! ```

mod arena;
mod backend;
mod cancel;
pub mod cpu;
pub mod dtype;
mod error;
#[cfg(feature = "gpu")]
pub mod gpu;
mod host;
mod host_tensor;
mod loader;
pub mod meter;
mod ops;
pub mod reference;
pub mod staged;
mod store;
mod tensor;
mod waited;
mod weight;

pub use arena::{ALIGN, Arena, Buffer};
pub use backend::Backend;
pub use cancel::CancelToken;
pub use cpu::{CpuPath, folds_fused};
pub use dtype::DType;
pub use error::{ComputeError, Result, SourceError};
pub use host_tensor::{Difference, HostTensor};
pub use ops::{
    ActivateDesc, Activation, AddGatedDesc, AttentionDesc, AttentionWork, CombineDesc, CommonQueries,
    ConvDesc, ConvWork, LinearDesc, LinearWork, NormalizeDesc, OpWork, Ops, Padding, Prologue, Rotation,
    RowSums, RowSumsDesc, Shortcut, ShuffleDesc, Sizing, TokenNormDesc, UpsampleDesc, UpsampleWork, Window,
    WindowAttentionDesc, WindowAttentionWork, WindowsDesc,
};
pub use store::{Extent, HostStore, NullStore, TensorStore};
pub use tensor::{Band, Shape, Tensor, View};
pub use weight::{Weight, WeightPart, WeightSource, WeightSpec};
