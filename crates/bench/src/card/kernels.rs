//! Every family of kernels that the networks use, at shapes of their layers.

use remaster_compute::gpu::layer_name;
use remaster_compute::{
    DType, RowSumsDesc, Shape, TokenNormDesc, UpsampleDesc, WeightSpec, WindowAttentionDesc,
};
use remaster_model::dit::DitConfig;
use serde::Serialize;

use super::clock::Clock;
use crate::Samples;
use remaster::Error;
use remaster::machine::calibrate::subjects::{self, Bench, GROUPS, Operands, Site};

/// Shapes of a kernel: each level has four times the work of the one before. The highest is about a layer of a film of
/// 1920 x 1080.
const LEVELS: u32 = 5;
/// A run at a higher level may take this long. Drivers end work that takes seconds.
const RUN_SECONDS: f64 = 0.08;
/// A sample repeats a short run for about this long, so that starting it does not count.
const SAMPLE_SECONDS: f64 = 0.03;
const MOST_RUNS: f64 = 64.0;
/// Samples go on for this long, between the least and the most of them.
const SECONDS: f64 = 0.4;
const SAMPLES: std::ops::RangeInclusive<usize> = 3..=15;
/// Bytes of all operands, at most: a fraction of the memory that may be free by now, and what a host fills quickly.
const MOST_BYTES: u64 = 1 << 30;

/// Widths of the 3B transformer, tokens of a window of it at 1280 x 720, and tokens of its text.
const WIDTH: usize = DitConfig::dit_3b().width;
const HEAD: usize = DitConfig::dit_3b().head;
const HIDDEN: usize = DitConfig::dit_3b().hidden;
const WINDOW: usize = 400;
const WORDS: usize = 58;

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    #[serde(rename = "TFLOP/s")]
    Tflops,
    #[serde(rename = "GB/s")]
    Gbytes,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Tflops => "TFLOP/s",
            Unit::Gbytes => "GB/s",
        }
    }

    /// Of operations or bytes.
    fn of(self, per_second: f64) -> f64 {
        match self {
            Unit::Tflops => per_second / 1e12,
            Unit::Gbytes => per_second / 1e9,
        }
    }
}

/// What was measured.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct Kernel {
    pub kernel: String,
    pub samples: Samples,
    pub unit: Unit,
    /// Of the fastest run, and of the median.
    pub rate: f64,
    pub median_rate: f64,
    /// The most that the card could reach, where it is known, and the share of it that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<f64>,
}

type Make = Box<dyn Fn(&Site, u32) -> Result<Bench, Error>>;

/// A kernel to measure.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    make: Make,
}

/// All of a format, those first that take most of the networks' time.
pub(crate) fn all(dtype: DType) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: String, unit, make: Make| cases.push(Case { name, unit, make });
    for channels in [512, 256, 128] {
        let spec = WeightSpec::conv([channels, channels], [3; 3], dtype);
        for (norm, ending) in [(false, ""), (true, ", norm")] {
            let make = move |site: &Site, level: u32| {
                let finer = (512 / channels) << level;
                subjects::conv(site, dtype, channels, [4, 5 * finer, 8 * finer], norm)
            };
            add(format!("{}{ending}", layer_name(&spec)), Unit::Tflops, Box::new(make));
        }
    }
    for (cin, cout) in [(WIDTH, WIDTH), (WIDTH, HIDDEN), (HIDDEN, WIDTH)] {
        let make =
            move |site: &Site, level| subjects::linear(site, dtype, 64usize << (2 * level), [cin, cout]);
        add(layer_name(&WeightSpec::Linear { cin, cout, dtype }), Unit::Tflops, Box::new(make));
    }
    let side = |level: u32| 8usize << level;
    let attention = move |site: &Site, level| subjects::attention(site, dtype, [16, 32usize << level]);
    add(format!("attention 512 {dtype}"), Unit::Tflops, Box::new(attention));
    let windows = move |site: &Site, level| window_attention(site, dtype, 1usize << (2 * level));
    add(format!("window attention {HEAD} {dtype}"), Unit::Tflops, Box::new(windows));
    for (channels, time) in [(512, true), (256, false)] {
        let spec = WeightSpec::Upsample { cin: channels, cout: channels, time, dtype };
        let make = move |site: &Site, level| upsample(site, spec, side(level));
        add(layer_name(&spec), Unit::Tflops, Box::new(make));
    }
    let frame = move |level| Shape::new(1, 4 * side(level), 4 * side(level), 128);
    let sums = move |site: &Site, level| row_sums(site, dtype, frame(level));
    add(format!("row sums {dtype}"), Unit::Gbytes, Box::new(sums));
    let norm = move |site: &Site, level| subjects::norm(site, dtype, frame(level));
    add(format!("norm {dtype}"), Unit::Gbytes, Box::new(norm));
    for width in [WIDTH, HEAD] {
        let make = move |site: &Site, level| token_norm(site, dtype, 128usize << (2 * level), width);
        add(format!("token norm {width} {dtype}"), Unit::Gbytes, Box::new(make));
    }
    cases
}

/// Between host and device.
pub(crate) fn transfers() -> Vec<Case> {
    let case = |name: &str, up| Case {
        name: name.into(),
        unit: Unit::Gbytes,
        make: Box::new(move |site: &Site, level| transfer(site, (1 << 18) << (2 * level), up)),
    };
    vec![case("host to device", true), case("device to host", false)]
}

fn upsample(site: &Site, spec: WeightSpec, side: usize) -> Result<Bench, Error> {
    let WeightSpec::Upsample { cin, cout, time, dtype } = spec else { return Err(Error::BenchBackend) };
    let frames = 4;
    let (t, taps, tail) = if time { (2 * frames, 8, 1) } else { (frames, 12, 2) };
    let shape = Shape::new(frames, side, side, cin);
    let tail = Shape { t: tail, ..shape };
    let output = Shape::new(t, 2 * side, 2 * side, cout);
    let operands = Operands::new(site, &[(shape, dtype), (tail, dtype), (output, dtype)], &[spec])?;
    let work = 2.0 * (taps * output.len() * cin) as f64;
    Ok(operands.bench(work, |ops, tensors, weights| {
        let ([x, tail, y], [weight]) = (tensors, weights) else { return Ok(()) };
        let first = UpsampleDesc::new(x.view(), weight, y.view());
        ops.upsample(&UpsampleDesc { carried: Some(tail.view()), ..first })
    }))
}

fn window_attention(site: &Site, dtype: DType, count: usize) -> Result<Bench, Error> {
    let windows = vec![WINDOW; count];
    let tokens = (Shape::new(1, count * WINDOW, 1, WIDTH), dtype);
    let words = (Shape::new(1, WORDS, 1, WIDTH), dtype);
    let operands = Operands::new(site, &[tokens, tokens, tokens, tokens, words, words], &[])?;
    let work = 2.0 * 2.0 * (count * WINDOW * (WINDOW + WORDS) * WIDTH) as f64;
    Ok(operands.bench(work, move |ops, tensors, _| {
        let [q, k, v, y, common_k, common_v] = tensors else { return Ok(()) };
        ops.window_attention(&WindowAttentionDesc {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            windows: &windows,
            common_k: common_k.view(),
            common_v: common_v.view(),
            common: None,
            heads: WIDTH / HEAD,
            scale: 1.0 / (HEAD as f32).sqrt(),
            output: y.view(),
        })
    }))
}

fn row_sums(site: &Site, dtype: DType, shape: Shape) -> Result<Bench, Error> {
    let sums = Shape::new(shape.t, shape.h, 1, 2 * GROUPS);
    let operands = Operands::new(site, &[(shape, dtype), (sums, DType::F32)], &[])?;
    Ok(operands.bench(shape.bytes(dtype) as f64, |ops, tensors, _| {
        let [x, sums] = tensors else { return Ok(()) };
        ops.row_sums(&RowSumsDesc { input: x.view(), groups: GROUPS, output: sums.view() })
    }))
}

/// Of whole tokens, or of each head.
fn token_norm(site: &Site, dtype: DType, tokens: usize, width: usize) -> Result<Bench, Error> {
    let shape = Shape::new(1, tokens, 1, WIDTH);
    let spec = match width {
        WIDTH => WeightSpec::Norm { channels: WIDTH },
        len => WeightSpec::Vector { len },
    };
    let operands = Operands::new(site, &[(shape, dtype); 2], &[spec])?;
    Ok(operands.bench(2.0 * shape.bytes(dtype) as f64, move |ops, tensors, weights| {
        let ([x, y], [affine]) = (tensors, weights) else { return Ok(()) };
        ops.token_norm(&TokenNormDesc {
            input: x.view(),
            heads: WIDTH / width,
            eps: 1e-5,
            affine: Some(affine),
            rotation: None,
            output: y.view(),
        })
    }))
}

fn transfer(site: &Site, values: usize, up: bool) -> Result<Bench, Error> {
    let shape = Shape::new(1, 64, values / 64, 1);
    let operands = Operands::new(site, &[(shape, DType::F32)], &[])?;
    let mut host = vec![0.5; shape.len()];
    Ok(operands.bench(shape.bytes(DType::F32) as f64, move |ops, tensors, _| {
        let [x] = tensors else { return Ok(()) };
        match up {
            true => ops.upload(&host, x.view()),
            false => ops.download(x.view(), &mut host),
        }
    }))
}

/// The level to go on at after a run of some seconds with operands of some bytes.
fn next(level: u32, seconds: f64, bytes: u64, room: u64) -> u32 {
    let fits = |next: &u32| {
        let more = 4u64.pow(next - level);
        seconds * more as f64 <= RUN_SECONDS && bytes.saturating_mul(more) <= room.min(MOST_BYTES)
    };
    (level + 1..=LEVELS).rev().find(fits).unwrap_or(level)
}

/// Begins with the smallest shape and goes on with the largest that its rate allows.
pub(crate) fn measure(case: &Case, site: &Site, clock: &Clock, room: u64) -> Result<Kernel, Error> {
    let mut level = 0;
    let (mut bench, mut took) = begin(case, site, level)?;
    loop {
        let higher = next(level, took, bench.bytes, room);
        if higher == level {
            break;
        }
        level = higher;
        // Its memory first.
        drop(bench);
        (bench, took) = begin(case, site, level)?;
    }
    let times = (SAMPLE_SECONDS / took).clamp(1.0, MOST_RUNS) as usize;
    // What was timed alone also has the time that it takes to start.
    let mut seconds = if times == 1 { vec![took] } else { Vec::new() };
    let (mut spent, mut sample) = (took, took * times as f64);
    let more = |n: usize, spent| n < *SAMPLES.start() || (spent < SECONDS && n < *SAMPLES.end());
    while more(seconds.len(), spent) && spent + sample < SECONDS.max(clock.left(1.0) / 10.0) {
        sample = bench.step(times)?;
        spent += sample;
        seconds.push(sample / times as f64);
    }
    let samples = Samples::new(seconds);
    let rate = |seconds: f64| case.unit.of(bench.work / seconds);
    Ok(Kernel {
        kernel: case.name.clone(),
        unit: case.unit,
        rate: rate(samples.min),
        median_rate: rate(samples.median),
        samples,
        ceiling: None,
        reached: None,
    })
}

/// Makes it, runs it once so that the driver compiles it, and times a second run.
fn begin(case: &Case, site: &Site, level: u32) -> Result<(Bench, f64), Error> {
    let mut bench = (case.make)(site, level)?;
    bench.step(1)?;
    let took = bench.step(1)?;
    Ok((bench, took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_card_stays_at_the_smallest_shape_and_a_fast_one_climbs() {
        let (bytes, room) = (1 << 20, 8 << 30);
        assert_eq!(next(0, 0.5, bytes, room), 0);
        assert_eq!(next(0, 0.01, bytes, room), 1);
        assert_eq!(next(0, 1e-5, bytes, room), LEVELS);
        assert_eq!(next(LEVELS, 1e-5, bytes, room), LEVELS);
        assert_eq!(next(0, 1e-5, bytes, 20 << 20), 2);
        assert_eq!(next(0, 1e-5, bytes, 0), 0);
        assert_eq!(next(1, 0.01, MOST_BYTES / 2, room), 1);
    }

    #[test]
    fn no_kernel_is_listed_twice() {
        let names = |dtype| all(dtype).into_iter().map(|c| c.name);
        let mut list: Vec<String> = names(DType::F16).chain(names(DType::F32)).collect();
        list.sort();
        let many = list.len();
        list.dedup();
        assert_eq!((list.len(), many), (many, 34));
        assert!(list.contains(&"conv 3x3x3 512 to 512 f16, norm".into()));
        assert!(list.contains(&"linear 2560 to 6912 f16".into()));
    }
}
