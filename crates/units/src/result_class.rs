//! What decides the bytes of a unit beside its settings: kernels and programs.

use remaster_store::Hash;
use serde::{Deserialize, Serialize};

use crate::error::UnitsError;

/// What computes, encodes and decodes. Units of one class are the same to the byte wherever they are done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultClass {
    /// The version of this program.
    pub program: String,
    /// Backend, kernel path and chosen variants.
    pub backend: String,
    /// In which format networks compute.
    pub dtype: String,
    /// How frames are tiled, where that changes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiling: Option<String>,
    /// ffmpeg and its libraries.
    pub ffmpeg: String,
    /// The encoder.
    pub encoder: String,
    /// Hash of what it makes of a few frames, if it repeats itself: ffmpeg does not tell the versions of its encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Hash>,
    /// Its threads.
    pub threads: u32,
}

impl ResultClass {
    /// Refuses a machine that cannot provide this class. With `mix` only what would not fit together is refused.
    pub fn check(&self, here: &ResultClass, mix: bool) -> Result<(), UnitsError> {
        type Getter = fn(&ResultClass) -> String;
        let parts: [(&'static str, bool, Getter); 7] = [
            ("this program", false, |of| of.program.clone()),
            ("the encoder", false, |of| of.encoder.clone()),
            ("the device", true, |of| of.backend.clone()),
            ("the number format", true, |of| of.dtype.clone()),
            ("ffmpeg", true, |of| of.ffmpeg.clone()),
            ("the tiling", true, |of| of.tiling.clone().unwrap_or_else(|| "exact".into())),
            ("an encoder with the sample", true, |of| {
                of.sample.map_or("none".into(), |hash| hash.to_string())
            }),
        ];
        for (what, mixes, part) in parts {
            let (wanted, found) = (part(self), part(here));
            if wanted != found && !(mix && mixes) {
                return Err(UnitsError::ResultClass { what, wanted, found });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_class_is_refused_by_name_and_mixing_allows_what_fits_together() {
        let words = ["0.1.0", "cpu avx512", "f32", "5.1", "libx264"];
        let [program, backend, dtype, ffmpeg, encoder] = words.map(str::to_owned);
        let (tiling, sample) = (None, Some(Hash::of(b"sample")));
        let plan = ResultClass { program, backend, dtype, tiling, ffmpeg, encoder, sample, threads: 2 };
        plan.check(&plan, false).unwrap();
        let device = ResultClass { backend: "gpu 12".into(), ..plan.clone() };
        let error = plan.check(&device, false).unwrap_err().to_string();
        assert!(error.contains("cpu avx512") && error.contains("gpu 12"), "{error}");
        plan.check(&device, true).unwrap();
        let program = ResultClass { program: "0.2.0".into(), ..plan.clone() };
        assert!(plan.check(&program, true).is_err());
        let tiled = ResultClass { tiling: Some("blend".into()), ..plan.clone() };
        assert!(plan.check(&tiled, false).is_err());
        let library = ResultClass { sample: Some(Hash::of(b"other")), ..plan.clone() };
        assert!(plan.check(&library, false).is_err());
        plan.check(&library, true).unwrap();
    }
}
