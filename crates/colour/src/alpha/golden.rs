//! Every stage of alpha against that of the original.

#[path = "../../tests/common/mod.rs"]
mod common;

use common::{Golden, distance};
use remaster_picture::{Frame, resize};

use super::{AlphaCount, AlphaKind, Border, edges, guided, restore};
use crate::batch::unit;

#[test]
fn alpha_is_that_of_the_original() {
    let golden = Golden::open("alpha_tiny.safetensors");
    for (name, kind, radius) in [("binary", AlphaKind::Binary, 2), ("soft", AlphaKind::Soft, 3)] {
        let planes = golden.frames(&format!("{name}/alpha_in"));
        let rgb = golden.pictures(&format!("{name}/rgb_out"));
        let mut count = AlphaCount::default();
        planes.iter().for_each(|plane| count.add(plane));
        assert_eq!(count.kind(), kind);

        let check = |stage: &str, tolerance: f64, compute: &dyn Fn(&Frame, &Frame) -> Frame| {
            let got: Vec<_> = planes.iter().zip(&rgb).map(|(plane, rgb)| compute(plane, rgb)).collect();
            let (largest, mean) = distance(&got, &golden.frames(&format!("{name}/{stage}")), None);
            println!("{name} {stage}: largest {largest:.2e}, mean {mean:.2e}");
            assert!(largest <= tolerance, "{name} {stage}: {largest:.2e}");
        };
        let bicubic = |plane: &Frame, rgb: &Frame| {
            let mut alpha = resize(plane, rgb.width, rgb.height);
            alpha.data.iter_mut().for_each(|v| *v = unit(*v));
            alpha
        };
        // f32 against f64 in the original: 2.1e-6.
        check("bicubic", 1e-5, &bicubic);
        check("edges", 1e-6, &|_, rgb| Frame { channels: 1, data: edges::edges(rgb), ..*rgb });
        check("guided", 1e-5, &|plane, rgb| {
            let mut alpha = bicubic(plane, rgb);
            guided::filter(&mut alpha, rgb, radius, Border::Zeros);
            alpha
        });
        check("alpha_out", 1e-5, &|plane, rgb| restore(kind, plane, rgb, Border::Zeros).unwrap());
    }
}
