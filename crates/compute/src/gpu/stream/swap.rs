//! Notices that a driver moved the arena to host memory: it says nothing, and everything becomes ten times slower or more.
//! Now and then the device sums a part of the arena and sends some of it, and the rates are compared with the best so far.

use std::time::{Duration, Instant};

use super::Stream;
use super::batch::Slot;
use super::staging::STAGE;
use crate::error::{ComputeError, Result};

/// Time between looks, and between a slow one and the next.
const EVERY: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(2);
/// Bytes that are summed: 0.2 ms at 300 GB/s, 5 ms through a slot of a board.
const BYTES: u64 = 64 << 20;
/// Times slower than the best so far, and so many looks in a row. Other programs take a half of a device or two thirds.
const SLOWER: f64 = 6.0;
const LOOKS: u32 = 3;

/// Rates so far.
#[derive(Debug)]
pub(super) struct Swap {
    next: Instant,
    /// Bytes a second: of the sum, and of the transfer.
    best: [f64; 2],
    slow: u32,
    /// Where the next look begins.
    at: u64,
}

impl Swap {
    pub(super) fn new() -> Self {
        Swap { next: Instant::now(), best: [0.0; 2], slow: 0, at: 0 }
    }

    /// Takes the rates of a look. Those to report, and the best, if the memory was moved.
    fn take(&mut self, rates: [f64; 2]) -> Option<(f64, f64)> {
        let low = |i: usize| rates[i] * SLOWER < self.best[i];
        let found = [0, 1].into_iter().find(|i| low(*i));
        self.slow = if found.is_some() { self.slow + 1 } else { 0 };
        for (best, rate) in self.best.iter_mut().zip(rates) {
            *best = best.max(rate);
        }
        found.filter(|_| self.slow >= LOOKS).map(|i| (rates[i], self.best[i]))
    }
}

impl Stream {
    /// Looks if it is time. Nothing may be under way.
    pub(super) fn look_for_swap(&mut self) -> Result<()> {
        let bytes = BYTES.min(self.note / 16 * 16);
        if Instant::now() < self.swap.next || !self.is_timed() || self.cancel.is_cancelled() {
            return Ok(());
        }
        let rates = [self.sum_rate(bytes)?, self.transfer_rate()?];
        let found = self.swap.take(rates);
        self.swap.next = Instant::now() + if self.swap.slow > 0 { SOON } else { EVERY };
        match found {
            None => Ok(()),
            Some((rate, best)) => Err(ComputeError::DeviceSwaps {
                device: self.name.clone(),
                rate: rate as u64,
                best: best as u64,
            }),
        }
    }

    /// Bytes a second at which the device reads a part of its arena, another one each time.
    fn sum_rate(&mut self, bytes: u64) -> Result<f64> {
        let mut at = if self.swap.at + bytes > self.note { 0 } else { self.swap.at };
        let end = at + bytes;
        self.swap.at = end;
        let started = Instant::now();
        while at < end {
            let n = (end - at).min(self.piece(at)) / 4 * 4;
            if n == 0 {
                break;
            }
            let sum = self.ready_checksum(at, n, 0)?;
            // Its stamp alone counts.
            self.sum(sum, Slot::Look);
            at += n;
        }
        self.submit()?;
        self.drain()?;
        Ok(bytes as f64 / started.elapsed().as_secs_f64())
    }

    /// Bytes a second that come from the device.
    fn transfer_rate(&mut self) -> Result<f64> {
        let bytes = STAGE.min(self.note / 4 * 4);
        let started = Instant::now();
        self.read([(0, bytes)].into_iter(), &mut |_| {})?;
        Ok(bytes as f64 / started.elapsed().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_counts_as_moved_when_it_stays_slow() {
        let mut swap = Swap::new();
        let mut take = |sum: f64, transfer: f64| swap.take([sum * 1e9, transfer * 1e9]);
        for rate in [280.0, 300.0, 150.0, 60.0, 290.0] {
            assert_eq!(take(rate, 12.0), None);
        }
        // Slow twice, then not: another program was at work.
        assert_eq!([take(9.0, 12.0), take(9.0, 12.0), take(200.0, 12.0)], [None; 3]);
        assert_eq!([take(9.0, 12.0), take(10.0, 12.0)], [None; 2]);
        assert_eq!(take(8.0, 12.0), Some((8e9, 300e9)));
        let mut swap = Swap::new();
        let mut take = |transfer: f64| swap.take([300e9, transfer * 1e9]);
        assert_eq!([take(12.0), take(1.0), take(1.0)], [None; 3]);
        assert_eq!(take(1.0), Some((1e9, 12e9)));
    }
}
