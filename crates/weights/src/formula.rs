//! Weights that are a pure function of their name and index, for tests and benchmarks that must not
//! depend on a download. Every language and machine gets the same bits.

use std::fmt;
use std::sync::Arc;

use remaster_compute::SourceError;
use remaster_model::{Param, Params, Values, Wanted};
use thiserror::Error;

/// Step of the index and of splitmix64: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Why a tensor has no formula.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "tensor `{name}` {shape:?} has no formula; the last part of its name is none of weight, bias, _shift, _scale, _gate"
)]
pub struct FormulaError {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
}

/// FNV-1a of the name.
fn seed(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// The value of state `state`, in [-1, 1); both steps after the shift are exact.
#[inline]
fn unit(state: u64) -> f32 {
    let mut z = state.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    // 24 bits, so that the signed conversion, which CPUs have an instruction for, is exact too.
    (z >> 40) as i32 as f32 * (1.0 / 8_388_608.0) - 1.0
}

/// The `i`-th uniform value of `name`, in [-1, 1).
pub fn uniform(name: &str, i: u64) -> f32 {
    unit(seed(name) ^ i.wrapping_mul(GOLDEN))
}

/// Fills `out` with the uniform values of `name` from index `start` on.
pub fn fill_uniform(name: &str, start: usize, out: &mut [f32]) {
    fill(name, start, out, |u| u);
}

#[inline]
fn fill(name: &str, start: usize, out: &mut [f32], value: impl Fn(f32) -> f32) {
    let seed = seed(name);
    let mut step = (start as u64).wrapping_mul(GOLDEN);
    for out in out {
        *out = value(unit(seed ^ step));
        step = step.wrapping_add(GOLDEN);
    }
}

/// How a tensor's values come from the uniform ones.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    Scaled(f32),
    OnePlus(f32),
}

impl Rule {
    fn of(name: &str, shape: &[usize]) -> Result<Rule, FormulaError> {
        let leaf = name.rsplit('.').next().unwrap_or(name);
        let norm = name.contains("norm");
        Ok(match leaf {
            "weight" if shape.len() >= 2 => {
                let fan_in: usize = shape[1..].iter().product();
                Rule::Scaled((3.0 / fan_in as f64).sqrt() as f32)
            }
            "weight" if norm => Rule::OnePlus(0.1),
            "bias" if norm => Rule::Scaled(0.05),
            "bias" => Rule::Scaled(0.02),
            _ if leaf.ends_with("_shift") => Rule::Scaled(0.2),
            _ if leaf.ends_with("_scale") => Rule::OnePlus(0.2),
            _ if leaf.ends_with("_gate") => Rule::Scaled(0.5),
            _ => return Err(FormulaError { name: name.to_owned(), shape: shape.to_vec() }),
        })
    }

    /// Multiplication and addition are rounded separately: no `mul_add`.
    fn fill(self, name: &str, start: usize, out: &mut [f32]) {
        match self {
            Rule::Scaled(scale) => fill(name, start, out, |u| scale * u),
            Rule::OnePlus(scale) => fill(name, start, out, |u| 1.0 + scale * u),
        }
    }
}

/// Value `i` (flat, last axis fastest) of the tensor `name` of shape `shape`.
pub fn formula_value(name: &str, shape: &[usize], i: usize) -> Result<f32, FormulaError> {
    let mut value = [0.0];
    fill_formula(name, shape, i, &mut value)?;
    Ok(value[0])
}

/// Fills `out` with the values of the tensor `name` of shape `shape` from flat index `start` on.
pub fn fill_formula(name: &str, shape: &[usize], start: usize, out: &mut [f32]) -> Result<(), FormulaError> {
    Rule::of(name, shape)?.fill(name, start, out);
    Ok(())
}

/// Gives a network the formula's values. They are made when they are read; nothing is stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct FormulaParams;

impl Params for FormulaParams {
    fn values(&mut self, wanted: &Wanted) -> Arc<dyn Values> {
        let Param { name, shape } = &wanted.param;
        let rule = Rule::of(name, shape).map_err(|error| error.to_string());
        let rule = rule.and_then(|rule| Ok((rule, wanted.span().map_err(|error| error.0)?.start)));
        Arc::new(Tensor { name: name.clone(), rule })
    }
}

struct Tensor {
    name: String,
    /// The rule and the flat index of the first value, or why there is none.
    rule: Result<(Rule, usize), String>,
}

impl Values for Tensor {
    fn read(&self, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        let (rule, first) = self.rule.as_ref().map_err(|why| SourceError(why.clone()))?;
        rule.fill(&self.name, first + start, out);
        Ok(())
    }
}

/// Proves that two implementations made the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    /// Bits of the first value.
    pub first: u32,
    /// Bits of the last value.
    pub last: u32,
    /// Sum over i of bits * (2 i + 1), modulo 2^64.
    pub sum: u64,
}

/// The checksum of a tensor's values.
pub fn checksum(values: &[f32]) -> Checksum {
    let bits = |value: Option<&f32>| value.map_or(0, |v| v.to_bits());
    let mut sum = 0u64;
    let mut weight = 1u64;
    for value in values {
        sum = sum.wrapping_add(u64::from(value.to_bits()).wrapping_mul(weight));
        weight = weight.wrapping_add(2);
    }
    Checksum { first: bits(values.first()), last: bits(values.last()), sum }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "first={:#010x} last={:#010x} sum={:#018x}", self.first, self.last, self.sum)
    }
}
