//! What can go wrong in the op set. Every message names the value and what would be allowed.

use thiserror::Error;

/// An error of the op set.
#[derive(Debug, Error)]
pub enum ComputeError {
    /// The arena has no room left for a buffer.
    #[error(
        "the {arena} arena is full: {requested} bytes asked for, {live} of {cap} bytes in use \
         (largest free piece {largest}); use a larger memory budget, a shorter slice or a smaller frame"
    )]
    OutOfMemory {
        /// Which arena refused.
        arena: &'static str,
        /// Bytes asked for.
        requested: u64,
        /// Bytes in use.
        live: u64,
        /// The hard cap.
        cap: u64,
        /// Largest piece that could have been handed out.
        largest: u64,
    },
    /// The operating system would not give the arena its memory.
    #[error("the system refused {bytes} bytes for the arena; close other programs or use a smaller budget")]
    HostMemory {
        /// Bytes asked for.
        bytes: u64,
    },
    /// An op was called with operands that do not fit together.
    #[error("{op}: {what} is {got}, expected {expected}")]
    Shape {
        /// Name of the op.
        op: &'static str,
        /// Which operand or number.
        what: &'static str,
        /// What was given.
        got: String,
        /// What would fit.
        expected: String,
    },
    /// A buffer of another arena was passed to an op.
    #[error("{op}: {what} belongs to another arena; copy it to this backend first")]
    Foreign {
        /// Name of the op.
        op: &'static str,
        /// Which operand.
        what: &'static str,
    },
    /// An op needs a weight that is not loaded.
    #[error("weight `{name}` is not loaded; call load before the ops that use it")]
    NotResident {
        /// Name of the weight.
        name: String,
    },
    /// Statistics were to be taken from a record that lacks them.
    #[error("there are no recorded statistics for layer `{name}`; this is a bug: please report it")]
    NoStatistics {
        /// Name of the layer.
        name: String,
    },
    /// A weight's values could not be read.
    #[error("weight `{name}` cannot be read")]
    Source {
        /// Name of the weight.
        name: String,
        /// Why.
        #[source]
        source: SourceError,
    },
    /// A weight's values do not come.
    #[error(
        "weight `{name}` did not come: nothing was read for {seconds} s; check the disk or network it is on"
    )]
    Stalled {
        /// Name of the weight.
        name: String,
        /// How long was waited.
        seconds: u64,
    },
    /// A store beside the device failed.
    #[error(
        "cannot {action} the spilled data: {reason}; free some disk space or choose another folder for it"
    )]
    Store {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        reason: String,
    },
    /// A store gave back other bytes than were written.
    #[error("spilled data is damaged at byte {offset}; the disk or the memory of this machine is failing")]
    Corrupt {
        /// Where in the store.
        offset: u64,
    },
    /// The worker threads could not be started.
    #[error("cannot start {threads} worker threads: {reason}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
    /// A GPU could not be opened, or its driver refused a command.
    #[error("device {device} failed: {reason}; update its driver, or use --device cpu")]
    Device {
        /// Which one.
        device: String,
        /// What the driver said.
        reason: String,
    },
    /// A GPU stopped answering; what was enqueued is lost.
    #[error(
        "device {device} was lost: {reason}; run again with a smaller memory budget, or use --device cpu"
    )]
    DeviceLost {
        /// Which one.
        device: String,
        /// What the driver said.
        reason: String,
    },
    /// A GPU computed something else than the naive loops.
    #[error(
        "device {device} computes wrong numbers: {reason}; update its driver, or use --device cpu; frames that it made are not to be trusted"
    )]
    DeviceWrong {
        /// Which one.
        device: String,
        /// What differed.
        reason: String,
    },
    /// A driver moved the memory of a GPU to the host's.
    #[error(
        "device {device} reads its memory at {} MB/s, {} MB/s before: its driver moved it to host memory; close other programs or use a smaller memory budget",
        rate / 1_000_000,
        best / 1_000_000
    )]
    DeviceSwaps {
        /// Which one.
        device: String,
        /// Bytes a second now.
        rate: u64,
        /// Bytes a second at best.
        best: u64,
    },
    /// A GPU has no room for the arena.
    #[error(
        "device {device} has no room for {bytes} bytes; close other programs or use a smaller memory budget"
    )]
    DeviceMemory {
        /// Which one.
        device: String,
        /// Bytes asked for.
        bytes: u64,
    },
    /// A GPU cannot reach an arena of this size.
    #[error(
        "device {device} would have to bind {windows} buffers of {bytes} bytes at once, {most} at most; use a smaller memory budget, which cuts frames into smaller parts"
    )]
    DeviceBindings {
        /// Which one.
        device: String,
        /// Buffers that a kernel would be given.
        windows: usize,
        /// Bytes of each at most.
        bytes: u64,
        /// Buffers that a kernel can be given.
        most: u32,
    },
    /// The run was cancelled; what was enqueued before is incomplete.
    #[error("cancelled")]
    Cancelled,
}

/// Why the values of a weight could not be read.
#[derive(Clone, Debug, Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// What the op set returns.
pub type Result<T, E = ComputeError> = std::result::Result<T, E>;

/// `Err(Shape)` unless `ok`.
pub(crate) fn ensure(
    ok: bool,
    op: &'static str,
    what: &'static str,
    got: impl ToString,
    expected: impl ToString,
) -> Result<()> {
    if ok { Ok(()) } else { Err(mismatch(op, what, got, expected)) }
}

/// `what` of `op` is `got` where `expected` would fit.
pub(crate) fn mismatch(
    op: &'static str,
    what: &'static str,
    got: impl ToString,
    expected: impl ToString,
) -> ComputeError {
    ComputeError::Shape { op, what, got: got.to_string(), expected: expected.to_string() }
}
