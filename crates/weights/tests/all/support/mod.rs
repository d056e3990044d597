//! Small files, made by hand so that they can be wrong on purpose.
#![allow(dead_code, reason = "every test binary uses another part")]
#![allow(unreachable_pub, reason = "a module of several test binaries")]

use std::path::{Path, PathBuf};

use remaster_model::Param;
use remaster_weights::{Checkpoint, StoredDtype, fill_formula, fill_uniform};
use tempfile::TempDir;

pub mod gguf;
pub mod pth;

/// A file with the header `json` and the given data.
pub fn file(json: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend(json.as_bytes());
    bytes.extend(data);
    bytes
}

/// A tensor to put into a file.
#[derive(Clone, Debug)]
pub struct Put {
    pub name: String,
    pub dtype: &'static str,
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
}

pub fn put(name: &str, dtype: &'static str, shape: &[usize], data: impl Into<Vec<u8>>) -> Put {
    Put { name: name.to_owned(), dtype, shape: shape.to_vec(), data: data.into() }
}

/// A tensor of zeros.
pub fn zeros(name: &str, dtype: &'static str, shape: &[usize]) -> Put {
    put(name, dtype, shape, vec![0; bytes_of(dtype, shape) as usize])
}

/// Bytes in a file of a folder of its own, which ends with the first of the two.
pub fn on_disk(name: &str, bytes: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let (folder, path) = place(name);
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Where a file goes, in a folder of its own.
pub fn place(name: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

/// A file of these bytes and of zeros that take no place on disk.
pub fn sparse(path: &Path, head: &[u8], zeros: u64) -> std::fs::File {
    std::fs::write(path, head).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(head.len() as u64 + zeros).unwrap();
    file
}

/// Every tensor that can be read and is no companion has, by name, the f32 `values`, also in each of these ranges that
/// it has.
pub fn has_values(checkpoint: &Checkpoint, values: &[u8], ranges: &[(usize, usize)]) {
    let mut tensors: Vec<_> = checkpoint.tensors().filter(|t| !t.is_companion()).collect();
    tensors.retain(|t| t.dtype().is_readable());
    tensors.sort_by(|a, b| a.name().cmp(b.name()));
    let mut expected = values.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    for tensor in tensors {
        let theirs: Vec<u32> = expected.by_ref().take(tensor.elements()).collect();
        assert_eq!(bits(&checkpoint.values(tensor).unwrap()), theirs, "{}", tensor.name());
        for &(start, length) in ranges {
            let Some(part) = theirs.get(start..start + length) else { continue };
            let mut ours = vec![0.0; length];
            checkpoint.read_f32(tensor, start, &mut ours).unwrap();
            assert_eq!(bits(&ours), part, "{} {start} {length}", tensor.name());
        }
    }
    assert!(expected.next().is_none());
}

/// Reads the last values of every tensor that can be read.
pub fn read_ends(checkpoint: &Checkpoint) {
    for tensor in checkpoint.tensors().filter(|t| t.dtype().is_readable()) {
        let mut values = vec![0.0; tensor.elements().min(1 << 16)];
        checkpoint.read_f32(tensor, tensor.elements() - values.len(), &mut values).unwrap();
    }
}

/// A file with these tensors; `metadata` is JSON or empty.
pub fn file_of(tensors: &[Put], metadata: &str) -> Vec<u8> {
    let (json, _) =
        header(tensors.iter().map(|t| (&*t.name, t.dtype, &t.shape[..], t.data.len() as u64)), metadata);
    file(&json, &tensors.iter().flat_map(|t| t.data.iter().copied()).collect::<Vec<_>>())
}

/// The header of tensors of so many bytes, one after the other, and where the last one ends.
pub fn header<'a>(
    tensors: impl Iterator<Item = (&'a str, &'a str, &'a [usize], u64)>,
    metadata: &str,
) -> (String, u64) {
    let (mut entries, mut end) = (Vec::new(), 0);
    if !metadata.is_empty() {
        entries.push(format!("\"__metadata__\":{metadata}"));
    }
    for (name, dtype, shape, bytes) in tensors {
        let start = end;
        end += bytes;
        let shape = format!("\"shape\":{shape:?},\"data_offsets\":[{start},{end}]");
        entries.push(format!("{name:?}:{{\"dtype\":\"{dtype}\",{shape}}}"));
    }
    (format!("{{{}}}", entries.join(",")), end)
}

/// Bytes of a tensor.
pub fn bytes_of(dtype: &str, shape: &[usize]) -> u64 {
    let block = StoredDtype::from_name(dtype).unwrap().block();
    shape.iter().map(|&n| n as u64).product::<u64>() / block.values as u64 * block.bytes as u64
}

/// A checkpoint of these tensors.
pub fn checkpoint(tensors: &[Put]) -> Checkpoint {
    Checkpoint::from_bytes(file_of(tensors, "")).unwrap()
}

/// The values of a tensor by the formula.
pub fn formula(name: &str, shape: &[usize]) -> Vec<f32> {
    let mut values = vec![0.0; shape.iter().product()];
    fill_formula(name, shape, 0, &mut values).unwrap();
    values
}

/// The tensor `param` with its formula values, as F16.
pub fn formula_f16(param: &Param) -> Put {
    let values = formula(&param.name, &param.shape);
    let data = values.iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect();
    Put { name: param.name.clone(), dtype: "F16", shape: param.shape.clone(), data }
}

/// The tensor `param` with uniform values, as F16.
pub fn uniform_f16(param: &Param) -> Put {
    let data = uniform(param).iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect();
    Put { name: param.name.clone(), dtype: "F16", shape: param.shape.clone(), data }
}

/// Uniform values that F16 has too.
pub fn uniform(param: &Param) -> Vec<f32> {
    let mut values = vec![0.0; param.shape.iter().product()];
    fill_uniform(&param.name, 0, &mut values);
    values.iter().map(|&v| half::f16::from_f32(v).to_f32()).collect()
}

/// A file of a whole network, with formula values as F16.
pub fn network(params: &[Param], metadata: &str) -> Vec<u8> {
    file_of(&params.iter().map(formula_f16).collect::<Vec<_>>(), metadata)
}

/// Values, to be compared to the bit.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}
