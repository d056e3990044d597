//! Weights that are read ahead: one thread reads, a second lays out what was read, while a third computes.
//!
//! Who asks for a weight takes its room in the arena first, so what lies where never depends on how fast the threads
//! are. No wait is without a limit: a reader that gives nothing for `STALL` is an error, and a thread that hangs in
//! a read keeps alive what it writes to, and nothing else waits for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::cancel::CancelToken;
use crate::error::{ComputeError, Result, SourceError};
use crate::waited::Waited;
use crate::weight::{Weight, WeightPart, WeightSource, WeightSpec};

/// Values read at a time, 256 KiB: a slow disk gives that in some milliseconds, so a stop is seen soon.
const PIECE: usize = 64 << 10;

/// Pieces that wait to be laid out.
const PIECES: usize = 2;

/// How often a wait looks around.
const LOOK: Duration = Duration::from_millis(20);

/// A disk that gives no piece for this long is taken for dead. Sleeping disks wake up within 20 s.
const STALL: Duration = Duration::from_secs(60);

/// How long a thread that was told to stop is waited for. It looks between pieces; a run must end within a second.
const GRACE: Duration = Duration::from_millis(400);

/// The two threads. They start with the first weight and end with this value.
pub(crate) struct Loader {
    cancel: CancelToken,
    threads: Option<Threads>,
}

struct Threads {
    /// Weights to lay out.
    work: Sender<Box<dyn FnOnce() + Send>>,
    /// Weights to read.
    reads: Sender<Reading>,
    /// Closed by threads that ended.
    ended: Mutex<Receiver<()>>,
}

/// A weight on its way. Dropped before it came, it is stopped.
pub(crate) struct Coming<T> {
    name: String,
    done: Mutex<Receiver<Result<T>>>,
    signal: Signal,
    /// Of the whole backend.
    cancel: CancelToken,
}

/// Shared by a weight that is being loaded and its receiver.
#[derive(Clone)]
struct Signal {
    stop: CancelToken,
    /// Pieces so far.
    pulse: Arc<AtomicU64>,
}

impl Loader {
    pub(crate) fn new(cancel: CancelToken) -> Self {
        Loader { cancel, threads: None }
    }

    /// Starts reading `weight`; `work` gets a weight of the same values and a token that stops it, and lays the weight
    /// out in a thread of its own.
    pub(crate) fn start<T: Send + 'static>(
        &mut self,
        weight: &Weight,
        work: impl FnOnce(&Weight, &CancelToken) -> Result<T> + Send + 'static,
    ) -> Result<Coming<T>> {
        let signal = Signal { stop: self.cancel.child(), pulse: Arc::default() };
        let (fed, reading) = feed(weight, &signal);
        let (result, done) = sync_channel(1);
        let stop = signal.stop.clone();
        let threads = match &mut self.threads {
            Some(threads) => threads,
            none => none.insert(Threads::start()?),
        };
        // A thread that is gone closes `done`, and `wait` says so.
        let _ = threads.reads.send(reading);
        let _ = threads.work.send(Box::new(move || {
            let made = work(&fed, &stop);
            // What was borrowed for the work is given back before its end is reported.
            drop(fed);
            let _ = result.send(made);
        }));
        Ok(Coming {
            name: weight.name().to_owned(),
            done: Mutex::new(done),
            signal,
            cancel: self.cancel.clone(),
        })
    }
}

impl Threads {
    fn start() -> Result<Self> {
        let (work, jobs) = channel::<Box<dyn FnOnce() + Send>>();
        let (reads, readings) = channel::<Reading>();
        let (end, ended) = channel::<()>();
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let end = end.clone();
            let started = thread::Builder::new().name(name.into()).spawn(move || {
                let _end = end;
                run();
            });
            let failed =
                |error: std::io::Error| ComputeError::Threads { threads: 2, reason: error.to_string() };
            started.map(drop).map_err(failed)
        };
        spawn("weights-read", Box::new(|| readings.into_iter().for_each(Reading::run)))?;
        spawn("weights-lay", Box::new(|| jobs.into_iter().for_each(|job| job())))?;
        Ok(Threads { work, reads, ended: Mutex::new(ended) })
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        if let Some(Threads { work, reads, ended }) = self.threads.take() {
            drop((work, reads));
            // Nothing is ever sent: this returns when both threads ended, or gives up on one that hangs.
            let _ = ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(GRACE);
        }
    }
}

impl<T> Coming<T> {
    /// Waits until the weight is laid out.
    pub(crate) fn wait(self) -> Result<T> {
        self.wait_up_to(STALL)
    }

    /// As `wait`, for a piece that comes within `stall` of the one before.
    fn wait_up_to(self, stall: Duration) -> Result<T> {
        let mut seen = self.signal.pulse.load(Ordering::Relaxed);
        let mut waited = Waited::new(10 * LOOK);
        loop {
            let done = self.done.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK);
            match done {
                Ok(_) | Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => {
                    return Err(ComputeError::Cancelled);
                }
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => {
                    let source = SourceError("the thread that reads weights ended early".into());
                    return Err(ComputeError::Source { name: self.name.clone(), source });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = self.signal.pulse.load(Ordering::Relaxed);
            if now != seen {
                (seen, waited) = (now, Waited::new(10 * LOOK));
            } else if waited.look() > stall {
                return Err(ComputeError::Stalled { name: self.name.clone(), seconds: stall.as_secs() });
            }
        }
    }
}

impl<T> Drop for Coming<T> {
    /// Its room is free again only when nothing writes to it any more: not the thread's pace decides when.
    fn drop(&mut self) {
        self.signal.stop.cancel();
        let _ = self.done.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(GRACE);
    }
}

/// Which tensors of a weight are meant: its own, or those of an upsampler's 1x1x1 convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Own,
    Upscale,
}

/// One tensor to be read from its start to its end.
type Tensor = (Whose, WeightPart, usize);

/// The tensors of a weight in the order in which they are laid out. Another order costs time and no more: what was
/// not expected is read where it is asked for.
fn script(spec: &WeightSpec) -> Vec<Tensor> {
    use WeightPart::{Bias, Main};
    let (main, bias) = ((Whose::Own, Main, spec.main_len()), (Whose::Own, Bias, spec.bias_len()));
    match spec {
        WeightSpec::Upsample { cin, cout, time, .. } => {
            let rows = if *time { 8 * cout } else { 4 * cout };
            vec![main, (Whose::Upscale, Main, rows * cin), (Whose::Upscale, Bias, rows), bias]
        }
        _ => vec![main, bias],
    }
}

/// A weight for the thread that reads.
struct Reading {
    weight: Weight,
    signal: Signal,
    to: SyncSender<Result<Vec<f32>>>,
}

impl Reading {
    fn run(self) {
        for (whose, part, len) in script(&self.weight.spec()) {
            for start in (0..len).step_by(PIECE) {
                if self.signal.stop.is_cancelled() {
                    return;
                }
                let mut piece = vec![0.0; PIECE.min(len - start)];
                let read = read(&self.weight, whose, part, start, &mut piece);
                let failed = read.is_err();
                // The receiver is gone, or what follows an error is not needed.
                if self.to.send(read.map(|()| piece)).is_err() || failed {
                    return;
                }
            }
        }
    }
}

fn read(weight: &Weight, whose: Whose, part: WeightPart, start: usize, out: &mut [f32]) -> Result<()> {
    match whose {
        Whose::Own => weight.read(part, start, out),
        Whose::Upscale => weight.read_upscale(part, start, out),
    }
}

/// What was read and not taken yet.
struct Feed {
    weight: Weight,
    signal: Signal,
    from: Receiver<Result<Vec<f32>>>,
    /// Tensors that are not read to their end.
    left: std::vec::IntoIter<Tensor>,
    now: Option<Tensor>,
    /// Values taken of the tensor, and those of the piece that are left.
    taken: usize,
    piece: std::vec::IntoIter<f32>,
}

/// The source that work in the other thread reads from.
struct Fed {
    whose: Whose,
    feed: Arc<Mutex<Feed>>,
}

/// A weight of the same values for the thread that lays it out, and what fills it.
fn feed(weight: &Weight, signal: &Signal) -> (Weight, Reading) {
    let (to, from) = sync_channel(PIECES);
    let mut left = script(&weight.spec()).into_iter();
    let now = left.next();
    let feed = Arc::new(Mutex::new(Feed {
        weight: weight.clone(),
        signal: signal.clone(),
        from,
        left,
        now,
        taken: 0,
        piece: Vec::new().into_iter(),
    }));
    let source = |whose| Arc::new(Fed { whose, feed: Arc::clone(&feed) });
    let fed = Weight::upsampler(weight.name(), weight.spec(), source(Whose::Own), source(Whose::Upscale));
    (fed, Reading { weight: weight.clone(), signal: signal.clone(), to })
}

impl Feed {
    fn read(&mut self, whose: Whose, part: WeightPart, start: usize, out: &mut [f32]) -> Result<()> {
        let expected = self.now.is_some_and(|(w, p, len)| {
            (w, p) == (whose, part) && start == self.taken && out.len() <= len - self.taken
        });
        if !expected {
            self.look()?;
            let result = read(&self.weight, whose, part, start, out);
            self.signal.pulse.fetch_add(1, Ordering::Relaxed);
            return result;
        }
        let mut out = out;
        while !out.is_empty() {
            if self.piece.len() == 0 {
                self.piece = self.next()?.into_iter();
            }
            let n = out.len().min(self.piece.len());
            let (first, rest) = out.split_at_mut(n);
            first.copy_from_slice(&self.piece.as_slice()[..n]);
            self.piece.by_ref().take(n).for_each(drop);
            self.taken += n;
            out = rest;
        }
        while self.now.is_some_and(|(.., len)| self.taken == len) {
            (self.now, self.taken) = (self.left.next(), 0);
        }
        Ok(())
    }

    fn look(&self) -> Result<()> {
        if self.signal.stop.is_cancelled() { Err(ComputeError::Cancelled) } else { Ok(()) }
    }

    fn next(&mut self) -> Result<Vec<f32>> {
        loop {
            self.look()?;
            match self.from.recv_timeout(LOOK) {
                Ok(piece) => {
                    self.signal.pulse.fetch_add(1, Ordering::Relaxed);
                    return piece;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The reader stopped: `look` knows why, or it broke down.
                Err(RecvTimeoutError::Disconnected) => {
                    self.look()?;
                    let source = SourceError("the thread that reads weights ended early".into());
                    return Err(ComputeError::Source { name: self.weight.name().to_owned(), source });
                }
            }
        }
    }
}

impl WeightSource for Fed {
    fn read(&self, part: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        feed.read(self.whose, part, start, out).map_err(|error| match error {
            ComputeError::Source { source, .. } => source,
            other => SourceError(other.to_string()),
        })
    }
}

/// Weights for which room was taken and that are not loaded yet.
pub(crate) struct Ahead<T>(Vec<(Weight, T)>);

impl<T> Default for Ahead<T> {
    fn default() -> Self {
        Ahead(Vec::new())
    }
}

impl<T> Ahead<T> {
    pub(crate) fn contains(&self, weight: &Weight) -> bool {
        self.0.iter().any(|(w, _)| w.same_as(weight))
    }

    pub(crate) fn push(&mut self, weight: &Weight, coming: T) {
        self.0.push((weight.clone(), coming));
    }

    pub(crate) fn take(&mut self, weight: &Weight) -> Option<T> {
        let found = self.0.iter().position(|(w, _)| w.same_as(weight))?;
        Some(self.0.remove(found).1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::dtype::DType;

    /// Gives its values only while the gate is open.
    struct Gated(Mutex<Receiver<()>>);

    impl WeightSource for Gated {
        fn read(&self, _: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
            let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).recv();
            out.iter_mut().enumerate().for_each(|(i, v)| *v = (start + i) as f32);
            Ok(())
        }
    }

    fn gated() -> (Weight, Sender<()>) {
        let (open, gate) = channel();
        let spec = WeightSpec::Linear { cin: 300, cout: 301, dtype: DType::F32 };
        (Weight::new("w", spec, Arc::new(Gated(Mutex::new(gate)))), open)
    }

    fn sum(weight: &Weight, _: &CancelToken) -> Result<f64> {
        let mut row = [0.0; 300];
        let mut sum = 0.0;
        for first in (0..weight.spec().main_len()).step_by(300) {
            weight.read(WeightPart::Main, first, &mut row)?;
            sum += row.iter().map(|v| f64::from(*v)).sum::<f64>();
        }
        Ok(sum)
    }

    #[test]
    fn a_reader_that_gives_nothing_is_an_error_after_a_while_and_hangs_nobody() {
        let (weight, open) = gated();
        let mut loader = Loader::new(CancelToken::default());
        let coming = loader.start(&weight, sum).unwrap();
        let started = Instant::now();
        let error = coming.wait_up_to(Duration::from_millis(50)).unwrap_err();
        assert!(matches!(&error, ComputeError::Stalled { name, .. } if name == "w"), "{error}");
        drop(loader);
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        drop(open);
    }

    #[test]
    fn values_come_in_any_order_they_are_asked_for() {
        let (weight, open) = gated();
        drop(open);
        let mut loader = Loader::new(CancelToken::default());
        let n = weight.spec().main_len();
        let all = (0..n).map(|i| i as f64).sum::<f64>();
        assert_eq!(loader.start(&weight, sum).unwrap().wait().unwrap(), all);
        let backwards = move |weight: &Weight, _: &CancelToken| {
            let mut one = [0.0];
            let mut bias = [0.0; 301];
            weight.read(WeightPart::Bias, 0, &mut bias)?;
            let mut sum = 0.0;
            for i in (0..n).rev().step_by(7) {
                weight.read(WeightPart::Main, i, &mut one)?;
                sum += f64::from(one[0]);
            }
            Ok((sum, bias[300]))
        };
        let expected = (0..n).rev().step_by(7).map(|i| i as f64).sum::<f64>();
        assert_eq!(loader.start(&weight, backwards).unwrap().wait().unwrap(), (expected, 300.0));
    }

    #[test]
    fn a_weight_nobody_waits_for_is_stopped_and_the_threads_end() {
        let (weight, open) = gated();
        let mut loader = Loader::new(CancelToken::default());
        let source = Arc::new(());
        let held = Arc::clone(&source);
        let coming = loader
            .start(&weight, move |w, stop| {
                sum(w, stop)?;
                Ok(held)
            })
            .unwrap();
        drop(open);
        drop(coming);
        drop(loader);
        assert_eq!(Arc::strong_count(&source), 1);
    }
}
