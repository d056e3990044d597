//! Every model file that would be found, and what it is by content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use remaster_model::dit::Family;
use remaster_weights::{Checkpoint, Identity, Kind, Model, POSITIVE, PUBLISHED, Published, published};
use serde::{Deserialize, Serialize};

use super::search::{self, Found, ModelFolder};
use super::{doubt, word};
use crate::error::Error;
use crate::job::{Context, Job, Known, Prepare};

/// Model files that would be found.
#[derive(Serialize)]
#[non_exhaustive]
pub struct InstalledModels {
    /// Networks inside the program, which need no file.
    pub built_in: Vec<BuiltInModel>,
    /// Folders in the order in which they are searched.
    pub searched: Vec<SearchedFolder>,
    /// Files.
    pub files: Vec<InstalledModel>,
    /// Readable files of other networks that are not listed.
    pub others: usize,
}

/// A network inside the program.
#[derive(Serialize)]
#[non_exhaustive]
pub struct BuiltInModel {
    /// The word that names it.
    pub model: &'static str,
    /// Its published name.
    pub public_name: &'static str,
    /// As for a file.
    pub kind: &'static str,
    /// Its size.
    pub bytes: u64,
}

/// A folder that is searched.
#[derive(Serialize)]
#[non_exhaustive]
pub struct SearchedFolder {
    /// Why.
    pub why: &'static str,
    /// Its path.
    pub folder: String,
    /// It is there.
    pub exists: bool,
}

/// A model file.
#[derive(Serialize)]
#[non_exhaustive]
pub struct InstalledModel {
    /// Its path.
    pub file: String,
    /// Why its folder was searched.
    pub place: &'static str,
    /// Its size.
    pub bytes: u64,
    /// As in [`super::inspect`]; absent if the file cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// Number formats, the one with the most bytes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// Every tensor is there and can be read.
    pub usable: bool,
    /// Why not, or why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Which of ByteDance's two sets of 3B weights it holds, if that is known: `first` or `2025-06-22`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<&'static str>,
    /// What is known against it although it is usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A list of the model files that would be found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListRequest {
    /// Folder that is searched first.
    pub folder: Option<PathBuf>,
    /// Also list files of other networks.
    pub all: bool,
}

/// Finds model files. The job says what each is.
impl Prepare for ListRequest {
    type Job = Job<InstalledModels>;

    fn prepare(self, context: &Context<'_, '_>) -> Result<Self::Job, Error> {
        let places = search::places(self.folder.as_deref(), context.machine);
        let found = search::find(&places)?;
        Ok(Job::new(Known::default(), move |_| {
            let (others, ours): (Vec<_>, Vec<_>) =
                found.iter().partition(|f| !self.all && f.kind() == Some(&Kind::Unknown));
            let files = ours.into_iter().map(|f| entry(f, &places)).collect();
            let searched = places.iter().map(|p| SearchedFolder {
                why: p.why,
                folder: p.folder.display().to_string(),
                exists: p.folder.is_dir(),
            });
            let built_in = vec![BuiltInModel {
                model: remaster_anime::NAME,
                public_name: remaster_anime::PUBLIC_NAME,
                kind: "compact",
                bytes: remaster_anime::WEIGHTS.len() as u64,
            }];
            Ok(InstalledModels { built_in, searched: searched.collect(), files, others: others.len() })
        }))
    }
}

fn entry(found: &Found, places: &[ModelFolder]) -> InstalledModel {
    let fit = found.fit();
    let reason = match (&found.content, &fit) {
        (Err(error), _) => Some(error.to_string()),
        (Ok(_), Some(fit)) => (!fit.is_complete()).then(|| fit.to_string().replace("\n ", ";")),
        (Ok((_, identity)), None) => doubt(&identity.kind).or(Some("not a network that is known".to_owned())),
    };
    InstalledModel {
        file: found.path.display().to_string(),
        place: places.get(found.place).map_or("", |p| p.why),
        bytes: found.bytes,
        kind: found.kind().map(word),
        precision: found.content.as_ref().ok().map(|(checkpoint, _)| precision(checkpoint)),
        usable: reason.is_none(),
        reason,
        revision: revision(found),
        warning: fit.and_then(|fit| fit.warnings.first().map(ToString::to_string)),
    }
}

/// ByteDance replaced its 3B weights on 2025-06-22. ComfyUI's files, which alone have the text embedding inside, hold the
/// new ones, those of numz the first. Hashing takes too long here, so the latter are known by their blob in the cache, or
/// by name and size.
pub(super) fn revision(found: &Found) -> Option<&'static str> {
    let (checkpoint, Identity { kind: Kind::Dit { config }, .. }) = found.content.as_ref().ok()? else {
        return None;
    };
    if config.family != Family::Shared {
        return None;
    }
    if checkpoint.get(POSITIVE).is_some() {
        return Some("2025-06-22");
    }
    let is_first = |p: &&Published| p.model == Model::Dit3bFirst;
    let by_name = PUBLISHED.iter().find(|p| {
        found.path.file_name().is_some_and(|name| name == p.name()) && p.bytes == Some(found.bytes)
    });
    published_blob(&found.path).or(by_name).filter(is_first).map(|_| "first")
}

/// The published file that a link of the Hugging Face cache leads to: its blob is named by its hash.
pub(super) fn published_blob(path: &Path) -> Option<&'static Published> {
    published(path.canonicalize().ok()?.file_name()?.to_str()?)
}

/// Number formats, the one with the most bytes first: `F16`, or `F8_E4M3 + F16`.
pub(super) fn precision(checkpoint: &Checkpoint) -> String {
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for tensor in checkpoint.tensors() {
        *sizes.entry(tensor.dtype().to_string()).or_default() += tensor.bytes().len() as u64;
    }
    let mut sizes: Vec<(u64, String)> = sizes.into_iter().map(|(name, bytes)| (bytes, name)).collect();
    sizes.sort_by(|a, b| b.cmp(a));
    sizes.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(" + ")
}

/// A path on one line, whatever is in its name.
pub fn shown(path: impl AsRef<Path>) -> String {
    let text = path.as_ref().display().to_string();
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
