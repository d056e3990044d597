//! Colour maps. Both are straight lines of lightness in OKLab, so that equal steps of a value look alike and
//! a print in grey still shows the order.

use super::image::Rgb;

/// OKLab in polar form (lightness, chroma, hue in degrees) to sRGB. A colour that does not exist gets as much
/// chroma as its lightness and hue can have.
fn oklch(lightness: f32, chroma: f32, hue: f32) -> Rgb {
    let exists =
        |chroma: f32| oklab_to_linear(lightness, chroma, hue).iter().all(|v| (-0.0005..=1.0005).contains(v));
    let (mut low, mut high) = (0.0, chroma);
    // 12 halvings: the steps that are left are far below one level.
    for _ in 0..12 {
        let middle = (low + high) / 2.0;
        if exists(middle) { low = middle } else { high = middle }
    }
    let chroma = if exists(chroma) { chroma } else { low };
    oklab_to_linear(lightness, chroma, hue).map(|v| {
        let v = v.clamp(0.0, 1.0);
        let coded = if v <= 0.003_130_8 { 12.92 * v } else { 1.055 * v.powf(1.0 / 2.4) - 0.055 };
        (coded * 255.0).round() as u8
    })
}

fn oklab_to_linear(lightness: f32, chroma: f32, hue: f32) -> [f32; 3] {
    let (sin, cos) = hue.to_radians().sin_cos();
    let (a, b) = (chroma * cos, chroma * sin);
    let l = (lightness + 0.396_337_78 * a + 0.215_803_76 * b).powi(3);
    let m = (lightness - 0.105_561_35 * a - 0.063_854_17 * b).powi(3);
    let s = (lightness - 0.089_484_18 * a - 1.291_485_5 * b).powi(3);
    [
        4.076_741_7 * l - 3.307_711_6 * m + 0.230_969_94 * s,
        -1.268_438 * l + 2.609_757_4 * m - 0.341_319_4 * s,
        -0.004_196_086_3 * l - 0.703_418_6 * m + 1.707_614_7 * s,
    ]
}

/// For amounts, 0 to 1: black, violet, red, orange, pale yellow.
pub(crate) fn heat(value: f32) -> Rgb {
    let v = value.clamp(0.0, 1.0);
    // Colour comes and goes at the ends, where there is no room for it.
    let chroma = 0.20 * (v * 6.0).min(1.0) * (1.0 - (v - 0.75).max(0.0) * 2.2);
    oklch(0.04 + 0.93 * v, chroma, 285.0 + 175.0 * v)
}

/// For signed amounts, -1 to 1: bright blue, dark grey, bright orange. Nothing is dark in both maps.
pub(crate) fn signed(value: f32) -> Rgb {
    let v = value.clamp(-1.0, 1.0);
    let amount = v.abs();
    let hue = if v < 0.0 { 240.0 } else { 60.0 };
    oklch(0.30 + 0.52 * amount, 0.17 * amount.powf(0.8), hue)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lightness(colour: Rgb) -> f32 {
        let [r, g, b] = colour.map(|v| {
            let v = f32::from(v) / 255.0;
            if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    #[test]
    fn more_is_lighter_whatever_the_sign() {
        for i in 0..100 {
            let (low, high) = (i as f32 / 100.0, (i + 1) as f32 / 100.0);
            assert!(lightness(heat(high)) >= lightness(heat(low)), "{low}");
            assert!(lightness(signed(high)) >= lightness(signed(low)) - 1e-3, "{low}");
            assert!(lightness(signed(-high)) >= lightness(signed(-low)) - 1e-3, "-{low}");
        }
    }
}
