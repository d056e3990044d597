//! Time per pixel from small frames to large ones: it should not depend on the size.

use std::fmt::{Display, Formatter};
use std::time::Instant;

use remaster_compute::{AttentionDesc, Backend, CancelToken, Shape};
use remaster_engine::Task;
use remaster_model::vae::{Direction, VaeConfig};
use remaster_plan::{Candidate, Cells, Clip};
use remaster_weights::{FormulaParams, fill_uniform};
use serde::Serialize;

use remaster::{Device, Error, Machine};

use crate::plot::{Plot, Series};
use crate::{BenchError, Loaded, Samples};

const FRAMES: usize = 5;

/// A size that was timed.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct Point {
    pub what: &'static str,
    /// Rows and columns of a frame.
    pub side: usize,
    pub samples: Samples,
    /// Of attention alone, whose work grows with the square of the frame.
    pub attention: Samples,
    /// Nanoseconds per pixel and frame, of the fastest run.
    pub ns_per_pixel: f64,
    /// The same without attention.
    pub ns_per_pixel_without_attention: f64,
}

/// Times by size.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "fields of a document, which docs/json.md lists")]
pub struct ScalingReport {
    pub dtype: &'static str,
    pub path: String,
    pub threads: usize,
    pub points: Vec<Point>,
}

/// Which sizes, and how often.
#[derive(Clone, Debug)]
pub struct ScalingRequest {
    /// What computes.
    pub device: Device,
    /// Heights and widths of the frames.
    pub sides: Vec<u16>,
    /// Runs per size; the fastest counts.
    pub repeat: u16,
}

/// Times encoder and decoder at several frame sizes. The time per pixel should not depend on the size.
pub fn scaling(request: &ScalingRequest, say: &dyn Fn(&str)) -> Result<ScalingReport, BenchError> {
    let Backend::Cpu { threads, path } = request.device.backend(&Machine::this())? else {
        return Err(Error::BenchBackend.into());
    };
    let mut points = Vec::new();
    for direction in [Direction::Encode, Direction::Decode] {
        for side in request.sides.iter().copied().map(usize::from) {
            let point = measure(request, direction, side)?;
            say(&format!("{} {side} x {side}: {:.1} ns per pixel", point.what, point.ns_per_pixel));
            points.push(point);
        }
    }
    Ok(ScalingReport { dtype: request.device.dtype().name(), path: path.to_string(), threads, points })
}

fn measure(request: &ScalingRequest, direction: Direction, side: usize) -> Result<Point, Error> {
    let (backend, build) = (request.device.backend(&Machine::this())?, request.device.build());
    let config = VaeConfig::full();
    let clip = Clip::new(FRAMES, side, side).map_err(|source| Error::Sizes { source })?;
    let network = direction.network(&config, &mut FormulaParams, build);
    let task = Task::new(network, clip.cells(), backend, build.dtype);
    let plan = task.exactly(Candidate::WHOLE)?;
    let mut loaded = Loaded::new(&task, &plan)?;
    let Cells { steps, rows, columns } = clip.cells();
    let [.., width] = config.channels;
    let shape = Shape::new(steps, rows, columns, width);
    let mut seconds = (Vec::new(), Vec::new());
    for _ in 0..request.repeat {
        seconds.0.push(loaded.pass()?);
        seconds.1.push(attention(backend, shape, request)?);
    }
    let (samples, attention) = (Samples::new(seconds.0), Samples::new(seconds.1));
    let per_pixel = 1e9 / (FRAMES * side * side) as f64;
    Ok(Point {
        what: direction.name(),
        side,
        ns_per_pixel: samples.min * per_pixel,
        ns_per_pixel_without_attention: (samples.min - attention.min) * per_pixel,
        samples,
        attention,
    })
}

/// Seconds of attention over some latents.
fn attention(backend: Backend, shape: Shape, request: &ScalingRequest) -> Result<f64, Error> {
    let mut ops =
        backend.open(8 * shape.bytes(request.device.dtype()) + (256 << 20), CancelToken::default())?;
    let mut values = vec![0.0; shape.len()];
    fill_uniform("input/bench", 0, &mut values);
    let mut tensor = || -> Result<_, Error> {
        let tensor = ops.alloc(shape, request.device.dtype())?;
        ops.upload(&values, tensor.view())?;
        Ok(tensor)
    };
    let (q, k, v, y) = (tensor()?, tensor()?, tensor()?, tensor()?);
    let started = Instant::now();
    let scale = 1.0 / (shape.c as f32).sqrt();
    let (qv, kv, vv, output) = (q.view(), k.view(), v.view(), y.view());
    ops.attention(&AttentionDesc { q: qv, k: kv, v: vv, heads: 1, scale, output })?;
    ops.wait()?;
    Ok(started.elapsed().as_secs_f64())
}

impl ScalingReport {
    /// The same as a drawing.
    pub fn svg(&self) -> String {
        let series = |what: &'static str, name: &str, y: fn(&Point) -> f64| Series {
            name: format!("{what}{name}"),
            points: self.points.iter().filter(|p| p.what == what).map(|p| (p.side as f64, y(p))).collect(),
        };
        let both = |what| {
            let without = |p: &Point| p.ns_per_pixel_without_attention;
            [series(what, "", |p| p.ns_per_pixel), series(what, " without attention", without)]
        };
        let plot = Plot {
            title: format!("Time per pixel, {FRAMES} frames, {}, {} threads", self.dtype, self.threads),
            x: "rows and columns of a frame".into(),
            y: "ns per pixel and frame".into(),
            series: ["encode", "decode"].into_iter().flat_map(both).collect(),
        };
        plot.svg()
    }
}

impl Display for ScalingReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        for p in &self.points {
            let Point { what, side, ns_per_pixel, ns_per_pixel_without_attention: without, .. } = p;
            let (Samples { min, median, .. }, attention) = (&p.samples, p.attention.min);
            writeln!(
                f,
                "{what:6} {side:5} {min:9.2} s min {median:9.2} median {ns_per_pixel:9.1} ns/pixel, \
                 attention {attention:8.3} s, without it {without:9.1} ns/pixel"
            )?;
        }
        Ok(())
    }
}
