//! What a request says about the result: sizes, shots, windows, colour.

use std::io::Read;
use std::path::Path;

use remaster_colour::alpha::Border;
use remaster_media::Format;
use remaster_picture::{Edges, Kind};
use remaster_plan::Windows;
use remaster_restore::{Cuts, Geometry, Pool, Recipe, Resize, Sampling, Start};
use remaster_scenes::Shots;

use super::networks::Networks;
use crate::error::Error;
use crate::machine::spill::Spill;
use crate::request::{self, Restoration};

/// Default length of the short side, in pixels.
const SHORT_SIDE: usize = 1080;

/// Frames of a window without a transformer.
const IDENTITY_WINDOW: usize = 5;

impl Restoration {
    /// Sizes of the frames on their way.
    pub(super) fn geometry(&self, format: &Format) -> Geometry {
        let source = [format.width, format.height];
        let square = match (self.keep_sar, format.sample_aspect) {
            (false, [num, den]) if num > 0 && den > 0 && num != den => {
                let width = (format.width as u64 * u64::from(num)).div_ceil(u64::from(den));
                [usize::try_from(width).unwrap_or(format.width).max(1), format.height]
            }
            _ => source,
        };
        let short = square[0].min(square[1]);
        let resize = self.size.resolution.unwrap_or(match short > SHORT_SIDE {
            true => Resize::Keep,
            false => Resize::Short(SHORT_SIDE),
        });
        let edges = if self.compat.is_some() { Edges::Black } else { self.size.edges };
        let mut to = Geometry::new(square, resize, Edges::Black).shown;
        // Players want halved chroma, which odd sizes cannot have. Frames that keep their size keep it as it is.
        let steps = match format.layout.kind {
            Kind::Yuv { across, down } if to != source => [across, down].map(|n| 1usize << n.min(4)),
            _ => [1, 1],
        };
        if !matches!(resize, Resize::Exactly(_)) {
            to = [0, 1].map(|i| (to[i] / steps[i] * steps[i]).max(steps[i]));
        }
        // The other tool pads what it resized and cuts behind the networks.
        let to = if self.compat.is_some() { resize } else { Resize::Exactly(to) };
        let geometry = Geometry::new(square, to, edges);
        Geometry { source, ..geometry }.with_alpha(format.layout.alpha)
    }

    /// What frames of `format` are written as.
    pub(crate) fn shown(&self, format: &Format) -> Format {
        self.shown_at(format, self.geometry(format).shown)
    }

    pub(super) fn shown_at(&self, format: &Format, [width, height]: [usize; 2]) -> Format {
        let sample_aspect = if self.keep_sar { format.sample_aspect } else { [1, 1] };
        Format { width, height, sample_aspect, ..format.clone() }
    }

    /// What the transformer sees at once. Without one, long windows would take memory for nothing: latents that are the
    /// frames themselves have 48 times the channels, 12 GiB in windows of 45 frames at 1350 x 1080.
    fn windows(&self) -> Result<Windows, Error> {
        let frames = match self.models.is_identity() {
            // Frames that are taken one by one know nothing of each other.
            _ if self.models.by_frame() => 1,
            true => self.look.window.min(IDENTITY_WINDOW),
            false => self.look.window,
        };
        Windows::new(frames).map_err(|source| Error::Sizes { source })
    }

    /// Windows, and which frames share a correction of colour.
    pub(crate) fn pools(&self) -> Result<(Windows, Pool), Error> {
        Ok((self.windows()?, self.look.finish.color_pool))
    }

    /// Everything that decides the result.
    pub(super) fn recipe(
        &self,
        geometry: Geometry,
        networks: &Networks,
        spill: &Spill,
        frames: Option<usize>,
    ) -> Result<Recipe, Error> {
        let look = &self.look;
        let windows = self.windows()?;
        let mut recipe = Recipe {
            geometry,
            shown: geometry.shown,
            upscale: networks.upscale(&geometry),
            cuts: self.cuts(frames)?,
            softness: look.softness,
            input_noise: look.input_noise,
            sampling: Sampling {
                start: Start::Seed(look.seed),
                windows,
                scale: networks.diffusion().map_or(1.0, |diffusion| diffusion.scale),
                latent_noise: look.latent_noise,
            },
            finish: look.finish.finish(self.models.by_frame(), spill),
        };
        if let Some(compat) = self.compat {
            let overlap = compat.overlap;
            let size = windows.frames();
            recipe.cuts = Cuts::Batches { size, overlap: if overlap < size { overlap } else { 0 } };
            recipe.shown = geometry.shown.map(|n| (n / 2 * 2).max(1));
            recipe.finish.pool = Pool::Window;
            recipe.finish.border = Border::Zeros;
        }
        Ok(recipe)
    }

    /// Where the film is cut.
    fn cuts(&self, frames: Option<usize>) -> Result<Cuts, Error> {
        // What is made of a single frame depends on no other; only a pool of colours does. A list that was given is compared
        // with the film all the same.
        let finds = matches!(self.look.shots, request::Shots::Auto);
        match finds && self.models.by_frame() && self.look.finish.color_pool != Pool::Shot {
            true => Ok(Cuts::None),
            false => self.shots(frames),
        }
    }

    /// Where shots begin.
    pub(super) fn shots(&self, frames: Option<usize>) -> Result<Cuts, Error> {
        match &self.look.shots {
            // A still has no shots.
            _ if frames == Some(1) => Ok(Cuts::None),
            request::Shots::Auto => Ok(Cuts::Auto),
            request::Shots::One => Ok(Cuts::None),
            request::Shots::List(path) => {
                let shots = Shots::from_json(&read_list(path)?);
                Ok(Cuts::At(shots.map_err(|source| Error::Scenes { path: path.clone(), source })?))
            }
        }
    }
}

/// A list of shots, no longer than one can be.
fn read_list(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = Error::reading(path);
    let mut bytes = Vec::new();
    let file = remaster_disk::read_named(path).map_err(&failed)?;
    file.take(remaster_scenes::MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(&failed)?;
    // Windows editors write a byte order mark.
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    Ok(bytes)
}
