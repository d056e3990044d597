//! A word for each error that programs can rely on. docs/json.md lists them.

use remaster_compute::ComputeError;
use remaster_engine::EngineError;
use remaster_hub::HubError;
use remaster_media::MediaError;
use remaster_plan::PlanError;
use remaster_restore::RestoreError;
use remaster_store::{JournalError, StoreError};
use remaster_units::UnitsError;

use super::Error;

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

        const $all: &[&str] = &[$($kind),*];
    };
}

impl Error {
    /// A word for programs, which never changes.
    pub fn kind(&self) -> &'static str {
        of_run(self)
    }

    /// The same for an error of a network alone.
    pub fn kind_of_engine(error: &EngineError) -> &'static str {
        of_engine(error)
    }

    /// All kinds, some of them several times.
    pub fn kinds() -> impl Iterator<Item = &'static str> {
        [RUN, MEDIA, ENGINE, RESTORE, UNITS, HUB].into_iter().flatten().copied()
    }
}

kinds! { of_run, RUN, Error;
    inside {
        Error::Media(error) => of_media(error);
        Error::Engine(error) => of_engine(error);
        Error::Restore(error) => of_restore(error);
        Error::Units(error) => of_units(error);
        Error::Hub(error) => of_hub(error);
    }
    Error::Weights { .. } | Error::DitWeights { .. } => "unknown-weights",
    Error::Device { .. } => "unknown-device",
    Error::Threads { .. }
    | Error::NoEffect { .. }
    | Error::Stripes
    | Error::Tiles { .. }
    | Error::Vram { .. }
    | Error::Unsupported { .. } => "option-without-effect",
    Error::Share { .. } => "out-of-range",
    Error::Ending { .. } => "unsupported-extension",
    Error::SameFile { .. } => "output-is-input",
    Error::Twice { .. } => "output-named-twice",
    Error::Read { .. } => "not-readable",
    Error::Write { .. } => "not-writable",
    Error::Tensor { .. } | Error::Input { .. } | Error::Output(_) => "tensor-file",
    Error::Size { .. } | Error::Sizes { .. } => "frame-size",
    Error::Checkpoint { .. } | Error::Load(_) | Error::Unusable { .. } => "model-file",
    Error::UnknownMemory { .. } => "unknown-memory",
    Error::PlannedModel { .. } => "planned-model",
    Error::NoImage => "no-image",
    Error::NoUnits { .. } => "no-units",
    Error::Repeats { .. } => "encoder-not-repeatable",
    Error::OtherRun { .. } => "other-run",
    Error::Busy { .. } => "output-busy",
    Error::NotOurs { .. } => "not-our-folder",
    Error::Full { .. } => "disk-full",
    Error::Until => "stopped-at-time",
    Error::UnitFailed { .. } | Error::Child { .. } => "unit-failed",
    Error::NoDevice { .. } => "device-failed",
    Error::OtherDevices { .. } => "devices-differ",
    Error::OtherContainer { .. } => "other-container",
    Error::Verify { .. } => "film-differs",
    Error::NoFilms { .. } => "no-films",
    Error::Batch { .. } => "films-failed",
    Error::List { .. } => "film-list",
    Error::MoreThanThereIs { .. } => "more-memory-than-installed",
    Error::Budget { .. } | Error::Room { .. } => "not-enough-memory",
    Error::Url { .. } => "input-is-url",
    Error::Videos { .. } => "folder-of-videos",
    Error::Growing { .. } => "input-growing",
    Error::PlanPipe | Error::PreviewPipe | Error::NamedPipe { .. } => "input-is-pipe",
    Error::BenchBackend => "device-not-measurable",
    Error::Pipeline(_) => "latent-file",
    Error::Metrics(_) => "comparison",
    Error::Lost { .. } => "streams-lost",
    Error::Unlike { .. } | Error::TooFar { .. } => "clips-differ",
    Error::Exr { .. } => "openexr",
    Error::FilesAndFolder => "files-and-folder",
    Error::NoModels => "no-models",
    Error::UnknownModel { .. } => "unknown-model",
    Error::NoSuchQuant { .. } => "unknown-quantisation",
    Error::NotInstalled { .. } => "model-not-installed",
    Error::NoCache => "no-cache-folder",
    Error::NotVerified { .. } => "models-damaged",
    Error::Text(_) => "text-embedding",
    Error::Scenes { .. } => "shot-list",
    Error::OtherShots { .. } => "other-shots",
    Error::NotRestored { .. } => "not-restored",
    Error::NoOutput => "no-output-name",
    Error::OtherVae { .. } => "other-vae",
    Error::Interrupted => "interrupted",
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
    MediaError::ReplayFull { .. } => "disk-full",
    MediaError::ReplayBroken { .. } => "stdin",
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
    UnitsError::ResultClass { .. } => "other-machine",
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
    use super::*;

    #[test]
    fn an_error_inside_another_keeps_its_kind() {
        let full = || MediaError::NoSpace { folder: "/tmp".into() };
        for error in [
            Error::from(full()),
            RestoreError::from(full()).into(),
            UnitsError::from(full()).into(),
            Error::Full { folder: "/tmp".into() },
        ] {
            assert_eq!(error.kind(), "disk-full");
        }
        assert_eq!(Error::Interrupted.kind(), Error::from(ComputeError::Cancelled).kind());
    }
}
