//! Units, from outside.

mod common;

mod input;
mod records;
