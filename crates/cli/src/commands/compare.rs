//! `remaster compare`.

use remaster::Compared;
use remaster::numbers::count;
use remaster_metrics::Metric;

use crate::args::CompareArgs;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::show::Show;

pub(crate) fn run(args: &CompareArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let mut show = Show::new(args.progress.mode, out, interrupt.watch()?);
    let compared = show.run(args.request())?;
    let _ = show.finish();
    out.result(&compared, || describe(&compared));
    for difference in &compared.differences {
        out.warn(difference);
    }
    match args.min_psnr {
        Some(least) => Ok(compared.at_least(least)?),
        None => Ok(()),
    }
}

fn describe(compared: &Compared) -> String {
    let Compared { a, b, report, .. } = compared;
    let (frames, width, height) = (count(report.frames, "frame"), report.width, report.height);
    let mut text = format!("{b} against {a}: {frames}, {width} x {height}\n");
    if report.identical {
        text += "all frames are identical\n";
    } else if let Some(psnr) = report.pooled.psnr {
        text += &format!("PSNR over all frames: {psnr:.2} dB\n");
    }
    text += &format!("{:34} {:>10} {:>10} {:>10}\n", "", "mean", "worst", "at frame");
    for metric in Metric::ALL {
        let Some(stat) = report.summary.get(&metric) else { continue };
        let worst = stat.worst(metric);
        text +=
            &format!("{:34} {:>10.4} {:>10.4} {:>10}\n", metric.title(), stat.mean, worst, stat.worst_frame);
    }
    let [r, g, b] = report.drift.mean;
    text += &format!("{:34} r {r:+.2}, g {g:+.2}, b {b:+.2} levels", "colour drift");
    if let Some(largest) = &report.drift.largest {
        let (x, y, levels) = (largest.x, largest.y, largest.levels);
        text += &format!("; largest {levels:+.2} in the block at {x}, {y}");
    }
    text += "\n";
    if let Some(score) = report.seams.score {
        text += &format!("{:34} {score:.2} times the difference elsewhere\n", "seams");
    }
    for note in &compared.notes {
        text += &format!("note: {note}\n");
    }
    text
}
