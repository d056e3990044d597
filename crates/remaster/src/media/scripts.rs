//! VapourSynth scripts as input. A script is a program, so it runs only if this very one was allowed.

use std::path::{Path, PathBuf};

use remaster_media::{Deinterlace, Excerpt, FrameSource, MediaError, Script, TimeBase};

use super::tools::Lazy;
use super::{Opened, Source, has_ending, refuse};
use crate::error::Error;

/// Scripts that may run: those that a person typed as the input of a command, or that a program names in its own code.
///
/// There is no other way to one: it can be neither read nor written, so no file, plan, list or request from elsewhere holds it,
/// and a script that turns up there is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scripts(Vec<PathBuf>);

impl Scripts {
    /// Allows the scripts among these inputs to run, with all rights of this process.
    pub fn typed(inputs: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let inputs = inputs.into_iter().map(Into::into);
        Scripts(inputs.filter(|input: &PathBuf| is_script(input)).collect())
    }

    /// Whether this input is a script that may run.
    pub(crate) fn allow(&self, input: &Path) -> bool {
        self.0.iter().any(|typed| typed == input)
    }
}

/// Whether an input is called a VapourSynth script.
pub(crate) fn is_script(input: &Path) -> bool {
    has_ending(input, "vpy") && !input.is_dir()
}

/// Refuses scripts of AviSynth, which nothing here runs.
pub(crate) fn refuse_avisynth(input: &Path) -> Result<(), Error> {
    let is_avisynth = (has_ending(input, "avs") || has_ending(input, "avsi")) && is_text(input);
    if is_avisynth { Err(Error::Avisynth { path: input.to_owned() }) } else { Ok(()) }
}

/// Films of the Chinese codec AVS are called like AviSynth's scripts, and begin with a start code: three bytes of 0, 0 and 1.
fn is_text(input: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 64];
    let read = remaster_disk::read_named(input).and_then(|mut file| file.read(&mut start));
    read.is_ok_and(|n| !start.get(..n).unwrap_or_default().contains(&0))
}

impl Source {
    /// Opens the script at `path`, if it may run.
    pub(super) fn open_script(&self, path: &Path, most: u64, tools: &mut Lazy) -> Result<Opened, Error> {
        let script = self.script(path, tools)?;
        let (notes, clip) = (script.notes(), script.identity());
        let source = Box::new(script.frames(most)?);
        Ok(Opened { clip: Some(clip), ..Opened::plain(source, notes, true) })
    }

    /// The same from the frame on that is shown at `pts` of its clock.
    pub(super) fn open_script_at(
        &self,
        path: &Path,
        (clock, pts): (TimeBase, i64),
        tools: &mut Lazy,
    ) -> Result<Box<dyn FrameSource>, Error> {
        let excerpt = Excerpt { first: Some(pts), end: None };
        // It fitted when it was opened first; what is free now says nothing.
        let source = self.script(path, tools)?.excerpt(excerpt)?.frames(u64::MAX)?;
        match source.format().time_base == clock {
            true => Ok(Box::new(source)),
            false => Err(MediaError::NoFrame { pts }.into()),
        }
    }

    /// What the script at `path` gives to a network.
    fn script(&self, path: &Path, tools: &mut Lazy) -> Result<Script, Error> {
        let script = self.allowed(path, tools)?;
        Ok(script.judged(&self.read_options())?.within(self.span())?)
    }

    /// The script at `path` as it is, if it may run.
    pub(crate) fn allowed(&self, path: &Path, tools: &mut Lazy) -> Result<Script, Error> {
        if !self.scripts.allow(path) {
            return Err(Error::ScriptNotTyped { path: path.to_owned() });
        }
        let missing = |source| MediaError::Open { path: path.to_owned(), source };
        path.metadata().map_err(missing)?;
        let flags = [
            ("--vf", self.filters.is_some()),
            ("--fps", self.rate.is_some()),
            ("--exr", self.exr),
            ("--damaged", self.keep_damaged),
            ("--deinterlace", !matches!(self.deinterlace, Deinterlace::Auto | Deinterlace::Off)),
        ];
        refuse(&flags, "a script, which does that itself")?;
        tools.script(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_script_that_was_typed_is_allowed() {
        let scripts = Scripts::typed(["a/film.vpy", "b.mkv"]);
        assert!(scripts.allow(Path::new("a/film.vpy")));
        for other in ["film.vpy", "a/other.vpy", "b.mkv", "a/FILM.vpy", ""] {
            assert!(!scripts.allow(Path::new(other)), "{other}");
        }
        assert!(!Scripts::default().allow(Path::new("a/film.vpy")));
        assert!(is_script(Path::new("A.VPY")) && !is_script(Path::new("a.vpy.mkv")));
    }

    #[test]
    fn a_request_that_is_read_allows_no_script() {
        let mut source = Source { scripts: Scripts::typed(["film.vpy"]), ..Source::default() };
        let text = serde_json::to_string(&source).unwrap();
        assert!(!text.contains("film.vpy"), "{text}");
        source.scripts = Scripts::default();
        assert_eq!(serde_json::from_str::<Source>(&text).unwrap(), source);
        for wrong in [r#"{"scripts": ["film.vpy"]}"#, r#"{"scripts": null}"#] {
            assert!(serde_json::from_str::<Source>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_film_of_the_codec_avs_is_no_script_of_avisynth() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.avs");
        std::fs::write(&path, b"AviSource(\"a.avi\")\n").unwrap();
        assert!(matches!(refuse_avisynth(&path), Err(Error::Avisynth { .. })));
        std::fs::write(&path, [0, 0, 1, 0xb0, 7]).unwrap();
        assert!(refuse_avisynth(&path).is_ok());
        assert!(refuse_avisynth(Path::new("missing.avs")).is_ok());
    }

    #[test]
    #[cfg(unix)]
    fn a_pipe_that_is_called_like_a_script_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.avs");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(refuse_avisynth(&path).is_ok());
    }
}
