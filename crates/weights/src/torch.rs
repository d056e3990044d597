//! The files of `torch.save`: a zip with a pickle that describes tensors, and their values as members beside it.
//!
//! Described in torch/serialization.py and caffe2/serialize/inline_container.h of PyTorch. Directory and pickle are read
//! when a file is opened, values when they are asked for. The checksums of values are compared by
//! `Checkpoint::verify`, which reads all of them.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::error::{CheckpointError, TensorFault, clip};
use crate::header::{Header, TensorInfo, check_names, tensor};
use crate::pickle::{Described, MAX_PICKLE, Pickle, PickleFault};
use crate::storage::Storage;
use crate::zip::{Archive, Member, ZipFault};

/// Largest file accepted. Upscalers in `.pth` files have 2 to 70 MB; a VAE in f32 has 1 GB.
const MAX_FILE: u64 = 1 << 30;

/// Most members. PyTorch writes one for each tensor and a few more.
const MAX_MEMBERS: usize = 1 << 14;

const PICKLE: &str = "/data.pkl";

/// Why a file of PyTorch cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TorchFault {
    /// The archive.
    #[error(transparent)]
    Zip(#[from] ZipFault),
    /// The description of the tensors.
    #[error(transparent)]
    Pickle(#[from] PickleFault),
    /// A file larger than those of the networks.
    #[error("it has {bytes} bytes, but the limit is {max}; use the safetensors file of the same model")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// Largest accepted.
        max: u64,
    },
    /// A pickle larger than any honest one.
    #[error("its pickle has {bytes} bytes, but the limit is {max}; save the tensors alone")]
    LongPickle {
        /// Its size.
        bytes: u64,
        /// Largest accepted.
        max: u64,
    },
    /// Several archives in one.
    #[error("it has several members `*{PICKLE}`; the file is damaged")]
    Pickles,
    /// Values of the other byte order.
    #[error("its values are not little-endian; save it again on another machine")]
    ByteOrder,
    /// Values that are not there.
    #[error("tensor `{name}` needs the member `{member}`, which is not there; download the file again")]
    NoStorage {
        /// The tensor, shortened.
        name: String,
        /// The member, shortened.
        member: String,
    },
    /// A storage of another size.
    #[error(
        "the storage of tensor `{name}` should have {values} values, but has {bytes} bytes; download the file again"
    )]
    StorageSize {
        /// The tensor, shortened.
        name: String,
        /// Values by the pickle.
        values: u64,
        /// Bytes in the archive.
        bytes: u64,
    },
    /// A tensor that ends behind its storage.
    #[error(
        "tensor `{name}` of shape {shape:?} starts at value {offset} of a storage of {values}, which is too short; \
         download the file again"
    )]
    Range {
        /// The tensor, shortened.
        name: String,
        /// Its shape.
        shape: Vec<u64>,
        /// Its first value.
        offset: u64,
        /// Values of the storage.
        values: u64,
    },
    /// Values in another order.
    #[error(
        "tensor `{name}` of shape {shape:?} has strides {strides:?}, but only contiguous tensors are read; call \
         `.contiguous()` on it and save the file again"
    )]
    Strides {
        /// The tensor, shortened.
        name: String,
        /// Its shape.
        shape: Vec<u64>,
        /// Its strides.
        strides: Vec<u64>,
    },
}

impl TorchFault {
    /// Whether the file may be as it was written, and only holds something else than is read.
    pub fn is_foreign(&self) -> bool {
        matches!(
            self,
            TorchFault::TooLarge { .. }
                | TorchFault::LongPickle { .. }
                | TorchFault::ByteOrder
                | TorchFault::Strides { .. }
                | TorchFault::Zip(ZipFault::Packed { .. } | ZipFault::Members { .. })
                | TorchFault::Pickle(
                    PickleFault::Operation { .. }
                        | PickleFault::Global { .. }
                        | PickleFault::Protocol { .. }
                        | PickleFault::TooMany { .. }
                        | PickleFault::NoTensors { .. }
                )
        )
    }
}

impl From<TorchFault> for CheckpointError {
    fn from(fault: TorchFault) -> Self {
        CheckpointError::Torch { fault }
    }
}

/// Reads the description of the tensors of `storage`, and which members hold their values. What is wrong with an archive
/// matters only if it `starts_so` as PyTorch writes it; any other is simply none of PyTorch.
pub(crate) fn parse(storage: &Storage, starts_so: bool) -> Result<(Header, Vec<Member>), CheckpointError> {
    match opened(storage) {
        Ok(archive) => described(storage, archive),
        Err(CheckpointError::Torch { .. }) if !starts_so => Err(CheckpointError::Zip),
        Err(error) => Err(error),
    }
}

fn opened(storage: &Storage) -> Result<Archive, CheckpointError> {
    if storage.len() > MAX_FILE {
        return Err(TorchFault::TooLarge { bytes: storage.len(), max: MAX_FILE }.into());
    }
    Archive::open(storage, MAX_MEMBERS)
}

fn described(storage: &Storage, archive: Archive) -> Result<(Header, Vec<Member>), CheckpointError> {
    let mut pickles = archive.members().iter().filter_map(|m| Some((m.name.strip_suffix(PICKLE)?, m)));
    let (folder, member) = match (pickles.next(), pickles.next()) {
        (Some(found), None) => found,
        (None, _) => return Err(CheckpointError::Zip),
        _ => return Err(TorchFault::Pickles.into()),
    };
    if member.len() > MAX_PICKLE {
        return Err(TorchFault::LongPickle { bytes: member.len(), max: MAX_PICKLE }.into());
    }
    let (mut order, mut buffer) = (Vec::new(), Vec::new());
    if let Some(member) = archive.get(&[folder, "/byteorder"].concat()) {
        // Older files do not say it; theirs are little-endian, as x86 and Arm are.
        if member.len() != 6 || member.read(storage, &mut order)? != b"little" {
            return Err(TorchFault::ByteOrder.into());
        }
    }
    let pickle = Pickle::read(member.read(storage, &mut buffer)?).map_err(TorchFault::Pickle)?;
    if let Some(name) = pickle.repeated() {
        return Err(tensor(name, TensorFault::Duplicate));
    }
    let mut header = Header::default();
    header.tensors.reserve_exact(pickle.len());
    let mut used = BTreeSet::new();
    for described in pickle.tensors() {
        let described = described.map_err(TorchFault::Pickle)?;
        let member = find(&archive, folder, &described)?;
        header.tensors.push(placed(&described, member)?);
        used.insert(member.bytes.start);
    }
    // Several may start at the same place.
    header.tensors.sort_unstable_by(|a, b| (a.bytes.start, &a.name).cmp(&(b.bytes.start, &b.name)));
    check_names(&mut header)?;
    let members = archive.into_members().filter(|m| used.contains(&m.bytes.start)).collect();
    Ok((header, members))
}

/// The member with the values of a described.
fn find<'a>(archive: &'a Archive, folder: &str, described: &Described<'_>) -> Result<&'a Member, TorchFault> {
    let name = [folder, "/data/", described.key].concat();
    let absent = || TorchFault::NoStorage { name: clip(described.name), member: clip(&name) };
    let member = archive.get(&name).ok_or_else(absent)?;
    // Numbers of a pickle have 32 bits.
    let each = described.dtype.block().bytes as u64;
    if described.stored * each != member.len() {
        let (name, values, bytes) = (clip(described.name), described.stored, member.len());
        return Err(TorchFault::StorageSize { name, values, bytes });
    }
    Ok(member)
}

/// The tensor, if its values lie in its storage one after the other.
fn placed(described: &Described<'_>, member: &Member) -> Result<TensorInfo, CheckpointError> {
    let Described { name, dtype, stored, offset, .. } = *described;
    let (shape, strides) = (described.shape.get(), described.strides.get());
    let each = dtype.block().bytes as u64;
    let info = TensorInfo::sized(name.to_owned(), dtype, shape, member.bytes.start + offset * each)?;
    if !are_contiguous(shape, strides) {
        let (shape, strides) = (shape.to_vec(), strides.to_vec());
        return Err(TorchFault::Strides { name: clip(name), shape, strides }.into());
    }
    if info.bytes.end as u64 > member.bytes.end {
        return Err(
            TorchFault::Range { name: clip(name), shape: shape.to_vec(), offset, values: stored }.into()
        );
    }
    Ok(info)
}

/// Whether the last axis is the fastest, and no value lies between two others. The stride of an axis of one value
/// means nothing, and neither do those of a tensor without values.
fn are_contiguous(shape: &[u64], strides: &[u64]) -> bool {
    let mut expected = 1u64;
    shape.len() == strides.len()
        && (shape.contains(&0)
            || shape.iter().zip(strides).rev().all(|(&length, &stride)| {
                let fits = length == 1 || stride == expected;
                expected = expected.saturating_mul(length);
                fits
            }))
}
