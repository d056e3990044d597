//! The first phase of a unit: frames to latents, some of which are kept.

use remaster_compute::HostTensor;
use remaster_engine::{Events, Sink, SinkError};
use remaster_plan::first_frame;

use super::keeper::{Keeper, When};
use super::layout::Reading;
use super::run::{Opener, Run};
use super::transform::Progress;
use crate::cuts::{Cuts, cuts_at};
use crate::decode_thread::Footage;
use crate::error::RestoreError;
use crate::film::{loaded, telling};
use crate::latent_store::LatentStore;
use crate::latents::means;
use crate::reader::Reader;

impl Run<'_, '_> {
    /// Encodes what windows need that are not restored.
    pub(super) fn encode(
        &mut self,
        progress: &Progress,
        open: &mut Opener<'_>,
        events: Events<'_>,
    ) -> Result<(), RestoreError> {
        let Run { layout, recipe, networks, back, size, store, keeper, done } = self;
        let (origin, end) = (layout.places.start, layout.places.end);
        let next = keeper.chunks(progress.place(layout)..end, store, origin)?;
        let readings = layout.readings(next, *back);
        if readings.is_empty() {
            return Ok(());
        }
        let mut encoder = loaded(networks.encode, done, events)?;
        let mut sink =
            Chunks { store, keeper, channels: size[2], origin, early: 0, next, end: next, kept: next };
        for group in readings.chunk_by(|a, b| a.is_followed_by(b)) {
            let Some((first, last)) = group.first().zip(group.last()) else { continue };
            let film = first.film().start..last.film().end;
            let source = open(film.clone())?;
            let again = || open(film.clone()).map_err(Into::into);
            let footage = Footage { source, again: Some(Box::new(again)) };
            let cuts = cuts_of(group)?;
            let mut reader = Reader::start(footage, recipe.prepare(), cuts, first.frames.start);
            for reading in group {
                let changed = |frames: usize| RestoreError::Changed { frame: reading.film().start + frames };
                if !reader.next_shot()? {
                    return Err(changed(0));
                }
                sink.begin(reading);
                let (made, latent) = (&reading.item.range.made, first_frame(reading.from));
                // Frames whose latents are new, of those that are made.
                let told = made.start.max(latent);
                let mut engine = telling(told - reading.frames.start, made.end.saturating_sub(told), events);
                encoder.clip(&mut reader, &mut sink, &mut engine).map_err(
                    |error| match RestoreError::from(error) {
                        RestoreError::Changed { .. } => changed(reading.frames.len()),
                        other => other,
                    },
                )?;
                let read = match reader.shot() {
                    Ok(shot) => shot.frames,
                    Err(RestoreError::Changed { .. }) => return Err(changed(reading.frames.len())),
                    Err(error) => return Err(error),
                };
                if read != reading.frames.len() || sink.next != sink.end {
                    return Err(changed(read.min(reading.frames.len())));
                }
            }
        }
        sink.keep(When::Over)
    }
}

/// Where frames that are read at once are cut.
fn cuts_of(group: &[Reading<'_>]) -> Result<Cuts, RestoreError> {
    let start = group.first().map_or(0, |first| first.film().start);
    cuts_at(group.iter().map(|reading| (reading.film().start - start) as u64).collect())
}

/// Means of moments into the store, and from there into chunks.
struct Chunks<'a, 'k> {
    store: &'a mut LatentStore,
    keeper: &'a mut Keeper<'k>,
    channels: usize,
    /// Number of the first latent in the store.
    origin: usize,
    /// Latents that come too early to be exact.
    early: usize,
    /// The latent that comes next, numbered as in the unit.
    next: usize,
    /// The one behind the last of the shot.
    end: usize,
    /// The first that is not kept.
    kept: usize,
}

impl Chunks<'_, '_> {
    /// Latents of a shot come next.
    fn begin(&mut self, reading: &Reading<'_>) {
        self.early = reading.from - reading.first;
        self.next = reading.item.place(reading.from);
        self.end = reading.item.places().end;
    }

    fn keep(&mut self, when: When) -> Result<(), RestoreError> {
        self.kept = self.keeper.keep_chunks(self.kept..self.next, when, self.store, self.origin)?;
        Ok(())
    }

    fn take(&mut self, first: usize, moments: &HostTensor) -> Result<(), RestoreError> {
        for mean in means(moments, self.channels).skip(self.early.saturating_sub(first)) {
            if self.next == self.end {
                return Err(RestoreError::Changed { frame: 0 });
            }
            self.store.write(self.next - self.origin, &mean)?;
            self.next += 1;
            self.keep(When::Full)?;
        }
        self.keep(When::Due)
    }
}

impl Sink for Chunks<'_, '_> {
    fn write(&mut self, first: usize, moments: HostTensor) -> Result<(), SinkError> {
        self.take(first, &moments).map_err(|error| SinkError(Box::new(error)))
    }
}
