//! Number formats a checkpoint may hold.

use serde::Serialize;

macro_rules! formats {
    ($($variant:ident $word:literal [$values:literal, $bytes:literal],)*) => {
        /// How the values of a tensor are stored. Those that are not read are known so that a file with them can be
        /// listed and refused by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum StoredDtype {
            $(#[doc = concat!("`", $word, "`: ", $values, " values in ", $bytes, " bytes.")] $variant,)*
        }

        impl StoredDtype {
            const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word for it: that of the safetensors header, of GGUF, or of ComfyUI's marker.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The smallest run of values that fills whole bytes.
            pub const fn block(self) -> Block {
                match self { $(Self::$variant => Block { values: $values, bytes: $bytes },)* }
            }
        }
    };
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
    // Of safetensors, as far as `U64`.
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
    // Of GGUF.
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
    // Of the markers of ComfyUI.
    Int8 "int8_tensorwise" [1, 1],
    Nvfp4 "nvfp4" [2, 1],
    Mxfp8 "mxfp8" [1, 1],
    ScaledF8 "scaled float8_e4m3fn" [1, 1],
}

/// The number formats of GGUF, by their numbers. A dash is a number without a name.
const GGUF: &str = "F32 F16 Q4_0 Q4_1 Q4_2 Q4_3 Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS \
    IQ2_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16 - - - TQ1_0 TQ2_0 \
    IQ4_NL_4_4 IQ4_NL_4_8 IQ4_NL_8_8 MXFP4";

impl StoredDtype {
    /// The format `word` of a safetensors header stands for.
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL[..=Self::U64 as usize].iter().copied().find(|dtype| dtype.name() == word)
    }

    /// The format that GGUF gives this number, or its name there.
    pub(crate) fn from_gguf(number: u32) -> Result<Self, String> {
        let name = GGUF.split(' ').nth(number as usize).filter(|name| *name != "-");
        let name = name.ok_or_else(|| format!("type {number}"))?;
        Self::ALL.iter().copied().find(|dtype| dtype.name() == name).ok_or_else(|| name.to_owned())
    }

    /// Whether `Checkpoint::read_f32` converts it. Whole numbers are not weights: without a marker that says how they
    /// are scaled, their meaning is unknown.
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
