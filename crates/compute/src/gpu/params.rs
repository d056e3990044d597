//! The numbers of one dispatch, as the kernels name them.

/// Words of a block of parameters. Blocks lie at multiples of 512 bytes, which every device can bind at.
pub(super) const WORDS: usize = 128;

macro_rules! names {
    ($($name:ident)*) => {
        /// A word of a block.
        #[allow(
            non_camel_case_types,
            clippy::upper_case_acronyms,
            clippy::enum_variant_names,
            reason = "the names of the kernels"
        )]
        #[derive(Clone, Copy, Debug)]
        pub(super) enum P { $($name),* }

        /// Every name, in the order of the words.
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

names! {
    X_BASE X_SKIP X_FRAME X_ROW0
    C_BASE C_SKIP C_FRAME C_ROW0
    S_BASE S_SKIP S_FRAME
    Y_BASE Y_SKIP Y_FRAME Y_ROW0 Y_END Y_ROWS Y_W
    K_BASE K_SKIP K_FRAME K_ROW0 K_ROWS
    SUMS_BASE SUMS_SKIP SUMS_FRAME GROUPS
    ST_BASE ST_SKIP ST_FRAME AFFINE WIDE SILU
    WEIGHT BIAS TABLE TABLE_SKIP TABLE_ROW
    SHORT_CIN SHORT_WEIGHT SHORT_BIAS
    H_IN W_IN CIN CIN4 COUT COUT4
    W_GRID H_GRID CELL0 CELLS
    STRIDE_T STRIDE_Y STRIDE_X BEFORE_Y BEFORE_X KT
    PREFIX CONTINUED MODE SECOND FACTOR PHASES ACCUMULATE
    TILES JOBS FIRST TAIL TAIL_FIRST TAIL_JOBS
    COUNT EPS KEY_COUNT
}

/// One block.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Params(pub(super) [u32; WORDS]);

impl Params {
    pub(super) fn new() -> Self {
        Params([0; WORDS])
    }

    /// Sets words; numbers above 32 bits were refused when the operands were looked at.
    pub(super) fn set(&mut self, values: &[(P, usize)]) -> &mut Self {
        for (name, value) in values {
            self.0[*name as usize] = *value as u32;
        }
        self
    }

    pub(super) fn bytes(&self) -> impl Iterator<Item = u8> {
        self.0.into_iter().flat_map(u32::to_le_bytes)
    }
}
