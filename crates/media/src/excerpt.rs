//! Some frames in a row of a film, with the times that they have in the film.

use remaster_picture::Frame;
use serde::{Deserialize, Serialize};

use crate::clip::{Format, FrameSource};
use crate::error::MediaError;

/// Frames of a film by their times, in ticks of its clock as its source gives them. A film can be a part of a file itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// Time of the first frame; `None` for the first of all.
    pub first: Option<i64>,
    /// Time of the first frame behind it; `None` for all that are left.
    pub end: Option<i64>,
}

/// Where a frame lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    Before,
    Inside,
    Behind,
    /// It would be the first one, and is not the one that was asked for.
    Wrong,
}

impl Excerpt {
    /// The whole film.
    pub fn is_whole(&self) -> bool {
        *self == Excerpt::default()
    }

    /// Where the frame at `pts` lies, with `given` frames given before it.
    pub(crate) fn position(&self, pts: i64, given: usize) -> Position {
        match (self.first, self.end) {
            (Some(first), _) if pts < first => Position::Before,
            (Some(first), _) if given == 0 && pts != first => Position::Wrong,
            (_, Some(end)) if pts >= end => Position::Behind,
            _ => Position::Inside,
        }
    }

    /// The error for a film that has no such first frame.
    pub(crate) fn missing(&self) -> MediaError {
        MediaError::NoFrame { pts: self.first.unwrap_or(0) }
    }
}

/// An excerpt of any source, which is read from its start.
pub struct Excerpted<S> {
    source: S,
    excerpt: Excerpt,
    lead: usize,
    given: usize,
    is_over: bool,
}

impl<S: FrameSource> Excerpted<S> {
    /// The frames of `source` that are in `excerpt`.
    pub fn new(source: S, excerpt: Excerpt) -> Self {
        Excerpted { source, excerpt, lead: 0, given: 0, is_over: false }
    }
}

impl<S: FrameSource> FrameSource for Excerpted<S> {
    fn format(&self) -> &Format {
        self.source.format()
    }

    fn lead(&self) -> usize {
        self.lead
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Option<i64>, MediaError> {
        while !self.is_over {
            let Some(pts) = self.source.next(frame)? else {
                self.is_over = true;
                // The frame that was asked for is behind the end.
                return if self.given == 0 { Err(self.excerpt.missing()) } else { Ok(None) };
            };
            match self.excerpt.position(pts, self.given) {
                Position::Before => self.lead += 1,
                Position::Inside => {
                    self.given += 1;
                    return Ok(Some(pts));
                }
                Position::Behind => self.is_over = true,
                Position::Wrong => return Err(self.excerpt.missing()),
            }
        }
        Ok(None)
    }
}
