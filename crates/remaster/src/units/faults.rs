//! Units that fail when a test says so, as real ones do: no part of a release.

use std::time::Duration;

use remaster_compute::ComputeError;
use remaster_engine::Event;
use remaster_media::MediaError;
use remaster_units::UnitsError;

use crate::device::Device;
use crate::error::Error;
use crate::limits::Limits;

/// `KIND:WHERE`, where the place is the beginning of a device's name or the number of a unit.
const VARIABLE: &str = "REMASTER_TEST_UNIT";

fn asked() -> Option<(String, String)> {
    let text = std::env::var(VARIABLE).ok()?;
    let (kind, place) = text.split_once(':').unwrap_or((&text, ""));
    Some((kind.to_owned(), place.to_owned()))
}

fn gone(device: &str) -> Result<(), Error> {
    Err(ComputeError::DeviceLost { device: device.into(), reason: "the device is gone".into() }.into())
}

/// Fails before anything is opened.
pub(super) fn at_start(device: &Device) -> Result<(), Error> {
    let device = device.name.as_deref().unwrap_or("auto");
    match asked() {
        Some((kind, place)) if kind == "start" && device.starts_with(&place) => gone(device),
        Some((kind, _)) if kind == "words" => {
            let words: Vec<_> = std::env::args_os().map(|word| word.display().to_string()).collect();
            Err(UnitsError::Plan { reason: words.join(" ") }.into())
        }
        _ => Ok(()),
    }
}

/// Fails when the work on a unit has begun.
pub(super) fn at_work(device: &Device, limits: &Limits, unit: u32, leave: bool) -> Result<(), Error> {
    let device = device.name.as_deref().unwrap_or("auto");
    let path = std::path::PathBuf::from("film");
    let Some((kind, place)) = asked() else { return Ok(()) };
    match kind.as_str() {
        "unit" if place == unit.to_string() && !leave => {
            let reason = format!("it has ram {:?}", limits.ram);
            Err(MediaError::Damaged { path, frame: 0, reason }.into())
        }
        _ if !device.starts_with(&place) => Ok(()),
        "device" => gone(device),
        "wrong" => {
            Err(ComputeError::DeviceWrong { device: device.into(), reason: "conv is off".into() }.into())
        }
        "abort" => std::process::abort(),
        "usage" => Err(Error::NoEffect { flag: "--no-such-thing", what: "a unit" }),
        "damage" => Err(Error::Verify { path, reason: "it is damaged".into() }),
        "full" => Err(Error::Full { folder: path }),
        #[expect(clippy::panic, reason = "shows how the panic of a child ends")]
        "panic" => panic!("asked for by {VARIABLE}"),
        _ => Ok(()),
    }
}

/// Makes each slice take a while.
pub(super) fn slow(event: &Event<'_>) {
    if matches!(event, Event::SliceDone { .. }) && asked().is_some_and(|(kind, _)| kind == "slow") {
        std::thread::sleep(Duration::from_millis(200));
    }
}
