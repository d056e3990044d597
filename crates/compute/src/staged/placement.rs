//! Which memory a tensor lives in.

/// A memory that tensors live in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The device's arena: ops use it as it is.
    Device,
    /// Host memory: rows go to the device and back.
    Host,
    /// The spill file.
    File,
}

/// Tiers by size: small tensors stay close, large ones go far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Tensors of up to this many bytes stay on the device.
    pub device: u64,
    /// Larger ones of up to this many bytes go to host memory, all others to the file.
    pub host: u64,
}

impl Rule {
    /// Everything on the device.
    pub const DEVICE: Rule = Rule { device: u64::MAX, host: u64::MAX };

    /// Where a tensor of `bytes` bytes goes.
    pub fn tier(&self, bytes: u64) -> Tier {
        match bytes {
            b if b <= self.device => Tier::Device,
            b if b <= self.host => Tier::Host,
            _ => Tier::File,
        }
    }
}

/// Where everything lives, and in how many stripes of rows an op goes through the device whose operands
/// do not all live there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Tensors that die with their slice.
    pub activations: Rule,
    /// Tensors that are kept for the next slice.
    pub state: Rule,
    /// Load each weight before the op that needs it and give its memory back behind it.
    pub stream_weights: bool,
    /// Of streamed weights, read those of the next layer while this one computes: that takes room for two layers.
    pub read_ahead: bool,
    /// Stripes of an op; at least 1.
    pub stripes: usize,
    /// See `Ops::group`.
    pub group: usize,
}

impl Placement {
    /// Everything on the device, weights included.
    pub const DEVICE: Placement = Placement {
        activations: Rule::DEVICE,
        state: Rule::DEVICE,
        stream_weights: false,
        read_ahead: false,
        stripes: 1,
        group: usize::MAX,
    };
}
