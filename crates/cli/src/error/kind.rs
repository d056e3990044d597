//! A word for each error that programs can rely on. docs/json.md lists them.

use remaster_compute::ComputeError;
use remaster_doctor::DoctorError;
use remaster_engine::EngineError;
use remaster_hub::HubError;
use remaster_media::MediaError;
use remaster_plan::PlanError;
use remaster_restore::RestoreError;
use remaster_store::{JournalError, StoreError};
use remaster_units::UnitsError;

use super::CliError;

/// What the parser refuses.
pub(crate) const USAGE: &str = "usage";

/// A panic.
pub(crate) const INTERNAL: &str = "internal";

/// The kind of an error, and all kinds that it can have. Errors that hold another come first.
macro_rules! kinds {
    (
        $name:ident, $all:ident, $error:ty;
        inside { $($holder:pat => $inner:expr;)* }
        $($(#[$when:meta])* $($pattern:pat_param)|+ => $kind:literal,)*
    ) => {
        fn $name(error: &$error) -> &'static str {
            match error {
                $($holder => $inner,)*
                $($(#[$when])* $($pattern)|+ => $kind,)*
            }
        }

        #[cfg(test)]
        const $all: &[&str] = &[$($kind),*];
    };
}

impl CliError {
    /// A word for programs, which never changes.
    pub(crate) fn kind(&self) -> &'static str {
        of_command(self)
    }
}

kinds! { of_command, COMMAND, CliError;
    inside {
        CliError::Media(error) => of_media(error);
        CliError::Engine(error) | CliError::Doctor(DoctorError::Compute { source: error, .. }) => of_engine(error);
        CliError::Restore(error) => of_restore(error);
        CliError::Units(error) => of_units(error);
        CliError::Hub(error) => of_hub(error);
    }
    CliError::Weights { .. } | CliError::DitWeights { .. } => "unknown-weights",
    CliError::Device { .. } => "unknown-device",
    CliError::Threads { .. }
    | CliError::NoEffect { .. }
    | CliError::Stripes
    | CliError::Tiles { .. }
    | CliError::Vram { .. }
    | CliError::Unsupported { .. } => "option-without-effect",
    CliError::Ending { .. } => "unsupported-extension",
    CliError::SameFile { .. } => "output-is-input",
    CliError::Twice { .. } => "output-named-twice",
    CliError::JsonPipe => "stdout-used-twice",
    CliError::Terminal => "stdout-is-terminal",
    CliError::Stdout { .. } => "stdout-not-writable",
    CliError::Read { .. } => "not-readable",
    CliError::Write { .. } => "not-writable",
    CliError::Tensor { .. } | CliError::Input { .. } | CliError::Output(_) => "tensor-file",
    CliError::Size { .. } | CliError::Sizes { .. } => "frame-size",
    CliError::NoGolden { .. } | CliError::Doctor(DoctorError::Golden(_)) => "goldens",
    CliError::Checkpoint { .. } | CliError::Load(_) | CliError::Unusable { .. } => "model-file",
    CliError::UnknownMemory { .. } => "unknown-memory",
    CliError::PlannedModel { .. } => "planned-model",
    CliError::NoImage => "no-image",
    CliError::NoUnits { .. } => "no-units",
    CliError::Repeats { .. } => "encoder-not-repeatable",
    CliError::OtherRun { .. } => "other-run",
    CliError::Busy { .. } => "output-busy",
    CliError::NotOurs { .. } => "not-our-folder",
    CliError::Full { .. } => "disk-full",
    CliError::Until => "stopped-at-time",
    CliError::UnitFailed { .. } | CliError::Child { .. } => "unit-failed",
    CliError::NoDevice { .. } => "device-failed",
    CliError::OtherDevices { .. } => "devices-differ",
    CliError::OtherContainer { .. } => "other-container",
    CliError::Verify { .. } => "film-differs",
    CliError::NoFilms { .. } => "no-films",
    CliError::Batch { .. } => "films-failed",
    CliError::List { .. } => "film-list",
    CliError::MoreThanThereIs { .. } => "more-memory-than-installed",
    CliError::Budget { .. } | CliError::Room { .. } => "not-enough-memory",
    CliError::Url { .. } => "input-is-url",
    CliError::Videos { .. } => "folder-of-videos",
    CliError::Growing { .. } => "input-growing",
    CliError::PlanPipe | CliError::PreviewPipe | CliError::NamedPipe { .. } => "input-is-pipe",
    CliError::BenchBackend => "device-not-measurable",
    #[cfg(feature = "gpu")]
    CliError::NoCard { .. } => "no-card",
    CliError::Floor { .. } => "too-slow",
    CliError::Pipeline(_) => "latent-file",
    CliError::Metrics(_) => "comparison",
    CliError::Lost { .. } => "streams-lost",
    CliError::Unlike { .. } | CliError::TooFar { .. } => "clips-differ",
    CliError::Exr { .. } => "openexr",
    CliError::Unhealthy { .. } => "wrong-numbers",
    CliError::Config(_) => "config-file",
    CliError::FilesAndFolder => "files-and-folder",
    CliError::NoModels => "no-models",
    CliError::UnknownModel { .. } => "unknown-model",
    CliError::NoSuchQuant { .. } => "unknown-quantisation",
    CliError::NotInstalled { .. } => "model-not-installed",
    CliError::NoCache => "no-cache-folder",
    CliError::NotVerified { .. } => "models-damaged",
    CliError::Text(_) => "text-embedding",
    CliError::Scenes { .. } => "shot-list",
    CliError::OtherShots { .. } => "other-shots",
    CliError::NotRestored { .. } => "not-restored",
    CliError::NoOutput => "no-output-name",
    CliError::OtherVae { .. } => "other-vae",
    CliError::Handler { .. } => "signal-handler",
    CliError::Interrupted => "interrupted",
}

kinds! { of_media, MEDIA, MediaError;
    inside {}
    MediaError::NoTool { .. } => "ffmpeg-missing",
    MediaError::OldTool { .. } => "ffmpeg-too-old",
    MediaError::Open { .. } => "not-readable",
    MediaError::Unreadable { .. } => "not-a-video",
    MediaError::NotOneFile { .. } => "not-one-file",
    MediaError::Subtitles { .. } => "subtitle-file",
    MediaError::NoVideo { .. } => "no-video-stream",
    MediaError::TooLarge { .. } => "frames-too-large",
    MediaError::Samples { .. } => "unsupported-samples",
    MediaError::Interlaced { .. } => "interlaced",
    MediaError::Hdr { .. } => "hdr",
    MediaError::SizeChange { .. } => "frame-size-changes",
    MediaError::Damaged { .. } => "input-damaged",
    MediaError::Truncated { .. } => "input-truncated",
    MediaError::Shrunk { .. } => "input-changed",
    MediaError::Empty { .. } => "no-frames",
    MediaError::EmptySpan { .. } => "part-without-frames",
    MediaError::NoFrame { .. } => "input-changed",
    MediaError::Filters { .. } => "filters",
    MediaError::TeeFull { .. } => "disk-full",
    MediaError::TeeBroken { .. } => "stdin",
    MediaError::Stalled { .. } => "ffmpeg-stalled",
    MediaError::TooMuch { .. } | MediaError::Child { .. } | MediaError::Died { .. } => "ffmpeg-failed",
    MediaError::Broken { .. } => "stream-broken",
    MediaError::Io { .. } => "input-output",
    MediaError::Picture { .. } | MediaError::Convert(_) => "image-file",
    MediaError::Container { .. } => "container",
    MediaError::Exists { .. } => "output-exists",
    MediaError::Place { .. } => "not-writable",
    MediaError::NoSpace { .. } => "disk-full",
    MediaError::PixelFormat { .. } => "pixel-format",
    MediaError::Rehearsal { .. } | MediaError::Quality { .. } => "encoder-settings",
    MediaError::Encoder { .. } => "unknown-encoder",
    MediaError::Verify { .. } => "output-not-verified",
    MediaError::Segment { .. } => "segment",
    MediaError::Cancelled => "interrupted",
}

kinds! { of_engine, ENGINE, EngineError;
    inside {}
    EngineError::Compute(ComputeError::OutOfMemory { .. } | ComputeError::HostMemory { .. })
    | EngineError::Plan(PlanError::Budget { .. }) => "not-enough-memory",
    EngineError::Compute(ComputeError::Cancelled) => "interrupted",
    EngineError::Compute(_) => "device-failed",
    EngineError::Plan(_) => "plan",
    EngineError::NotFinite { .. } => "not-finite",
    EngineError::Spill { .. } | EngineError::NoSpill { .. } => "temporary-data",
    EngineError::Source { .. }
    | EngineError::Short { .. }
    | EngineError::Sink { .. }
    | EngineError::BadInput { .. }
    | EngineError::State { .. }
    | EngineError::Mismatch { .. } => "network-run",
}

kinds! { of_restore, RESTORE, RestoreError;
    inside {
        RestoreError::Media(error) => of_media(error);
        RestoreError::Engine(error) => of_engine(error);
    }
    RestoreError::Long { .. } | RestoreError::Pool { .. } | RestoreError::UnitRoom { .. } => "not-enough-disk",
    RestoreError::Kept(_) | RestoreError::Other { .. } | RestoreError::Length { .. } => "latent-file",
    RestoreError::Changed { .. } => "input-changed",
    RestoreError::Empty => "no-frames",
    RestoreError::Spool { .. } | RestoreError::Latents(_) | RestoreError::Checkpoint(_) => "temporary-data",
    RestoreError::Colour(_)
    | RestoreError::Frames(_)
    | RestoreError::Unit(_)
    | RestoreError::Outside { .. }
    | RestoreError::Piece { .. }
    | RestoreError::Divided { .. }
    | RestoreError::Noise { .. }
    | RestoreError::Thread(_) => "restoration",
}

kinds! { of_units, UNITS, UnitsError;
    inside {
        UnitsError::Media(error) => of_media(error);
        UnitsError::Restore(error) => of_restore(error);
    }
    UnitsError::Journal(JournalError::Store(StoreError::Full { .. })) => "disk-full",
    UnitsError::Journal(JournalError::Store(_)) => "store",
    UnitsError::Journal(JournalError::Unit { .. }) => "unknown-unit",
    UnitsError::Journal(_) => "store-records",
    UnitsError::Plan { .. } => "plan-file",
    UnitsError::Repeat { .. } => "option-of-plan",
    UnitsError::Numerics { .. } => "other-machine",
    UnitsError::Input { .. } | UnitsError::Changing { .. } => "other-input",
    UnitsError::Weights { .. } | UnitsError::Touched { .. } => "other-model",
    UnitsError::Missing { .. } => "units-missing",
    UnitsError::Undone { .. } => "unit-damaged",
    UnitsError::File { .. } => "input-output",
    UnitsError::Manifest { .. } => "manifest",
}

kinds! { of_hub, HUB, HubError;
    inside {}
    HubError::NoSpace { .. } | HubError::Full { .. } => "disk-full",
    HubError::Mismatch { .. } | HubError::Damaged { .. } | HubError::Changed { .. } => "download-differs",
    HubError::Offline { .. } => "offline",
    HubError::Refused { .. } => "access-refused",
    HubError::Cancelled => "interrupted",
    HubError::Endpoint { .. }
    | HubError::Token
    | HubError::Proxy { .. }
    | HubError::NoCertificates { .. }
    | HubError::Insecure { .. } => "network-settings",
    HubError::Write { .. } | HubError::Read { .. } | HubError::Locked { .. } => "cache",
    HubError::Name { .. }
    | HubError::Missing { .. }
    | HubError::Status { .. }
    | HubError::Busy { .. }
    | HubError::Network { .. }
    | HubError::Redirects { .. }
    | HubError::Redirect { .. }
    | HubError::NotAHub { .. }
    | HubError::Size { .. } => "download",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_is_documented_and_every_documented_kind_is_one() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md")).unwrap();
        let (_, table) = page.split_once("| Kind | Meaning |\n|---|---|\n").unwrap();
        let cells = table.lines().map_while(|line| line.strip_prefix("| ")?.split(" | ").next());
        let words = cells.flat_map(|cell| cell.split(", "));
        let documented: Vec<&str> = words.map(|word| word.trim_matches('`')).collect();
        let known = [&[USAGE, INTERNAL], COMMAND, MEDIA, ENGINE, RESTORE, UNITS, HUB].concat();
        let (known, listed): (BTreeSet<_>, BTreeSet<_>) =
            (known.into_iter().collect(), documented.iter().copied().collect());
        assert_eq!(known, listed);
        assert_eq!(listed.len(), documented.len(), "a kind is documented twice");
        let plain = |kind: &&str| kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        assert!(known.iter().all(plain), "{known:?}");
    }

    #[test]
    fn an_error_inside_another_keeps_its_kind() {
        let full = || MediaError::NoSpace { folder: "/tmp".into() };
        for error in [
            CliError::from(full()),
            RestoreError::from(full()).into(),
            UnitsError::from(full()).into(),
            CliError::Full { folder: "/tmp".into() },
        ] {
            assert_eq!(error.kind(), "disk-full");
        }
        assert_eq!(CliError::Interrupted.kind(), CliError::from(ComputeError::Cancelled).kind());
    }
}
