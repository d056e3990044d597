//! Number formats a checkpoint may hold.

use serde::Serialize;

macro_rules! formats {
    ($($section:ident { $($variant:ident $word:literal [$values:literal, $bytes:literal],)* })*) => {
        /// How the values of a tensor are stored. Those that are not read are known so that a file with them can be
        /// listed and refused by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum StoredDtype {
            $($(#[doc = concat!("`", $word, "`: ", $values, " values in ", $bytes, " bytes.")] $variant,)*)*
        }

        impl StoredDtype {
            /// The word for it: that of the safetensors header, of GGUF, or of ComfyUI's marker.
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$variant => $word,)*)* }
            }

            /// The smallest run of values that fills whole bytes.
            pub const fn block(self) -> Block {
                match self { $($(Self::$variant => Block { values: $values, bytes: $bytes },)*)* }
            }
        }

        $(formats!(@words $section $($variant $word,)*);)*
    };
    (@words safetensors $($variant:ident $word:literal,)*) => {
        impl StoredDtype {
            /// The format `word` of a safetensors header stands for.
            pub fn from_name(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
    (@words $section:ident $($rest:tt)*) => {};
}

/// Values that are stored together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// How many.
    pub values: usize,
    /// Their bytes.
    pub bytes: usize,
}

formats! {
    safetensors {
        Bool "BOOL" [1, 1],
        F4 "F4" [2, 1],
        F6E2M3 "F6_E2M3" [4, 3],
        F6E3M2 "F6_E3M2" [4, 3],
        U8 "U8" [1, 1],
        I8 "I8" [1, 1],
        F8E5M2 "F8_E5M2" [1, 1],
        F8E4M3 "F8_E4M3" [1, 1],
        F8E8M0 "F8_E8M0" [1, 1],
        F8E4M3Fnuz "F8_E4M3FNUZ" [1, 1],
        F8E5M2Fnuz "F8_E5M2FNUZ" [1, 1],
        I16 "I16" [1, 2],
        U16 "U16" [1, 2],
        F16 "F16" [1, 2],
        Bf16 "BF16" [1, 2],
        I32 "I32" [1, 4],
        U32 "U32" [1, 4],
        F32 "F32" [1, 4],
        C64 "C64" [1, 8],
        F64 "F64" [1, 8],
        I64 "I64" [1, 8],
        U64 "U64" [1, 8],
    }
    gguf {
        Q4_0 "Q4_0" [32, 18],
        Q4_1 "Q4_1" [32, 20],
        Q5_0 "Q5_0" [32, 22],
        Q5_1 "Q5_1" [32, 24],
        Q8_0 "Q8_0" [32, 34],
        Q2K "Q2_K" [256, 84],
        Q3K "Q3_K" [256, 110],
        Q4K "Q4_K" [256, 144],
        Q5K "Q5_K" [256, 176],
        Q6K "Q6_K" [256, 210],
    }
    layers {
        Int8 "int8_tensorwise" [1, 1],
        Nvfp4 "nvfp4" [2, 1],
        Mxfp8 "mxfp8" [1, 1],
        ScaledF8 "scaled float8_e4m3fn" [1, 1],
    }
}

/// Number formats of GGUF that have a name and cannot be read.
const GGUF_OTHERS: [(u32, &str); 19] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
    (39, "MXFP4"),
];

impl StoredDtype {
    /// The format that GGUF gives this number, or its name there.
    pub(crate) fn from_gguf(number: u32) -> Result<Self, String> {
        Ok(match number {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            10 => Self::Q2K,
            11 => Self::Q3K,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            24 => Self::I8,
            25 => Self::I16,
            26 => Self::I32,
            27 => Self::I64,
            28 => Self::F64,
            30 => Self::Bf16,
            other => {
                let known = GGUF_OTHERS.iter().find(|(n, _)| *n == other);
                return Err(known.map_or_else(|| format!("type {other}"), |(_, name)| (*name).to_owned()));
            }
        })
    }

    /// Whether `Checkpoint::read_f32` converts it. Whole numbers are not weights: without a marker that says how they
    /// are scaled, nobody knows what they mean.
    pub const fn is_readable(self) -> bool {
        use StoredDtype as D;
        matches!(self, D::F32 | D::F16 | D::Bf16 | D::F8E4M3 | D::Int8 | D::Nvfp4 | D::Mxfp8 | D::ScaledF8)
            || self.is_gguf_block()
    }

    /// Whether it is one of GGUF's own formats.
    pub const fn is_gguf_block(self) -> bool {
        self.block().values >= 32
    }
}

impl std::fmt::Display for StoredDtype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for StoredDtype {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}
