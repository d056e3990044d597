//! Downloads published files into the Hugging Face cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use remaster_hub::{Event, Hub, HubSettings, Lookup, Remote, Wanted};
use remaster_plan::bytes;
use remaster_weights::{Model, Published};
use serde::Serialize;

use super::choice;
use super::list::shown;
use super::search::{self, Found};
use crate::error::Error;
use crate::event::{About, Reporter};
use crate::job::{Context, Job, Known, Prepare};
use crate::machine::hashes::hash_of;
use crate::machine::host::Machine;

/// A model to download.
#[derive(Clone, Debug)]
pub struct PullRequest {
    /// Which.
    pub model: Model,
    /// Number format; fp16 if `None`.
    pub quant: Option<String>,
    /// Folder that is searched first for what is installed already.
    pub folder: Option<PathBuf>,
}

/// Files that are installed now.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Pulled {
    /// The model, and what it needs.
    pub files: Vec<PulledFile>,
}

/// A file that is installed now.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PulledFile {
    /// Which model it is.
    pub model: &'static str,
    /// Number format.
    pub quant: &'static str,
    /// Where it is.
    pub file: String,
    /// Where it came from.
    pub repo: &'static str,
    /// Its size.
    pub bytes: u64,
    /// Of all of it.
    pub sha256: &'static str,
    /// It was not there before.
    pub downloaded: bool,
}

/// Finds what is installed, and asks the server for the rest. The job downloads that into the Hugging Face cache.
impl Prepare for PullRequest {
    type Job = Job<Pulled>;

    fn prepare(self, context: &Context<'_, '_>) -> Result<Self::Job, Error> {
        let Context { machine, control, report } = *context;
        let asked = published(self.model, self.quant.as_deref())?;
        let stop = control.clone();
        let hub = Hub::new(settings(machine)?, Arc::new(move || stop.is_cancelled()))?;
        let found = search::find(&search::places(self.folder.as_deref(), machine))?;

        report.started("MiB", About::default());
        let mut display = Display::new();
        let mut jobs = Vec::new();
        for file in needed(asked, &found, report) {
            let wanted = Wanted { repo: file.repo, file: file.file, sha256: file.sha256, bytes: file.bytes };
            let lookup = match elsewhere(file, &found, &mut display, context)? {
                Some(path) => Lookup::Here(path),
                None => hub.look(&wanted, &mut |event| display.event(&event, report))?,
            };
            jobs.push((file, lookup));
        }
        let missing = jobs.iter().filter_map(|(_, lookup)| match lookup {
            Lookup::Here(_) => None,
            Lookup::There(remote) => Some(remote),
        });
        let missing: Vec<&Remote> = missing.collect();
        hub.room(missing.iter().copied())?;
        let total = missing.iter().map(|remote| hub.missing(remote)).sum();
        Ok(Job::new(Known::default(), move |report| {
            for (file, lookup) in &jobs {
                say(file, lookup, &hub, report);
            }
            display.declare(total, report);
            let mut files = Vec::new();
            for (file, lookup) in jobs {
                let (path, downloaded) = match lookup {
                    Lookup::Here(path) => (path, false),
                    Lookup::There(remote) => {
                        (hub.pull(&remote, &mut |event| display.event(&event, report))?, true)
                    }
                };
                files.push(entry(file, &path, downloaded)?);
            }
            Ok(Pulled { files })
        }))
    }
}

/// The published file of a model.
fn published(model: Model, quant: Option<&str>) -> Result<&'static Published, Error> {
    let is = |p: &&Published| quant.is_none_or(|quant| p.quant.eq_ignore_ascii_case(quant));
    model.files().find(is).ok_or_else(|| {
        let known: Vec<&str> = model.files().map(|p| p.quant).collect();
        let quant = quant.unwrap_or_default().to_owned();
        Error::NoSuchQuant { word: model.word(), quant, known: known.join(", ") }
    })
}

/// That file, and what a transformer needs beside it.
fn needed(asked: &'static Published, found: &[Found], report: &Reporter<'_>) -> Vec<&'static Published> {
    let mut files = vec![asked];
    if matches!(asked.model, Model::Vae | Model::Text) {
        return files;
    }
    if choice::pick(Model::Vae, found).is_err() {
        report.say("also downloading the VAE, which the transformer needs");
        files.extend(Model::Vae.files().next());
    }
    if !asked.has_text() && choice::text(None, found).is_err() {
        report.say("also downloading the text embedding, which the transformer needs");
        files.extend(Model::Text.files().next());
    }
    files
}

/// The same file in another lookup of the search, by name, size and hash.
fn elsewhere(
    file: &Published,
    found: &[Found],
    display: &mut Display,
    context: &Context<'_, '_>,
) -> Result<Option<PathBuf>, Error> {
    let named = |f: &&Found| f.path.file_name().is_some_and(|name| name == file.name());
    let sized = |f: &&Found| file.bytes.is_none_or(|bytes| bytes == f.bytes);
    for found in found.iter().filter(named).filter(sized) {
        let mut done = 0;
        let hash = hash_of(&found.path, &mut |fresh| {
            done += fresh;
            display.event(&Event::Checking { done, of: found.bytes }, context.report);
            context.control.flow()
        });
        if hash? == file.sha256 {
            return Ok(Some(found.path.clone()));
        }
    }
    Ok(None)
}

/// What the environment says, under the names that huggingface_hub and most programs read.
fn settings(machine: &Machine) -> Result<HubSettings, Error> {
    let set = |name: &str| machine.text(name);
    let either = |names: [&str; 2]| names.into_iter().find_map(set);
    let mut settings = HubSettings::new(search::hub(machine).ok_or(Error::NoCache)?);
    if let Some(endpoint) = set("HF_ENDPOINT") {
        settings.endpoint = endpoint;
    }
    settings.token = set("HF_TOKEN");
    let yes = |word: String| ["1", "on", "yes", "true"].contains(&word.to_ascii_lowercase().as_str());
    settings.offline = set("HF_HUB_OFFLINE").is_some_and(yes);
    let plain = settings.endpoint.starts_with("http://");
    let proxy = if plain { ["http_proxy", "HTTP_PROXY"] } else { ["https_proxy", "HTTPS_PROXY"] };
    settings.proxy = either(proxy).or_else(|| either(["all_proxy", "ALL_PROXY"]));
    settings.no_proxy = either(["no_proxy", "NO_PROXY"]);
    settings.certificates = set("SSL_CERT_FILE").map(PathBuf::from);
    Ok(settings)
}

fn say(file: &Published, lookup: &Lookup, hub: &Hub, report: &Reporter<'_>) {
    let (file, repo) = (file.name(), file.repo);
    match lookup {
        Lookup::Here(path) => report.say(format_args!("{file} is installed: {}", shown(path))),
        Lookup::There(remote) => {
            let (all, missing) = (remote.bytes(), hub.missing(remote));
            let rest = match missing < all {
                true => format!(", {} of it still missing", bytes(missing)),
                false => String::new(),
            };
            report.say(format_args!("downloading {file} of {repo}: {}{rest}", bytes(all)));
        }
    }
}

fn entry(file: &'static Published, path: &Path, downloaded: bool) -> Result<PulledFile, Error> {
    let about = std::fs::metadata(path).map_err(Error::reading(path))?;
    Ok(PulledFile {
        model: file.model.word(),
        quant: file.quant,
        file: path.display().to_string(),
        repo: file.repo,
        bytes: about.len(),
        sha256: file.sha256,
        downloaded,
    })
}

const MIB: u64 = 1 << 20;

/// What the hub says, as progress in mebibytes.
struct Display {
    since: Instant,
    /// Bytes of the file at work, as they were told last.
    last: Option<u64>,
    /// Bytes that were not shown yet.
    fresh: u64,
    /// Bytes to download, and how many were.
    total: u64,
    received: u64,
    /// Bytes of the files that were or are hashed.
    hashed: u64,
    phase: &'static str,
}

impl Display {
    fn new() -> Self {
        let since = Instant::now();
        Display { since, last: None, fresh: 0, total: 0, received: 0, hashed: 0, phase: "" }
    }

    fn declare(&mut self, total: u64, report: &Reporter<'_>) {
        self.total = total;
        if total > 0 {
            report.phase("download", usize::try_from(total.div_ceil(MIB)).ok());
        }
    }

    fn event(&mut self, event: &Event<'_>, report: &Reporter<'_>) {
        match event {
            Event::Checking { done, of } => {
                if self.phase != "hash" || self.last.is_none_or(|last| last > *done) {
                    self.hashed += of;
                    report.phase("hash", usize::try_from(self.hashed.div_ceil(MIB)).ok());
                }
                self.count("hash", *done, done == of, report);
            }
            Event::Received { done, of } => self.count("download", *done, done == of, report),
            Event::Waiting { .. } => {
                report.say("another process is downloading this file; waiting for it");
            }
            Event::Retrying { reason, after } => {
                report.say(format_args!("{reason}; trying again in {:.1} s", after.as_secs_f64()));
            }
            Event::Again { reason } => {
                report.say(format_args!("{reason}: downloading it from its start"));
                self.last = Some(0);
                // What was on disk is to be received, too.
                self.declare(self.total.saturating_add(self.received), report);
            }
        }
    }

    /// Both phases are told bytes of one file, from where it stands; a lower number is the next file.
    fn count(&mut self, phase: &'static str, done: u64, over: bool, report: &Reporter<'_>) {
        if self.phase != phase {
            (self.phase, self.fresh, self.since) = (phase, 0, Instant::now());
            self.last = None;
            report.enter(phase);
        }
        // Hashing begins at nothing, a download at what is there.
        let start = if phase == "hash" { 0 } else { done };
        let fresh = done - self.last.filter(|last| *last <= done).unwrap_or(start);
        (self.last, self.fresh) = (Some(done), self.fresh + fresh);
        if phase == "download" {
            self.received += fresh;
        }
        if self.fresh >= 4 * MIB || over {
            let whole = if over { self.fresh.div_ceil(MIB) } else { self.fresh / MIB };
            report.advance(phase, whole as usize, self.since.elapsed());
            (self.since, self.fresh) = (Instant::now(), self.fresh.saturating_sub(whole * MIB));
            if over {
                self.last = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_that_does_not_exist_is_answered_with_those_that_do() {
        assert_eq!(published(Model::Dit3b, None).unwrap().name(), "seedvr2_3b_fp16.safetensors");
        assert_eq!(published(Model::Dit3bFirst, None).unwrap().file, "seedvr2_ema_3b_fp16.safetensors");
        assert_eq!(published(Model::Dit3b, Some("Q8_0")).unwrap().file, "seedvr2_ema_3b-Q8_0.gguf");
        assert_eq!(published(Model::Text, None).unwrap().file, choice::TEXT);
        for (model, quant, known) in [
            (Model::Dit3b, "int8", "fp16, fp8, q8_0, q4_k_m"),
            (Model::Dit3bFirst, "q8_0", "fp16, fp8"),
            (Model::Dit7b, "q8_0", "fp16, fp8, q4_k_m"),
            (Model::Dit7bSharp, "nvfp4", "fp16, fp8, q4_k_m"),
            (Model::Vae, "fp8", "--quant fp16"),
        ] {
            let error = published(model, Some(quant)).unwrap_err();
            assert!(error.to_string().contains(known), "{error}");
            assert_eq!(error.class(), crate::error::Class::Usage);
        }
    }
}
