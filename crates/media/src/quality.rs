//! The quality of an encoder as one number.

use crate::error::MediaError;
use crate::target::{is_option, parameters};

/// Encoders with a constant quality, and its worst value.
const ENCODERS: [(&str, u8); 5] =
    [("libx264", 51), ("libx265", 51), ("libvpx-vp9", 63), ("libsvtav1", 63), ("libaom-av1", 63)];

/// Sets the quality of an encoder, which comes first in its words. Those that were `typed` have none yet.
pub(crate) fn set(encoder: &mut Vec<String>, crf: u8, typed: bool) -> Result<(), MediaError> {
    let refused = |reason: String| MediaError::Quality { crf, reason };
    let name = encoder.first().cloned().unwrap_or_default();
    let Some((_, most)) = ENCODERS.into_iter().find(|(known, _)| *known == name) else {
        let known = ENCODERS.map(|(name, _)| name).join(", ");
        return Err(refused(format!(
            "does not apply to {name}; remove it, or choose an encoder with --video: {known}"
        )));
    };
    if crf > most {
        return Err(refused(format!("is out of range for {name}; use 0 to {most}")));
    }
    if typed && encoder.iter().any(|word| is_option(word, "-crf")) {
        return Err(refused("and the -crf in --video set the same; remove one of them".into()));
    }
    *parameters(encoder, "-crf") = crf.to_string();
    // Without it VP9 takes the quality for a limit.
    if name == "libvpx-vp9" && !encoder.iter().any(|word| is_option(word, "-b")) {
        encoder.extend(["-b:v".to_owned(), "0".to_owned()]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(words: &str, crf: u8, typed: bool) -> Result<String, String> {
        let mut encoder = crate::words::words(words);
        set(&mut encoder, crf, typed).map_err(|error| error.to_string())?;
        Ok(encoder.join(" "))
    }

    #[test]
    fn the_quality_replaces_the_default_and_is_set_once() {
        let ok = |words: &str| Ok(words.to_owned());
        assert_eq!(with("libx264 -crf 12 -preset medium", 18, false), ok("libx264 -crf 18 -preset medium"));
        assert_eq!(with("libx265 -preset slow", 0, true), ok("libx265 -preset slow -crf 0"));
        assert_eq!(with("libvpx-vp9", 63, true), ok("libvpx-vp9 -crf 63 -b:v 0"));
        assert_eq!(with("libvpx-vp9 -b:v 2M", 30, true), ok("libvpx-vp9 -b:v 2M -crf 30"));
        for words in ["libx264 -crf 12", "libx264 -crf:v 12"] {
            let error = with(words, 18, true).unwrap_err();
            assert!(error.starts_with("--crf 18 and the -crf in --video"), "{error}");
        }
    }

    #[test]
    fn a_quality_that_the_encoder_does_not_have_is_refused_with_what_it_has() {
        let expected = "--crf 52 is out of range for libx264; use 0 to 51";
        assert_eq!(with("libx264", 52, true).unwrap_err(), expected);
        assert!(with("libx264", 51, true).is_ok());
        for encoder in ["ffv1", "prores_ks", "mpeg4", ""] {
            let error = with(encoder, 18, false).unwrap_err();
            assert!(error.contains("does not apply") && error.contains("libx265"), "{error}");
        }
    }
}
