//! Number formats a checkpoint may hold.

use remaster_compute::DType;
use serde::Serialize;

macro_rules! formats {
    ($($variant:ident $word:literal $bits:literal,)*) => {
        /// A number format of the safetensors format. Only the floats of 16 and 32 bits are read; the
        /// others are known so that a file with them can be listed and refused by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum StoredDtype {
            $(#[doc = concat!("`", $word, "`, ", $bits, " bits a value.")] $variant,)*
        }

        impl StoredDtype {
            /// The word in the file's header.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Bits of one value; some formats pack several values into a byte.
            pub const fn bits(self) -> usize {
                match self { $(Self::$variant => $bits,)* }
            }

            /// The format `word` of a header stands for.
            pub fn from_name(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

formats! {
    Bool "BOOL" 8,
    F4 "F4" 4,
    F6E2M3 "F6_E2M3" 6,
    F6E3M2 "F6_E3M2" 6,
    U8 "U8" 8,
    I8 "I8" 8,
    F8E5M2 "F8_E5M2" 8,
    F8E4M3 "F8_E4M3" 8,
    F8E8M0 "F8_E8M0" 8,
    F8E4M3Fnuz "F8_E4M3FNUZ" 8,
    F8E5M2Fnuz "F8_E5M2FNUZ" 8,
    I16 "I16" 16,
    U16 "U16" 16,
    F16 "F16" 16,
    Bf16 "BF16" 16,
    I32 "I32" 32,
    U32 "U32" 32,
    F32 "F32" 32,
    C64 "C64" 64,
    F64 "F64" 64,
    I64 "I64" 64,
    U64 "U64" 64,
}

impl StoredDtype {
    /// What `Checkpoint::read_f32` converts.
    pub const READABLE: [StoredDtype; 3] = [StoredDtype::F32, StoredDtype::F16, StoredDtype::Bf16];

    /// The format of ours that is stored the same way, if there is one.
    pub const fn readable(self) -> Option<DType> {
        match self {
            StoredDtype::F32 => Some(DType::F32),
            StoredDtype::F16 => Some(DType::F16),
            StoredDtype::Bf16 => Some(DType::Bf16),
            _ => None,
        }
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
