//! A word for each error that programs can rely on, and its class. docs/json.md lists them.

use remaster_compute::ComputeError;
use remaster_engine::EngineError;
use remaster_hub::HubError;
use remaster_media::MediaError;
use remaster_plan::PlanError;
use remaster_restore::RestoreError;
use remaster_store::{JournalError, StoreError};
use remaster_units::UnitsError;

use super::Class::{self, Device, Input, Memory, Stopped, Usage, Wrong};
use super::Error;

/// The kind and the class of an error, and all kinds that it can have. Errors that hold another come first.
macro_rules! kinds {
    (
        $name:ident, $all:ident, $error:ty;
        inside { $($holder:pat $(if $guard:expr)? => $inner:expr;)* }
        $($($pattern:pat_param)|+ => ($kind:expr, $class:expr),)*
    ) => {
        fn $name(error: &$error) -> (&'static str, Class) {
            match error {
                $($holder $(if $guard)? => $inner,)*
                $($($pattern)|+ => ($kind, $class),)*
            }
        }

        const $all: &[&str] = &[$($kind),*];
    };
}

/// The kind of a device that computed wrong numbers. Nothing that it made counts.
const DEVICE_WRONG: &str = "device-wrong";

/// Kinds that blame frames of the input, whatever device, memory or disk there is.
const BAD_INPUT: [&str; 7] = [
    "frame-size-changes",
    "image-file",
    "input-damaged",
    "input-truncated",
    "no-frames",
    "stream-broken",
    "unsupported-samples",
];

/// What a failure means for a run, by its kind and class: the same for one of this process and for one that a worker reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// Frames of the input are bad: with `--keep-going` the film goes on without what could not be made of them.
    Input,
    /// The device computed wrong numbers: it is not used any more, and nothing that it made counts.
    WrongDevice,
    /// Something else, which would end every other unit, too, or which another attempt may mend.
    Other,
}

impl Blame {
    pub(crate) fn of(kind: &str, class: Class) -> Self {
        match (kind, class) {
            (DEVICE_WRONG, _) => Blame::WrongDevice,
            // A picture that is too large for the memory has the kind of a damaged one.
            (kind, Input) if BAD_INPUT.contains(&kind) => Blame::Input,
            _ => Blame::Other,
        }
    }
}

impl Error {
    /// A word for programs, which never changes.
    pub fn kind(&self) -> &'static str {
        of_run(self).0
    }

    /// What the failure means for a run.
    pub(crate) fn blame(&self) -> Blame {
        let (kind, class) = of_run(self);
        Blame::of(kind, class)
    }

    /// What kind of failure it is.
    pub fn class(&self) -> Class {
        of_run(self).1
    }

    /// Both for an error of a network alone.
    pub fn kind_and_class_of_engine(error: &EngineError) -> (&'static str, Class) {
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
    Error::Weights { .. } | Error::DitWeights { .. } => ("unknown-weights", Usage),
    Error::ScriptNotTyped { .. } => ("script-not-typed", Usage),
    Error::Avisynth { .. } => ("avisynth-script", Usage),
    Error::Device { .. } => ("unknown-device", Usage),
    Error::UnknownCard { .. } => ("unknown-card", Usage),
    Error::Threads { .. }
    | Error::NoEffect { .. }
    | Error::Stripes
    | Error::Tiles { .. }
    | Error::Vram { .. }
    | Error::Unsupported { .. } => ("option-without-effect", Usage),
    Error::Share { .. } => ("out-of-range", Usage),
    Error::Ending { .. } => ("unsupported-extension", Usage),
    Error::SameFile { .. } => ("output-is-input", Usage),
    Error::Twice { .. } => ("output-named-twice", Usage),
    Error::Read { .. } => ("not-readable", Input),
    Error::Write { .. } | Error::NotRemoved { .. } => ("not-writable", Input),
    Error::Tensor { .. } | Error::Input { .. } | Error::Output(_) => ("tensor-file", Input),
    Error::Size { .. } => ("frame-size", Input),
    Error::Sizes { .. } => ("frame-size", Usage),
    Error::Checkpoint { .. } | Error::Load(_) => ("model-file", Input),
    Error::Unusable { .. } => ("model-file", Wrong),
    Error::UnknownMemory { .. } => ("unknown-memory", Usage),
    Error::PlannedModel { .. } => ("planned-model", Usage),
    Error::NoImage => ("no-image", Usage),
    Error::NoUnits { .. } => ("no-units", Usage),
    Error::Repeats { .. } => ("encoder-not-repeatable", Usage),
    Error::OtherRun { .. } | Error::UnreadableRun { .. } => ("other-run", Usage),
    Error::Busy { .. } => ("output-busy", Input),
    Error::NotOurs { .. } => ("not-our-folder", Usage),
    Error::Full { .. } => ("disk-full", Memory),
    Error::Until => ("stopped-at-time", Stopped),
    Error::UnitFailed { class, .. } | Error::Child { class, .. } => ("unit-failed", *class),
    Error::NoDevice { class, .. } => ("device-failed", *class),
    Error::DeviceWrong { .. } | Error::LastDeviceWrong { .. } => (DEVICE_WRONG, Device),
    Error::OtherDevices { .. } => ("devices-differ", Usage),
    Error::OtherContainer { .. } => ("other-container", Usage),
    Error::Verify { .. } => ("film-differs", Wrong),
    Error::NoFilms { .. } => ("no-films", Usage),
    Error::Batch { .. } => ("films-failed", Input),
    Error::List { .. } => ("film-list", Usage),
    Error::MoreThanThereIs { .. } => ("more-memory-than-installed", Usage),
    Error::Budget { .. } | Error::Room { .. } => ("not-enough-memory", Memory),
    Error::Url { .. } => ("input-is-url", Usage),
    Error::Videos { .. } => ("folder-of-videos", Usage),
    Error::Growing { .. } => ("input-growing", Input),
    Error::PlanPipe | Error::PreviewPipe => ("input-is-pipe", Usage),
    Error::NamedPipe { .. } => ("input-is-pipe", Input),
    Error::BenchBackend => ("device-not-measurable", Usage),
    Error::Pipeline(_) => ("latent-file", Input),
    Error::Metrics(_) => ("comparison", Input),
    Error::Lost { .. } => ("streams-lost", Input),
    Error::Unlike { .. } | Error::TooFar { .. } => ("clips-differ", Wrong),
    Error::Exr { .. } => ("openexr", Usage),
    Error::FilesAndFolder => ("files-and-folder", Usage),
    Error::NoModels => ("no-models", Input),
    Error::UnknownModel { .. } => ("unknown-model", Usage),
    Error::RemovedModel { .. } => ("removed-model", Usage),
    Error::NoUpscaler { .. } => ("no-upscaler", Usage),
    Error::NoSuchQuant { .. } => ("unknown-quantisation", Usage),
    Error::NotInstalled { .. } => ("model-not-installed", Input),
    Error::NoCache => ("no-cache-folder", Usage),
    Error::NotVerified { .. } => ("models-damaged", Wrong),
    Error::Text(_) => ("text-embedding", Input),
    Error::Scenes { .. } => ("shot-list", Input),
    Error::OtherShots { .. } => ("other-shots", Usage),
    Error::NotRestored { .. } => ("not-restored", Usage),
    Error::NoOutput => ("no-output-name", Usage),
    Error::OtherVae { .. } => ("other-vae", Usage),
    Error::Interrupted => ("interrupted", Stopped),
}

kinds! { of_media, MEDIA, MediaError;
    inside {
        error if error.is_over_budget() => ("image-file", Memory);
    }
    MediaError::NoTool { .. } => ("ffmpeg-missing", Input),
    MediaError::OldTool { .. } => ("ffmpeg-too-old", Input),
    MediaError::NoVspipe { .. } => ("vspipe-missing", Input),
    MediaError::Script { .. } => ("script-failed", Input),
    MediaError::ScriptFormat { .. } => ("script-format", Input),
    MediaError::Open { .. } => ("not-readable", Input),
    MediaError::Unreadable { .. } => ("not-a-video", Input),
    MediaError::NotOneFile { .. } => ("not-one-file", Input),
    MediaError::Subtitles { .. } => ("subtitle-file", Input),
    MediaError::NoVideo { .. } => ("no-video-stream", Input),
    MediaError::TooLarge { .. } => ("frames-too-large", Input),
    MediaError::Samples { .. } => ("unsupported-samples", Input),
    MediaError::Interlaced { .. } => ("interlaced", Input),
    MediaError::Hdr { .. } => ("hdr", Input),
    MediaError::SizeChange { .. } => ("frame-size-changes", Input),
    MediaError::Damaged { .. } => ("input-damaged", Input),
    MediaError::Truncated { .. } | MediaError::CutOff { .. } => ("input-truncated", Input),
    MediaError::Shrunk { .. } => ("input-changed", Input),
    MediaError::Empty { .. } => ("no-frames", Input),
    MediaError::EmptySpan { .. } => ("part-without-frames", Usage),
    MediaError::NoFrame { .. } => ("input-changed", Input),
    MediaError::Filters { .. } => ("filters", Usage),
    MediaError::ReplayFull { .. } => ("disk-full", Memory),
    MediaError::ReplayBroken { .. } => ("stdin", Input),
    MediaError::Stalled { .. } => ("ffmpeg-stalled", Input),
    MediaError::TooMuch { .. }
    | MediaError::Child { .. }
    | MediaError::Died { .. } => ("ffmpeg-failed", Input),
    MediaError::Broken { .. } => ("stream-broken", Input),
    MediaError::Io { .. } => ("input-output", Input),
    MediaError::Picture { .. } | MediaError::Convert(_) => ("image-file", Input),
    MediaError::Container { .. } => ("container", Usage),
    MediaError::Exists { .. } => ("output-exists", Usage),
    MediaError::Place { .. } => ("not-writable", Input),
    MediaError::Held { .. } => ("output-held", Input),
    MediaError::NoSpace { .. } => ("disk-full", Input),
    MediaError::PixelFormat { .. } => ("pixel-format", Usage),
    MediaError::Rehearsal { .. } | MediaError::Quality { .. } => ("encoder-settings", Usage),
    MediaError::Encoder { .. } => ("unknown-encoder", Usage),
    MediaError::Verify { .. } => ("output-not-verified", Wrong),
    MediaError::Segment { .. } => ("segment", Input),
    MediaError::Cancelled => ("interrupted", Stopped),
}

kinds! { of_engine, ENGINE, EngineError;
    inside {}
    EngineError::Compute(ComputeError::OutOfMemory { .. } | ComputeError::HostMemory { .. })
    | EngineError::Plan(PlanError::Budget { .. }) => ("not-enough-memory", Memory),
    EngineError::Compute(ComputeError::Cancelled) => ("interrupted", Stopped),
    EngineError::Compute(ComputeError::DeviceWrong { .. }) => (DEVICE_WRONG, Device),
    EngineError::Compute(_) => ("device-failed", Device),
    EngineError::Plan(
        PlanError::Slice { .. }
        | PlanError::LongSlice { .. }
        | PlanError::Tile { .. }
        | PlanError::Tiles { .. }
        | PlanError::Mode { .. }
        | PlanError::TooLarge { .. },
    ) => ("plan", Usage),
    EngineError::Plan(_) => ("plan", Input),
    EngineError::NotFinite { .. } => ("not-finite", Wrong),
    EngineError::Spill { .. } | EngineError::NoSpill { .. } => ("temporary-data", Input),
    EngineError::Source { .. }
    | EngineError::Short { .. }
    | EngineError::Sink { .. }
    | EngineError::BadInput { .. }
    | EngineError::State { .. }
    | EngineError::Mismatch { .. } => ("network-run", Input),
}

kinds! { of_restore, RESTORE, RestoreError;
    inside {
        RestoreError::Media(error) => of_media(error);
        RestoreError::Engine(error) => of_engine(error);
    }
    RestoreError::Long { .. } | RestoreError::Pool { .. } => ("not-enough-disk", Memory),
    RestoreError::UnitRoom { .. } => ("not-enough-disk", Input),
    RestoreError::Kept(_)
    | RestoreError::Other { .. }
    | RestoreError::Length { .. } => ("latent-file", Input),
    RestoreError::Changed { .. } => ("input-changed", Input),
    RestoreError::Empty => ("no-frames", Input),
    RestoreError::Spool { .. }
    | RestoreError::Latents(_)
    | RestoreError::Checkpoint(_) => ("temporary-data", Input),
    RestoreError::Colour(_)
    | RestoreError::Frames(_)
    | RestoreError::Unit(_)
    | RestoreError::Outside { .. }
    | RestoreError::Piece { .. }
    | RestoreError::Divided { .. }
    | RestoreError::Noise { .. }
    | RestoreError::Thread(_) => ("restoration", Input),
}

kinds! { of_units, UNITS, UnitsError;
    inside {
        UnitsError::Media(error) => of_media(error);
        UnitsError::Restore(error) => of_restore(error);
    }
    UnitsError::Journal(JournalError::Store(StoreError::Full { .. })) => ("disk-full", Input),
    UnitsError::Journal(JournalError::Store(_)) => ("store", Input),
    UnitsError::Journal(JournalError::Unit { .. }) => ("unknown-unit", Usage),
    UnitsError::Journal(_) => ("store-records", Input),
    UnitsError::Plan { .. } => ("plan-file", Input),
    UnitsError::Repeat { .. } => ("option-of-plan", Usage),
    UnitsError::ResultClass { .. } => ("other-machine", Device),
    UnitsError::Input { .. } | UnitsError::Changing { .. } => ("other-input", Input),
    UnitsError::Weights { .. } => ("other-model", Device),
    UnitsError::Touched { .. } => ("other-model", Input),
    UnitsError::Missing { .. } => ("units-missing", Input),
    UnitsError::Undone { .. } => ("unit-damaged", Input),
    UnitsError::File { .. } => ("input-output", Input),
    UnitsError::Manifest { .. } => ("manifest", Input),
}

kinds! { of_hub, HUB, HubError;
    inside {}
    HubError::NoSpace { .. } | HubError::Full { .. } => ("disk-full", Input),
    HubError::Mismatch { .. }
    | HubError::Damaged { .. }
    | HubError::Changed { .. } => ("download-differs", Wrong),
    HubError::Offline { .. } => ("offline", Input),
    HubError::Refused { .. } => ("access-refused", Input),
    HubError::Cancelled => ("interrupted", Stopped),
    HubError::Endpoint { .. }
    | HubError::Token
    | HubError::Proxy { .. }
    | HubError::NoCertificates { .. } => ("network-settings", Usage),
    HubError::Insecure { .. } => ("network-settings", Input),
    HubError::Write { .. } | HubError::Read { .. } | HubError::Locked { .. } => ("cache", Input),
    HubError::Name { .. }
    | HubError::Missing { .. }
    | HubError::Status { .. }
    | HubError::Busy { .. }
    | HubError::Network { .. }
    | HubError::Redirects { .. }
    | HubError::Redirect { .. }
    | HubError::NotAHub { .. }
    | HubError::Size { .. } => ("download", Input),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_of_the_input_are_a_reason_to_go_on_without_them() {
        let damaged = MediaError::Damaged { path: "a.mkv".into(), frame: 7, reason: "bad".into() };
        assert_eq!(Error::from(damaged).blame(), Blame::Input);
        let wrong = || ComputeError::DeviceWrong { device: "vulkan:0".into(), reason: "off".into() };
        assert_eq!(Error::from(wrong()).blame(), Blame::WrongDevice);
        assert_eq!(Error::from(RestoreError::from(EngineError::from(wrong()))).blame(), Blame::WrongDevice);
        let no_space = || MediaError::NoSpace { folder: "/tmp".into() };
        let killed = MediaError::Died { what: "ffmpeg", how: "signal 9".into() };
        for error in [
            no_space().into(),
            killed.into(),
            MediaError::Exists { path: "a.mkv".into() }.into(),
            MediaError::NoTool { program: "ffmpeg".into(), reason: "none".into() }.into(),
            Error::Full { folder: "/tmp".into() },
            Error::Interrupted,
        ] {
            assert_eq!(error.blame(), Blame::Other, "{error}");
        }
        // Every word of the list is one of a kind.
        let all: Vec<&str> = Error::kinds().collect();
        assert!(BAD_INPUT.iter().all(|kind| all.contains(kind)));
    }

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
