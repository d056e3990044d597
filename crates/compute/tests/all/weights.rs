//! Weights that are streamed: read ahead in another thread, with the bits and the memory of a plain run.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use remaster_compute::meter::Meter;
use remaster_compute::staged::{Placement, Staged};
use remaster_compute::{
    Backend, CancelToken, ComputeError, ConvDesc, DType, NullStore, Ops, Padding, Shape, SourceError, Tensor,
    Weight, WeightPart, WeightSource, WeightSpec,
};
use remaster_testkit::{Faults, Rng};

const CHANNELS: usize = 64;

/// Values of one layer in a file. They come at their own pace, and may not come at all.
struct Slow {
    file: Arc<Mutex<File>>,
    /// Where the layer starts, in bytes.
    first: usize,
    bias: usize,
    /// For the whole layer, in nanoseconds.
    takes: Arc<AtomicUsize>,
    /// Layers up to the last one whose reading has begun.
    begun: Arc<AtomicUsize>,
    values: usize,
    fails: bool,
}

impl WeightSource for Slow {
    fn read(&self, part: WeightPart, start: usize, out: &mut [f32]) -> Result<(), SourceError> {
        if self.fails {
            return Err(SourceError("the disk is on fire".into()));
        }
        self.begun.fetch_max(self.first / (4 * self.values) + 1, Ordering::SeqCst);
        let takes = self.takes.load(Ordering::Relaxed) as u64;
        if takes > 0 {
            std::thread::sleep(Duration::from_nanos(takes * out.len() as u64 / self.values as u64));
        }
        let skip = if part == WeightPart::Bias { self.bias } else { 0 };
        let mut bytes = vec![0; 4 * out.len()];
        let mut file = self.file.lock().unwrap();
        file.seek(SeekFrom::Start((self.first + 4 * (skip + start)) as u64)).unwrap();
        file.read_exact(&mut bytes).unwrap();
        let values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        out.iter_mut().zip(values).for_each(|(to, from)| *to = from);
        Ok(())
    }
}

/// Layers of 3 x 3 over frames that stay as large as they are.
struct Chain {
    weights: Vec<Weight>,
    takes: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
    path: PathBuf,
}

impl Drop for Chain {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Chain {
    fn new(layers: usize, kernel: [usize; 3], fails: Option<usize>) -> Self {
        let (takes, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let spec = WeightSpec::conv([CHANNELS, CHANNELS], kernel, DType::F32);
        static FILES: AtomicUsize = AtomicUsize::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        // Every test may be a process of its own.
        let name = format!("weights-{}-{number}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let (bias, values) = (spec.main_len(), spec.main_len() + spec.bias_len());
        let mut rng = Rng::new(1);
        let bytes: Vec<u8> = (0..layers * values).flat_map(|_| (0.05 * rng.unit()).to_le_bytes()).collect();
        std::fs::write(&path, bytes).unwrap();
        let file = Arc::new(Mutex::new(File::open(&path).unwrap()));
        let layer = |i: usize| {
            let [takes, begun] = [&takes, &begun].map(Arc::clone);
            let (file, first) = (Arc::clone(&file), 4 * i * values);
            let source = Slow { file, first, bias, takes, begun, values, fails: fails == Some(i) };
            Weight::new(format!("layer.{i}"), spec, Arc::new(source))
        };
        Chain { weights: (0..layers).map(layer).collect(), takes, begun, path }
    }

    fn load(&self, ops: &mut dyn Ops) -> Result<(), ComputeError> {
        self.weights.iter().try_for_each(|w| ops.load(w))
    }

    fn layer(&self, ops: &mut dyn Ops, i: usize, x: &Tensor) -> Result<Tensor, ComputeError> {
        let y = ops.alloc(x.shape(), x.dtype())?;
        ops.conv(&ConvDesc::new(x.view(), &self.weights[i], Padding::all(1), y.view()))?;
        Ok(y)
    }

    fn run(&self, ops: &mut dyn Ops, passes: usize) -> Result<Vec<f32>, ComputeError> {
        self.through(ops, (0..passes).flat_map(|_| 0..self.weights.len()))
    }

    /// Noise through some of the layers.
    fn through(
        &self,
        ops: &mut dyn Ops,
        layers: impl IntoIterator<Item = usize>,
    ) -> Result<Vec<f32>, ComputeError> {
        let mut x = ops.alloc(SMALL, DType::F32)?;
        ops.upload(&Rng::new(3).values(SMALL.len()), x.view())?;
        for i in layers {
            x = self.layer(ops, i, &x)?;
        }
        ops.values(x.view())
    }
}

fn stores() -> [Box<NullStore>; 2] {
    ["host", "file"].map(|name| Box::new(NullStore::new(name, 0)))
}

fn streamed(device: Box<dyn Ops + Send>, read_ahead: bool) -> Staged {
    let [host, file] = stores();
    Staged::new(device, host, file, Placement { stream_weights: true, read_ahead, ..Placement::DEVICE })
}

fn open(threads: usize, cap: u64) -> Box<dyn Ops + Send> {
    Backend::cpu_with(threads).open(cap, CancelToken::default()).unwrap()
}

const SMALL: Shape = Shape { t: 1, h: 9, w: 7, c: CHANNELS };

#[test]
fn streamed_weights_give_the_same_bits_in_the_memory_that_the_meter_said() {
    let chain = Chain::new(6, [1, 3, 3], None);
    let mut plain = open(2, 1 << 26);
    chain.load(plain.as_mut()).unwrap();
    let expected = chain.run(plain.as_mut(), 3).unwrap();
    let mut peaks = Vec::new();
    for read_ahead in [false, true] {
        let sizing = || Backend::cpu_with(2).sizing();
        let mut meter = streamed(Box::new(Meter::endless(sizing())), read_ahead);
        chain.load(&mut meter).unwrap();
        chain.run(&mut meter, 3).unwrap();
        let peak = meter.arena().peak();
        // What one pass takes is what every pass takes.
        let mut once = streamed(Box::new(Meter::endless(sizing())), read_ahead);
        chain.load(&mut once).unwrap();
        chain.run(&mut once, 1).unwrap();
        assert_eq!(once.arena().peak(), peak);

        let mut ops = streamed(open(2, peak), read_ahead);
        chain.load(&mut ops).unwrap();
        assert!(chain.run(&mut ops, 3).unwrap() == expected, "read ahead: {read_ahead}");
        assert_eq!((ops.arena().peak(), ops.arena().peak_live()), (peak, meter.arena().peak_live()));
        peaks.push(peak);

        // Back and forth: what is on its way is not what is needed, and nothing goes wrong but time.
        let order = [0, 3, 1, 5, 0, 4, 4, 2];
        let leap = |ops: &mut dyn Ops| chain.through(ops, order).unwrap();
        let wild = leap(&mut ops);
        leap(&mut meter);
        assert!(wild == leap(plain.as_mut()));
        assert_eq!(ops.arena().peak(), meter.arena().peak());
        assert_eq!(ops.arena().live(), meter.arena().live());
    }
    let layer = Backend::cpu_with(2).sizing().weight_bytes(&chain.weights[0].spec());
    assert!(peaks[1] > peaks[0] + layer, "{peaks:?}, {layer} a layer");
}

#[test]
fn an_error_of_the_reader_comes_with_the_op_that_needs_the_weight() {
    let chain = Chain::new(5, [1, 3, 3], Some(3));
    let mut ops = streamed(open(1, 1 << 26), true);
    chain.load(&mut ops).unwrap();
    let mut x = ops.alloc(SMALL, DType::F32).unwrap();
    ops.upload(&Rng::new(1).values(SMALL.len()), x.view()).unwrap();
    for i in 0..3 {
        x = chain.layer(&mut ops, i, &x).unwrap();
    }
    let error = chain.layer(&mut ops, 3, &x).unwrap_err();
    assert!(matches!(&error, ComputeError::Source { name, .. } if name == "layer.3"), "{error}");
    // The next weight is asked for anew, and the one that failed fails again.
    chain.layer(&mut ops, 4, &x).unwrap();
    assert!(matches!(chain.layer(&mut ops, 3, &x), Err(ComputeError::Source { .. })));
}

#[test]
fn cancelling_stops_a_reader_that_is_slow_and_the_threads_end_with_the_backend() {
    let chain = Chain::new(4, [3, 3, 3], None);
    let cancel = CancelToken::default();
    let device = Backend::cpu_with(1).open(1 << 26, cancel.clone()).unwrap();
    let mut ops = streamed(device, true);
    chain.load(&mut ops).unwrap();
    // A layer of 110592 values in two pieces takes 600 ms.
    chain.takes.store(600_000_000, Ordering::Relaxed);
    let x = ops.alloc(SMALL, DType::F32).unwrap();
    let x = chain.layer(&mut ops, 0, &x).unwrap();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        cancel.cancel();
        Instant::now()
    });
    let error = chain.layer(&mut ops, 1, &x).unwrap_err();
    assert!(matches!(error, ComputeError::Cancelled), "{error}");
    drop((ops, x));
    let asked = canceller.join().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    let weights = chain.weights.len();
    // The threads held clones of the weights: a reader in its last piece may need a moment more.
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(Arc::strong_count(&chain.takes), weights + 1);
    assert!(chain.weights.iter().all(|w| w.holders() == 0));
}

/// A layer is not over before the next one is being read, or it is clear that it is not.
#[test]
fn the_next_layer_is_read_while_one_computes_if_reading_ahead_is_on() {
    for read_ahead in [true, false] {
        let chain = Chain::new(8, [1, 3, 3], None);
        let (faults, layer) = (Faults::default(), AtomicUsize::new(0));
        let begun = Arc::clone(&chain.begun);
        faults.during_convolutions(move || {
            let layer = layer.fetch_add(1, Ordering::SeqCst);
            let started = Instant::now();
            while read_ahead && layer < 7 && begun.load(Ordering::SeqCst) < layer + 2 {
                assert!(started.elapsed() < Duration::from_secs(60), "layer {} is not read", layer + 1);
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(read_ahead || begun.load(Ordering::SeqCst) == layer + 1, "layer {} is read", layer + 1);
        });
        let device = faults.open(&Backend::cpu_with(1), 1 << 26, CancelToken::default()).unwrap();
        let mut ops = streamed(device, read_ahead);
        chain.load(&mut ops).unwrap();
        chain.run(&mut ops, 1).unwrap();
    }
}

/// One pass in seconds, after a first one that is not counted.
fn pass(ops: &mut Staged, chain: &Chain, shape: Shape) -> f64 {
    let x = ops.alloc(shape, DType::F32).unwrap();
    let started = Instant::now();
    let mut y = chain.layer(ops, 0, &x).unwrap();
    for i in 1..chain.weights.len() {
        y = chain.layer(ops, i, &y).unwrap();
    }
    ops.wait().unwrap();
    started.elapsed().as_secs_f64()
}

/// What twenty layers take, as parts of computing alone.
struct Times {
    computing: f64,
    unthrottled: f64,
    throttled: f64,
    not_ahead: f64,
}

/// Twenty layers whose reader takes as long for a layer as computing it, by sleeping. Others may share the cores, so
/// both ways take turns, and the fastest pass of each counts; the first time that is good enough ends it.
fn twenty_layers(open: &dyn Fn() -> Box<dyn Ops + Send>, shape: Shape, turns: usize) -> Times {
    let chain = Chain::new(20, [3, 3, 3], None);
    let [host, file] = stores();
    let mut plain = Staged::new(open(), host, file, Placement::DEVICE);
    let (mut ahead, mut behind) = (streamed(open(), true), streamed(open(), false));
    for ops in [&mut plain, &mut ahead, &mut behind] {
        chain.load(ops).unwrap();
    }
    let [mut alone, mut unthrottled, mut throttled] = [f64::INFINITY; 3];
    for _ in 0..turns {
        chain.takes.store(0, Ordering::Relaxed);
        alone = alone.min(pass(&mut plain, &chain, shape));
        unthrottled = unthrottled.min(pass(&mut ahead, &chain, shape));
        chain.takes.store((alone / 20.0 * 1e9) as usize, Ordering::Relaxed);
        throttled = throttled.min(pass(&mut ahead, &chain, shape));
        if throttled <= 1.1 * alone {
            break;
        }
    }
    let not_ahead = pass(&mut behind, &chain, shape) / alone;
    let (unthrottled, throttled) = (unthrottled / alone, throttled / alone);
    println!(
        "computing {alone:.3} s; read ahead from the page cache {unthrottled:.3} times that, {throttled:.3} from a slow \
         reader; from a slow reader and not ahead {not_ahead:.2}"
    );
    Times { computing: alone, unthrottled, throttled, not_ahead }
}

/// Time of one layer where computing sleeps, and reading as long. Laying out is real work: 5 ms on a busy machine.
const LAYER: Duration = Duration::from_millis(60);

/// Prints the figures of docs/performance.md.
#[test]
#[ignore = "nightly: compares times, which nothing else may disturb"]
fn reading_ahead_hides_a_reader_that_takes_as_long_as_computing() {
    let faults = Faults::default();
    let device = || faults.open(&Backend::cpu_with(1), 1 << 26, CancelToken::default()).unwrap();
    // Printed and not asserted: it depends on what else the machine does.
    let chain = Chain::new(8, [3, 3, 3], None);
    let started = Instant::now();
    chain.load(device().as_mut()).unwrap();
    let packing = started.elapsed().as_secs_f64() / 8.0;
    println!("laying out takes {:.3} of a layer", packing / LAYER.as_secs_f64());

    faults.dawdle(LAYER);
    let times = twenty_layers(&device, SMALL, 6);
    assert!(times.computing >= 20.0 * LAYER.as_secs_f64());
    assert!(times.throttled <= 1.15, "{}", times.throttled);
    assert!(times.unthrottled <= 1.15, "{}", times.unthrottled);
    assert!(times.not_ahead > 1.8, "the reader is not slow: {}", times.not_ahead);
}

/// The same behind real convolutions on one thread. What else runs on the machine takes its part of both, so only what
/// cannot be missed is asserted: without reading ahead it would be 2.
#[test]
#[ignore = "nightly: compares times, which nothing else may disturb"]
fn reading_ahead_hides_it_behind_real_convolutions_too() {
    let times = twenty_layers(&|| open(1, 1 << 28), Shape::new(4, 96, 96, 64), 6);
    assert!(times.throttled <= 1.5, "{}", times.throttled);
    assert!(times.not_ahead > 1.6, "the reader is not slow: {}", times.not_ahead);
}
