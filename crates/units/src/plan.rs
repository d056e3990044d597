//! What all work on a film follows. A plan never changes: other settings are another plan.

use std::ops::Range;
use std::path::Path;

use remaster_media::{SegmentKind, TimeBase};
use remaster_plan::{LookBack, Windows};
use remaster_restore::{Pool, Unit};
use remaster_store::Hash;
use serde::{Deserialize, Serialize};

use crate::error::UnitsError;
use crate::input::Input;
use crate::numerics::Numerics;
use crate::survey::Survey;

/// The version of plans that this program writes and reads.
const VERSION: u32 = 1;

/// Settings that a plan may have at most, and their bytes.
const MOST_WORDS: usize = 256;
const MOST_WORD: usize = 16 << 10;

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
    /// Where the result goes. Its ending decides the container.
    pub output: String,
    /// Options as they are typed, in one way of writing them.
    pub words: Vec<String>,
    /// Networks.
    pub models: Vec<Model>,
    /// What computes and encodes.
    pub numerics: Numerics,
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
    /// These settings as a machine with other free memory had them: units may be shorter and encoders have fewer threads, and
    /// whoever goes on with them keeps to that.
    pub fn as_in(&self, other: &Settings) -> Settings {
        let numerics = Numerics { threads: other.numerics.threads, ..self.numerics.clone() };
        Settings { unit_frames: other.unit_frames, numerics, ..self.clone() }
    }

    /// Their hash. It tells whether a plan is the one that a command asks for.
    pub fn hash(&self) -> Result<Hash, UnitsError> {
        // Where a file lies and when it was touched says nothing about what is in it.
        let input = Input { path: String::new(), modified: None, ..self.input.clone() };
        hash(&Settings { input, ..self.clone() })
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
        let mut wanted = Vec::with_capacity(3 * units.len());
        for unit in &units {
            let Range { start, end } = unit.frames();
            wanted.push([unit.read(windows, back).start, start, end.saturating_sub(1)]);
        }
        let frames = units.last().map_or(0, |unit| unit.frames().end);
        let times = survey.times.as_ref().map(|times| times.at(&wanted));
        let settings_hash = settings.hash()?;
        let mut plans = Vec::with_capacity(units.len());
        for (i, unit) in units.into_iter().enumerate() {
            let [anchor, start, last] = times.as_ref().and_then(|t| t.get(i).copied()).unwrap_or_default();
            let known = times.is_some();
            let (anchor, shown) = (known.then_some(anchor), known.then_some([start, last]));
            let action = Action {
                settings: settings_hash,
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
        Ok(plan)
    }

    /// Reads one and checks it.
    pub fn from_json(text: &str) -> Result<Self, UnitsError> {
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if head.version != VERSION {
            return Err(wrong(format!("it has version {}, this program knows {VERSION}", head.version)));
        }
        let plan: FilmPlan = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
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

    /// The file name of the result.
    pub fn output(&self) -> &Path {
        Path::new(&self.settings.output)
    }

    fn check(&self) -> Result<(), UnitsError> {
        let words = &self.settings.words;
        if words.len() > MOST_WORDS || words.iter().any(|word| word.len() > MOST_WORD) {
            return Err(wrong("it has too many settings"));
        }
        if self.time_base.num == 0 || self.time_base.den == 0 {
            return Err(wrong("its clock stands still"));
        }
        if self.piece_frames == 0 || self.settings.unit_frames == 0 {
            return Err(wrong("its units or pieces have no frames"));
        }
        let mut next = 0;
        for (i, unit) in self.units.iter().enumerate() {
            let range = unit.unit.frames();
            if range.start != next || range.is_empty() {
                return Err(wrong(format!("unit {i} does not start where the one before it ends")));
            }
            next = range.end;
        }
        if next != self.frames || self.units.is_empty() {
            return Err(wrong(format!("its units have {next} frames, but the film has {}", self.frames)));
        }
        Ok(())
    }
}
