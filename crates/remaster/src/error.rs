//! What a run can fail with.

mod kind;

pub(crate) use kind::Blame;

use std::path::{Path, PathBuf};

use remaster_compute::ComputeError;
use remaster_engine::EngineError;
use remaster_hub::HubError;
use remaster_media::MediaError;
use remaster_metrics::MetricsError;
use remaster_plan::PlanError;
use remaster_restore::{PipelineError, RestoreError};
use remaster_scenes::ScenesError;
use remaster_store::{JournalError, StoreError};
use remaster_units::UnitsError;
use remaster_weights::{CheckpointError, EmbeddingError, LoadError, TensorFileError};

use crate::numbers::as_flag;

/// Coarse class of an error, to decide what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// The request is wrong, or asks for what this machine does not have.
    Usage,
    /// Input or output cannot be read or written.
    Input,
    /// Not enough memory or disk.
    Memory,
    /// A device, a driver or another program failed.
    Device,
    /// Results are not what they should be.
    Wrong,
    /// The run was stopped on request.
    Stopped,
    /// A bug.
    Internal,
}

impl Class {
    /// The exit code of a process that fails so, as documented in `remaster --help`. Workers are processes.
    pub fn exit_code(self) -> u8 {
        match self {
            Class::Usage => 2,
            Class::Input => 3,
            Class::Memory => 4,
            Class::Device => 5,
            Class::Wrong => 6,
            Class::Internal => 101,
            Class::Stopped => 130,
        }
    }

    /// The class of a process that ended with this code.
    pub(crate) fn of_exit_code(code: u8) -> Option<Self> {
        use Class::{Device, Input, Internal, Memory, Stopped, Usage, Wrong};
        let all = [Usage, Input, Memory, Device, Wrong, Stopped, Internal];
        all.into_iter().find(|class| class.exit_code() == code)
    }
}

/// What a run can fail with. Most messages end with a next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(
    missing_docs,
    reason = "the message of each says what it means, and its fields are the values of the message"
)]
pub enum Error {
    #[error(
        "unknown weights `{word}`; use a model file, formula:tiny or formula:full, or identity for video"
    )]
    Weights { word: String },
    #[error(
        "unknown weights `{word}`; use a model file, formula:3b, formula:7b, formula:tiny-3b or formula:tiny-7b"
    )]
    DitWeights { word: String },
    #[error(
        "{path} is a VapourSynth script, which is a program: it runs only as the input that is typed for restore, preview, plan, probe, scenes or compare, and never from a batch, a list, a plan for other machines or with --no-scripts; name it alone, or make a film of it first: vspipe -c y4m {path} - | ffmpeg -i - -c:v ffv1 film.mkv"
    )]
    ScriptNotTyped { path: PathBuf },
    #[error(
        "{path} is an AviSynth script, which cannot be read here; open it in a VapourSynth script with clip = core.avisource.AVISource(r\"{path}\"), or pipe it: avs2yuv {path} - | remaster - -o out.mkv"
    )]
    Avisynth { path: PathBuf },
    #[error("{reason}")]
    Device { reason: String },
    #[error("unknown card `{word}`; name one with as much memory of these: {known}")]
    UnknownCard { word: String, known: String },
    #[error("--threads applies to the CPU only; remove it or use --device cpu (now: {backend})")]
    Threads { backend: &'static str },
    #[error("unsupported file extension: {path}; use a name that ends in {allowed}")]
    Ending { path: PathBuf, allowed: String },
    #[error("output and input are the same file: {path}; choose another output")]
    SameFile { path: PathBuf },
    #[error("{path} is named twice as an output; choose another name for one of them")]
    Twice { path: PathBuf },
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{path} has no tensor {expected}; found {found}")]
    Tensor { path: PathBuf, expected: String, found: String },
    #[error("{path}: {source}")]
    Size { path: PathBuf, source: PlanError },
    #[error("cannot use {path}")]
    Input { path: PathBuf, source: TensorFileError },
    #[error("cannot use {path}")]
    Checkpoint { path: PathBuf, source: CheckpointError },
    #[error("cannot determine how much memory is available; set {what} to a size like 8G")]
    UnknownMemory { what: &'static str },
    #[error(
        "the plan was made with the model {file}, which is not in the folders of models; name it with {option}"
    )]
    PlannedModel { file: String, option: &'static str },
    #[error("--emit k8s needs the container image with remaster and ffmpeg; name it with --image")]
    NoImage,
    #[error("{path} cannot be made of units; name a video file")]
    NoUnits { path: PathBuf },
    #[error(
        "{encoder} may give other bytes each time, so units would not fit together exactly; add --mix-devices to allow it"
    )]
    Repeats { encoder: String },
    #[error(
        "{folder} holds an unfinished run with other settings: {what}; use the same settings to resume it, or --restart to discard it"
    )]
    OtherRun { folder: PathBuf, what: String },
    #[error("the unfinished run in {folder} cannot be read: {reason}; use --restart to discard it")]
    UnreadableRun { folder: PathBuf, reason: String },
    #[error("cannot remove {path} to start over: {reason}; remove it, then run the same command again")]
    NotRemoved { path: PathBuf, reason: std::io::Error },
    #[error("another run is at work in {folder}; wait for it, or choose another output")]
    Busy { folder: PathBuf },
    #[error(
        "{folder} is not a folder of remaster's: the file remaster-state is missing or not ours; move it away, or choose another output or --temp"
    )]
    NotOurs { folder: PathBuf },
    #[error("the disk of {folder} is full; nothing is lost: free some space and run the same command again")]
    Full { folder: PathBuf },
    #[error("stopped at the time given with --until; run the same command again to resume")]
    Until,
    #[error(
        "unit {unit} failed {tries} times: {}",
        with_unit_step(reason, *is_bad_input)
    )]
    UnitFailed {
        unit: u32,
        tries: u32,
        reason: String,
        /// How the last process failed.
        class: Class,
        /// Its input is to blame, so that the film can go on without it.
        is_bad_input: bool,
    },
    #[error("{device}: {reason}")]
    Child {
        device: String,
        reason: String,
        /// How its process failed.
        class: Class,
    },
    #[error(
        "no device is left to restore with: {device} failed last: {}",
        with_step(reason, "run the same command again to resume")
    )]
    NoDevice { device: String, reason: String, class: Class },
    #[error(
        "no device is left to restore with; {device} failed last, and what it made is not used: {reason}"
    )]
    LastDeviceWrong { device: String, reason: String },
    #[error(
        "{device} computed wrong numbers in an earlier run ({reason}) and is not used any more; update its driver, check it with `remaster doctor --device {device}`, or use --device cpu"
    )]
    DeviceWrong { device: String, reason: String },
    #[error(
        "{first} and {second} give results that differ in the last digits; use devices of one kind, or add --mix-devices to allow it"
    )]
    OtherDevices { first: String, second: String },
    #[error("{path} is for another container than {planned}; use the same ending")]
    OtherContainer { path: PathBuf, planned: PathBuf },
    #[error("{path} is not what it should be: {reason}; restore it again")]
    Verify { path: PathBuf, reason: String },
    #[error("{}", no_films(what))]
    NoFilms { what: String },
    #[error(
        "{failed} of {films} films failed, see above; the same command tries them again and skips the others"
    )]
    Batch { failed: usize, films: usize },
    #[error("{path}, line {line}: {reason}")]
    List { path: PathBuf, line: usize, reason: String },
    #[error(transparent)]
    Units(UnitsError),
    #[error(
        "--ram {} exceeds the {} available on this machine or within its limits; use less, or 80%",
        as_flag(*given),
        as_flag(*total)
    )]
    MoreThanThereIs { given: u64, total: u64 },
    #[error("not enough memory for {job}; {advice}")]
    Budget {
        job: String,
        advice: String,
        /// Bytes of `--ram` that the first advice names.
        ram: u64,
    },
    #[error("{what} needs {} of memory; use --ram {} or more, or smaller frames", as_flag(*needed), as_flag(*needed))]
    Room { what: &'static str, needed: u64 },
    #[error("--stripes needs --mode exact")]
    Stripes,
    #[error("a pipe cannot be planned for; use `plan --network encode --frames N --height N --width N`")]
    PlanPipe,
    #[error("a preview reads its input twice, which a pipe does not allow; save it to a file first")]
    PreviewPipe,
    #[error("{flag} needs --mode blend")]
    Tiles { flag: &'static str },
    #[error("--vram needs a GPU, but the device is {backend}; use --ram")]
    Vram { backend: &'static str },
    #[error("this device cannot be used here; choose one listed by `remaster devices`")]
    BenchBackend,
    #[error("{source}")]
    Sizes { source: PlanError },
    #[error(transparent)]
    Output(#[from] TensorFileError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Media(#[from] MediaError),
    #[error(transparent)]
    Pipeline(PipelineError),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error(
        "cannot copy audio for {path}: its source {origin} {why}; name the file with --streams FILE, or use --audio none"
    )]
    Lost { path: PathBuf, origin: String, why: &'static str },
    #[error("the clips differ: {what}")]
    Unlike { what: String },
    #[error("PSNR is {psnr:.2} dB, below the required {least:.2} dB")]
    TooFar { psnr: f64, least: f64 },
    #[error("{path} is OpenEXR with linear values; add --exr to convert them to sRGB and back")]
    Exr { path: PathBuf },
    #[error("{what} is {value}; use a number from 0 to 1")]
    Share { what: &'static str, value: f32 },
    #[error("{flag} has no effect on {what}; remove it")]
    NoEffect { flag: &'static str, what: &'static str },
    #[error("{path} cannot be used: {reason}")]
    Unusable { path: PathBuf, reason: String },
    #[error("--model-dir and file names exclude each other; use one of them")]
    FilesAndFolder,
    #[error("no model files found; `remaster models list` shows where they are expected")]
    NoModels,
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error("unknown model \"{word}\": use {words}")]
    UnknownModel { word: String, words: String },
    #[error("{word} is no longer part of the program; {instead} took its place: use --model {instead}")]
    RemovedModel { word: String, instead: &'static str },
    #[error(
        "{model} is no upscaler; use anime, or a file with a Compact or RRDB network (`remaster models inspect FILE` tells)"
    )]
    NoUpscaler { model: String },
    #[error("no {quant} build of {word} with a known hash is available; use --quant {known}")]
    NoSuchQuant { word: &'static str, quant: String, known: String },
    #[error("no {what} is installed; get it with `{command}` ({size}), {or}{}", cannot_be_used(*unusable))]
    NotInstalled {
        what: &'static str,
        command: String,
        size: String,
        /// The other ways.
        or: &'static str,
        /// Files that were found and cannot be used.
        unusable: usize,
    },
    #[error("there is no home folder to download to; set HF_HUB_CACHE to a folder")]
    NoCache,
    #[error("{failed} of {total} files are damaged or could not be verified; nothing was changed")]
    NotVerified { failed: usize, total: usize },
    #[error(transparent)]
    Restore(RestoreError),
    #[error(transparent)]
    Text(#[from] EmbeddingError),
    #[error("cannot use {path} as a list of shots: {source}")]
    Scenes { path: PathBuf, source: ScenesError },
    #[error("URLs cannot be read; download the film first: {url}")]
    Url { url: String },
    #[error("{path} is a folder of videos; to restore them, use `remaster batch {path}`")]
    Videos { path: PathBuf },
    #[error("{path} is still being written; wait until it is complete")]
    Growing { path: PathBuf },
    #[error(
        "{path} has frames that were not restored, of units {units}; use -y to restore it again, or --keep-going to leave it"
    )]
    NotRestored { path: PathBuf, units: String },
    #[error("{path} is a pipe, which cannot be read twice; send y4m to stdin and name it -")]
    NamedPipe { path: PathBuf },
    #[error("the input has no name to derive an output from; name one with -o")]
    NoOutput,
    #[error("{vae} makes latents of {given} channels, but the model takes {wants}; use the VAE of the model")]
    OtherVae { vae: String, given: usize, wants: usize },
    #[error("{flag} is not supported, and leaving it out would change the result; {instead}")]
    Unsupported { flag: &'static str, instead: &'static str },
    #[error(
        "{path} lists the shots of {listed} frames, but the input has {frames}; make a new list with `remaster scenes`"
    )]
    OtherShots { path: PathBuf, listed: u64, frames: u64 },
    #[error("stopped")]
    Interrupted,
}

/// A message with a next step. That of the cause, if it has one, is nearer to what is wrong.
fn with_step(reason: &str, step: &str) -> String {
    if reason.contains("; ") { reason.to_owned() } else { format!("{reason}; {step}") }
}

/// The same for a unit, without which a film can go on if its input is bad.
fn with_unit_step(reason: &str, is_bad_input: bool) -> String {
    let step = with_step(reason, "run the same command again to resume");
    if is_bad_input { format!("{step}, or add --keep-going") } else { step }
}

/// An error with all its causes, on one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        // Transparent wrappers repeat their cause.
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = inner.source();
    }
    message
}

fn no_films(what: &str) -> String {
    match what {
        "" => "name at least one film or folder".into(),
        what => format!(
            "no films found in {what}; name films, folders, patterns like '*.mkv', or a list with --list"
        ),
    }
}

fn cannot_be_used(files: usize) -> String {
    match files {
        0 => String::new(),
        1 => "; 1 file that was found cannot be used: `remaster models list` says why".into(),
        n => format!("; {n} files that were found cannot be used: `remaster models list` says why"),
    }
}

impl From<PipelineError> for Error {
    fn from(error: PipelineError) -> Self {
        match error {
            PipelineError::Media(error) => Error::Media(error),
            PipelineError::Engine(error) => Error::Engine(error),
            error => Error::Pipeline(error),
        }
    }
}

impl From<UnitsError> for Error {
    fn from(error: UnitsError) -> Self {
        match error {
            UnitsError::Media(error) => Error::Media(error),
            UnitsError::Restore(error) => error.into(),
            error => Error::Units(error),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Error::Units(error.into())
    }
}

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        Error::Units(error.into())
    }
}

impl From<RestoreError> for Error {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Media(error) => Error::Media(error),
            RestoreError::Engine(error) => Error::Engine(error),
            error => Error::Restore(error),
        }
    }
}

impl From<ComputeError> for Error {
    fn from(source: ComputeError) -> Self {
        Error::Engine(source.into())
    }
}

impl Error {
    /// Reading a file or folder failed.
    pub(crate) fn reading(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Error::Read { path: path.to_owned(), source }
    }

    /// Writing a file or folder failed.
    pub(crate) fn writing(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Error::Write { path: path.to_owned(), source }
    }

    /// True if the run was stopped on request.
    pub fn is_stop(&self) -> bool {
        self.class() == Class::Stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_fails_has_a_code_of_its_own() {
        let failed = ComputeError::DeviceLost { device: "vulkan:0".into(), reason: "reset".into() };
        assert_eq!(Error::from(failed).class(), Class::Device);
        assert_eq!(Error::from(ComputeError::Cancelled).class(), Class::Stopped);
        let spill = EngineError::Spill { folder: "nowhere".into(), bytes: 1, reason: "none".into() };
        assert_eq!(Error::from(spill).class(), Class::Input);
    }
}
