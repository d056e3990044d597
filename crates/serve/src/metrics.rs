//! Figures for Prometheus.

use std::fmt::Write;

use crate::app::App;
use crate::job::Status;

/// All figures, in the text form of Prometheus.
pub(crate) fn written(app: &App) -> String {
    let jobs = app.jobs.all();
    let mut text = String::new();
    let mut figure = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        let _ = writeln!(text, "# HELP remaster_{name} {help}\n# TYPE remaster_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "remaster_{name}{labels} {value}");
        }
    };
    let count = |status: Status| jobs.iter().filter(|job| job.status == status).count() as f64;
    let by_state: Vec<(String, f64)> = Status::ALL
        .iter()
        .map(|status| (format!("{{status=\"{}\"}}", status.word()), count(*status)))
        .collect();
    figure("jobs", "gauge", "Jobs that are kept, by status.", &by_state);
    let plain = |value: f64| [(String::new(), value)];
    let paused = jobs.iter().filter(|job| job.paused && job.status == Status::Starting).count() as f64;
    figure("jobs_paused", "gauge", "Jobs that are paused.", &plain(paused));
    figure("jobs_limit", "gauge", "Jobs that may wait.", &plain(app.settings.jobs as f64));
    let frames: u64 = jobs.iter().filter_map(|job| job.frames).sum();
    figure("frames", "gauge", "Frames of the results that are kept.", &plain(frames as f64));
    let seconds: f64 = jobs.iter().filter_map(|job| job.seconds).sum();
    figure("job_seconds", "gauge", "Seconds of work on the jobs that are kept.", &plain(seconds));
    let worst =
        jobs.iter().filter_map(|job| job.memory).map(|[used, planned]| used as f64 / planned.max(1) as f64);
    figure(
        "memory_share",
        "gauge",
        "The most memory that a job used of what was planned for it.",
        &plain(worst.fold(0.0, f64::max)),
    );
    let busy = app.jobs.slots().iter().filter(|slot| slot.is_some()).count() as f64;
    figure("devices", "gauge", "Devices.", &plain(app.settings.devices.len() as f64));
    figure("devices_busy", "gauge", "Devices that are at work.", &plain(busy));
    let free = remaster_disk::free_space(&app.settings.state).unwrap_or(0) as f64;
    figure("disk_free_bytes", "gauge", "Free space of the folder of the server.", &plain(free));
    figure("uploads", "gauge", "Uploads that are kept.", &plain(app.uploads.list().len() as f64));
    let since = app.started as f64 / 1e3;
    figure(
        "start_time_seconds",
        "gauge",
        "When the server was started, in seconds since 1970.",
        &plain(since),
    );
    text
}
