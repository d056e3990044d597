//! Which device does which unit: the next one that is left, again elsewhere if it failed, and never on a device that
//! fails all the time. Decisions only; `children` starts and watches processes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::error::{Blame, Class, Error};

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
    PassThrough {
        /// Which.
        unit: u32,
    },
}

impl Task {
    pub(super) fn unit(self) -> u32 {
        match self {
            Task::Restore { unit, .. } | Task::PassThrough { unit } => unit,
        }
    }
}

/// Why a process failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// How it failed.
    pub(super) class: Class,
    /// The kind of its error; empty if it did not say one, as when a signal ended it.
    pub(super) kind: String,
    /// The error in words.
    pub(super) reason: String,
    /// It had begun to work on the unit.
    pub(super) began: bool,
}

impl Failure {
    /// Whether no attempt would do better: a wrong setting, damaged data, a full disk that was waited for, a bug.
    fn is_final(&self) -> bool {
        self.kind == "disk-full"
            || (matches!(self.class, Class::Usage | Class::Wrong | Class::Internal) && !self.is_of_device())
    }

    /// Whether the device failed. One that is not known was there when the run began.
    fn is_of_device(&self) -> bool {
        matches!(self.kind.as_str(), "unknown-device" | "device-failed")
    }

    /// Whether it did not come as far as the unit. Too little memory is found out early, and has its own remedy.
    fn is_at_start(&self) -> bool {
        !self.began && self.class != Class::Memory
    }

    fn blame(&self) -> Blame {
        Blame::of(&self.kind, self.class)
    }
}

/// A device of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    /// The card behind it and its driver: two names may be one card.
    pub(super) card: Option<u64>,
}

/// A device.
struct Device {
    named: Named,
    /// What it does now.
    task: Option<Task>,
    /// Failures since the last unit that it did.
    in_a_row: u32,
    /// Nothing is given to it any more.
    disabled: bool,
}

#[derive(Default)]
struct Attempts {
    count: u32,
    /// Devices that failed.
    on: BTreeSet<usize>,
}

/// What follows from a failure after which the run goes on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reaction {
    /// What to report.
    pub(super) warning: Option<String>,
    /// Devices whose processes are to be ended: what they make is not used.
    pub(super) end: Vec<usize>,
}

impl Reaction {
    fn warn(warning: String) -> Self {
        Reaction { warning: Some(warning), end: Vec::new() }
    }
}

/// All devices of a run and what is left to do.
pub(super) struct Scheduler {
    devices: Vec<Device>,
    left: VecDeque<Task>,
    attempts: BTreeMap<u32, Attempts>,
    keep_going: bool,
}

impl Scheduler {
    pub(super) fn new(devices: Vec<Named>, keep_going: bool) -> Self {
        let device = |named| Device { named, task: None, in_a_row: 0, disabled: false };
        Scheduler {
            devices: devices.into_iter().map(device).collect(),
            left: VecDeque::new(),
            attempts: BTreeMap::new(),
            keep_going,
        }
    }

    /// Gives the devices units to do, each from its first attempt on.
    pub(super) fn add(&mut self, units: impl IntoIterator<Item = u32>) {
        self.attempts.clear();
        self.left = units.into_iter().map(|unit| Task::Restore { unit, less: false }).collect();
    }

    /// Whether a device has something to do.
    pub(super) fn is_busy(&self) -> bool {
        self.devices.iter().any(|device| device.task.is_some())
    }

    /// Whether units are left that no device has begun.
    pub(super) fn has_more(&self) -> bool {
        !self.left.is_empty()
    }

    /// Gives work to a device that has none. A unit that failed on it waits for another device, if there is one.
    pub(super) fn next(&mut self) -> Option<(usize, Task)> {
        for device in 0..self.devices.len() {
            if self.devices[device].disabled || self.devices[device].task.is_some() {
                continue;
            }
            let Some(place) = self.left.iter().position(|task| self.suits(device, *task)) else { continue };
            let task = self.left.remove(place)?;
            self.devices[device].task = Some(task);
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
        self.devices.iter().enumerate().filter(|(_, device)| !device.disabled).map(|(number, _)| number)
    }

    /// A device did its unit.
    pub(super) fn done(&mut self, device: usize) {
        let Some(device) = self.devices.get_mut(device) else { return };
        device.task = None;
        device.in_a_row = 0;
    }

    /// A device stopped because it was told to; its unit is left.
    pub(super) fn stopped(&mut self, device: usize) {
        let task = self.devices.get_mut(device).and_then(|device| device.task.take());
        self.left.extend(task);
    }

    /// A device failed. Returns what to do, or why the run ends.
    pub(super) fn failed(&mut self, number: usize, failure: Failure) -> Result<Reaction, Error> {
        let Some(device) = self.devices.get_mut(number) else { return Ok(Reaction::default()) };
        let Some(task) = device.task.take() else { return Ok(Reaction::default()) };
        if device.disabled {
            // Its process was ended with that of another device of the same card.
            self.left.push_front(task);
            return Ok(Reaction::default());
        }
        if failure.blame() == Blame::WrongDevice {
            return self.disable_card(number, task, failure.reason);
        }
        device.in_a_row += 1;
        let (name, in_a_row) = (device.named.name.clone(), device.in_a_row);
        let (unit, reason) = (task.unit(), failure.reason.clone());
        let attempts = self.attempts.entry(unit).or_default();
        attempts.count += 1;
        attempts.on.insert(number);
        let (tries, failed_on) = (attempts.count, attempts.on.clone());
        if failure.is_final() || matches!(task, Task::PassThrough { .. }) {
            return Err(Error::Child { device: name, reason, class: failure.class });
        }
        // If another device has not tried the unit yet, this one may be to blame, else the unit is.
        let others = self.usable().any(|other| !failed_on.contains(&other));
        if others && (failure.is_at_start() || in_a_row >= IN_A_ROW) {
            self.devices[number].disabled = true;
            self.attempts.remove(&unit);
            self.left.push_front(Task::Restore { unit, less: false });
            let warning = format!("{name} is not used any more, the other devices go on: {reason}");
            return Ok(Reaction::warn(warning));
        }
        // A film is not passed through because nothing is left to restore it with.
        if !others && (failure.is_at_start() || (failure.is_of_device() && tries >= TRIES)) {
            return Err(Error::NoDevice { device: name, reason, class: failure.class });
        }
        if tries < TRIES {
            self.left.push_front(Task::Restore { unit, less: tries + 1 >= TRIES });
            let how = if others { "trying another device" } else { "trying again" };
            return Ok(Reaction::warn(format!("unit {unit} failed on {name}, {how}: {reason}")));
        }
        let is_bad_input = failure.blame() == Blame::Input;
        if !(self.keep_going && is_bad_input) {
            return Err(Error::UnitFailed { unit, tries, reason, class: failure.class, is_bad_input });
        }
        // It failed everywhere: no device is to blame.
        self.devices.iter_mut().for_each(|device| device.in_a_row = 0);
        self.left.push_front(Task::PassThrough { unit });
        Ok(Reaction::warn(format!("unit {unit} keeps its input frames: {reason}")))
    }

    /// Takes a card out of the run under all its names. Its units begin anew on other devices.
    fn disable_card(&mut self, number: usize, task: Task, reason: String) -> Result<Reaction, Error> {
        let Named { name, card } = self.devices[number].named.clone();
        let is_same =
            |device: &Device| card.is_some() && device.named.card == card || device.named.name == name;
        self.devices.iter_mut().filter(|device| is_same(device)).for_each(|device| device.disabled = true);
        if self.usable().next().is_none() {
            return Err(Error::LastDeviceWrong { device: name, reason });
        }
        self.attempts.remove(&task.unit());
        self.left.push_front(match task {
            Task::Restore { unit, .. } => Task::Restore { unit, less: false },
            leave @ Task::PassThrough { .. } => leave,
        });
        let is_ended = |device: &Device| device.disabled && device.task.is_some();
        let end = (0..self.devices.len()).filter(|other| is_ended(&self.devices[*other])).collect();
        let warning = format!(
            "{name} is not used any more and what it made is made again, the other devices go on: {reason}"
        );
        Ok(Reaction { warning: Some(warning), end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduler(devices: &[&str], units: u32, keep_going: bool) -> Scheduler {
        let named = |name: &&str| Named { name: (*name).to_owned(), card: None };
        let mut scheduler = Scheduler::new(devices.iter().map(named).collect(), keep_going);
        scheduler.add(0..units);
        scheduler
    }

    fn failure(code: u8, kind: &str, began: bool) -> Failure {
        let class = Class::of_exit_code(code).unwrap();
        Failure { class, kind: kind.into(), reason: "broken".into(), began }
    }

    fn next(scheduler: &mut Scheduler) -> Option<(usize, u32, bool)> {
        scheduler.next().map(|(device, task)| match task {
            Task::Restore { unit, less } => (device, unit, less),
            Task::PassThrough { .. } => panic!("{task:?}"),
        })
    }

    #[test]
    fn a_unit_that_fails_is_tried_elsewhere_and_at_last_with_less() {
        let mut scheduler = scheduler(&["a", "b"], 2, false);
        assert_eq!(
            (next(&mut scheduler), next(&mut scheduler), next(&mut scheduler)),
            (Some((0, 0, false)), Some((1, 1, false)), None)
        );
        let said = scheduler.failed(0, failure(3, "ffmpeg-failed", true)).unwrap().warning.unwrap();
        assert!(said.contains("unit 0 failed on a, trying another device: broken"), "{said}");
        // It waits for the other device.
        assert_eq!(next(&mut scheduler), None);
        scheduler.done(1);
        assert_eq!(next(&mut scheduler), Some((1, 0, false)));
        scheduler.failed(1, failure(3, "ffmpeg-failed", true)).unwrap();
        assert_eq!(next(&mut scheduler), Some((0, 0, true)));
        match scheduler.failed(0, failure(4, "not-enough-memory", true)) {
            Err(Error::UnitFailed { unit: 0, tries: 3, .. }) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_device_that_cannot_start_or_fails_twice_is_set_aside() {
        for at_start in [true, false] {
            let mut scheduler = scheduler(&["bad", "good"], 9, true);
            assert_eq!(
                (next(&mut scheduler), next(&mut scheduler)),
                (Some((0, 0, false)), Some((1, 1, false)))
            );
            if !at_start {
                scheduler.failed(0, failure(5, "device-failed", true)).unwrap();
                assert_eq!(next(&mut scheduler), Some((0, 2, false)));
            }
            let said = scheduler.failed(0, failure(5, "device-failed", !at_start)).unwrap().warning.unwrap();
            assert!(said.contains("bad is not used any more"), "{said}");
            // All others are done by the good one.
            let mut did = 0;
            loop {
                scheduler.done(1);
                did += 1;
                match next(&mut scheduler) {
                    Some((1, _, false)) => {}
                    None => break,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!((did, scheduler.has_more(), scheduler.is_busy()), (9, false, false));
        }
    }

    #[test]
    fn without_a_device_nothing_is_passed_through() {
        let mut scheduler = scheduler(&["a", "b"], 9, true);
        next(&mut scheduler);
        next(&mut scheduler);
        scheduler.failed(0, failure(2, "unknown-device", false)).unwrap();
        match scheduler.failed(1, failure(5, "device-failed", false)) {
            Err(Error::NoDevice { class: Class::Device, .. }) => {}
            other => panic!("{other:?}"),
        }
        let mut scheduler = self::scheduler(&["a"], 9, true);
        for _ in 0..2 {
            next(&mut scheduler);
            scheduler.failed(0, failure(5, "device-failed", true)).unwrap();
        }
        assert_eq!(next(&mut scheduler), Some((0, 0, true)));
        assert!(matches!(
            scheduler.failed(0, failure(5, "device-failed", true)),
            Err(Error::NoDevice { .. })
        ));
    }

    #[test]
    fn what_no_attempt_would_mend_ends_the_run_with_its_own_code() {
        for (code, kind) in
            [(2, "usage"), (6, "not-finite"), (101, "internal"), (4, "disk-full"), (3, "disk-full")]
        {
            let mut scheduler = scheduler(&["a", "b"], 9, true);
            next(&mut scheduler);
            let ended = scheduler.failed(0, failure(code, kind, true)).unwrap_err();
            assert_eq!(ended.class().exit_code(), code, "{kind}");
        }
    }

    #[test]
    fn a_unit_that_fails_everywhere_is_left_only_if_asked_and_blames_no_device() {
        let mut scheduler = scheduler(&["a"], 2, true);
        for _ in 0..3 {
            assert_eq!(next(&mut scheduler).map(|(device, unit, _)| (device, unit)), Some((0, 0)));
            scheduler.failed(0, failure(3, "input-damaged", true)).unwrap();
        }
        assert_eq!(scheduler.next(), Some((0, Task::PassThrough { unit: 0 })));
        scheduler.done(0);
        assert_eq!(next(&mut scheduler), Some((0, 1, false)));
        // Stopped is not failed.
        scheduler.stopped(0);
        assert!(scheduler.has_more() && !scheduler.is_busy());
        assert_eq!(next(&mut scheduler), Some((0, 1, false)));
    }

    #[test]
    fn a_film_is_not_passed_through_for_want_of_a_device_memory_or_disk() {
        for (class, kind) in [
            // Killed by the system, with no word about why.
            (Class::Memory, ""),
            (Class::Device, ""),
            (Class::Memory, "not-enough-memory"),
            (Class::Memory, "image-file"),
            (Class::Device, "other-machine"),
            (Class::Input, "ffmpeg-failed"),
            (Class::Input, "store"),
            (Class::Input, "not-writable"),
        ] {
            let mut scheduler = scheduler(&["a"], 1, true);
            let failure = Failure { class, kind: kind.into(), reason: "broken".into(), began: true };
            for _ in 1..TRIES {
                next(&mut scheduler);
                scheduler.failed(0, failure.clone()).unwrap();
            }
            next(&mut scheduler);
            let ended = scheduler.failed(0, failure).unwrap_err();
            assert!(matches!(ended, Error::UnitFailed { is_bad_input: false, .. }), "{kind}: {ended:?}");
            assert!(!ended.to_string().contains("--keep-going"), "{ended}");
            assert_eq!(ended.class(), class, "{kind}");
        }
    }

    #[test]
    fn a_device_that_computed_wrong_numbers_is_disabled_at_once_under_all_its_names() {
        let card = |name: &str, card| Named { name: name.into(), card };
        let devices =
            vec![card("bad", Some(1)), card("same", Some(1)), card("cpu", None), card("bad", Some(1))];
        let mut scheduler = Scheduler::new(devices, true);
        scheduler.add(0..5);
        let begun: Vec<_> =
            std::iter::from_fn(|| next(&mut scheduler)).map(|(device, unit, _)| (device, unit)).collect();
        assert_eq!(begun, [(0, 0), (1, 1), (2, 2), (3, 3)]);
        let reaction = scheduler.failed(0, failure(5, "device-wrong", true)).unwrap();
        assert!(reaction.warning.unwrap().contains("bad is not used any more"));
        assert_eq!(reaction.end, [1, 3]);
        // What was under way on them is begun anew, whatever they say.
        assert_eq!(scheduler.failed(1, failure(4, "", true)).unwrap(), Reaction::default());
        assert_eq!(scheduler.failed(3, failure(3, "input-damaged", true)).unwrap(), Reaction::default());
        for unit in [3, 1, 0, 4] {
            scheduler.done(2);
            assert_eq!(next(&mut scheduler), Some((2, unit, false)));
        }
        scheduler.done(2);
        assert!(!scheduler.has_more() && !scheduler.is_busy());
        // They stay out of the run when units turn out to be undone.
        scheduler.add([0]);
        assert_eq!(next(&mut scheduler), Some((2, 0, false)));
        match scheduler.failed(2, failure(5, "device-wrong", true)) {
            Err(error @ Error::LastDeviceWrong { .. }) => {
                assert_eq!((error.kind(), error.class()), ("device-wrong", Class::Device));
            }
            other => panic!("{other:?}"),
        }
    }
}
