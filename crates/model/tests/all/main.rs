//! Networks, from outside.

mod cost;
mod dit_windows;
mod slicing;
mod weights;
