//! How clips differ, from outside.

mod common;

mod known_values;
mod limits;
