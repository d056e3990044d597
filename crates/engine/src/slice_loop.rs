//! The one loop over slices and tiles. The meter and the real run both go through it, so what was measured
//! is what happens.

use remaster_compute::{DType, Ops, Shape, Tensor};
use remaster_model::{Network, Pass, State};
use remaster_plan::slices::Lengths;
use remaster_plan::{Bands, Candidate, Cells, Description, Grid, INPUT, Job, Mode, OUTPUT, PlanError, Tile};

use crate::bands;
use crate::error::EngineError;
use crate::instrumented::Instrumented;

/// A clip on its way through a network.
pub(crate) struct SliceLoop {
    pub(crate) dtype: DType,
    pub(crate) network: Description,
    cells: Cells,
    /// One input frame, channels included; `t` is the whole clip.
    pub(crate) input: Shape,
    /// One output frame; `t` is the whole clip.
    pub(crate) output: Shape,
    /// Frames of the picture per slice; 0 for one piece.
    slice: usize,
    /// In cells.
    pub(crate) tiles: Grid,
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
    /// So many multiply-adds were done.
    fn worked(&mut self, macs: u64);
    /// Writes the frames of a tile into its tensor.
    fn fill(&mut self, ops: &mut dyn Ops, tile: &Tile, x: &Tensor) -> Result<(), EngineError>;
    /// Gets the result of tile number `i`.
    fn take(&mut self, ops: &mut dyn Ops, i: usize, tile: &Tile, y: Tensor) -> Result<(), EngineError>;
    /// All tiles of the slice are done.
    fn end(&mut self, ops: &mut dyn Ops) -> Result<(), EngineError>;
}

impl SliceLoop {
    /// How `job` goes when it is cut like `how`.
    pub(crate) fn new(job: &Job, how: &Candidate, dtype: DType) -> Self {
        let network = job.network.clone();
        let (mut cells, unit, cell) = (job.cells, network.unit(), network.cell());
        if job.open_ended {
            // Long enough for a first, a steady and a last slice: what those take is what any clip takes.
            let three = (how.slice / unit).saturating_mul(3).saturating_add(2);
            cells.steps = cells.steps.max(job.start.saturating_add(three));
        }
        let shape = |side| {
            let [t, h, w, c] = network.shape(side, cells);
            Shape::new(t, h, w, c)
        };
        let (tiles, ramp) = match how.mode {
            Mode::Blend(tiling) => {
                let ramp = |axis| tiling.ramp(axis, cell, network.scale[OUTPUT]);
                (tiling.tiles([cells.rows, cells.columns], cell), [ramp(0), ramp(1)])
            }
            Mode::Whole | Mode::Exact { .. } | Mode::SharedStats(_) => {
                let grid = match (how.mode, network.reach) {
                    (Mode::Exact { stripes }, Some(reach)) => {
                        Grid::bands(cells.rows, cells.columns, stripes, reach)
                    }
                    _ => Grid::whole(cells.rows, cells.columns),
                };
                (grid, [0, 0])
            }
        };
        let bands = if let Mode::SharedStats(bands) = how.mode { Some(bands) } else { None };
        SliceLoop {
            dtype,
            input: shape(INPUT),
            output: shape(OUTPUT),
            cells,
            network,
            slice: how.slice,
            tiles,
            ramp,
            bands,
            open_ended: job.open_ended,
        }
    }

    /// Input and output pixels of a cell.
    pub(crate) fn scale(&self) -> [usize; 2] {
        self.network.scale
    }

    /// States that a clip has: one per tile; in shared-statistics mode one of the whole frame, one of the
    /// smaller frame, and one per band.
    pub(crate) fn states(&self) -> usize {
        match &self.bands {
            Some(bands) => 2 + bands::rows(bands, self.cells.rows).count(),
            None => self.tiles.len(),
        }
    }

    /// Input frames of the slices that are left when `seen` went through already.
    pub(crate) fn lengths(&self, seen: usize) -> Result<Lengths, PlanError> {
        self.network.lengths(self.cells, self.slice, seen)
    }

    /// Slices that are run on the meter, each with how often it comes: the clip itself, and where its end is open the
    /// ways in which it may end. A slice that is cut short runs step by step (`Ahead`), so there are few of them.
    pub(crate) fn meter_runs(&self, seen: usize) -> Result<Vec<Vec<(usize, usize)>>, PlanError> {
        let mut list = vec![self.lengths(seen)?.runs().collect()];
        let (true, Some(step)) = (self.open_ended, self.step()) else { return Ok(list) };
        let unit = self.network.unit();
        let (first, one) = (usize::from(unit > 1) + self.slice / unit * step, (step, 1));
        if seen == 0 {
            list.push(vec![(1, 1)]);
        }
        if self.slice > unit {
            match seen {
                0 => list.extend([vec![(1, 1), one, one], vec![(first, 1), one, one]]),
                _ => list.push(vec![one, one]),
            }
        }
        Ok(list)
    }

    /// Input frames of one step of time.
    pub(crate) fn step(&self) -> Option<usize> {
        self.network.step.map(|step| step[INPUT])
    }

    /// Input frames of the next slice, and about how many slices are left with it; `None` at the end.
    pub(crate) fn next(&self, seen: usize) -> Option<(usize, usize)> {
        self.network.next(self.input.t, self.slice, seen, self.open_ended)
    }

    /// Pixels of the picture in a tile.
    pub(crate) fn tile_pixels(&self) -> usize {
        let (tile, cell) = (self.tiles.get(0), self.network.cell());
        tile.rows.len().saturating_mul(tile.columns.len()).saturating_mul(cell * cell)
    }

    /// Shape of the input of a tile.
    pub(crate) fn tile_input(&self, tile: &Tile, frames: usize) -> Shape {
        let scale = self.scale()[INPUT];
        Shape::new(frames, tile.rows.len() * scale, tile.columns.len() * scale, self.input.c)
    }

    /// Bytes of host memory that frames of the longest slice take on their way in and out.
    pub(crate) fn traffic_bytes(&self) -> u64 {
        let longest = self.lengths(0).unwrap_or_default().longest();
        let made = self.network.made(0, longest).max(self.network.made(self.network.unit(), longest));
        let f32s = |shape: Shape| shape.bytes(DType::F32);
        let result = f32s(Shape { t: made, ..self.output });
        let first = self.tiles.get(0);
        let tile = self.tile_input(&first, longest);
        let out = Shape::new(
            made,
            first.rows.len() * self.scale()[OUTPUT],
            first.columns.len() * self.scale()[OUTPUT],
            self.output.c,
        );
        // The slice as read, a tile cut out of it, a tile of the result, and the sums and weights they go to. Bands are not
        // mixed, so they have no weights.
        let weights = match self.tiles.own(0) {
            Some(_) => 0,
            None => f32s(Shape { t: 1, c: 1, ..self.output }),
        };
        let cut = if self.tiles.len() > 1 { f32s(tile) + f32s(out) + weights } else { 0 };
        f32s(Shape { t: longest, ..self.input }) + result + cut
    }

    /// Tiles of one slice of `frames` frames through the network, by number; `states` has those of these tiles, of all
    /// as many as `states()` says. Returns how many frames there were, and whether they were the last.
    #[expect(clippy::too_many_arguments, reason = "all of a slice, and which tiles")]
    pub(crate) fn slice(
        &self,
        ops: &mut dyn Ops,
        network: &dyn Network,
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
            let mut tell = |macs| traffic.worked(macs);
            let mut watched = Instrumented::new(ops, &mut tell);
            let y = match (&self.bands, network.levels()) {
                // The one tile of a frame in bands has all states.
                (Some(bands), Some(levels)) => bands::slice(&mut watched, levels, bands, states, x)?,
                _ => network.forward(&mut Pass { ops: &mut watched, state: &mut states[nth] }, x)?,
            };
            traffic.take(ops, i, &tile, y)?;
            ops.wait()?;
        }
        traffic.end(ops)?;
        Ok((frames, last))
    }
}
