//! A unit in a file, and what makes one valid.

use remaster_colour::alpha::AlphaKind;
use remaster_plan::ShotRange;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Unit, UnitShot};

/// Shots of a unit at most.
pub(super) const MOST_SHOTS: usize = 1_000_000;

/// Frames of a film at most, and of a shot. Sums and small multiples of such numbers do not overflow.
const MOST_FRAMES: u64 = 1 << 40;

/// Why a unit is none.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum UnitError {
    /// Too few or too many shots.
    #[error("a unit has {shots} shots, but must have 1 to {MOST_SHOTS}; make the plan again")]
    Shots {
        /// Shots that it has.
        shots: usize,
    },
    /// Frames that are not of the shot.
    #[error(
        "shot {shot} of a unit makes frames {from} to {to} of {frames}, but they must be in order and of the shot, \
         which has at most {MOST_FRAMES}; make the plan again"
    )]
    Range {
        /// Which shot, from 1.
        shot: usize,
        /// Its first frame that is made.
        from: u64,
        /// The frame behind the last one.
        to: u64,
        /// Frames that it has.
        frames: u64,
    },
    /// Frames that do not follow one another.
    #[error("shot {shot} of a unit does not go on where the one before ends; make the plan again")]
    Gap {
        /// Which shot, from 1.
        shot: usize,
    },
    /// Frames where no film has any.
    #[error("shot {shot} of a unit is at frame {first} of its film, where it cannot be; make the plan again")]
    Place {
        /// Which shot, from 1.
        shot: usize,
        /// Its first frame that is made.
        first: u64,
    },
}

/// A unit as it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnitSpec {
    /// Its first frame in the film.
    first: u64,
    shots: Vec<ShotSpec>,
}

/// Its shots follow one another. Those that are whole say nothing but their length.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShotSpec {
    frames: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alpha: Option<AlphaKind>,
}

impl From<Unit> for UnitSpec {
    fn from(unit: Unit) -> Self {
        let first = unit.frames().start as u64;
        let shot = |shot: UnitShot| {
            let ShotRange { shot: frames, made } = shot.range;
            ShotSpec {
                frames: frames as u64,
                from: (made.start > 0).then_some(made.start as u64),
                to: (made.end != frames).then_some(made.end as u64),
                alpha: shot.alpha,
            }
        };
        UnitSpec { first, shots: unit.shots.into_iter().map(shot).collect() }
    }
}

impl TryFrom<UnitSpec> for Unit {
    type Error = UnitError;

    fn try_from(spec: UnitSpec) -> Result<Self, UnitError> {
        count(spec.shots.len())?;
        let mut shots = Vec::with_capacity(spec.shots.len());
        let mut next = spec.first;
        for (i, ShotSpec { frames, from, to, alpha }) in spec.shots.into_iter().enumerate() {
            let (from, to) = (from.unwrap_or(0), to.unwrap_or(frames));
            check_range(i, from, to, frames)?;
            place(i, next, from, to)?;
            let size =
                |n: u64| usize::try_from(n).map_err(|_| UnitError::Range { shot: i + 1, from, to, frames });
            let range = ShotRange { shot: size(frames)?, made: size(from)?..size(to)? };
            shots.push(UnitShot { range, first: size(next)?, alpha });
            next += to - from;
        }
        let unit = Unit { shots };
        unit.check()?;
        Ok(unit)
    }
}

impl Unit {
    /// Whether its frames follow one another and are where a film can have them.
    pub fn check(&self) -> Result<(), UnitError> {
        count(self.shots.len())?;
        let mut before: Option<&UnitShot> = None;
        for (i, shot) in self.shots.iter().enumerate() {
            let ShotRange { shot: frames, made } = &shot.range;
            check_range(i, made.start as u64, made.end as u64, *frames as u64)?;
            place(i, shot.first as u64, made.start as u64, made.end as u64)?;
            let follows = before.is_none_or(|before| {
                let (last, whole) = (&before.range, before.range.shot);
                let next = last.made.end == whole && made.start == 0;
                let same = last.made.end == made.start && whole == *frames && made.start > 0;
                before.end() == shot.first && (next || same)
            });
            if !follows {
                return Err(UnitError::Gap { shot: i + 1 });
            }
            before = Some(shot);
        }
        Ok(())
    }
}

fn count(shots: usize) -> Result<(), UnitError> {
    if (1..=MOST_SHOTS).contains(&shots) { Ok(()) } else { Err(UnitError::Shots { shots }) }
}

fn check_range(i: usize, from: u64, to: u64, frames: u64) -> Result<(), UnitError> {
    match from < to && to <= frames && frames <= MOST_FRAMES {
        true => Ok(()),
        false => Err(UnitError::Range { shot: i + 1, from, to, frames }),
    }
}

/// Of a shot whose range was checked.
fn place(i: usize, first: u64, from: u64, to: u64) -> Result<(), UnitError> {
    match first >= from && first <= MOST_FRAMES - (to - from) {
        true => Ok(()),
        false => Err(UnitError::Place { shot: i + 1, first }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(json: &str) -> Result<Unit, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    #[test]
    fn whole_shots_are_short_and_everything_comes_back() {
        let json = r#"{"first":7,"shots":[{"frames":5},{"frames":9,"alpha":"soft"}]}"#;
        let unit = read(json).unwrap();
        assert_eq!(unit.frames(), 7..21);
        assert_eq!(unit.shots[1].alpha, Some(AlphaKind::Soft));
        assert_eq!(serde_json::to_string(&unit).unwrap(), json);
        let json = r#"{"first":160,"shots":[{"frames":900,"from":157,"to":317,"alpha":"binary"}]}"#;
        let unit = read(json).unwrap();
        assert_eq!((unit.frames(), unit.shots[0].shot_start()), (160..320, 3));
        assert_eq!(serde_json::to_string(&unit).unwrap(), json);
    }

    #[test]
    fn what_no_film_can_have_is_refused() {
        let last = u64::MAX;
        let most = 1u64 << 40;
        for (json, why) in [
            (r#"{"first":0,"shots":[]}"#, "1 to 1000000"),
            (r#"{"first":0,"shots":[{"frames":0}]}"#, "shot 1"),
            (r#"{"first":0,"shots":[{"frames":5,"from":3,"to":3}]}"#, "in order"),
            (r#"{"first":0,"shots":[{"frames":5,"from":4,"to":3}]}"#, "in order"),
            (r#"{"first":0,"shots":[{"frames":5,"to":6}]}"#, "of the shot"),
            (r#"{"first":2,"shots":[{"frames":5,"from":3}]}"#, "where it cannot be"),
            (r#"{"first":9,"shots":[{"frames":5,"to":3},{"frames":4}]}"#, "does not go on"),
            (r#"{"first":9,"shots":[{"frames":5,"to":3},{"frames":6,"from":3}]}"#, "does not go on"),
            (r#"{"first":9,"shots":[{"frames":5},{"frames":5,"from":1}]}"#, "does not go on"),
            (&*format!(r#"{{"first":{last},"shots":[{{"frames":1}}]}}"#), "where it cannot be"),
            (&*format!(r#"{{"first":0,"shots":[{{"frames":{last}}}]}}"#), "at most"),
            (
                &*format!(r#"{{"first":0,"shots":[{{"frames":{most}}},{{"frames":1}}]}}"#),
                "where it cannot be",
            ),
            (r#"{"first":-1,"shots":[{"frames":1}]}"#, "-1"),
            (r#"{"first":0,"shots":[{"frames":1}],"more":1}"#, "more"),
            (r#"{"first":0,"shots":[{"frames":1,"more":1}]}"#, "more"),
            (r#"{"first":0,"shots":[{"frames":1,"alpha":"none"}]}"#, "none"),
            (r#"{"shots":[{"frames":1}]}"#, "first"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(why), "{json}: {error}");
        }
        let shots = vec![r#"{"frames":1}"#; MOST_SHOTS];
        let unit = |shots: &[&str]| format!(r#"{{"first":0,"shots":[{}]}}"#, shots.join(","));
        assert_eq!(read(&unit(&shots)).unwrap().frames(), 0..MOST_SHOTS);
        assert!(read(&unit(&[shots, vec![r#"{"frames":1}"#]].concat())).unwrap_err().contains("1000001"));
    }

    #[test]
    fn stretches_of_one_shot_may_follow_one_another() {
        let unit =
            read(r#"{"first":9,"shots":[{"frames":9,"from":1,"to":5},{"frames":9,"from":5}]}"#).unwrap();
        assert_eq!(unit.frames(), 9..17);
    }

    proptest! {
        #[test]
        fn no_numbers_overflow(
            first in any::<u64>(),
            shots in prop::collection::vec(
                (any::<u64>(), prop::option::of(any::<u64>()), prop::option::of(any::<u64>()), 0u32..64),
                0..5,
            ),
            shift in 0u32..64,
        ) {
            let shot = |(frames, from, to, shift): (u64, Option<u64>, Option<u64>, u32)| ShotSpec {
                frames: frames >> shift,
                from: from.map(|n| n >> shift),
                to: to.map(|n| n >> shift),
                alpha: None,
            };
            let spec = UnitSpec { first: first >> shift, shots: shots.into_iter().map(shot).collect() };
            if let Ok(unit) = Unit::try_from(spec) {
                let windows = remaster_plan::Windows::new(45).unwrap();
                let back = remaster_plan::LookBack { encode: 112, decode: 37 };
                let (read, frames) = (unit.read(&windows, back), unit.frames());
                prop_assert!(read.start <= frames.start && read.end >= frames.end);
                prop_assert!(unit.latents(&windows, back) > 0);
                let json = serde_json::to_string(&unit).unwrap();
                prop_assert_eq!(serde_json::from_str::<Unit>(&json).unwrap(), unit);
            }
        }
    }
}
