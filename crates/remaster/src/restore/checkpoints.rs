//! Room for the frames that an upscaler saves while they are encoded, and what a stop costs without it.

use std::path::Path;
use std::time::Duration;

use remaster_units::checkpoint::usable_room;

use super::film::Film;
use super::stage::MOST_PIECE;
use crate::numbers::{as_flag, count};
use crate::outcome::words as time_in_words;

impl Film {
    /// Bytes that frames of a piece may take in checkpoints; `None` if none are saved.
    pub(crate) fn checkpoint_room(&self) -> Option<u64> {
        self.checkpoint_frame.filter(|_| self.room.bytes > 0).map(|_| self.room.bytes)
    }

    /// Bytes that checkpoints take at most.
    pub(super) fn checkpoint_bytes(&self) -> Option<u64> {
        let frames = self.format.frames.filter(|_| !self.estimated).unwrap_or(MOST_PIECE).min(MOST_PIECE);
        let all = self.checkpoint_frame?.saturating_mul(frames as u64);
        Some(all.min(self.checkpoint_room().unwrap_or(0)))
    }

    /// What to say if there is no room in `folder` to save the longest piece: what a stop may cost. A piece that takes less
    /// than `every` is not saved, and takes no room.
    pub(crate) fn cost_of_a_stop(
        &self,
        (longest, seconds_per_frame): (usize, Option<f64>),
        every: Duration,
        folder: &Path,
    ) -> Option<String> {
        let frame = self.checkpoint_frame?;
        let room = usable_room(self.room.bytes, Some(folder));
        let fits = usize::try_from(room / frame.max(1)).unwrap_or(usize::MAX);
        let lost = longest.checked_sub(fits).filter(|lost| *lost > 0)?;
        let seconds = |frames: usize| seconds_per_frame.map(|each| each * frames as f64);
        if seconds(longest).is_some_and(|all| all < every.as_secs_f64()) {
            return None;
        }
        let time =
            seconds(lost).map_or(String::new(), |lost| format!(", about {} of work", time_in_words(lost)));
        let what = if room < self.room.bytes { "the disk" } else { "--disk" };
        let needs = frame.saturating_mul(longest as u64);
        let more = match room < self.room.bytes {
            true => format!("free {} there", as_flag(needs.saturating_mul(2))),
            false => format!("--disk {}", as_flag(needs)),
        };
        Some(format!(
            "{what} has room to save {} of the {longest} frames that are encoded together: a stop may lose {}{time}; \
             {more} to lose a minute at most",
            fits.min(longest),
            count(lost, "frame")
        ))
    }
}
