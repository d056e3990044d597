//! What the commands can fail with, and the exit code of each.

pub(crate) mod kind;

use std::path::PathBuf;

use remaster_compute::ComputeError;
use remaster_doctor::DoctorError;
use remaster_engine::EngineError;
use remaster_hub::HubError;
use remaster_media::MediaError;
use remaster_metrics::MetricsError;
use remaster_pipeline::PipelineError;
use remaster_plan::PlanError;
use remaster_restore::RestoreError;
use remaster_scenes::ScenesError;
use remaster_store::{JournalError, StoreError};
use remaster_units::UnitsError;
use remaster_weights::{CheckpointError, EmbeddingError, LoadError, TensorFileError};
use thiserror::Error;

use crate::config::ConfigError;
use crate::interrupt::INTERRUPTED;
use crate::memory::as_flag;

/// Exit code of a panic, as Rust programs have it.
pub(crate) const INTERNAL: u8 = 101;

#[derive(Debug, Error)]
pub(crate) enum CliError {
    #[error(
        "unknown weights `{word}`; use a model file, nano, formula:tiny or formula:full, or identity for video"
    )]
    Weights { word: String },
    #[error(
        "unknown weights `{word}`; use a model file, nano, formula:3b, formula:7b, formula:tiny-3b or formula:tiny-7b"
    )]
    DitWeights { word: String },
    #[error("{reason}")]
    Device { reason: String },
    #[error("--threads applies to the CPU only; remove it or use --device cpu (now: {backend})")]
    Threads { backend: &'static str },
    #[error("unsupported file extension: {path}; use a name that ends in {allowed}")]
    Ending { path: PathBuf, allowed: String },
    #[error("output and input are the same file: {path}; choose another output")]
    SameFile { path: PathBuf },
    #[error("{path} is named twice as an output; choose another name for one of them")]
    Twice { path: PathBuf },
    #[error("--json and -o - both write to stdout; use --progress json for a summary on stderr")]
    JsonPipe,
    #[error(
        "a terminal cannot show frames; pipe them, as in `remaster ... -o - | ffplay -`, or name a file with -o"
    )]
    Terminal,
    #[error("cannot write the result to stdout")]
    Stdout {
        #[source]
        source: std::io::Error,
    },
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} has no tensor {expected}; found {found}")]
    Tensor { path: PathBuf, expected: String, found: String },
    #[error("{path}: {source}")]
    Size {
        path: PathBuf,
        #[source]
        source: PlanError,
    },
    #[error(
        "no golden files in {path}; use a folder like testdata with tiny_*.safetensors or dit_*.safetensors files"
    )]
    NoGolden { path: PathBuf },
    #[error("cannot use {path}")]
    Input {
        path: PathBuf,
        #[source]
        source: TensorFileError,
    },
    #[error("cannot use {path}")]
    Checkpoint {
        path: PathBuf,
        #[source]
        source: CheckpointError,
    },
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
        "unit {unit} failed {tries} times: {reason}; run the same command again to resume, or add --keep-going"
    )]
    UnitFailed { unit: u32, tries: u32, reason: String },
    #[error("{device}: {reason}")]
    Child {
        device: String,
        reason: String,
        /// The exit code of the process that failed.
        code: u8,
    },
    #[error("no device is left to restore with; {device} failed last: {reason}")]
    NoDevice { device: String, reason: String, code: u8 },
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
    #[cfg(feature = "gpu")]
    #[error(
        "`bench card` measures graphics cards, but the device is {backend}; choose one listed by `remaster devices`, or use `remaster bench kernels` for the CPU"
    )]
    NoCard { backend: &'static str },
    #[error("{source}")]
    Sizes {
        #[source]
        source: PlanError,
    },
    #[error("{kernel} reaches {ratio:.2} of its limit, less than the required {floor:.2}")]
    Floor { kernel: String, ratio: f64, floor: f64 },
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
    #[error("{flag} has no effect on {what}; remove it")]
    NoEffect { flag: &'static str, what: &'static str },
    #[error(transparent)]
    Doctor(#[from] DoctorError),
    #[error(
        "{failed} of {total} comparisons exceed the tolerance: this build computes wrong numbers on this device; update its driver or use --device cpu, and report it"
    )]
    Unhealthy { failed: usize, total: usize },
    #[error("{path} cannot be used: {reason}")]
    Unusable { path: PathBuf, reason: String },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("--model-dir and file names exclude each other; use one of them")]
    FilesAndFolder,
    #[error("no model files found; `remaster models list` shows where they are expected")]
    NoModels,
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error("unknown model \"{word}\": use {words}")]
    UnknownModel { word: String, words: String },
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
    Scenes {
        path: PathBuf,
        #[source]
        source: ScenesError,
    },
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
    #[error("cannot install the Ctrl-C handler")]
    Handler {
        #[source]
        source: ctrlc::Error,
    },
    #[error("stopped")]
    Interrupted,
}

impl CliError {
    /// What went wrong, with all causes.
    pub(crate) fn with_causes(&self) -> String {
        let mut message = self.to_string();
        let mut cause = std::error::Error::source(self);
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

impl From<PipelineError> for CliError {
    fn from(error: PipelineError) -> Self {
        match error {
            PipelineError::Media(error) => CliError::Media(error),
            PipelineError::Engine(error) => CliError::Engine(error),
            error => CliError::Pipeline(error),
        }
    }
}

impl From<UnitsError> for CliError {
    fn from(error: UnitsError) -> Self {
        match error {
            UnitsError::Media(error) => CliError::Media(error),
            UnitsError::Restore(error) => error.into(),
            error => CliError::Units(error),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        CliError::Units(error.into())
    }
}

impl From<JournalError> for CliError {
    fn from(error: JournalError) -> Self {
        CliError::Units(error.into())
    }
}

impl From<RestoreError> for CliError {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Media(error) => CliError::Media(error),
            RestoreError::Engine(error) => CliError::Engine(error),
            error => CliError::Restore(error),
        }
    }
}

impl From<ComputeError> for CliError {
    fn from(source: ComputeError) -> Self {
        CliError::Engine(source.into())
    }
}

impl CliError {
    /// True if the run was stopped on request.
    pub(crate) fn is_stop(&self) -> bool {
        self.exit_code() == INTERRUPTED
    }

    /// As documented in `remaster --help`.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            CliError::NoEffect { .. }
            | CliError::SameFile { .. }
            | CliError::Twice { .. }
            | CliError::JsonPipe
            | CliError::Terminal
            | CliError::NotRestored { .. }
            | CliError::Url { .. }
            | CliError::Videos { .. }
            | CliError::NoOutput
            | CliError::Unsupported { .. }
            | CliError::OtherVae { .. }
            | CliError::Exr { .. }
            | CliError::Media(
                MediaError::Container { .. }
                | MediaError::EmptySpan { .. }
                | MediaError::Encoder { .. }
                | MediaError::Filters { .. }
                | MediaError::Exists { .. }
                | MediaError::PixelFormat { .. }
                | MediaError::Quality { .. }
                | MediaError::Rehearsal { .. },
            )
            | CliError::Weights { .. }
            | CliError::DitWeights { .. }
            | CliError::Threads { .. }
            | CliError::Device { .. }
            | CliError::Tiles { .. }
            | CliError::PlanPipe
            | CliError::PreviewPipe
            | CliError::Ending { .. }
            | CliError::BenchBackend
            | CliError::Sizes { .. }
            | CliError::UnknownMemory { .. }
            | CliError::MoreThanThereIs { .. }
            | CliError::Stripes
            | CliError::Vram { .. }
            | CliError::Config(_)
            | CliError::FilesAndFolder
            | CliError::UnknownModel { .. }
            | CliError::NoSuchQuant { .. }
            | CliError::NoCache
            | CliError::PlannedModel { .. }
            | CliError::NoImage
            | CliError::NoUnits { .. }
            | CliError::Repeats { .. }
            | CliError::OtherRun { .. }
            | CliError::OtherShots { .. }
            | CliError::NotOurs { .. }
            | CliError::OtherContainer { .. }
            | CliError::OtherDevices { .. }
            | CliError::NoFilms { .. }
            | CliError::List { .. }
            | CliError::Units(UnitsError::Journal(JournalError::Unit { .. }) | UnitsError::Repeat { .. })
            | CliError::Hub(
                HubError::Endpoint { .. }
                | HubError::Token
                | HubError::Proxy { .. }
                | HubError::NoCertificates { .. },
            ) => 2,
            #[cfg(feature = "gpu")]
            CliError::NoCard { .. } => 2,
            CliError::Engine(source) | CliError::Doctor(DoctorError::Compute { source, .. }) => {
                match source {
                    EngineError::Compute(
                        ComputeError::OutOfMemory { .. } | ComputeError::HostMemory { .. },
                    )
                    | EngineError::Plan(PlanError::Budget { .. }) => 4,
                    EngineError::Plan(
                        PlanError::Slice { .. }
                        | PlanError::LongSlice { .. }
                        | PlanError::Tile { .. }
                        | PlanError::Tiles { .. }
                        | PlanError::Mode { .. }
                        | PlanError::TooLarge { .. },
                    ) => 2,
                    EngineError::Compute(ComputeError::Cancelled) => INTERRUPTED,
                    EngineError::Compute(_) => 5,
                    EngineError::NotFinite { .. } => 6,
                    _ => 3,
                }
            }
            CliError::Budget { .. }
            | CliError::Room { .. }
            | CliError::Full { .. }
            | CliError::Restore(RestoreError::Long { .. } | RestoreError::Pool { .. })
            | CliError::Media(MediaError::TeeFull { .. }) => 4,
            CliError::Floor { .. }
            | CliError::TooFar { .. }
            | CliError::Unlike { .. }
            | CliError::Unhealthy { .. }
            | CliError::Unusable { .. }
            | CliError::NotVerified { .. }
            | CliError::Verify { .. }
            | CliError::Hub(
                HubError::Mismatch { .. } | HubError::Damaged { .. } | HubError::Changed { .. },
            ) => 6,
            CliError::Hub(HubError::Cancelled) => INTERRUPTED,
            // Another machine may do.
            CliError::Units(UnitsError::Numerics { .. } | UnitsError::Weights { .. }) => 5,
            CliError::Handler { .. } => 5,
            CliError::Media(MediaError::Verify { .. }) => 6,
            CliError::Media(error) if error.is_over_budget() => 4,
            CliError::Media(MediaError::Cancelled) => INTERRUPTED,
            CliError::Interrupted | CliError::Until => INTERRUPTED,
            CliError::Child { code, .. } | CliError::NoDevice { code, .. } => *code,
            _ => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_fails_has_a_code_of_its_own() {
        let failed = ComputeError::DeviceLost { device: "vulkan:0".into(), reason: "reset".into() };
        assert_eq!(CliError::from(failed).exit_code(), 5);
        assert_eq!(CliError::from(ComputeError::Cancelled).exit_code(), 130);
        let spill = EngineError::Spill { folder: "nowhere".into(), bytes: 1, reason: "none".into() };
        assert_eq!(CliError::from(spill).exit_code(), 3);
    }
}
