//! The numbers of one dispatch, as the kernels name them.

use std::ops::Range;

use super::bindings::{Operand, Ranges};

/// Words of a block of parameters. Blocks lie at multiples of 512 bytes, which every device can bind at.
pub(super) const WORDS: usize = 128;

macro_rules! names {
    ($($name:ident)*) => {
        /// A word of a block.
        #[allow(
            non_camel_case_types,
            clippy::upper_case_acronyms,
            clippy::enum_variant_names,
            dead_code,
            reason = "the names of the kernels; those of the bases are set by the operand's number"
        )]
        #[derive(Clone, Copy, Debug)]
        pub(super) enum P { $($name),* }

        /// Every name, in the order of the words.
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

names! {
    X_BASE C_BASE S_BASE Y_BASE K_BASE U_BASE T_BASE A_BASE W_BASE V_BASE
    X_SKIP X_FRAME X_ROW0
    C_SKIP C_FRAME C_ROW0
    S_SKIP S_FRAME
    Y_SKIP Y_FRAME Y_ROW0 Y_END Y_ROWS Y_W
    K_SKIP K_FRAME K_ROW0 K_ROWS
    U_SKIP U_FRAME GROUPS
    T_SKIP T_FRAME WIDE SILU
    BIAS TABLE TABLE_ROW
    SHORT_CIN SHORT_BIAS
    H_IN W_IN CIN CIN4 COUT COUT4
    W_GRID H_GRID CELL0 CELLS NEED0 NEED1
    STRIDE_T STRIDE_Y STRIDE_X BEFORE_Y BEFORE_X KT
    PREFIX CONTINUED MODE SECOND FACTOR PHASES ACCUMULATE
    TILES JOBS FIRST TAIL TAIL_FIRST TAIL_JOBS
    COUNT EPS KEY_COUNT NORM
}

/// One block, and where its operands lie.
#[derive(Clone)]
pub(super) struct Params {
    pub(super) words: Words,
    pub(super) ranges: Ranges,
}

pub(super) type Words = [u32; WORDS];

impl Params {
    pub(super) fn new() -> Self {
        Params { words: [0; WORDS], ranges: Default::default() }
    }

    /// Sets words; numbers above 32 bits were refused when the operands were looked at.
    pub(super) fn set(&mut self, values: &[(P, usize)]) -> &mut Self {
        for (name, value) in values {
            self.words[*name as usize] = *value as u32;
        }
        self
    }

    /// Says where an operand lies.
    pub(super) fn lies(&mut self, operand: Operand, range: Range<u64>) -> &mut Self {
        self.ranges[operand as usize] = Some(range);
        self
    }
}
