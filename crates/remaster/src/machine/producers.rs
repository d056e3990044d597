//! Whose work is in the records of units.

use remaster_compute::Backend;
use remaster_store::{Journal, Producer};

use super::host::Machine;
use crate::error::Error;

/// What the work of a device is called, if it may turn out to be wrong.
pub(crate) fn producer(backend: &Backend, machine: &Machine) -> Option<Producer> {
    #[cfg(feature = "gpu")]
    return super::monitor::producer(backend, machine);
    #[cfg(not(feature = "gpu"))]
    {
        let _ = (backend, machine);
        None
    }
}

/// Refuses a device that another process found wrong meanwhile.
pub(crate) fn refuse_wrong(backend: &Backend, machine: &Machine) -> Result<(), Error> {
    #[cfg(feature = "gpu")]
    if let Backend::Gpu(device) = backend {
        super::monitor::refuse_wrong(*device, machine)?;
    }
    #[cfg(not(feature = "gpu"))]
    let _ = (backend, machine);
    Ok(())
}

/// Makes what devices of this machine made before they were found wrong count as damaged: a run that was killed when it was
/// found could not say so.
pub(crate) fn distrust(journal: &Journal, machine: &Machine) -> Result<(), Error> {
    #[cfg(feature = "gpu")]
    super::verdict::untrusted(machine).iter().try_for_each(|producer| journal.distrust(producer))?;
    #[cfg(not(feature = "gpu"))]
    let _ = (journal, machine);
    Ok(())
}
