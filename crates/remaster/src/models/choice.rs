//! Which installed file to use for a model that is named by a word. Files are known by content; only the two 7B
//! transformers, which have the same tensors, are told apart by hash or name.

use std::path::{Path, PathBuf};

use remaster_model::dit::DitConfig;
use remaster_plan::bytes;
use remaster_weights::{Checkpoint, Kind, Model, POSITIVE, TextEmbedding};

use super::list::{precision, published_blob, revision};
use super::search::{self, Found};
use crate::error::Error;
use crate::machine::host::Machine;
use crate::upscaler::built_in;

/// The name under which the text embedding is published.
pub(super) const TEXT: &str = "pos_emb.pt";

/// The best installed file of a transformer, `3b`, `3b-first`, `7b` or `7b-sharp`: fp16, bf16, fp8, q8_0, int8, q4_k_m, then
/// anything else. Of equal ones the newer weights come first, then the order of the search.
pub(crate) fn installed(word: &str, folder: Option<&Path>, machine: &Machine) -> Result<PathBuf, Error> {
    let transformers = [Model::Dit3b, Model::Dit3bFirst, Model::Dit7b, Model::Dit7bSharp];
    let Some(model) = transformers.into_iter().find(|model| model.word() == word) else {
        let words = "3b, 7b, 7b-sharp or 3b-first".to_owned();
        return Err(Error::UnknownModel { word: word.to_owned(), words });
    };
    pick(model, &all(folder, machine)?)
}

/// Everything that a restoration needs, by the names of the files. An error says what is missing, as a restoration would.
pub(crate) fn ready(machine: &Machine) -> Result<Vec<PathBuf>, Error> {
    ready_in(&all(None, machine)?)
}

fn ready_in(found: &[Found]) -> Result<Vec<PathBuf>, Error> {
    let others = [Model::Dit7b, Model::Dit7bSharp].into_iter().filter_map(|model| pick(model, found).ok());
    let mut files: Vec<PathBuf> = pick(Model::Dit3b, found).into_iter().chain(others).collect();
    if files.is_empty() {
        files.push(pick(Model::Dit3b, found)?);
    }
    files.push(pick(Model::Vae, found)?);
    if !files.iter().any(|file| has_text(file)) {
        files.push(text(files.first().map(PathBuf::as_path), found)?);
    }
    Ok(files)
}

/// The first installed VAE.
pub(crate) fn installed_vae(folder: Option<&Path>, machine: &Machine) -> Result<PathBuf, Error> {
    pick(Model::Vae, &all(folder, machine)?)
}

/// A file with the text embedding for the transformer `beside`: that file itself if it has one inside, or `pos_emb.pt`
/// beside it or in the places of the search.
pub(crate) fn installed_text(
    folder: Option<&Path>,
    beside: &Path,
    machine: &Machine,
) -> Result<PathBuf, Error> {
    if has_text(beside) {
        return Ok(beside.to_owned());
    }
    text(Some(beside), &all(folder, machine)?)
}

/// Whether a word names a network that is no file.
pub(crate) fn is_built_in(word: &str) -> bool {
    word == "identity" || word.starts_with("formula:") || built_in(word).is_some()
}

/// Refuses a network that was inside the program once.
pub(crate) fn refuse_removed(word: &str) -> Result<(), Error> {
    match word.eq_ignore_ascii_case("nano") {
        true => Err(Error::RemovedModel { word: word.to_owned(), instead: remaster_anime::NAME }),
        false => Ok(()),
    }
}

/// Whether a model file has a text embedding inside.
fn has_text(file: &Path) -> bool {
    Checkpoint::open(file).is_ok_and(|checkpoint| checkpoint.get(POSITIVE).is_some())
}

/// The model that a plan names: a word, or a file of that name in the folders of models. Where it was on the machine that
/// planned says nothing here, and a plan opens no file elsewhere.
pub(crate) fn of_plan(
    name: &str,
    option: &'static str,
    folder: Option<&Path>,
    machine: &Machine,
) -> Result<String, Error> {
    if is_built_in(name) {
        return Ok(name.to_owned());
    }
    let file = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let here = all(folder, machine)?
        .into_iter()
        .find(|found| found.path.file_name().is_some_and(|name| name == file));
    here.map(|found| found.path.display().to_string())
        .ok_or_else(|| Error::PlannedModel { file: file.chars().take(200).collect(), option })
}

fn all(folder: Option<&Path>, machine: &Machine) -> Result<Vec<Found>, Error> {
    search::find(&search::places(folder, machine))
}

/// The best file of a transformer or VAE.
pub(super) fn pick(model: Model, found: &[Found]) -> Result<PathBuf, Error> {
    let ours: Vec<&Found> = found.iter().filter(|f| is(model, f)).collect();
    let usable = ours.iter().filter_map(|f| Some(((rank(f)?, revision(f) == Some("first")), *f)));
    // Of equal ones the first.
    match usable.min_by_key(|(rank, _)| *rank) {
        Some((_, best)) => Ok(best.path.clone()),
        None => Err(missing(model, ours.len())),
    }
}

/// The first `pos_emb.pt` that can be read, or else the first one, so that its fault is told.
pub(super) fn text(beside: Option<&Path>, found: &[Found]) -> Result<PathBuf, Error> {
    let near = beside.map(|file| file.with_file_name(TEXT)).filter(|file| file.is_file());
    let named = found.iter().map(|f| f.path.clone()).filter(|p| p.file_name().is_some_and(|n| n == TEXT));
    let files: Vec<PathBuf> = near.into_iter().chain(named).collect();
    let width = DitConfig::dit_3b().text;
    let good = files.iter().find(|file| TextEmbedding::open(file, width).is_ok());
    good.or(files.first()).cloned().ok_or_else(|| missing(Model::Text, 0))
}

/// Whether a file is this model by its content: one of the published sizes, not a smaller relative.
fn is(model: Model, found: &Found) -> bool {
    match (found.kind(), model) {
        (Some(Kind::Vae { .. }), Model::Vae) => true,
        (Some(Kind::Dit { config }), Model::Dit3b) => *config == DitConfig::dit_3b(),
        (Some(Kind::Dit { config }), Model::Dit3bFirst) => {
            *config == DitConfig::dit_3b() && revision(found) == Some("first")
        }
        (Some(Kind::Dit { config }), Model::Dit7b | Model::Dit7bSharp) => {
            *config == DitConfig::dit_7b() && is_sharp(&found.path) == (model == Model::Dit7bSharp)
        }
        _ => false,
    }
}

/// Both 7B files have the same tensors: the hash in the name of a blob decides, or else the word in the file's name.
fn is_sharp(path: &Path) -> bool {
    match published_blob(path) {
        Some(published) => published.model == Model::Dit7bSharp,
        None => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
            name.contains("sharp")
        }
    }
}

/// Better files first. `None` for what cannot be used, and for the 7B file that gives artefacts.
fn rank(found: &Found) -> Option<usize> {
    let ((checkpoint, _), fit) = (found.content.as_ref().ok()?, found.fit()?);
    if !fit.is_complete() || !fit.warnings.is_empty() {
        return None;
    }
    // Number formats by name, the one with the most bytes first.
    let formats = precision(checkpoint);
    let main = formats.split(" + ").next().unwrap_or_default();
    let order: [&[&str]; 6] = [
        &["F16"],
        &["BF16"],
        &["F8_E4M3", "scaled float8_e4m3fn"],
        &["Q8_0"],
        &["int8_tensorwise"],
        &["Q4_K"],
    ];
    Some(order.iter().position(|names| names.contains(&main)).unwrap_or(order.len()))
}

fn missing(model: Model, unusable: usize) -> Error {
    let what = match model {
        Model::Dit3b => "3B model",
        Model::Dit3bFirst => "3B model with the first weights",
        Model::Dit7b => "7B model",
        Model::Dit7bSharp => "7B sharp model",
        Model::Vae => "VAE",
        Model::Text => "text embedding",
    };
    let about =
        |model: Model| model.files().next().and_then(|p| p.about_bytes()).map_or(String::new(), bytes);
    let mut size = about(model);
    if !matches!(model, Model::Vae | Model::Text) {
        size += &format!(" + {} for the VAE", about(Model::Vae));
    }
    let or = match model {
        Model::Vae => "or name a file with --vae",
        Model::Text => "or name a file with --text",
        Model::Dit3b | Model::Dit3bFirst | Model::Dit7b | Model::Dit7bSharp => {
            "use the small one for animation inside the program with --model anime, or name a file with --model"
        }
    };
    let command = format!("remaster models pull {}", model.word());
    Error::NotInstalled { what, command, size, or, unusable }
}

#[cfg(test)]
mod tests {
    use remaster_model::dit;
    use remaster_model::vae::{self, VaeConfig};

    use super::*;

    /// A file of a network without values: the largest ones are holes of 16 GB.
    fn file(
        folder: &Path,
        name: &str,
        params: Vec<remaster_model::Param>,
        dtype: impl Fn(&str) -> &'static str,
    ) {
        let mut at = 0;
        let mut header = serde_json::Map::new();
        for param in params {
            let dtype = dtype(&param.name);
            let start = at;
            at += param.shape.iter().product::<usize>() * if dtype == "F8_E4M3" { 1 } else { 2 };
            let about =
                serde_json::json!({"dtype": dtype, "shape": param.shape, "data_offsets": [start, at]});
            header.insert(param.name, about);
        }
        let header = serde_json::to_vec(&header).unwrap();
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let start = [(header.len() as u64).to_le_bytes().as_slice(), &header].concat();
        std::fs::write(&path, &start).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len((start.len() + at) as u64).unwrap();
    }

    /// A machine without models.
    fn bare() -> Machine {
        Machine::this().without_environment()
    }

    /// Searches this folder alone: the machine may have models of its own.
    fn found(folder: &Path) -> Vec<Found> {
        all(Some(folder), &bare()).unwrap()
    }

    #[test]
    fn the_best_format_wins_and_plain_fp8_of_7b_is_never_taken() {
        let desk = tempfile::tempdir().unwrap();
        let dit = |name: &str, config: &DitConfig, dtype: &dyn Fn(&str) -> &'static str| {
            file(desk.path(), name, dit::params(config), dtype);
        };
        let (small, large) = (DitConfig::dit_3b(), DitConfig::dit_7b());
        let name = |word: &str| {
            let path = installed(word, Some(desk.path()), &bare()).unwrap();
            path.file_name().unwrap().to_string_lossy().into_owned()
        };
        let seven = |sharp| pick(if sharp { Model::Dit7bSharp } else { Model::Dit7b }, &found(desk.path()));

        dit("a_3b.safetensors", &small, &|_| "F8_E4M3");
        assert_eq!(name("3b"), "a_3b.safetensors");
        dit("b_3b.safetensors", &small, &|_| "BF16");
        assert_eq!(name("3b"), "b_3b.safetensors");
        dit("c_3b.safetensors", &small, &|_| "F16");
        dit("d_3b.safetensors", &small, &|_| "F16");
        assert_eq!(name("3b"), "c_3b.safetensors");

        dit("7b_plain.safetensors", &large, &|_| "F8_E4M3");
        let error = seven(false).unwrap_err();
        assert!(error.to_string().contains("1 file that was found cannot be used"), "{error}");
        let mixed = |name: &str| if name.starts_with("blocks.35.") { "F16" } else { "F8_E4M3" };
        dit("7b_mixed.safetensors", &large, &mixed);
        assert!(seven(false).unwrap().ends_with("7b_mixed.safetensors"));
        assert!(seven(true).is_err());
        dit("7B_Sharp.safetensors", &large, &|_| "F16");
        assert!(seven(true).unwrap().ends_with("7B_Sharp.safetensors"));
        assert!(seven(false).unwrap().ends_with("7b_mixed.safetensors"));
    }

    #[test]
    #[cfg(unix)]
    fn the_newer_3b_weights_win_and_the_first_are_found_by_name() {
        let desk = tempfile::tempdir().unwrap();
        let small = DitConfig::dit_3b();
        // As downloads leave them: a link to a blob with the name of its hash.
        let first = Model::Dit3bFirst.files().next().unwrap();
        let repo = desk.path().join("models--numz--SeedVR2_comfyUI");
        file(&repo, &format!("blobs/{}", first.sha256), dit::params(&small), |_| "F16");
        let link = repo.join("snapshots/1").join(first.file);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(repo.join("blobs").join(first.sha256), &link).unwrap();
        let name = |word: &str| installed(word, Some(desk.path()), &bare()).unwrap();
        assert_eq!([name("3b"), name("3b-first")], [link.clone(), link.clone()]);

        // Found after the other, and preferred.
        let newer = "models--pollockjj--SeedVR2/snapshots/2/diffusion_models/seedvr2_3b_fp16.safetensors";
        let mut params = dit::params(&small);
        params.push(remaster_model::Param { name: POSITIVE.to_owned(), shape: vec![58, 5120] });
        file(desk.path(), newer, params, |name| if name == POSITIVE { "BF16" } else { "F16" });
        assert_eq!([name("3b"), name("3b-first")], [desk.path().join(newer), link]);
        // A better format counts for more than newer weights.
        std::fs::remove_file(desk.path().join(newer)).unwrap();
        file(desk.path(), "z.safetensors", dit::params(&small), |_| "F8_E4M3");
        assert!(name("3b").starts_with(&repo));
    }

    #[test]
    fn what_is_missing_is_said_with_the_command_and_the_size() {
        let desk = tempfile::tempdir().unwrap();
        // A relative of the 3B transformer is not the 3B transformer.
        let tiny = dit::params(&DitConfig::tiny(dit::Family::Shared));
        file(desk.path(), "tiny.safetensors", tiny, |_| "F16");
        let found = found(desk.path());
        for (model, words) in [
            (Model::Dit3b, ["no 3B model", "`remaster models pull 3b` (6.32 GiB + 478.11 MiB for the VAE)"]),
            (Model::Dit7b, ["no 7B model", "`remaster models pull 7b` (15.35 GiB + "]),
            (Model::Dit7bSharp, ["no 7B sharp model", "`remaster models pull 7b-sharp` (15.35 GiB"]),
            (Model::Vae, ["no VAE", "`remaster models pull vae` (478.11 MiB)"]),
        ] {
            let error = pick(model, &found).unwrap_err();
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
            assert_eq!(error.class(), crate::error::Class::Input);
        }
        // `remaster doctor` says the same.
        assert_eq!(
            ready_in(&found).unwrap_err().to_string(),
            pick(Model::Dit3b, &found).unwrap_err().to_string()
        );
        let ways = pick(Model::Dit3b, &found).unwrap_err().to_string();
        assert!(ways.contains("--model anime") && ways.contains("models pull 3b"), "{ways}");
        let text = text(None, &found).unwrap_err().to_string();
        assert!(text.contains("no text embedding") && text.contains("models pull text"), "{text}");
        let error = installed("4b", Some(desk.path()), &bare()).unwrap_err();
        assert!(error.to_string().contains("3b, 7b, 7b-sharp or 3b-first"), "{error}");
        assert_eq!(error.class(), crate::error::Class::Usage);
        assert!(matches!(installed("3b", Some(Path::new("nowhere")), &bare()), Err(Error::Read { .. })));
    }

    #[test]
    fn the_vae_and_the_text_are_found_beside_and_elsewhere() {
        let desk = tempfile::tempdir().unwrap();
        file(desk.path(), "sub/vae.bin", vae::params(&VaeConfig::full()), |_| "F16");
        assert!(installed_vae(Some(desk.path()), &bare()).unwrap().ends_with("sub/vae.bin"));

        let model = desk.path().join("model.safetensors");
        std::fs::write(&model, "no model").unwrap();
        let text_of = || installed_text(Some(desk.path()), &model, &bare()).unwrap();
        let embedding = || vec![remaster_model::Param { name: "text".into(), shape: vec![58, 5120] }];
        file(desk.path(), &format!("sub/{TEXT}"), embedding(), |_| "BF16");
        assert_eq!(text_of(), desk.path().join("sub").join(TEXT));
        // One that cannot be read does not hide one that can.
        std::fs::write(desk.path().join(TEXT), "no embedding").unwrap();
        assert_eq!(text_of(), desk.path().join("sub").join(TEXT));
        file(desk.path(), TEXT, embedding(), |_| "BF16");
        assert_eq!(text_of(), desk.path().join(TEXT));

        let mut params = dit::params(&DitConfig::tiny(dit::Family::Shared));
        params.push(remaster_model::Param { name: POSITIVE.to_owned(), shape: vec![58, 48] });
        file(desk.path(), "comfy.safetensors", params, |_| "BF16");
        let comfy = desk.path().join("comfy.safetensors");
        assert_eq!(installed_text(Some(desk.path()), &comfy, &bare()).unwrap(), comfy);
    }
}
