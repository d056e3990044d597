//! Small files, made by hand so that they can be wrong on purpose.
#![allow(dead_code, reason = "every test binary uses another part")]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(unreachable_pub, reason = "a module of several test binaries")]

use remaster_model::Param;
use remaster_weights::fill_formula;

pub mod gguf;

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

/// A file with these tensors; `metadata` is JSON or empty.
pub fn file_of(tensors: &[Put], metadata: &str) -> Vec<u8> {
    let mut entries = Vec::new();
    if !metadata.is_empty() {
        entries.push(format!("\"__metadata__\":{metadata}"));
    }
    let mut data = Vec::new();
    for t in tensors {
        let start = data.len();
        data.extend(&t.data);
        entries.push(format!(
            "{:?}:{{\"dtype\":\"{}\",\"shape\":{:?},\"data_offsets\":[{start},{}]}}",
            t.name,
            t.dtype,
            t.shape,
            data.len()
        ));
    }
    file(&format!("{{{}}}", entries.join(",")), &data)
}

/// The tensor `param` with its formula values, as F16.
pub fn formula_f16(param: &Param) -> Put {
    let mut values = vec![0.0; param.shape.iter().product()];
    fill_formula(&param.name, &param.shape, 0, &mut values).unwrap();
    let data = values.iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect();
    Put { name: param.name.clone(), dtype: "F16", shape: param.shape.clone(), data }
}

/// Values, to be compared to the bit.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}
