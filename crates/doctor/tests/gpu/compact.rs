//! The network inside the binary, on the GPU backend.

use crate::backend;
use crate::common::compact::{GOLDENS, keeps_goldens};
use remaster_compute::gpu::{all_variants, with_variant};
use remaster_compute::{Backend, DType};
use remaster_testkit::no_units;

#[test]
fn compact_keeps_the_goldens() {
    let Some(backend) = backend("compact_keeps_the_goldens") else { return };
    keeps_goldens(backend, &[DType::F32], &GOLDENS);
    keeps_goldens(backend, &[DType::F16], &GOLDENS[..1]);
}

#[test]
fn compact_keeps_the_goldens_with_other_kernels() {
    let name = "compact_keeps_the_goldens_with_other_kernels";
    let Some(Backend::Gpu(device)) = backend(name) else { return };
    let variants = all_variants(&device).unwrap();
    for (family, dtype) in [("winograd", DType::F32), ("matrix", DType::F16)] {
        match variants.iter().find(|v| v.family() == family) {
            Some(variant) => {
                let backend = Backend::Gpu(with_variant(device, variant));
                keeps_goldens(backend, &[dtype], &GOLDENS[..2]);
            }
            None => no_units(name),
        }
    }
}
