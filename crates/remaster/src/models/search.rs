//! Where model files are looked for, and what is there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use remaster_model::vae;
use remaster_weights::{
    Checkpoint, CheckpointError, Identity, Kind, LoadReport, Upscaler, check, check_dit, check_upscaler,
    identify,
};

use crate::error::Error;
use crate::machine::host::Machine;

/// The cache of Hugging Face's tools, as huggingface_hub finds it.
pub(super) fn hub(machine: &Machine) -> Option<PathBuf> {
    let home = machine.path("HF_HOME").or_else(|| {
        let of_user = || Some(machine.home.as_ref()?.join(".cache"));
        machine.path("XDG_CACHE_HOME").or_else(of_user).map(|cache| cache.join("huggingface"))
    });
    machine.path("HF_HUB_CACHE").or(home.map(|home| home.join("hub")))
}

/// A folder to look in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelFolder {
    /// Why: `--model-dir`, `ComfyUI` and so on.
    pub(super) why: &'static str,
    pub(super) folder: PathBuf,
    /// Folders below it that are looked into.
    depth: usize,
    /// Somebody named it, so it must be there.
    named: bool,
}

/// A file that was found.
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// Index of the place.
    pub(super) place: usize,
    pub(super) bytes: u64,
    pub(super) content: Result<(Checkpoint, Identity), CheckpointError>,
}

/// Endings of model files. They decide only whether a file that cannot be read is worth a line.
const ENDINGS: [&str; 7] = ["safetensors", "sft", "gguf", "pth", "pt", "ckpt", "bin"];

/// ComfyUI allows subfolders for models; deeper ones are not searched.
const DEPTH: usize = 4;

/// Most entries looked at in one place: the root of a disk may be named.
const MOST_ENTRIES: usize = 20_000;

/// All places in the order in which they are searched.
pub(super) fn places(named: Option<&Path>, machine: &Machine) -> Vec<ModelFolder> {
    let mut places = Vec::new();
    let mut add = |why, folder: PathBuf, depth, named| places.push(ModelFolder { why, folder, depth, named });
    if let Some(folder) = named {
        add("--model-dir", folder.to_owned(), DEPTH, true);
    }
    if let Some(folder) = machine.path("REMASTER_MODEL_DIR") {
        add("REMASTER_MODEL_DIR", folder, DEPTH, true);
    }
    add("models/SEEDVR2", "models/SEEDVR2".into(), DEPTH, false);
    let comfy = [Some(PathBuf::from("ComfyUI")), machine.home.as_ref().map(|h| h.join("ComfyUI"))];
    for root in comfy.into_iter().flatten() {
        for folder in ["SEEDVR2", "diffusion_models", "vae"] {
            add("ComfyUI", root.join("models").join(folder), DEPTH, false);
        }
    }
    if let Some(hub) = hub(machine) {
        // models--owner--name/snapshots/revision/folder/file
        add("Hugging Face cache", hub, DEPTH, false);
    }
    places
}

/// Every model file of `places`, each once, in the order of the places and by name within one.
pub(super) fn find(places: &[ModelFolder]) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for (index, place) in places.iter().enumerate() {
        let entries = std::fs::read_dir(&place.folder);
        if let (true, Err(source)) = (place.named, entries) {
            return Err(Error::Read { path: place.folder.clone(), source });
        }
        let mut files = Vec::new();
        let mut left = MOST_ENTRIES;
        walk(&place.folder, place.depth, &mut left, &mut seen, &mut files);
        found.extend(files.into_iter().filter_map(|path| look(path, index)));
    }
    Ok(found)
}

fn walk(
    folder: &Path,
    depth: usize,
    left: &mut usize,
    seen: &mut HashSet<PathBuf>,
    files: &mut Vec<PathBuf>,
) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).take(*left).collect();
    *left -= paths.len();
    paths.sort();
    for path in paths {
        // A snapshot of the cache holds links; two of them may mean one file, and a folder may hold itself.
        let Ok(real) = path.canonicalize() else { continue };
        if !seen.insert(real.clone()) {
            continue;
        }
        if real.is_file() {
            files.push(path);
        } else if depth > 0 && !skipped(&path) {
            walk(&path, depth - 1, left, seen, files);
        }
    }
}

/// The cache keeps the bytes in `blobs`, where downloads in progress are too, and links to them in
/// `snapshots`, under their names.
fn skipped(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || ["blobs", "refs"].contains(&name.as_ref())
}

/// A model file, and what it is.
pub(super) fn open(path: &Path) -> Result<(Checkpoint, Identity), CheckpointError> {
    let checkpoint = Checkpoint::open(path)?;
    let identity = identify(&checkpoint);
    Ok((checkpoint, identity))
}

impl Found {
    pub(super) fn kind(&self) -> Option<&Kind> {
        self.content.as_ref().ok().map(|(_, identity)| &identity.kind)
    }

    /// How its tensors fit the network that it is of.
    pub(super) fn fit(&self) -> Option<LoadReport> {
        let (checkpoint, identity) = self.content.as_ref().ok()?;
        fit(checkpoint, &identity.kind)
    }
}

/// `None` for what is no model file and does not look like one.
fn look(path: PathBuf, place: usize) -> Option<Found> {
    let bytes = std::fs::metadata(&path).ok()?.len();
    let content = open(&path);
    let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    let named_so = ending.is_some_and(|e| ENDINGS.contains(&e.as_str()));
    (content.is_ok() || named_so).then_some(Found { path, place, bytes, content })
}

/// One file that was named.
pub(super) fn named(path: &Path) -> Result<Found, Error> {
    let about = std::fs::metadata(path).map_err(Error::reading(path))?;
    match open(path) {
        Err(source @ (CheckpointError::Io { .. } | CheckpointError::NotAFile { .. })) => {
            Err(Error::Checkpoint { path: path.to_owned(), source })
        }
        content => Ok(Found { path: path.to_owned(), place: usize::MAX, bytes: about.len(), content }),
    }
}

/// How a file fits its network; `None` if it is for none of ours.
pub(super) fn fit(checkpoint: &Checkpoint, kind: &Kind) -> Option<LoadReport> {
    match kind {
        Kind::Vae { config } => Some(check(checkpoint, &vae::params(config))),
        Kind::Dit { config } => Some(check_dit(checkpoint, config)),
        Kind::Compact { config } => Some(check_upscaler(checkpoint, &Upscaler::Compact(*config))),
        Kind::Rrdb { config } => Some(check_upscaler(checkpoint, &Upscaler::Rrdb(*config))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(named: Option<&str>, machine: &Machine) -> Vec<String> {
        let places = places(named.map(Path::new), machine);
        places.iter().map(|p| p.folder.to_string_lossy().replace('\\', "/")).collect()
    }

    #[test]
    fn the_order_is_the_documented_one() {
        let bare = Machine::this().without_environment();
        let user = Machine { home: Some("/home/me".into()), ..bare.clone() };
        let around = user.clone().with("REMASTER_MODEL_DIR", "/env").with("HF_HOME", "/hf");
        assert_eq!(
            folders(Some("named"), &around),
            [
                "named",
                "/env",
                "models/SEEDVR2",
                "ComfyUI/models/SEEDVR2",
                "ComfyUI/models/diffusion_models",
                "ComfyUI/models/vae",
                "/home/me/ComfyUI/models/SEEDVR2",
                "/home/me/ComfyUI/models/diffusion_models",
                "/home/me/ComfyUI/models/vae",
                "/hf/hub",
            ]
        );
        let last = |machine| folders(None, &machine).pop().unwrap();
        assert_eq!(last(around.with("HF_HUB_CACHE", "/hub")), "/hub");
        assert_eq!(last(user.clone()), "/home/me/.cache/huggingface/hub");
        assert_eq!(last(user.with("XDG_CACHE_HOME", "/c")), "/c/huggingface/hub");
        assert_eq!(folders(None, &bare).len(), 4);
    }
}
