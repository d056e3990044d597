//! Whether a film is there already, told by its manifest: no device, network or encoder is asked.

use std::path::{Path, PathBuf};

use remaster_media::SegmentKind;
use remaster_units::{Manifest, Model};

use super::local::{forget, is_same};
use super::pinned;
use super::status::ranges;
use crate::control::Control;
use crate::error::Error;
use crate::machine::hashes;
use crate::machine::host::Machine;
use crate::models::installed_text;
use crate::request::Request;
use crate::restore::{UPSCALER_ROLE, names};

/// What is known of a film that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is there, of the same input, settings and networks, as it was written.
    Done {
        /// Its frames.
        frames: usize,
    },
    /// Something else is there.
    Other,
    /// Nothing says what it is.
    Unknown,
}

/// Looks at a film that exists, and removes what a killed run left beside one that is done. Another device, another ffmpeg
/// and another version of this program make it no other film: who wants it anew can ask for that.
pub(crate) fn standing(
    request: &Request,
    film: &Path,
    machine: &Machine,
    control: &Control,
) -> Result<Standing, Error> {
    let Ok(manifest) = Manifest::of(film) else { return Ok(Standing::Unknown) };
    let settings = &manifest.settings;
    let cut = &request.units.cut;
    // VP8 and VP9 with alpha are kept lossless in any case.
    let lossless = settings.segments == SegmentKind::Lossless;
    let target = &request.target;
    let same = settings.request == pinned::of(&request.how, target)?
        && settings.numerics.threads == target.encoder_threads()
        && settings.shots == request.how.look.shots(machine, control)?
        && (settings.mix == cut.mix_devices)
        && (lossless == cut.lossless_units || settings.numerics.encoder.starts_with("libvpx"))
        && request.how.device.dtype.is_none_or(|dtype| dtype.name() == settings.numerics.dtype)
        && uses(request, &settings.models, machine, control)?
        // Files that were not touched since are not read.
        && is_same(settings, &request.input, control)?
        && (manifest.is_untouched(film)? || manifest.is(film)?);
    if !same {
        return Ok(Standing::Other);
    }
    // A film with units that were given up is done for those who asked to go on without them.
    let left: Vec<u32> = (0..).zip(&manifest.units).filter(|(_, unit)| unit.left).map(|(i, _)| i).collect();
    match left.is_empty() || request.units.keep_going {
        true => {
            forget(film, &request.units, machine);
            Ok(Standing::Done { frames: manifest.frames })
        }
        false => Err(Error::NotRestored { path: film.to_owned(), units: ranges(&left) }),
    }
}

/// Whether the networks are those of a film.
fn uses(request: &Request, made: &[Model], machine: &Machine, control: &Control) -> Result<bool, Error> {
    let models = &request.how.models;
    let [model, vae] = names(models, machine)?;
    if models.is_upscaler() {
        let [made] = made else { return Ok(false) };
        return Ok(made.role == UPSCALER_ROLE && is_same_file(made, &model, machine, control)?);
    }
    // A text that is not named is the one inside the network, or the one that would be found: a manifest opens no file.
    let found = || installed_text(models.folder.as_deref(), Path::new(&model), machine).ok();
    let text = models.text.clone().or_else(found).map(|text| text.display().to_string());
    let named = models.text.is_some();
    let vae = (!models.has_no_network()).then_some(vae);
    let roles = [("transformer", Some(model)), ("vae", vae), ("text", text)];
    for (role, name) in roles {
        let made = made.iter().find(|model| model.role == role);
        let (made, name) = match (made, name) {
            (Some(made), Some(name)) => (made, name),
            (None, Some(_)) if role == "text" && !named => continue,
            (None, None) => continue,
            _ => return Ok(false),
        };
        if !is_same_file(made, &name, machine, control)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a network of a film is the one with this name now.
fn is_same_file(made: &Model, name: &str, machine: &Machine, control: &Control) -> Result<bool, Error> {
    let path = PathBuf::from(name);
    Ok(match (&made.sha256, path.is_file()) {
        (Some(wanted), true) => *wanted == hashes::sha256(&path, machine, control)?,
        (None, false) => made.name == name,
        _ => false,
    })
}
