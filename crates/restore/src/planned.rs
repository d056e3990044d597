//! A network that was planned.

use remaster_engine::Task;
use remaster_plan::Plan;

/// A network with a clip for it, and how it is to be run.
#[derive(Clone, Copy)]
pub struct Planned<'a> {
    /// The network.
    pub task: &'a Task,
    /// How it is to be run.
    pub plan: &'a Plan,
}
