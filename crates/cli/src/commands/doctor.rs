//! `remaster doctor`: whether this machine is ready, and computes what the original computes.

use std::path::{Path, PathBuf};
use std::time::Instant;

#[cfg(feature = "gpu")]
use remaster_compute::Backend;
use remaster_compute::DType;
use remaster_doctor::{
    DoctorError, DoctorSettings, Golden, GoldenError, Stage, TOLERANCE, embedded, run as run_golden,
};
use serde::Serialize;

#[cfg(feature = "gpu")]
use remaster::check_kernels;
use remaster::numbers::count;
use remaster::{Check, Error, Event, Machine, health};

use crate::args::{DoctorArgs, ProgressMode};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
#[cfg(feature = "gpu")]
use crate::show::Show;

#[derive(Serialize)]
struct Report {
    backend: &'static str,
    dtype: &'static str,
    tolerance: f64,
    /// Of the comparisons.
    passed: bool,
    /// Of the stages in f32, which are held to the tolerance.
    #[serde(skip)]
    largest: f64,
    checks: Vec<Check>,
    stages: Vec<Stage>,
}

pub(crate) fn run(args: &DoctorArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let (device, machine) = (args.device.device(), Machine::this());
    let backend = device.backend_to_check(&machine)?;
    let goldens = match &args.goldens {
        None => embedded().map_err(DoctorError::from)?,
        Some(file) if file.is_file() => vec![Golden::open(file).map_err(DoctorError::from)?],
        Some(folder) => read_folder(folder)?,
    };
    let control = interrupt.watch()?.control();
    #[cfg_attr(not(feature = "gpu"), allow(unused_mut, reason = "only a GPU has kernels to check"))]
    let mut checks = health(&backend, &args.programs.programs(), &machine, control);
    #[cfg(feature = "gpu")]
    let kernels = match (backend, device.tune) {
        (Backend::Gpu(gpu), true) => {
            let mut show = Show::new(ProgressMode::None, out, interrupt);
            let found = check_kernels(gpu, device.dtype(), &machine, &mut |event| show.event(event));
            let (check, kernels) = match found {
                Ok(found) => (found.check.clone(), Some(found)),
                Err(error) => {
                    let next = "update the driver, or use --device cpu";
                    (Check::problem("kernels", error.to_string(), next), None)
                }
            };
            checks.push(check);
            kernels
        }
        _ => None,
    };
    let settings = DoctorSettings { backend, build: device.build(), cancel: control.token().clone() };
    let variants = variants(&settings, args.all_variants)?;
    let mut progress = Progress::counting("goldens", ProgressMode::Auto, out);
    let total = Some(variants.len() * goldens.len());
    progress.event(Event::Phase { phase: "check", total, estimated: false });
    let (mut stages, mut largest) = (Vec::new(), 0.0);
    for (variant, settings) in variants {
        for golden in &goldens {
            out.detail(format_args!("running {}{variant}", golden.name));
            let started = Instant::now();
            let mut judged = run_golden(golden, &settings)?;
            judged.iter_mut().for_each(|s| s.stage += &variant);
            if settings.build.dtype == DType::F32 {
                largest = judged.iter().map(|s| s.max_abs).fold(largest, f64::max);
            }
            stages.extend(judged);
            let busy = started.elapsed();
            progress.event(Event::Advanced { phase: "check", frames: 1, busy, elsewhere: false });
        }
    }
    drop(progress);
    let failed = stages.iter().filter(|s| !s.passed).count();
    // The verdict on a device counts all that was checked, and is written once.
    #[cfg(feature = "gpu")]
    if let Some(Err(error)) = kernels.map(|found| found.keep(failed == 0, &machine)) {
        out.warn(format_args!("cannot save the result: {error}"));
    }
    let mut report = Report {
        backend: settings.backend.name(),
        dtype: settings.build.dtype.name(),
        tolerance: TOLERANCE,
        passed: failed == 0,
        largest,
        checks,
        stages,
    };
    report.checks.push(numbers(&report, failed));
    out.result(&report, || match (args.markdown, out.is_verbose()) {
        (true, _) => markdown(&report),
        (false, true) => table(&report) + &summary(&report),
        (false, false) => summary(&report),
    });
    match failed {
        0 => Ok(()),
        _ => Err(CliError::Unhealthy { failed, total: report.stages.len() }),
    }
}

/// The comparisons in one line.
fn numbers(report: &Report, failed: usize) -> Check {
    let (dtype, total) = (report.dtype, report.stages.len());
    if failed > 0 {
        let text = format!("{failed} of {total} comparisons in {dtype} exceed the tolerance");
        return Check::problem("numbers", text, "list them with -v");
    }
    let mut text = format!("{total} comparisons with the original in {dtype}");
    if report.largest > 0.0 {
        text += &format!(", largest error {:.2e} (limit {:.0e})", report.largest, report.tolerance);
    }
    Check::ok("numbers", text)
}

fn summary(report: &Report) -> String {
    let lines: String = report.checks.iter().map(Check::line).collect();
    match report.checks.iter().filter(|c| !c.ok).count() {
        0 => lines + "ready\n",
        n => lines + &count(n, "problem") + "\n",
    }
}

/// The backend as it is, or with each of its kernels in turn. Matrix units multiply 16-bit values: their kernels
/// are run in f16.
#[cfg_attr(not(feature = "gpu"), allow(unused_variables, reason = "only a GPU has variants"))]
fn variants(settings: &DoctorSettings, all: bool) -> Result<Vec<(String, DoctorSettings)>, CliError> {
    #[cfg(feature = "gpu")]
    if let (Backend::Gpu(device), true) = (settings.backend, all) {
        use remaster_compute::gpu::{all_variants, with_variant};
        let of = |v: remaster_compute::gpu::Variant| {
            let mut with = settings.clone();
            with.backend = Backend::Gpu(with_variant(device, &v));
            if v.family() == "matrix" {
                with.build.dtype = DType::F16;
            }
            (format!(", {v} {}", with.build.dtype), with)
        };
        return Ok(all_variants(&device).map_err(Error::from)?.into_iter().map(of).collect());
    }
    Ok(vec![(String::new(), settings.clone())])
}

fn read_folder(folder: &Path) -> Result<Vec<Golden>, CliError> {
    let paths = || -> std::io::Result<Vec<PathBuf>> {
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    };
    let mut files = paths().map_err(|source| Error::Read { path: folder.to_owned(), source })?;
    files.retain(|path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let ours = ["tiny_", "full_", "dit_"].iter().any(|start| name.starts_with(start));
        ours && path.extension().is_some_and(|e| e == "safetensors")
    });
    files.sort();
    let goldens: Result<Vec<Golden>, GoldenError> = files.iter().map(|f| Golden::open(f)).collect();
    let goldens = goldens.map_err(DoctorError::from)?;
    match goldens.is_empty() {
        true => Err(CliError::NoGolden { path: folder.to_owned() }),
        false => Ok(goldens),
    }
}

fn psnr(stage: &Stage) -> String {
    stage.psnr.map_or("equal".into(), |p| format!("{p:.1} dB"))
}

fn table(report: &Report) -> String {
    let row = |s: &Stage| {
        let verdict = if s.passed { "pass" } else { "FAIL" };
        format!("{verdict}  {:9.2e}  {:>8}  {} {}\n", s.max_abs, psnr(s), s.golden, s.stage)
    };
    report.stages.iter().map(row).collect()
}

fn markdown(report: &Report) -> String {
    let mut text = String::from("| golden | tensor | max abs error | PSNR | |\n|---|---|---:|---:|---|\n");
    for s in &report.stages {
        let verdict = if s.passed { "pass" } else { "**fail**" };
        text += &format!("| {} | {} | {:.2e} | {} | {verdict} |\n", s.golden, s.stage, s.max_abs, psnr(s));
    }
    text
}
