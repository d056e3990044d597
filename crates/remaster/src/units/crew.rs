//! Which device does which unit: the next one that is left, again elsewhere if it failed, and never on a device that
//! fails all the time. Decisions only; `children` starts and watches processes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::error::{Class, Error};

/// Attempts at a unit. The last one is made with less memory.
const TRIES: u32 = 3;

/// Failures in a row that are no accident.
const IN_A_ROW: u32 = 2;

/// What a device is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Restore a unit.
    Restore {
        /// Which.
        unit: u32,
        /// With half the memory.
        less: bool,
    },
    /// Give a unit the frames of the input.
    Leave {
        /// Which.
        unit: u32,
    },
}

impl Task {
    pub(super) fn unit(self) -> u32 {
        match self {
            Task::Restore { unit, .. } | Task::Leave { unit } => unit,
        }
    }
}

/// Why a process failed.
#[derive(Clone, Debug, Default)]
pub(super) struct Failure {
    /// How it failed; `None` if a signal ended it.
    pub(super) class: Option<Class>,
    /// The kind of its error.
    pub(super) kind: String,
    /// What it said.
    pub(super) reason: String,
    /// It had begun to work on the unit.
    pub(super) began: bool,
}

impl Failure {
    /// Whether no attempt would do better: a wrong setting, damaged data, a full disk that was waited for, a bug.
    fn is_final(&self) -> bool {
        self.kind == "disk-full"
            || (matches!(self.class, Some(Class::Usage | Class::Wrong | Class::Internal))
                && !self.is_of_device())
    }

    /// Whether the device failed. One that is not known was there when the run began.
    fn is_of_device(&self) -> bool {
        matches!(self.kind.as_str(), "unknown-device" | "device-failed")
    }

    /// Whether it did not come as far as the unit. Too little memory is found out early, and has its own remedy.
    fn is_at_start(&self) -> bool {
        !self.began && self.class != Some(Class::Memory)
    }
}

/// A device.
struct Member {
    name: String,
    /// What it does now.
    task: Option<Task>,
    /// Failures since the last unit that it did.
    in_a_row: u32,
    /// Nothing is given to it any more.
    aside: bool,
}

#[derive(Default)]
struct Attempts {
    count: u32,
    /// Devices that failed.
    on: BTreeSet<usize>,
}

/// All devices of a run and what is left to do.
pub(super) struct Crew {
    members: Vec<Member>,
    left: VecDeque<Task>,
    attempts: BTreeMap<u32, Attempts>,
    keep_going: bool,
}

impl Crew {
    pub(super) fn new(names: &[String], units: Vec<u32>, keep_going: bool) -> Self {
        let member = |name: &String| Member { name: name.clone(), task: None, in_a_row: 0, aside: false };
        Crew {
            members: names.iter().map(member).collect(),
            left: units.into_iter().map(|unit| Task::Restore { unit, less: false }).collect(),
            attempts: BTreeMap::new(),
            keep_going,
        }
    }

    /// Whether a device has something to do.
    pub(super) fn is_busy(&self) -> bool {
        self.members.iter().any(|member| member.task.is_some())
    }

    /// Whether units are left that no device has begun.
    pub(super) fn has_more(&self) -> bool {
        !self.left.is_empty()
    }

    /// Gives work to a device that has none. A unit that failed on it waits for another device, if there is one.
    pub(super) fn next(&mut self) -> Option<(usize, Task)> {
        for device in 0..self.members.len() {
            if self.members[device].aside || self.members[device].task.is_some() {
                continue;
            }
            let Some(place) = self.left.iter().position(|task| self.suits(device, *task)) else { continue };
            let task = self.left.remove(place)?;
            self.members[device].task = Some(task);
            return Some((device, task));
        }
        None
    }

    fn suits(&self, device: usize, task: Task) -> bool {
        let failed = |device: usize| {
            self.attempts.get(&task.unit()).is_some_and(|attempts| attempts.on.contains(&device))
        };
        !failed(device) || self.usable().all(failed)
    }

    fn usable(&self) -> impl Iterator<Item = usize> {
        self.members.iter().enumerate().filter(|(_, member)| !member.aside).map(|(device, _)| device)
    }

    /// A device did its unit.
    pub(super) fn done(&mut self, device: usize) {
        let Some(member) = self.members.get_mut(device) else { return };
        member.task = None;
        member.in_a_row = 0;
    }

    /// A device stopped because it was told to; its unit is left.
    pub(super) fn stopped(&mut self, device: usize) {
        let task = self.members.get_mut(device).and_then(|member| member.task.take());
        self.left.extend(task);
    }

    /// A device failed. Returns what to report, or why the run ends.
    pub(super) fn failed(&mut self, device: usize, failure: Failure) -> Result<String, Error> {
        let Some(member) = self.members.get_mut(device) else { return Ok(String::new()) };
        let Some(task) = member.task.take() else { return Ok(String::new()) };
        member.in_a_row += 1;
        let (name, in_a_row) = (member.name.clone(), member.in_a_row);
        let (unit, reason) = (task.unit(), failure.reason.clone());
        let attempts = self.attempts.entry(unit).or_default();
        attempts.count += 1;
        attempts.on.insert(device);
        let (tries, failed_on) = (attempts.count, attempts.on.clone());
        if failure.is_final() || matches!(task, Task::Leave { .. }) {
            return Err(Error::Child { device: name, reason, class: failure.class.unwrap_or(Class::Input) });
        }
        // If another device has not tried the unit yet, this one may be to blame, else the unit is.
        let others = self.usable().any(|other| !failed_on.contains(&other));
        if others && (failure.is_at_start() || in_a_row >= IN_A_ROW) {
            self.members[device].aside = true;
            self.attempts.remove(&unit);
            self.left.push_front(Task::Restore { unit, less: false });
            return Ok(format!("{name} is not used any more, the other devices go on: {reason}"));
        }
        // A film is not passed through because nothing is left to restore it with.
        if !others && (failure.is_at_start() || (failure.is_of_device() && tries >= TRIES)) {
            return Err(Error::NoDevice {
                device: name,
                reason,
                class: failure.class.unwrap_or(Class::Device),
            });
        }
        if tries < TRIES {
            self.left.push_front(Task::Restore { unit, less: tries + 1 >= TRIES });
            let how = if others { "trying another device" } else { "trying again" };
            return Ok(format!("unit {unit} failed on {name}, {how}: {reason}"));
        }
        if !self.keep_going {
            return Err(Error::UnitFailed { unit, tries, reason });
        }
        // It failed everywhere: no device is to blame.
        self.members.iter_mut().for_each(|member| member.in_a_row = 0);
        self.left.push_front(Task::Leave { unit });
        Ok(format!("unit {unit} keeps its input frames: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crew(devices: &[&str], units: u32, keep_going: bool) -> Crew {
        let names: Vec<String> = devices.iter().map(|name| (*name).to_owned()).collect();
        Crew::new(&names, (0..units).collect(), keep_going)
    }

    fn failure(code: u8, kind: &str, began: bool) -> Failure {
        Failure { class: Class::of_exit_code(code), kind: kind.into(), reason: "broken".into(), began }
    }

    fn next(crew: &mut Crew) -> Option<(usize, u32, bool)> {
        crew.next().map(|(device, task)| match task {
            Task::Restore { unit, less } => (device, unit, less),
            Task::Leave { .. } => panic!("{task:?}"),
        })
    }

    #[test]
    fn a_unit_that_fails_is_tried_elsewhere_and_at_last_with_less() {
        let mut crew = crew(&["a", "b"], 2, false);
        assert_eq!(
            (next(&mut crew), next(&mut crew), next(&mut crew)),
            (Some((0, 0, false)), Some((1, 1, false)), None)
        );
        let said = crew.failed(0, failure(3, "ffmpeg-failed", true)).unwrap();
        assert!(said.contains("unit 0 failed on a, trying another device: broken"), "{said}");
        // It waits for the other device.
        assert_eq!(next(&mut crew), None);
        crew.done(1);
        assert_eq!(next(&mut crew), Some((1, 0, false)));
        crew.failed(1, failure(3, "ffmpeg-failed", true)).unwrap();
        assert_eq!(next(&mut crew), Some((0, 0, true)));
        match crew.failed(0, failure(4, "not-enough-memory", true)) {
            Err(Error::UnitFailed { unit: 0, tries: 3, .. }) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_device_that_cannot_start_or_fails_twice_is_set_aside() {
        for at_start in [true, false] {
            let mut crew = crew(&["bad", "good"], 9, true);
            assert_eq!((next(&mut crew), next(&mut crew)), (Some((0, 0, false)), Some((1, 1, false))));
            if !at_start {
                crew.failed(0, failure(5, "device-failed", true)).unwrap();
                assert_eq!(next(&mut crew), Some((0, 2, false)));
            }
            let said = crew.failed(0, failure(5, "device-failed", !at_start)).unwrap();
            assert!(said.contains("bad is not used any more"), "{said}");
            // All others are done by the good one.
            let mut did = 0;
            loop {
                crew.done(1);
                did += 1;
                match next(&mut crew) {
                    Some((1, _, false)) => {}
                    None => break,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!((did, crew.has_more(), crew.is_busy()), (9, false, false));
        }
    }

    #[test]
    fn without_a_device_nothing_is_passed_through() {
        let mut crew = crew(&["a", "b"], 9, true);
        next(&mut crew);
        next(&mut crew);
        crew.failed(0, failure(2, "unknown-device", false)).unwrap();
        match crew.failed(1, failure(5, "device-failed", false)) {
            Err(Error::NoDevice { class: Class::Device, .. }) => {}
            other => panic!("{other:?}"),
        }
        let mut crew = self::crew(&["a"], 9, true);
        for _ in 0..2 {
            next(&mut crew);
            crew.failed(0, failure(5, "device-failed", true)).unwrap();
        }
        assert_eq!(next(&mut crew), Some((0, 0, true)));
        assert!(matches!(crew.failed(0, failure(5, "device-failed", true)), Err(Error::NoDevice { .. })));
    }

    #[test]
    fn what_no_attempt_would_mend_ends_the_run_with_its_own_code() {
        for (code, kind) in
            [(2, "usage"), (6, "not-finite"), (101, "internal"), (4, "disk-full"), (3, "disk-full")]
        {
            let mut crew = crew(&["a", "b"], 9, true);
            next(&mut crew);
            let ended = crew.failed(0, failure(code, kind, true)).unwrap_err();
            assert_eq!(ended.class().exit_code(), code, "{kind}");
        }
    }

    #[test]
    fn a_unit_that_fails_everywhere_is_left_only_if_asked_and_blames_no_device() {
        let mut crew = crew(&["a"], 2, true);
        for _ in 0..3 {
            assert_eq!(next(&mut crew).map(|(device, unit, _)| (device, unit)), Some((0, 0)));
            crew.failed(0, failure(3, "input-damaged", true)).unwrap();
        }
        assert_eq!(crew.next(), Some((0, Task::Leave { unit: 0 })));
        crew.done(0);
        assert_eq!(next(&mut crew), Some((0, 1, false)));
        // Stopped is not failed.
        crew.stopped(0);
        assert!(crew.has_more() && !crew.is_busy());
        assert_eq!(next(&mut crew), Some((0, 1, false)));
    }
}
