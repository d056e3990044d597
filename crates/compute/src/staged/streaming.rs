//! Weights that come and go: while an op computes, those of the next one are read.
//!
//! The order of use is the order in which they were given to `load`; behind the last one the first comes again. The
//! first layer stays: at the start and end of a pass nothing is on its way then, the arena is the same each time, and
//! what one pass takes is what every pass takes. In the VAE the first layer is under 2 MB.
//!
//! Weights of a section stay until one of another section is used: they are used again and again. What is read ahead is
//! then the next section.

use crate::error::Result;
use crate::ops::Ops;
use crate::weight::Weight;

#[derive(Default)]
pub(super) struct Streaming {
    read_ahead: bool,
    order: Vec<Weight>,
    /// Weights of the first layer, which stay.
    first: usize,
    /// Place in the order of the weight that should be used next.
    next: usize,
    /// Places of those that are on their way.
    ahead: Vec<usize>,
    /// Weights of the section at work that were used.
    held: Vec<Weight>,
}

/// Of a layer's bytes, the part that what is used right behind it may add: its shortcut, the next normalisation.
const BESIDE: u64 = 8;

impl Streaming {
    pub(super) fn new(read_ahead: bool) -> Self {
        Streaming { read_ahead, ..Streaming::default() }
    }

    /// Adds a weight behind those that are known; one that is used twice in a pass comes twice.
    pub(super) fn push(&mut self, device: &mut dyn Ops, weight: &Weight) -> Result<()> {
        if !self.read_ahead {
            return Ok(());
        }
        let place = self.order.len();
        self.order.push(weight.clone());
        if self.layer(device, 0) == self.order.len() {
            device.load(weight)?;
            self.first = place + 1;
        }
        Ok(())
    }

    /// Loads what an op uses, and starts reading what is used behind it.
    pub(super) fn begin(&mut self, device: &mut dyn Ops, used: &[Option<&Weight>]) -> Result<()> {
        let used = used.iter().flatten();
        self.leave_section(device, used.clone().copied());
        used.clone().try_for_each(|w| device.load(w))?;
        for weight in used.clone().filter(|w| w.section().is_some()) {
            if !self.held.iter().any(|held| held.same_as(weight)) {
                self.held.push((*weight).clone());
            }
        }
        let count = self.order.len();
        let steps = |w: &Weight| (0..count).find(|n| self.order[(self.next + n) % count].same_as(w));
        if let Some(most) = used.clone().filter_map(|w| steps(w)).max() {
            self.next = (self.next + most + 1) % count;
        }
        self.ahead.retain(|i| !used.clone().any(|w| w.same_as(&self.order[*i])));
        let wanted = self.wanted(device);
        // After a step back or a leap what is on its way is not what is needed.
        for i in self.ahead.iter().filter(|i| !wanted.contains(i)) {
            device.evict(&self.order[*i]);
        }
        self.ahead.retain(|i| wanted.contains(i));
        for i in wanted {
            if !self.ahead.contains(&i) {
                device.prefetch(&self.order[i])?;
                self.ahead.push(i);
            }
        }
        Ok(())
    }

    /// Gives back the weights of the section at work, if others are used now.
    fn leave_section<'a>(&mut self, device: &mut dyn Ops, used: impl Iterator<Item = &'a Weight>) {
        let section = self.held.first().and_then(|w| w.section());
        let others = used.map(|w| w.section()).any(|other| other != section);
        if !others {
            return;
        }
        for weight in std::mem::take(&mut self.held) {
            self.ahead.retain(|i| !self.order[*i].same_as(&weight));
            if !self.stays(&weight) {
                device.evict(&weight);
            }
        }
    }

    fn stays(&self, weight: &Weight) -> bool {
        (0..self.first).chain(self.ahead.iter().copied()).any(|i| self.order[i].same_as(weight))
    }

    /// Places of what should be on its way: the layer behind what was used last, or what is left of its section and the
    /// next one.
    fn wanted(&self, device: &dyn Ops) -> std::ops::Range<usize> {
        if self.next == 0 {
            return 0..0;
        }
        let from = self.next.max(self.first);
        let section = self.held.first().and_then(|w| w.section());
        let of_section = |i: &usize| section.is_some() && self.order[*i].section() == section;
        let next = (from..self.order.len()).find(|i| !of_section(i)).unwrap_or(self.order.len());
        from..self.layer(device, next)
    }

    /// Gives back what an op used.
    pub(super) fn end(&self, device: &mut dyn Ops, used: &[Option<&Weight>]) {
        let needed = |w: &Weight| w.section().is_some() || self.stays(w);
        used.iter().flatten().filter(|w| !needed(w)).for_each(|w| device.evict(w));
    }

    /// End of the layer that starts at a place: up to the next weight that is multiplied, and what follows it as long
    /// as it is small.
    fn layer(&self, device: &dyn Ops, start: usize) -> usize {
        if let Some(section) = self.order.get(start).and_then(|w| w.section()) {
            let other = self.order.iter().skip(start).position(|w| w.section() != Some(section));
            return other.map_or(self.order.len(), |n| start + n);
        }
        let (mut bytes, mut beside, mut whole) = (0u64, 0u64, false);
        for (i, weight) in self.order.iter().enumerate().skip(start) {
            let more = device.weight_bytes(&weight.spec());
            if !whole {
                bytes = bytes.saturating_add(more);
                whole = weight.spec().is_matrix();
            } else {
                beside = beside.saturating_add(more);
                if beside.saturating_mul(BESIDE) > bytes {
                    return i;
                }
            }
        }
        self.order.len()
    }
}
