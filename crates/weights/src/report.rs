//! What a network would get from a checkpoint, tensor by tensor.

use std::collections::HashSet;
use std::fmt;

use remaster_model::Param;
use serde::Serialize;
use thiserror::Error;

use crate::checkpoint::Checkpoint;
use crate::error::clip;
use crate::names::{Names, same_shape};
use crate::near::near_names;
use crate::stored::StoredDtype;

/// Missing tensors that get suggestions. More than these are not a misspelling.
const SUGGESTED: usize = 16;

/// Names shown of each list.
const SHOWN: usize = 3;

/// What was found for every tensor of a network, and what was left over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoadReport {
    /// Tensors that are there and fit.
    pub applied: Vec<Applied>,
    /// Tensors the network needs and the file lacks.
    pub missing: Vec<Missing>,
    /// Names in the file that the network has no use for.
    pub unused: Vec<String>,
    /// Names that such files carry and the network does not read.
    pub ignored: Vec<String>,
    /// Tensors of another shape than the network needs.
    pub wrong_shape: Vec<WrongShape>,
    /// Tensors in a number format that cannot be read.
    pub wrong_dtype: Vec<WrongDtype>,
    /// What the user should know although the file fits.
    pub warnings: Vec<Warning>,
}

/// What is known against a file that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Warning {
    /// The 7B file that is E4M3 throughout.
    #[error(
        "the last block of this 7B file is stored in fp8, which its publishers know to give artefacts; \
         use `seedvr2_ema_7b_fp8_e4m3fn_mixed_block35_fp16.safetensors`"
    )]
    PlainFp8,
}

impl Serialize for Warning {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A tensor that is there and fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Our name.
    pub name: String,
    /// Name in the file, where it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_as: Option<String>,
    /// Format in the file.
    pub dtype: StoredDtype,
}

/// A tensor the file lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Our name.
    pub name: String,
    /// Shape it should have.
    pub shape: Vec<usize>,
    /// Unused names that are much like it, best first.
    pub near: Vec<String>,
}

/// A tensor of another shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WrongShape {
    /// Our name.
    pub name: String,
    /// Shape in the file.
    pub stored: Vec<usize>,
    /// Shape it should have.
    pub expected: Vec<usize>,
}

/// A tensor in a format that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WrongDtype {
    /// Our name.
    pub name: String,
    /// Format in the file.
    pub dtype: StoredDtype,
}

/// Holds `checkpoint` against the tensors a network expects.
pub fn check(checkpoint: &Checkpoint, expected: &[Param]) -> LoadReport {
    check_except(checkpoint, expected, |_| false)
}

/// As [`check`]; names in the file that are `known` are ignored if the network does not read them.
pub(crate) fn check_except(
    checkpoint: &Checkpoint,
    expected: &[Param],
    known: impl Fn(&str) -> bool,
) -> LoadReport {
    let names = Names::of(checkpoint);
    let mut report = LoadReport::default();
    let mut used = HashSet::with_capacity(expected.len());
    for Param { name, shape } in expected {
        let Some(tensor) = names.get(name) else {
            report.missing.push(Missing { name: name.clone(), shape: shape.clone(), near: Vec::new() });
            continue;
        };
        used.insert(tensor.name());
        if !same_shape(tensor.shape(), shape) {
            let stored = tensor.shape().to_vec();
            report.wrong_shape.push(WrongShape { name: name.clone(), stored, expected: shape.clone() });
        } else if !tensor.dtype().is_readable() {
            report.wrong_dtype.push(WrongDtype { name: name.clone(), dtype: tensor.dtype() });
        } else {
            let stored_as = (tensor.name() != name).then(|| tensor.name().to_owned());
            report.applied.push(Applied { name: name.clone(), stored_as, dtype: tensor.dtype() });
        }
    }
    let left = || {
        let own = checkpoint.tensors().filter(|t| !t.is_companion());
        own.map(|t| t.name()).filter(|name| !used.contains(name))
    };
    (report.ignored, report.unused) = left().map(str::to_owned).partition(|name| known(name));
    for missing in report.missing.iter_mut().take(SUGGESTED) {
        missing.near = near_names(&missing.name, left(), 2).into_iter().map(str::to_owned).collect();
    }
    report
}

impl LoadReport {
    /// Every tensor is there and fits, and none is left over.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
            && self.unused.is_empty()
            && self.wrong_shape.is_empty()
            && self.wrong_dtype.is_empty()
    }
}

/// Counts, and the first few names of each list.
impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected =
            self.applied.len() + self.missing.len() + self.wrong_shape.len() + self.wrong_dtype.len();
        write!(f, "{} of {expected} tensors fit", self.applied.len())?;
        list(f, "missing", &self.missing, |f, m| {
            write!(f, "{} {:?}", m.name, m.shape)?;
            match m.near.first() {
                Some(near) => write!(f, " (in the file: {}?)", clip(near)),
                None => Ok(()),
            }
        })?;
        list(f, "of another shape", &self.wrong_shape, |f, w| {
            write!(f, "{} is {:?}, expected {:?}", w.name, w.stored, w.expected)
        })?;
        list(f, "in a format that cannot be read", &self.wrong_dtype, |f, w| {
            write!(f, "{} is {}, expected F32, F16, BF16 or F8_E4M3", w.name, w.dtype)
        })?;
        list(f, "not used", &self.unused, |f, name| f.write_str(&clip(name)))?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\n  warning: {warning}"))
    }
}

fn list<T>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    items: &[T],
    show: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    write!(f, "\n  {} {what}: ", items.len())?;
    for (i, item) in items.iter().take(SHOWN).enumerate() {
        if i > 0 {
            f.write_str("; ")?;
        }
        show(f, item)?;
    }
    if items.len() > SHOWN { f.write_str("; ...") } else { Ok(()) }
}
