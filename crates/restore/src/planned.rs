//! A network that was planned, and the listener of its run.

use remaster_engine::{Event, Task};
use remaster_plan::Plan;

/// Told of everything that happens in a run.
pub(crate) type Events<'a> = &'a mut dyn FnMut(Event<'_>);

/// A network with a clip for it, and how it is to be run.
#[derive(Clone, Copy)]
pub struct Planned<'a> {
    /// The network.
    pub task: &'a Task,
    /// How it is to be run.
    pub plan: &'a Plan,
}
