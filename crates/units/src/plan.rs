//! What all work on a film follows. A plan never changes: other settings are another plan.

use std::ops::Range;
use std::path::Path;

use remaster_media::{SegmentKind, TimeBase};
use remaster_plan::{LookBack, Windows};
use remaster_restore::{Pool, Unit};
use remaster_store::Hash;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::UnitsError;
use crate::input::Input;
use crate::request::{ENCODER_THREADS, Request};
use crate::result_class::ResultClass;
use crate::survey::Survey;

/// The version of plans that this program writes and reads.
const VERSION: u32 = 2;

/// Networks that a plan may name at most, and the bytes of a name in it.
const MOST_MODELS: usize = 8;
const MOST_NAME: usize = 4096;

/// Frames of a film at most: 200 days at 60 frames a second. So numbers of frames have room in every sum.
const MOST_FRAMES: usize = 1 << 30;

/// Frames of a unit at most: three days. Its windows are listed in memory.
const MOST_UNIT: usize = 1 << 24;

/// Pieces that a unit may be cut into at most, before cuts that fall together are counted once.
const MOST_CUTS: usize = 1 << 16;

/// Pieces of a unit at most: as many files as its record holds.
const MOST_PIECES: usize = 256;

/// When a frame is shown, at most: far from what overflows with any clock.
const LAST_TICK: i64 = 1 << 56;

/// A network that a plan needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// What it is for: `transformer`, `vae` or `text`.
    pub role: String,
    /// As it was named.
    pub name: String,
    /// Hash of its file; `None` for one inside the program.
    pub sha256: Option<String>,
}

/// Everything that decides the film.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The film.
    pub input: Input,
    /// The file name of the result. Its ending decides the container; no file of that name is opened.
    pub output: String,
    /// What was asked for.
    pub request: Request,
    /// Networks.
    pub models: Vec<Model>,
    /// What computes and encodes.
    pub numerics: ResultClass,
    /// Units may come from devices of different kinds.
    pub mix: bool,
    /// What units are encoded as.
    pub segments: SegmentKind,
    /// Frames that units have at most, about.
    pub unit_frames: usize,
    /// The list of shots, by its hash; `None` if they are found.
    pub shots: Option<String>,
}

impl Settings {
    /// What was asked for, and the threads of the encoder.
    pub fn asked(&self) -> (&Request, u32) {
        (&self.request, self.numerics.threads)
    }

    /// Their hash. It tells whether a plan is the one that a command asks for.
    pub fn hash(&self) -> Result<Hash, UnitsError> {
        // Where a file lies and when it was touched says nothing about what is in it; and who asks has not read all of it.
        hash(&Settings { input: self.input.anywhere(), ..self.clone() })
    }
}

/// A unit of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitPlan {
    /// Its shots.
    pub unit: Unit,
    /// When the first frame is shown that the unit reads; `None` if frames are counted from the start of the film.
    pub anchor: Option<i64>,
    /// When its first and its last frame are shown, if that is known.
    pub shown: Option<[i64; 2]>,
    /// Hash of everything that decides its content.
    pub key: Hash,
}

/// A film as units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilmPlan {
    /// The version of this format.
    pub version: u32,
    /// What decides the film.
    pub settings: Settings,
    /// The clock of its frames.
    pub time_base: TimeBase,
    /// Its frames.
    pub frames: usize,
    /// Frames that pieces have at most, about: what is lost when a worker is stopped.
    pub piece_frames: usize,
    /// Units in order.
    pub units: Vec<UnitPlan>,
}

/// What the key of a unit is made of.
#[derive(Serialize)]
struct Action<'a> {
    settings: Hash,
    /// All of the film.
    input: Option<Hash>,
    time_base: TimeBase,
    piece_frames: usize,
    unit: &'a Unit,
    anchor: Option<i64>,
    shown: Option<[i64; 2]>,
}

fn hash(value: &impl Serialize) -> Result<Hash, UnitsError> {
    let bytes = serde_json::to_vec(value).map_err(|error| wrong(error.to_string()))?;
    Ok(Hash::of(&bytes))
}

fn wrong(reason: impl Into<String>) -> UnitsError {
    UnitsError::Plan { reason: reason.into() }
}

/// Reads JSON of the version that this program knows.
pub(crate) fn of_version<T: DeserializeOwned>(known: u32, text: &str) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Head {
        version: u32,
    }
    let Head { version } = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match version == known {
        true => serde_json::from_str(text).map_err(|error| error.to_string()),
        false => Err(format!("it has version {version}, this program knows {known}")),
    }
}

impl FilmPlan {
    /// Cuts a film that was surveyed. `windows` is how the transformer takes long shots, `back` how far the VAE sees back.
    pub fn new(
        settings: Settings,
        survey: &Survey,
        piece_frames: usize,
        windows: &Windows,
        pool: Pool,
        back: LookBack,
    ) -> Result<Self, UnitsError> {
        let units = remaster_restore::units_of(&survey.shots, settings.unit_frames, windows, pool);
        // Times that are asked for, in order: of what a unit reads first, of its first and of its last frame.
        let wanted = |unit: &Unit| {
            let Range { start, end } = unit.frames();
            [unit.read(windows, back).start, start, end.saturating_sub(1)]
        };
        let times = survey.times.at(&units.iter().map(wanted).collect::<Vec<_>>());
        let frames = units.last().map_or(0, |unit| unit.frames().end);
        let settings_hash = settings.hash()?;
        let mut plans = Vec::with_capacity(units.len());
        for (unit, [anchor, start, last]) in units.into_iter().zip(times) {
            let (anchor, shown) = (Some(anchor), Some([start, last]));
            let action = Action {
                settings: settings_hash,
                input: settings.input.sha256,
                time_base: survey.time_base,
                piece_frames,
                unit: &unit,
                anchor,
                shown,
            };
            let key = hash(&action)?;
            plans.push(UnitPlan { unit, anchor, shown, key });
        }
        let plan = FilmPlan {
            version: VERSION,
            settings,
            time_base: survey.time_base,
            frames,
            piece_frames,
            units: plans,
        };
        plan.check()?;
        for (i, planned) in plan.units.iter().enumerate() {
            let pieces = planned.unit.pieces(piece_frames, windows, pool).len();
            if pieces > MOST_PIECES {
                return Err(wrong(format!(
                    "unit {i} has {pieces} pieces, but at most {MOST_PIECES}; use a larger --piece-frames or a smaller \
                     --unit-frames"
                )));
            }
        }
        Ok(plan)
    }

    /// Reads one and checks it.
    pub fn from_json(text: &str) -> Result<Self, UnitsError> {
        let plan: FilmPlan = of_version(VERSION, text).map_err(wrong)?;
        plan.check()?;
        Ok(plan)
    }

    /// As it is written.
    pub fn to_json(&self) -> Result<String, UnitsError> {
        serde_json::to_string(self).map_err(|error| wrong(error.to_string()))
    }

    /// The unit of this number.
    pub fn unit(&self, index: u32) -> Result<&UnitPlan, UnitsError> {
        self.units.get(index as usize).ok_or_else(|| wrong(format!("it has no unit {index}")))
    }

    /// The network for this purpose.
    pub fn model(&self, role: &str) -> Option<&Model> {
        self.settings.models.iter().find(|model| model.role == role)
    }

    /// The file name of the result, without a folder.
    pub fn output(&self) -> &Path {
        Path::new(&self.settings.output)
    }

    fn check(&self) -> Result<(), UnitsError> {
        let Settings { input, output, request, models, numerics, .. } = &self.settings;
        request.check()?;
        if output.is_empty() || output.len() > MOST_NAME || output.contains(['/', '\\', '\0']) {
            return Err(wrong("its output is no file name"));
        }
        if models.len() > MOST_MODELS
            || models.iter().any(|model| model.name.len() > MOST_NAME || model.role.len() > MOST_NAME)
            || input.path.len() > MOST_NAME
        {
            return Err(wrong("it names too many files, or their names are too long"));
        }
        if !ENCODER_THREADS.contains(&numerics.threads) {
            return Err(wrong(format!("its encoder has {} threads instead of 1 to 64", numerics.threads)));
        }
        if input.sha256.is_none() {
            return Err(wrong("it does not say what its input holds"));
        }
        if self.time_base.num == 0 || self.time_base.den == 0 {
            return Err(wrong("its clock stands still"));
        }
        if self.piece_frames == 0 || self.settings.unit_frames == 0 {
            return Err(wrong("its units or pieces have no frames"));
        }
        if self.frames > MOST_FRAMES {
            let frames = self.frames;
            return Err(wrong(format!("it has {frames} frames, but a film has at most {MOST_FRAMES}")));
        }
        let mut next = 0;
        for (i, planned) in self.units.iter().enumerate() {
            let range = planned.unit.frames();
            let frames = range.len();
            if range.start != next || range.is_empty() {
                return Err(wrong(format!("unit {i} does not start where the one before it ends")));
            }
            next = range.end;
            // A range of a shot says how long its shot is.
            let longest = planned.unit.shots.iter().map(|shot| shot.range.shot).max().unwrap_or(0);
            if next > MOST_FRAMES || longest > MOST_FRAMES || frames > MOST_UNIT {
                return Err(wrong(format!(
                    "unit {i} has {frames} frames of a shot of {longest}, but a unit has at most {MOST_UNIT} and a shot \
                     {MOST_FRAMES}"
                )));
            }
            let cuts = frames.div_ceil(self.piece_frames);
            if cuts > MOST_CUTS {
                return Err(wrong(format!(
                    "unit {i} would have {cuts} pieces, but at most {MOST_CUTS}; use a larger --piece-frames"
                )));
            }
            let mut ticks = planned.anchor.into_iter().chain(planned.shown.into_iter().flatten());
            if ticks.any(|tick| tick.unsigned_abs() > LAST_TICK.unsigned_abs()) {
                return Err(wrong(format!("unit {i} is shown at a time that no film has")));
            }
        }
        if next != self.frames || self.units.is_empty() {
            return Err(wrong(format!("its units have {next} frames, but the film has {}", self.frames)));
        }
        Ok(())
    }
}
