//! The plan: everything that is decided before a run.

use serde::{Deserialize, Serialize};

use crate::budget::{Lack, Peaks, bytes};
use crate::description::{Cells, Description};
use crate::geometry::{
    MAX_FRAMES, MAX_PIXELS, MAX_SLICE, MAX_SLICE_PIXELS, MAX_STRIPES, MAX_TILES, PlanError, at_most,
};
use crate::tiles::Tiling;

/// Version of the stored form.
pub const VERSION: u32 = 2;

/// A network and a clip for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The network.
    pub network: Description,
    /// Size of the clip.
    pub cells: Cells,
    /// Input frames that went through before: the run goes on from a saved state.
    #[serde(default)]
    pub start: usize,
    /// The number of steps is a guess; the source knows when it is over.
    #[serde(default)]
    pub open_ended: bool,
    /// Storage of weights and activations: `f32`, `bf16` or `f16`.
    pub dtype: String,
    /// Which kernels compute: results of one class are the same to the bit, however the work is cut.
    pub numerics: String,
}

impl Job {
    /// Frames, rows and columns of the picture.
    pub fn picture(&self) -> [usize; 3] {
        self.network.picture(self.cells)
    }
}

impl std::fmt::Display for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [frames, height, width] = self.picture();
        if self.network.groups {
            let tokens = frames.saturating_mul(height).saturating_mul(width);
            return write!(f, "{} of {tokens} tokens in {}", self.network.name, self.dtype);
        }
        write!(f, "{} of {frames} x {height} x {width} in {}", self.network.name, self.dtype)
    }
}

/// How the frame is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Not at all.
    Whole,
    /// Rows in stripes, layer by layer: the same bits as `Whole`.
    Exact {
        /// Stripes of an op whose operands are not all on the device.
        stripes: usize,
    },
    /// The large levels in bands of rows, one after the other, with statistics of the whole frame that were
    /// estimated on a smaller one. No seams, but not the bits of `Whole`.
    SharedStats(Bands),
    /// Overlapping tiles, each on its own, blended: seams and drift included.
    Blend(Tiling),
}

/// How shared-statistics mode cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bands {
    /// The level where whole frames end (of a network that grows) or begin (of one that shrinks).
    pub level: usize,
    /// How many bands a frame is cut into.
    pub count: usize,
    /// Latent rows of the neighbours that a band computes with and throws away; `None` for as many as reach it.
    pub halo: Option<usize>,
    /// The estimate is made on a frame that is this many times smaller, each way.
    pub reduce: usize,
}

impl Mode {
    /// As on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Mode::Whole => "whole",
            Mode::Exact { .. } => "exact",
            Mode::SharedStats(_) => "shared-stats",
            Mode::Blend(_) => "blend",
        }
    }
}

/// Where tensors live by size: small ones stay close, large ones go far. No limit means any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tiers {
    /// Tensors of up to this many bytes stay on the device.
    pub device: Option<u64>,
    /// Larger ones of up to this many bytes go to host memory, all others to the spill file.
    pub host: Option<u64>,
}

impl Tiers {
    /// Everything on the device.
    pub const DEVICE: Tiers = Tiers { device: None, host: None };

    /// Tensors of more than `bytes` go to host memory.
    pub const fn host(bytes: u64) -> Tiers {
        Tiers { device: Some(bytes), host: None }
    }

    /// Tensors of more than `bytes` go to the spill file.
    pub const fn file(bytes: u64) -> Tiers {
        Tiers { device: Some(bytes), host: Some(bytes) }
    }
}

/// One way to do a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Candidate {
    /// How the frame is cut.
    pub mode: Mode,
    /// Frames per slice; 0 runs the clip in one piece.
    pub slice: usize,
    /// Where activations live.
    pub activations: Tiers,
    /// Where the state between slices lives.
    pub state: Tiers,
    /// Weights come and go with the layer that needs them.
    pub stream_weights: bool,
    /// Streamed weights of the next layer are read while this one computes: that takes room for two layers.
    #[serde(default)]
    pub read_ahead: bool,
    /// Tokens that go through a block together, in whole windows; 0 for all of them. For networks that have groups.
    #[serde(default)]
    pub group: usize,
}

/// What a run does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkTotal {
    /// Multiply-adds of convolutions and linear layers.
    pub macs: u64,
    /// Multiply-adds of attention.
    pub attention_macs: u64,
    /// Bytes between the device and anything else.
    pub transferred: u64,
}

/// What a candidate takes: measured by running the network on the meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Memory.
    pub peaks: Peaks,
    /// Work of the whole clip.
    pub work: WorkTotal,
    /// Bytes of the largest tensor.
    pub largest: u64,
}

/// A better way that did not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// What it was.
    pub candidate: Candidate,
    /// What it lacked.
    pub lack: Lack,
}

/// A job and the way it will be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Of the stored form.
    pub version: u32,
    /// What is to be done.
    pub job: Job,
    /// How.
    pub how: Candidate,
    /// Memory it takes; the run stops with an error before it takes more.
    pub peaks: Peaks,
    /// Work of the whole clip.
    pub work: WorkTotal,
    /// The last way before this one that did not fit, if any.
    pub better: Option<Rejected>,
}

impl Candidate {
    /// Everything on the device, the clip in one piece.
    pub const WHOLE: Candidate = Candidate {
        mode: Mode::Whole,
        slice: 0,
        activations: Tiers::DEVICE,
        state: Tiers::DEVICE,
        stream_weights: false,
        read_ahead: false,
        group: 0,
    };

    /// An error for numbers that no machine could hold, before anything is made of them.
    pub fn check(&self, job: &Job) -> Result<(), PlanError> {
        let [frames, height, width] = job.picture();
        let unit = job.network.unit();
        let pixels = height.saturating_mul(width);
        at_most("the number of frames", frames, MAX_FRAMES)?;
        at_most("the number of pixels of a frame", pixels, MAX_PIXELS)?;
        if pixels == 0 || frames == 0 {
            return Err(PlanError::Empty { frames, height, width });
        }
        let longest = match self.slice {
            0 => frames,
            n if job.open_ended => n.saturating_add(1),
            n => n.saturating_add(1).min(frames),
        };
        let most = MAX_SLICE.min(MAX_SLICE_PIXELS / pixels).max(1);
        if job.network.step.is_none() {
            // Such a network has no slices that could be shorter.
            at_most("the number of latent frames", longest, most)?;
        }
        if longest > most {
            return Err(PlanError::LongSlice { frames: longest, most: (most - 1) / unit * unit });
        }
        match self.mode {
            Mode::SharedStats(_) if job.network.levels < 2 => {
                Err(PlanError::Mode { network: job.network.name.clone(), mode: self.mode.name() })
            }
            Mode::Exact { stripes } => at_most("the number of stripes", stripes, MAX_STRIPES),
            Mode::SharedStats(bands) => at_most("the number of bands", bands.count, MAX_STRIPES),
            Mode::Blend(tiling) => {
                let tiles = tiling.tiles([job.cells.rows, job.cells.columns], job.network.cell()).len();
                match tiles > MAX_TILES {
                    true => Err(PlanError::Tiles { tile: tiling.tile[0], tiles, most: MAX_TILES }),
                    false => Ok(()),
                }
            }
            Mode::Whole => Ok(()),
        }
    }

    /// In a few words.
    pub fn describe(&self) -> String {
        let mode = match self.mode {
            Mode::Whole => "whole".to_owned(),
            Mode::Exact { stripes } => format!("exact in {stripes} stripes"),
            Mode::SharedStats(b) => {
                format!(
                    "shared-stats in {} bands from level {}, estimated at 1/{}",
                    b.count, b.level, b.reduce
                )
            }
            Mode::Blend(t) => format!(
                "blend of {} x {} tiles, {} x {} shared",
                t.tile[0], t.tile[1], t.overlap[0], t.overlap[1]
            ),
        };
        let slice =
            if self.slice == 0 { "one slice".to_owned() } else { format!("slices of {}", self.slice) };
        let far = |what: &str, rule: Tiers| match (rule.device, rule.host) {
            (None, _) => String::new(),
            (Some(n), None) => format!(", {what} over {} in host memory", bytes(n)),
            (Some(n), Some(m)) if m <= n => format!(", {what} over {} in the file", bytes(n)),
            (Some(n), Some(m)) => {
                format!(", {what} over {} in host memory, over {} in the file", bytes(n), bytes(m))
            }
        };
        let weights = match (self.stream_weights, self.read_ahead) {
            (false, _) => "",
            (true, false) => ", weights streamed",
            (true, true) => ", weights streamed and read ahead",
        };
        let (activations, state) = (far("activations", self.activations), far("state", self.state));
        let group = match self.group {
            0 => String::new(),
            1 => ", one window at a time".to_owned(),
            n => format!(", groups of {n} tokens"),
        };
        format!("{mode}, {slice}{group}{activations}{state}{weights}")
    }
}
