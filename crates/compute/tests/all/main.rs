//! Ops and backends, from outside.

mod cancel;
mod not_finite;
mod op_suite;
mod tiles;
mod token_not_finite;
mod token_ops;
mod weights;
