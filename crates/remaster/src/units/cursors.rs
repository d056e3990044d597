//! Decoders that go on reading where a unit ended. A film that can only be read from its start is then read once, and not once
//! for each unit.

use std::sync::{Arc, Mutex};

use remaster_media::{Format, FrameSource, MediaError};
use remaster_picture::Frame;

use crate::control::lock;
use crate::media::MAX_LEAD;

/// The decoders of a film that wait between its units.
#[derive(Clone)]
pub(super) struct Cursors(Arc<Mutex<Idle>>);

struct Idle {
    /// Decoders that a run has memory for.
    max: usize,
    cursors: Vec<Cursor>,
    /// Frames that the newest decoder read before those that were wanted.
    lead: usize,
}

/// A source and the number of the frame that it gives next.
struct Cursor {
    source: Box<dyn FrameSource>,
    next: usize,
}

impl Cursors {
    /// None yet, and at most so many at a time.
    pub(super) fn new(max: usize) -> Self {
        Cursors(Arc::new(Mutex::new(Idle { max, cursors: Vec::new(), lead: 0 })))
    }

    /// Returns how many frames the newest decoder read before those that were wanted.
    pub(super) fn lead(&self) -> usize {
        lock(&self.0).lead
    }

    /// Opens `count` frames from number `first` on. A decoder that waits goes on, if that is no farther than what the newest
    /// one read before its first frame; else `open` makes one, and says which frame it gives first.
    pub(super) fn open(
        &self,
        first: usize,
        count: usize,
        open: impl FnOnce() -> Result<(Box<dyn FrameSource>, usize), MediaError>,
    ) -> Result<Box<dyn FrameSource>, MediaError> {
        let (cursor, is_new) = match self.take(first) {
            Some(cursor) => (cursor, false),
            None => {
                let (source, next) = open()?;
                (Cursor { source, next }, true)
            }
        };
        let Cursor { mut source, next } = cursor;
        let mut frame = Frame::new(0, 0, 3);
        for _ in next..first {
            if source.next(&mut frame)?.is_none() {
                let reason = "it has fewer frames than planned".into();
                return Err(MediaError::Broken { what: "the input", reason });
            }
        }
        Ok(Box::new(Counted {
            format: source.format().clone(),
            source: Some(source),
            skipped: is_new.then_some(first.saturating_sub(next)),
            next: first,
            left: count,
            idle: Arc::clone(&self.0),
        }))
    }

    /// Takes the decoder that is nearest before frame `first`, if it is worth it.
    fn take(&self, first: usize) -> Option<Cursor> {
        let mut idle = lock(&self.0);
        let lead = idle.lead;
        let before = idle.cursors.iter().enumerate().filter(|(_, cursor)| cursor.next <= first);
        let nearest =
            before.max_by_key(|(_, cursor)| cursor.next).map(|(place, cursor)| (place, cursor.next));
        if let Some((place, _)) = nearest.filter(|(_, next)| first - next <= lead) {
            return Some(idle.cursors.swap_remove(place));
        }
        if lead <= MAX_LEAD {
            idle.cursors.clear();
        }
        idle.make_room();
        None
    }
}

impl Idle {
    /// Ends decoders until there is room for one more: those that are farthest behind are the least likely to be of use.
    fn make_room(&mut self) {
        while self.cursors.len() >= self.max.max(1) {
            let last = (0..self.cursors.len()).min_by_key(|place| self.cursors[*place].next).unwrap_or(0);
            self.cursors.swap_remove(last);
        }
    }
}

/// So many frames of a source. It waits for the next unit when its reader is gone, unless it failed.
struct Counted {
    format: Format,
    source: Option<Box<dyn FrameSource>>,
    /// Frames that were left out before the first one, if the source is new.
    skipped: Option<usize>,
    /// Number of the next frame.
    next: usize,
    left: usize,
    idle: Arc<Mutex<Idle>>,
}

impl FrameSource for Counted {
    fn format(&self) -> &Format {
        &self.format
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        let Some(source) = self.source.as_mut().filter(|_| self.left > 0) else { return Ok(None) };
        let shown = source.next(frame);
        match shown {
            Ok(Some(_)) => (self.left, self.next) = (self.left - 1, self.next + 1),
            Ok(None) | Err(_) => self.source = None,
        }
        shown
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some(source) = self.source.take() else { return };
        let mut idle = lock(&self.idle);
        if let Some(skipped) = self.skipped {
            idle.lead = skipped + source.lead();
        }
        idle.make_room();
        idle.cursors.push(Cursor { source, next: self.next });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use remaster_media::{Colour, Said, TimeBase};
    use remaster_picture::Layout;

    use super::*;

    /// A film of 10,000 frames that can be read from its start only.
    struct Film {
        format: Format,
        next: i64,
        lead: usize,
        read: Arc<AtomicUsize>,
    }

    impl FrameSource for Film {
        fn format(&self) -> &Format {
            &self.format
        }

        fn next(&mut self, _: &mut Frame) -> Result<Option<i64>, MediaError> {
            if self.next == 10_000 {
                return Ok(None);
            }
            self.read.fetch_add(1, Relaxed);
            self.next += 1;
            Ok(Some(self.next - 1))
        }

        fn lead(&self) -> usize {
            self.lead
        }
    }

    fn format() -> Format {
        let layout = Layout::from_name("gray").unwrap();
        let colour = Colour::new(Said::default(), &layout, [2, 2]);
        Format::even([2, 2], layout, colour, TimeBase { num: 25, den: 1 })
    }

    /// Reads units of 1,000 frames, each twice, of which the first begins `back` frames earlier. Returns the decoders that were opened, and the frames that
    /// were read by all of them.
    fn units(back: usize, max: usize, jumps: bool) -> (usize, usize) {
        let (cursors, read) = (Cursors::new(max), Arc::<AtomicUsize>::default());
        let opened = AtomicUsize::new(0);
        let mut frame = Frame::new(0, 0, 3);
        for unit in 0..10 {
            for back in [back, 0] {
                let first = (1000 * unit as usize).saturating_sub(back);
                let count = 1000 * (unit as usize + 1) - first;
                let open = || -> Result<(Box<dyn FrameSource>, usize), MediaError> {
                    opened.fetch_add(1, Relaxed);
                    // A jump reads 100 frames before the one that it gives first.
                    let (next, lead) = if jumps { (first, 100) } else { (first, first) };
                    read.fetch_add(lead, Relaxed);
                    let read = Arc::clone(&read);
                    Ok((Box::new(Film { format: format(), next: next as i64, lead, read }), first))
                };
                let mut source = cursors.open(first, count, open).unwrap();
                assert!(lock(&cursors.0).cursors.len() < max);
                for i in 0..count {
                    assert_eq!(source.next(&mut frame).unwrap(), Some((first + i) as i64));
                }
                assert_eq!(source.next(&mut frame).unwrap(), None);
            }
        }
        (opened.load(Relaxed), read.load(Relaxed))
    }

    #[test]
    fn a_film_that_is_read_from_its_start_is_read_a_few_times_and_not_once_for_each_unit() {
        for (back, max) in [(0, 2), (0, 3), (112, 3)] {
            let (opened, read) = units(back, max, false);
            assert!(opened <= 8 && read <= 50_000, "{back}: {opened} decoders, {read} frames");
        }
    }

    #[test]
    fn a_film_with_jumps_has_no_decoder_that_waits_beside_another() {
        let (opened, read) = units(112, 2, true);
        assert!(opened <= 20 && read < 2 * 10_000 + 10 * 112 + 20 * 100, "{opened} decoders, {read} frames");
    }

    #[test]
    fn a_source_that_failed_is_not_read_on() {
        let cursors = Cursors::new(2);
        let read = Arc::<AtomicUsize>::default();
        let film = || -> Result<(Box<dyn FrameSource>, usize), MediaError> {
            Ok((Box::new(Film { format: format(), next: 9_998, lead: 0, read: Arc::clone(&read) }), 9_998))
        };
        let mut source = cursors.open(9_998, 5, film).unwrap();
        let mut frame = Frame::new(0, 0, 3);
        while source.next(&mut frame).unwrap().is_some() {}
        drop(source);
        assert!(lock(&cursors.0).cursors.is_empty());
        assert!(cursors.open(10_001, 1, film).is_err());
    }
}
