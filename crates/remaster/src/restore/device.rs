//! The device of a restoration.

use remaster_compute::DType;

use crate::control::Control;
use crate::device::Device;
use crate::error::Error;
use crate::event::Reporter;
use crate::limits::{Limits, Room};
use crate::request::Restoration;
use crate::site::Site;

/// Opens the device of a restoration. Where there is no network nothing is opened: the CPU finishes frames.
pub(super) fn open(
    how: &Restoration,
    room: &Room<'_>,
    control: &Control,
    report: Option<&Reporter<'_>>,
) -> Result<Site, Error> {
    if how.models.has_no_network() {
        let device = Device { dtype: Some(DType::F32), ..Device::named("cpu") };
        let limits = Limits { vram: None, ..how.limits.clone() };
        return Site::open(&device, &limits, room, control, None);
    }
    let first = report.map(|report| (how.models.is_upscaler(), report));
    Site::open(&how.device.settle(room.machine)?, &how.limits, room, control, first)
}
