//! The one loop over slices and tiles. The meter and the real run both go through it, so what was measured
//! is what happens.

use remaster_compute::staged::Staged;
use remaster_compute::{DType, Ops, Shape, Tensor};
use remaster_model::vae::{Half, Pass, State};
use remaster_plan::slices::{self, Lengths};
use remaster_plan::{Bands, Candidate, Direction, Grid, Job, Mode, PlanError, SPACE, TIME, Tile};

use crate::bands;
use crate::error::EngineError;

/// A clip on its way through one half of the network.
pub(crate) struct Course {
    pub(crate) dtype: DType,
    /// One input frame (for a decoder: latent), channels included; `t` is the whole clip.
    pub(crate) input: Shape,
    /// One output frame; `t` is the whole clip.
    pub(crate) output: Shape,
    /// Frames per slice; 0 for one piece.
    slice: usize,
    /// In latent cells.
    pub(crate) tiles: Grid,
    /// Input and output units per latent cell.
    pub(crate) scale: [usize; 2],
    /// Ramps of blended tiles, rows and columns, in output units.
    pub(crate) ramp: [usize; 2],
    /// Of shared-statistics mode.
    pub(crate) bands: Option<Bands>,
    /// The source knows when it is over.
    pub(crate) open_ended: bool,
}

/// Frames in and results out. A meter has nothing to do.
pub(crate) trait Traffic {
    /// A slice of `frames` input frames begins. Returns how many there are, and whether they are the last:
    /// only the source of an open-ended clip knows.
    fn begin(&mut self, frames: usize, last: bool) -> Result<(usize, bool), EngineError>;
    /// Writes the frames of a tile into its tensor.
    fn fill(&mut self, ops: &mut dyn Ops, tile: &Tile, x: &Tensor) -> Result<(), EngineError>;
    /// Gets the result of tile number `i`.
    fn take(&mut self, ops: &mut dyn Ops, i: usize, tile: &Tile, y: Tensor) -> Result<(), EngineError>;
    /// All tiles of the slice are done.
    fn end(&mut self, ops: &mut dyn Ops) -> Result<(), EngineError>;
}

impl Course {
    /// How `job` goes when it is cut like `how`; `channels` are those of frames and of latents, into the
    /// half and out of it.
    pub(crate) fn new(job: &Job, how: &Candidate, dtype: DType, channels: [usize; 2]) -> Self {
        let (mut t, h, w) = job.clip.latent();
        if job.open_ended {
            // Long enough for a first, a steady and a last slice: what those take is what any clip takes.
            t = t.max(job.start.saturating_add((how.slice / TIME).saturating_mul(3)).saturating_add(2));
        }
        let frames = Shape::new((t - 1) * TIME + 1, job.clip.height(), job.clip.width(), 0);
        let latents = Shape::new(t, h, w, 0);
        let (input, output, scale) = match job.direction {
            Direction::Encode => (frames, latents, [SPACE, 1]),
            Direction::Decode => (latents, frames, [1, SPACE]),
        };
        let (tiles, ramp) = match how.mode {
            Mode::Blend(tiling) => {
                let ramp = |axis| tiling.ramp(axis, job.direction == Direction::Encode);
                (tiling.tiles([h, w]), [ramp(0), ramp(1)])
            }
            Mode::Whole | Mode::Exact { .. } | Mode::SharedStats(_) => (Grid::whole(h, w), [0, 0]),
        };
        let bands = if let Mode::SharedStats(bands) = how.mode { Some(bands) } else { None };
        Course {
            dtype,
            input: Shape { c: channels[0], ..input },
            output: Shape { c: channels[1], ..output },
            slice: how.slice,
            tiles,
            scale,
            ramp,
            bands,
            open_ended: job.open_ended,
        }
    }

    /// Latent rows and columns of the frame.
    pub(crate) fn cells(&self) -> [usize; 2] {
        [self.input.h / self.scale[0], self.input.w / self.scale[0]]
    }

    /// States that a clip has: one per tile; in shared-statistics mode one of the whole frame, one of the
    /// smaller frame, and one per band.
    pub(crate) fn states(&self) -> usize {
        match &self.bands {
            Some(bands) => 2 + bands::rows(bands, self.cells()[0]).count(),
            None => self.tiles.len(),
        }
    }

    /// Input frames of the slices that are left when `seen` went through already.
    pub(crate) fn lengths(&self, seen: usize) -> Result<Lengths, PlanError> {
        let (total, unit) = (self.input.t, if self.scale[0] == 1 { 1 } else { TIME });
        if seen == 0 {
            return if unit == 1 {
                slices::latents(total, self.slice)
            } else {
                slices::frames(total, self.slice)
            };
        }
        Ok(Lengths::continued(total.saturating_sub(seen), self.slice / TIME * unit))
    }

    /// Input frames of the next slice, and about how many slices are left with it; `None` at the end.
    pub(crate) fn next(&self, seen: usize) -> Option<(usize, usize)> {
        let unit = if self.scale[0] == 1 { 1 } else { TIME };
        let (left, step) = (self.input.t.saturating_sub(seen), self.slice / TIME * unit);
        let length = match (step, seen) {
            (0, _) => left,
            (step, 0) => 1 + step,
            (step, _) => step,
        };
        let length = if self.open_ended { length } else { length.min(left) };
        let after = left.saturating_sub(length);
        (length > 0).then(|| (length, 1 + if step == 0 { 0 } else { after.div_ceil(step) }))
    }

    /// Whether a clip may end behind this many input frames.
    pub(crate) fn may_end(&self, seen: usize) -> bool {
        seen > 0 && (self.scale[0] == 1 || seen % TIME == 1)
    }

    /// Output frames made of input frames `seen..seen + frames`.
    pub(crate) fn made(&self, seen: usize, frames: usize) -> usize {
        let made = |n: usize| match (self.scale[0] == 1, n) {
            (_, 0) => 0,
            (true, n) => (n - 1) * TIME + 1,
            (false, n) => n.div_ceil(TIME),
        };
        made(seen + frames) - made(seen)
    }

    /// Shape of the input of a tile.
    pub(crate) fn tile_input(&self, tile: &Tile, frames: usize) -> Shape {
        let scale = self.scale[0];
        Shape::new(frames, tile.rows.len() * scale, tile.columns.len() * scale, self.input.c)
    }

    /// Bytes of host memory that frames of the longest slice take on their way in and out.
    pub(crate) fn traffic_bytes(&self) -> u64 {
        let longest = self.lengths(0).unwrap_or_default().longest();
        let made = self.made(0, longest).max(self.made(TIME, longest));
        let f32s = |shape: Shape| shape.bytes(DType::F32);
        let result = f32s(Shape { t: made, ..self.output });
        let first = self.tiles.get(0);
        let tile = self.tile_input(&first, longest);
        let out = Shape::new(
            made,
            first.rows.len() * self.scale[1],
            first.columns.len() * self.scale[1],
            self.output.c,
        );
        // The slice as read, a tile cut out of it, a tile of the result, and the sums and weights they go to.
        let cut = if self.tiles.len() > 1 {
            f32s(tile) + f32s(out) + f32s(Shape { t: 1, c: 1, ..self.output })
        } else {
            0
        };
        f32s(Shape { t: longest, ..self.input }) + result + cut
    }

    /// One slice of `frames` frames through the network; `states` has as many as `states()` says. Returns
    /// how many frames there were, and whether they were the last.
    pub(crate) fn slice(
        &self,
        ops: &mut Staged,
        half: &dyn Half,
        states: &mut [State],
        frames: usize,
        last: bool,
        traffic: &mut dyn Traffic,
    ) -> Result<(usize, bool), EngineError> {
        let tiles = self.tiles.iter().enumerate();
        self.tiles_of_slice(ops, half, states, frames, last, traffic, tiles)
    }

    /// As `slice`, with some of the tiles by number; `states` has those of these tiles.
    #[expect(clippy::too_many_arguments, reason = "all of a slice, and which tiles")]
    pub(crate) fn tiles_of_slice(
        &self,
        ops: &mut Staged,
        half: &dyn Half,
        states: &mut [State],
        frames: usize,
        last: bool,
        traffic: &mut dyn Traffic,
        tiles: impl Iterator<Item = (usize, Tile)>,
    ) -> Result<(usize, bool), EngineError> {
        let (frames, last) = traffic.begin(frames, last)?;
        if frames == 0 {
            return Ok((frames, last));
        }
        if last {
            states.iter_mut().for_each(State::finish);
        }
        for (nth, (i, tile)) in tiles.enumerate() {
            let x = ops.alloc(self.tile_input(&tile, frames), self.dtype)?;
            traffic.fill(ops, &tile, &x)?;
            let y = match &self.bands {
                // The one tile of a frame in bands has all states.
                Some(bands) => bands::slice(ops, half, bands, states, x)?,
                None => half.forward(&mut Pass { ops, state: &mut states[nth] }, x)?,
            };
            traffic.take(ops, i, &tile, y)?;
            ops.wait()?;
        }
        traffic.end(ops)?;
        Ok((frames, last))
    }
}
