//! Latents of a unit that outlive the process.
//!
//! What the encoder made is kept in chunks, `encoded-FIRST-END`, counted through all shots of the unit; what the
//! transformer made in windows, `restored-SHOT-LATENT`. A window is kept as the network gave it, before it is mixed with
//! its neighbours: so it is the same wherever a run began.

use std::collections::HashSet;
use std::error::Error;
use std::ops::Range;

use crate::chain::Chain;
use crate::error::RestoreError;
use crate::latent_store::LatentStore;

/// Bytes of a chunk at most; of a larger latent there is one in each.
pub(crate) const CHUNK: u64 = 16 << 20;

type Failed = Box<dyn Error + Send + Sync>;

/// Finished latents of a unit, which outlive the process. Names are short words of a-z, 0-9 and hyphens.
pub trait Checkpoint {
    /// Whether it is time to keep what is finished.
    fn is_due(&mut self) -> bool;

    /// Names that are kept.
    fn names(&mut self) -> Result<Vec<String>, Failed>;

    /// Values by name; `None` if they are missing or damaged.
    fn load(&mut self, name: &str) -> Result<Option<Vec<f32>>, Failed>;

    /// Keeps values under a name, one list behind the other. What is kept under it already is the same and may stay.
    fn keep(&mut self, name: &str, values: &[&[f32]]) -> Result<(), Failed>;
}

/// A checkpoint whose contents are checked.
pub(super) struct Keeper<'a> {
    checkpoint: Option<&'a mut (dyn Checkpoint + 'a)>,
    names: HashSet<String>,
    /// Values of a latent.
    length: usize,
    /// Latents of a chunk.
    chunk: usize,
}

impl<'a> Keeper<'a> {
    /// For latents of `length` values, in chunks of up to `bytes`.
    pub(super) fn new(
        mut checkpoint: Option<&'a mut (dyn Checkpoint + 'a)>,
        length: usize,
        bytes: u64,
    ) -> Result<Self, RestoreError> {
        let names = match &mut checkpoint {
            Some(checkpoint) => checkpoint.names().map_err(RestoreError::Checkpoint)?,
            None => Vec::new(),
        };
        let chunk = usize::try_from(bytes / (4 * length.max(1) as u64)).unwrap_or(usize::MAX).max(1);
        Ok(Keeper { checkpoint, names: names.into_iter().collect(), length, chunk })
    }

    /// So many latents by name. What is not exactly these is not there, and is not asked for again.
    fn load(&mut self, name: &str, latents: usize) -> Result<Option<Vec<f32>>, RestoreError> {
        let Some(checkpoint) = self.checkpoint.as_mut().filter(|_| self.names.contains(name)) else {
            return Ok(None);
        };
        let values = checkpoint.load(name).map_err(RestoreError::Checkpoint)?;
        let wanted = latents.checked_mul(self.length);
        let is_right = |v: &Vec<f32>| Some(v.len()) == wanted && v.iter().all(|value| value.is_finite());
        let values = values.filter(is_right);
        if values.is_none() {
            self.names.remove(name);
        }
        Ok(values)
    }

    fn keep(&mut self, name: &str, values: &[&[f32]]) -> Result<(), RestoreError> {
        match &mut self.checkpoint {
            Some(checkpoint) => checkpoint.keep(name, values).map_err(RestoreError::Checkpoint),
            None => Ok(()),
        }
    }

    /// What the transformer made of a window of so many latents.
    pub(super) fn window(
        &mut self,
        shot: usize,
        window: &Range<usize>,
    ) -> Result<Option<Vec<f32>>, RestoreError> {
        self.load(&window_name(shot, window), window.len())
    }

    /// Keeps it.
    pub(super) fn keep_window(
        &mut self,
        shot: usize,
        window: &Range<usize>,
        values: &[f32],
    ) -> Result<(), RestoreError> {
        self.keep(&window_name(shot, window), &[values])
    }

    /// Loads what chunks have of the latents `wanted`, from their first on without a gap. Returns where that ends.
    pub(super) fn chunks(
        &mut self,
        wanted: Range<usize>,
        store: &mut LatentStore,
        origin: usize,
    ) -> Result<usize, RestoreError> {
        let most = self.chunk;
        let fits =
            |chunk: &Range<usize>| chunk.len() <= most && chunk.end > wanted.start && chunk.end <= wanted.end;
        let mut chain = Chain::new(self.names.iter().filter_map(|name| chunk(name)).filter(fits).collect());
        let mut next = wanted.start;
        while let Some(Range { start, end }) = chain.at(next) {
            let Some(values) = self.load(&chunk_name(&(start..end)), end - start)? else { continue };
            let new = values.get((next - start) * self.length..).unwrap_or_default();
            store.write(next - origin, new)?;
            next = end;
        }
        Ok(next)
    }

    /// Keeps encoded latents, numbered as in the unit, if they fill a chunk or it is time: at the end of a slice, and when
    /// there are no more. Returns up to where they are kept.
    pub(super) fn keep_chunks(
        &mut self,
        mut latents: Range<usize>,
        when: When,
        store: &LatentStore,
        origin: usize,
    ) -> Result<usize, RestoreError> {
        while let Some(checkpoint) = self.checkpoint.as_mut().filter(|_| !latents.is_empty()) {
            let is_time = match when {
                When::Full => false,
                When::Due => checkpoint.is_due(),
                When::Over => true,
            };
            if !is_time && latents.len() < self.chunk {
                break;
            }
            let chunk = latents.start..latents.end.min(latents.start.saturating_add(self.chunk));
            let values = store.read(chunk.start - origin..chunk.end - origin)?;
            self.keep(&chunk_name(&chunk), &[&values])?;
            latents.start = chunk.end;
        }
        Ok(latents.start)
    }
}

/// What chunks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Full ones.
    Full,
    /// All, if it is time.
    Due,
    /// All.
    Over,
}

fn window_name(shot: usize, window: &Range<usize>) -> String {
    format!("restored-{shot}-{}", window.start)
}

fn chunk_name(Range { start, end }: &Range<usize>) -> String {
    format!("encoded-{start}-{end}")
}

/// The latents that a name promises.
fn chunk(name: &str) -> Option<Range<usize>> {
    let (start, end) = name.strip_prefix("encoded-")?.split_once('-')?;
    let chunk = start.parse().ok()?..end.parse().ok()?;
    // Other ways to write the numbers are not ours.
    (!chunk.is_empty() && chunk_name(&chunk) == name).then_some(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Memory;
    use proptest::prelude::*;

    /// Latent `i` is `[i, i + 0.5]`.
    fn latents(range: Range<usize>) -> Vec<f32> {
        range.flat_map(|i| [i as f32, i as f32 + 0.5]).collect()
    }

    /// Up to where chunks bring latents `wanted` of 30, and what they are.
    fn loaded(memory: &mut Memory, wanted: Range<usize>) -> usize {
        let mut store = LatentStore::new(None, 2, 1 << 20).unwrap();
        let origin = wanted.start;
        let end = {
            let mut keeper = Keeper::new(Some(memory), 2, 8 * 6).unwrap();
            keeper.chunks(wanted.clone(), &mut store, origin).unwrap()
        };
        assert_eq!(store.read(0..end - origin).unwrap(), latents(origin..end));
        end
    }

    #[test]
    fn names_that_are_not_ours_are_none() {
        assert_eq!(chunk("encoded-3-9"), Some(3..9));
        let others = "encoded-9-3 encoded-3-3 encoded-03-9 encoded-+3-9 encoded-3 encoded--3-9 encoded-3-9-1 \
            encoded-3-99999999999999999999 restored-3-9 encoded-";
        for name in others.split(' ').chain([""]) {
            assert_eq!(chunk(name), None, "{name}");
        }
    }

    #[test]
    fn chunks_that_lie_are_left_out() {
        let mut memory = Memory::default();
        let mut put = |name: &str, values: Vec<f32>| memory.kept.insert(name.to_owned(), values);
        put("encoded-0-4", latents(0..4));
        // Too short, too long, not a number, longer than a chunk can be, beyond the end.
        put("encoded-4-10", latents(4..9));
        put("encoded-4-9", latents(4..10));
        put("encoded-4-8", [latents(4..7), vec![1.0, f32::NAN]].concat());
        put("encoded-4-11", latents(4..11));
        put("encoded-28-31", latents(28..31));
        put("encoded-2-7", latents(2..7));
        put("other", vec![]);
        assert_eq!(loaded(&mut memory, 0..30), 7);
        assert_eq!(
            memory.loads,
            ["encoded-0-4", "encoded-4-10", "encoded-4-9", "encoded-4-8", "encoded-2-7"].map(String::from)
        );
    }

    #[test]
    fn chunks_are_kept_when_they_are_full_or_it_is_time() {
        let mut store = LatentStore::new(None, 2, 1 << 20).unwrap();
        store.write(0, &latents(5..30)).unwrap();
        let mut memory = Memory::default();
        let mut keep = |due: bool, latents: Range<usize>, when| {
            memory.pace = if due { 1 } else { usize::MAX };
            let end = Keeper::new(Some(&mut memory), 2, 8 * 6).unwrap().keep_chunks(latents, when, &store, 5);
            let names = std::mem::take(&mut memory.kept);
            for (name, values) in &names {
                assert_eq!(*values, self::latents(chunk(name).unwrap()));
            }
            (end.unwrap(), names.into_keys().collect::<Vec<_>>())
        };
        assert_eq!(keep(true, 5..10, When::Full), (5, vec![]));
        assert_eq!(keep(false, 5..10, When::Due), (5, vec![]));
        assert_eq!(keep(false, 5..11, When::Full), (11, vec!["encoded-5-11".into()]));
        assert_eq!(keep(true, 5..10, When::Due), (10, vec!["encoded-5-10".into()]));
        assert_eq!(keep(false, 5..13, When::Over).0, 13);
        assert_eq!(keep(true, 5..5, When::Over), (5, vec![]));
    }

    proptest! {
        #[test]
        fn the_longest_beginning_is_loaded(
            cuts in prop::collection::vec((0usize..30, 1usize..7, any::<bool>()), 0..20),
            start in 0usize..10,
        ) {
            let mut memory = Memory::default();
            let mut there = [false; 30];
            for (first, count, whole) in cuts {
                let range = first..(first + count).min(30);
                let values = latents(range.start..range.end - usize::from(!whole));
                memory.kept.entry(chunk_name(&range)).or_insert_with(|| {
                    range.for_each(|i| there[i] |= whole);
                    values
                });
            }
            let expected = (start..30).find(|i| !there[*i]).unwrap_or(30);
            prop_assert_eq!(loaded(&mut memory, start..30), expected);
            // Nothing is loaded twice.
            let mut loads = memory.loads.clone();
            loads.sort();
            loads.dedup();
            prop_assert_eq!(loads.len(), memory.loads.len());
        }
    }
}
