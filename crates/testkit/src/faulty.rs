//! A device that fails or dawdles when it is told to, around one that works.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use remaster_compute::meter::Counts;
use remaster_compute::{
    ActivateDesc, AddGatedDesc, Arena, AttentionDesc, Backend, Band, CancelToken, CombineDesc, ComputeError,
    ConvDesc, DType, Extent, LinearDesc, NormalizeDesc, Ops, RowSumsDesc, Shape, ShuffleDesc, Tensor,
    TensorStore, TokenNormDesc, UpsampleDesc, View, Weight, WeightSpec, WindowAttentionDesc, WindowsDesc,
};

/// When devices fail, and what was seen of them. Clones share it.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    /// Devices that will be refused.
    refuse: usize,
    /// Numbers of the calls with which the device is lost, the next one last.
    lose: Vec<u64>,
    calls: u64,
    /// What a convolution takes beside its own time.
    dawdle: Duration,
    during: Option<Arc<dyn Fn() + Send + Sync>>,
    opened: Vec<u64>,
}

impl Faults {
    /// The next `n` devices have no room for their arena.
    pub fn refuse(&self, n: usize) {
        self.book().refuse = n;
    }

    /// The device is lost with these calls, counted over all devices from the first.
    pub fn lose_at(&self, mut calls: Vec<u64>) {
        calls.sort_unstable_by(|a, b| b.cmp(a));
        self.book().lose = calls;
    }

    /// Convolutions take this much longer, by sleeping: a load on the machine does not change it.
    pub fn dawdle(&self, time: Duration) {
        self.book().dawdle = time;
    }

    /// Called in every convolution, which is not over before.
    pub fn during_convolutions(&self, call: impl Fn() + Send + Sync + 'static) {
        self.book().during = Some(Arc::new(call));
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.book().calls
    }

    /// Bytes of the arenas that were asked for, in order.
    pub fn opened(&self) -> Vec<u64> {
        self.book().opened.clone()
    }

    /// Opens a device, or does not.
    pub fn open(
        &self,
        backend: &Backend,
        cap: u64,
        cancel: CancelToken,
    ) -> Result<Box<dyn Ops + Send>, ComputeError> {
        let mut book = self.book();
        book.opened.push(cap);
        if book.refuse > 0 {
            book.refuse -= 1;
            return Err(ComputeError::DeviceMemory { device: "test:0".into(), bytes: cap });
        }
        drop(book);
        Ok(Box::new(Faulty { inner: backend.open(cap, cancel)?, faults: self.clone(), lost: false }))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Once lost, it stays lost.
struct Faulty {
    inner: Box<dyn Ops + Send>,
    faults: Faults,
    lost: bool,
}

impl Faulty {
    fn call(&mut self) -> Result<&mut dyn Ops, ComputeError> {
        let mut book = self.faults.book();
        book.calls += 1;
        if book.lose.last().is_some_and(|n| book.calls >= *n) && !self.lost {
            book.lose.pop();
            self.lost = true;
        }
        drop(book);
        if self.lost {
            return Err(ComputeError::DeviceLost { device: "test:0".into(), reason: "as asked for".into() });
        }
        Ok(self.inner.as_mut())
    }
}

impl Ops for Faulty {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn arena(&self) -> &Arena {
        self.inner.arena()
    }

    fn group(&self) -> usize {
        self.inner.group()
    }

    fn counts(&self) -> Counts {
        self.inner.counts()
    }

    fn weight_bytes(&self, spec: &WeightSpec) -> u64 {
        self.inner.weight_bytes(spec)
    }

    fn load(&mut self, weight: &Weight) -> Result<(), ComputeError> {
        self.call()?.load(weight)
    }

    fn prefetch(&mut self, weight: &Weight) -> Result<(), ComputeError> {
        self.call()?.prefetch(weight)
    }

    fn evict(&mut self, weight: &Weight) {
        self.inner.evict(weight);
    }

    fn upload(&mut self, from: &[f32], to: View<'_>) -> Result<(), ComputeError> {
        self.call()?.upload(from, to)
    }

    fn download(&mut self, from: View<'_>, to: &mut [f32]) -> Result<(), ComputeError> {
        self.call()?.download(from, to)
    }

    fn wait(&mut self) -> Result<(), ComputeError> {
        self.call()?.wait()
    }

    fn finish_checks(&mut self) -> Result<(), ComputeError> {
        self.inner.finish_checks()
    }

    fn first_spoiled(&mut self) -> Result<Option<String>, ComputeError> {
        self.call()?.first_spoiled()
    }

    fn conv(&mut self, desc: &ConvDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.conv(desc)?;
        let (time, during) = {
            let book = self.faults.book();
            (book.dawdle, book.during.clone())
        };
        std::thread::sleep(time);
        if let Some(call) = during {
            call();
        }
        Ok(())
    }

    fn upsample(&mut self, desc: &UpsampleDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.upsample(desc)
    }

    fn row_sums(&mut self, desc: &RowSumsDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.row_sums(desc)
    }

    fn combine_sums(&mut self, desc: &CombineDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.combine_sums(desc)
    }

    fn normalize(&mut self, desc: &NormalizeDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.normalize(desc)
    }

    fn linear(&mut self, desc: &LinearDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.linear(desc)
    }

    fn attention(&mut self, desc: &AttentionDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.attention(desc)
    }

    fn window_attention(&mut self, desc: &WindowAttentionDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.window_attention(desc)
    }

    fn token_norm(&mut self, desc: &TokenNormDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.token_norm(desc)
    }

    fn activate(&mut self, desc: &ActivateDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.activate(desc)
    }

    fn add_gated(&mut self, desc: &AddGatedDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.add_gated(desc)
    }

    fn gather(&mut self, desc: &WindowsDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.gather(desc)
    }

    fn scatter(&mut self, desc: &WindowsDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.scatter(desc)
    }

    fn shuffle(&mut self, desc: &ShuffleDesc<'_>) -> Result<(), ComputeError> {
        self.call()?.shuffle(desc)
    }

    fn copy(&mut self, from: View<'_>, to: View<'_>) -> Result<(), ComputeError> {
        self.call()?.copy(from, to)
    }

    fn fetch(&mut self, from: &mut dyn TensorStore, at: Extent, to: View<'_>) -> Result<(), ComputeError> {
        self.call()?.fetch(from, at, to)
    }

    fn stow(&mut self, from: View<'_>, to: &mut dyn TensorStore, at: Extent) -> Result<(), ComputeError> {
        self.call()?.stow(from, to, at)
    }

    fn alloc_kept(&mut self, shape: Shape, dtype: DType) -> Result<Tensor, ComputeError> {
        self.inner.alloc_kept(shape, dtype)
    }

    fn alloc(&mut self, shape: Shape, dtype: DType) -> Result<Tensor, ComputeError> {
        self.inner.alloc(shape, dtype)
    }

    fn alloc_band(&mut self, shape: Shape, dtype: DType, band: Band) -> Result<Tensor, ComputeError> {
        self.inner.alloc_band(shape, dtype, band)
    }
}
