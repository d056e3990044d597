//! Figures for Prometheus.

use std::fmt::Write;

use crate::app::App;
use crate::job::Status;

/// All figures, in the text form of Prometheus.
pub(crate) fn written(app: &App) -> String {
    let jobs = app.jobs.figures();
    let mut text = String::new();
    let mut figure = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        let _ = writeln!(text, "# HELP remaster_{name} {help}\n# TYPE remaster_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "remaster_{name}{labels} {value}");
        }
    };
    let by_state: Vec<(String, f64)> = Status::ALL
        .iter()
        .zip(jobs.by_status)
        .map(|(status, count)| (format!("{{status=\"{}\"}}", status.word()), count as f64))
        .collect();
    figure("jobs", "gauge", "Jobs that are kept, by status.", &by_state);
    let plain = |value: f64| [(String::new(), value)];
    figure("jobs_paused", "gauge", "Jobs that are paused.", &plain(jobs.paused as f64));
    figure("jobs_limit", "gauge", "Jobs that may wait.", &plain(app.settings.jobs as f64));
    figure("frames", "gauge", "Frames of the results that are kept.", &plain(jobs.frames as f64));
    figure("job_seconds", "gauge", "Seconds of work on the jobs that are kept.", &plain(jobs.seconds));
    figure(
        "memory_share",
        "gauge",
        "The most memory that a job used of what was planned for it.",
        &plain(jobs.memory_share),
    );
    figure("devices", "gauge", "Devices.", &plain(app.settings.devices.len() as f64));
    figure("devices_busy", "gauge", "Devices that are at work.", &plain(jobs.devices_busy as f64));
    let free = remaster_disk::free_space(&app.settings.state).unwrap_or(0) as f64;
    figure("disk_free_bytes", "gauge", "Free space of the folder of the server.", &plain(free));
    figure("uploads", "gauge", "Uploads that are kept.", &plain(app.uploads.count() as f64));
    let since = app.started as f64 / 1e3;
    figure(
        "start_time_seconds",
        "gauge",
        "When the server was started, in seconds since 1970.",
        &plain(since),
    );
    text
}
