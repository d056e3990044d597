//! `remaster tune`.

use remaster::machine::Tuning;
use remaster::{Device, Machine, TuneRequest, tune_device};

use crate::args::{ProgressMode, TuneArgs};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::show::Show;

pub(crate) fn run(args: &TuneArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let request = TuneRequest {
        device: Device::named(&args.device),
        dtypes: args.dtypes.clone(),
        side: args.side.into(),
        repeat: args.repeat.into(),
    };
    let mut show = Show::new(ProgressMode::None, out, interrupt);
    let tuning = tune_device(&request, &Machine::this(), &mut |event| show.event(event))?;
    out.result(&tuning, || describe(&tuning));
    Ok(())
}

fn describe(report: &Tuning) -> String {
    let mut text = String::new();
    for (layer, kernel) in &report.chosen {
        let rows = report.kernels.iter().filter(|r| r.layer == *layer);
        let fastest = rows.filter_map(|r| r.seconds).fold(f64::INFINITY, f64::min);
        text += &format!("{:12.3} ms  {layer:36} {kernel}\n", 1e3 * fastest);
    }
    for row in report.kernels.iter().filter(|r| !r.right) {
        let fault = row.fault.unwrap_or_default();
        text += &format!("     wrong    {:36} {} {fault}\n", row.layer, row.kernel);
    }
    let place = report.file.as_ref().map_or("not saved".into(), |f| format!("saved to {}", f.display()));
    text + &format!("{}: {} layers; {place}\n", report.device, report.chosen.len())
}
