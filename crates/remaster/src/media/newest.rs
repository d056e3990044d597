//! A small picture of the newest frame of a run, for those who watch it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use remaster_disk::Folder;
use remaster_media::{FrameSink, MediaError, SampleSink, TimeBase};
use remaster_picture::{Frame, PictureInfo, StillFormat, StillInfo, resize, still};

/// How often there is a new one: making it takes some 10 ms.
const EVERY: Duration = Duration::from_secs(2);

/// Pixels of its longer side at most.
const LONGER: usize = 640;

/// Frames on their way to a file, of which one is shown now and then.
///
/// The folder holds one picture, whose name says when the frame is shown in the film: `12345.jpg` is at 12.345 seconds.
struct Newest<S: ?Sized> {
    folder: PathBuf,
    clock: TimeBase,
    shown: Option<Instant>,
    sink: Box<S>,
}

/// Shows frames of a film in `folder`, which exists.
pub(super) fn of_film(
    sink: Box<dyn FrameSink>,
    folder: Option<&PathBuf>,
    clock: TimeBase,
) -> Box<dyn FrameSink> {
    match folder {
        None => sink,
        Some(folder) => Box::new(Newest { folder: folder.clone(), clock, shown: None, sink }),
    }
}

/// Shows frames of a segment in `folder`, which exists; those that are written again from their samples are not shown.
pub(super) fn of_segment(
    sink: Box<dyn SampleSink>,
    folder: Option<&PathBuf>,
    clock: TimeBase,
) -> Box<dyn SampleSink> {
    match folder {
        None => sink,
        Some(folder) => Box::new(Newest { folder: folder.clone(), clock, shown: None, sink }),
    }
}

impl<S: ?Sized> Newest<S> {
    /// Nobody can act on a picture that fails, and the film does not need it.
    fn show(&self, frame: &Frame, pts: i64) -> Option<()> {
        let longer = frame.width.max(frame.height).max(1);
        let most = longer.min(LONGER);
        let size = |side: usize| (side * most / longer).max(1);
        let small = resize(&frame.without_alpha(), size(frame.width), size(frame.height));
        let info = PictureInfo::Still(StillInfo::srgb(8));
        let bytes = still::encode(&small, StillFormat::Jpeg, &info).ok()?;
        let thousandths =
            i128::from(pts) * i128::from(self.clock.num) * 1000 / i128::from(self.clock.den.max(1));
        let name = format!("{}.jpg", thousandths.max(0));
        let folder = Folder::open(&self.folder).ok()?;
        let before = folder.names(16).ok()?;
        folder.write_whole(&name, |file| std::io::Write::write_all(file, &bytes)).ok()?;
        for old in before.into_iter().filter(|old| *old != *name && old.to_string_lossy().ends_with(".jpg")) {
            folder.remove(old).ok()?;
        }
        Some(())
    }
}

impl<S: FrameSink + ?Sized> FrameSink for Newest<S> {
    fn write(&mut self, frame: &Frame, pts: i64) -> Result<(), MediaError> {
        if self.shown.is_none_or(|shown| shown.elapsed() >= EVERY) {
            self.show(frame, pts);
            self.shown = Some(Instant::now());
        }
        self.sink.write(frame, pts)
    }

    fn finish(self: Box<Self>) -> Result<(), MediaError> {
        self.sink.finish()
    }
}

impl<S: SampleSink + ?Sized> SampleSink for Newest<S> {
    fn frame_bytes(&self) -> usize {
        self.sink.frame_bytes()
    }

    fn samples(&self) -> &[u8] {
        self.sink.samples()
    }

    fn write_samples(&mut self, samples: &[u8], pts: i64) -> Result<(), MediaError> {
        self.sink.write_samples(samples, pts)
    }
}
