//! Inner loops. Everything here is written once over `Simd`, or by hand for the tile unit.

pub(super) mod amx;
pub(super) mod product;
pub(super) mod rows;
pub(super) mod winograd;
