//! `remaster verify`.

use remaster::numbers::{count, grouped};
use remaster::units::{Verified, VerifyRequest};
use remaster_units::Manifest;

use crate::args::{ProgressMode, VerifyFilmArgs};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::show::Show;

pub(crate) fn run(args: &VerifyFilmArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let request = VerifyRequest { film: args.film.clone(), programs: args.programs.programs() };
    let report = Show::new(ProgressMode::None, out, interrupt.watch()?).run(request)?;
    out.result(&report, || {
        let Verified { manifest: Manifest { settings, units, sha256, frames, .. }, .. } = &report;
        let mut text = format!("{} is as it was written\n", report.film);
        let mut line = |what: &str, value: String| text += &format!("  {what:12} {value}\n");
        line("frames", format!("{} in {}", grouped(*frames), count(units.len(), "unit")));
        if report.left > 0 {
            line("not restored", count(report.left, "unit"));
        }
        for model in &settings.models {
            line(&model.role, model.name.clone());
        }
        line("settings", serde_json::to_string(&settings.request).unwrap_or_default());
        line("device", format!("{}, {}", settings.numerics.backend, settings.numerics.dtype));
        line("program", format!("remaster {}, {}", settings.numerics.program, settings.numerics.encoder));
        let seconds: u64 = units.iter().map(|unit| unit.milliseconds / 1000).sum();
        line("time", format!("{seconds} s"));
        line("sha256", sha256.to_string());
        text
    });
    Ok(())
}
