use std::time::Duration;

use super::display::{JSON_PAUSE, TICK};
use super::*;
use crate::output::paper::Paper;

fn phase(phase: &'static str, total: Option<usize>) -> Event {
    Event::Phase { phase, total, estimated: false }
}

fn advanced(phase: &'static str, frames: usize, busy: Duration) -> Event {
    Event::Advanced { phase, frames, busy, elsewhere: false }
}

/// Memory is what the test notes, not that of the process.
fn unmetered(progress: &Progress) {
    let mut state = progress.shared.lock();
    state.meter = || None;
    state.memory = None;
}

fn elapsed(progress: &Progress) -> Duration {
    progress.shared.lock().pauses.clock(progress.shared.started)
}

fn on(paper: &Paper, how: How) -> Progress {
    let style = Style { memory: true, columns: 80, colour: false, blocks: false };
    Progress::with("frames", how, style, Screen::new(paper.clone()))
}

#[test]
fn ten_thousand_steps_do_not_flood_the_terminal() {
    for how in [How::Bar, How::Plain, How::Json, How::Nothing] {
        let paper = Paper::default();
        let mut progress = on(&paper, how);
        let started = Instant::now();
        progress.event(phase("encode", Some(10_000)));
        for _ in 0..10_000 {
            progress.event(advanced("encode", 1, Duration::from_micros(10)));
        }
        let summary = progress.finish();
        let tenths = started.elapsed().as_millis() as usize / 100;
        let text = paper.text();
        match how {
            How::Bar => assert!(text.matches("encode").count() <= 2 + tenths, "{text}"),
            How::Plain => assert!(tenths >= 20 || text.is_empty(), "{text}"),
            How::Json => assert!(text.lines().count() <= 5 + tenths, "{text}"),
            How::Nothing => assert_eq!(text, ""),
        }
        assert_eq!((summary.frames, summary.phases[0].frames), (10_000, 10_000));
        assert!((summary.phases[0].seconds - 0.1).abs() < 1e-9);
    }
}

#[test]
fn the_bar_lives_while_nothing_advances_and_is_gone_after_a_failure() {
    let paper = Paper::default();
    let mut progress = on(&paper, How::Bar);
    progress.event(phase("decode", Some(8)));
    std::thread::sleep(Duration::from_millis(700));
    progress.shared.screen.line("warning", "careful");
    drop(progress);
    let text = paper.text();
    assert!(text.matches("decode 0/8 frames").count() >= 2, "{text:?}");
    assert!(text.contains("warning: careful\n"), "{text:?}");
    assert_eq!(paper.shown(), ["warning: careful", ""]);
}

#[test]
fn json_lines_are_objects_that_name_their_event() {
    let paper = Paper::default();
    let mut progress = on(&paper, How::Json);
    unmetered(&progress);
    progress.event(Event::Planned { memory: 1 << 30, work: vec![("encode", 1.0), ("decode", 2.0)] });
    progress.event(phase("encode", Some(4)));
    progress.event(Event::Phase { phase: "decode", total: Some(4), estimated: true });
    progress.shared.lock().note(5, 7);
    progress.event(advanced("encode", 4, Duration::from_millis(20)));
    std::thread::sleep(JSON_PAUSE + TICK);
    progress.event(advanced("decode", 4, Duration::from_millis(40)));
    progress.shared.screen.line("warning", "careful");
    progress.finish();
    let lines: Vec<serde_json::Value> =
        paper.text().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let events: Vec<&str> = lines.iter().map(|l| l["event"].as_str().unwrap()).collect();
    assert_eq!(events[..3], ["plan", "phase", "phase"]);
    assert_eq!(events[events.len() - 2..], ["warning", "summary"]);
    assert_eq!(lines[2]["estimated"], true);
    let middle = &lines[3];
    let expected = (&json!("encode"), &json!(4), &json!(4));
    assert_eq!((&middle["phase"], &middle["done"], &middle["total"]), expected);
    assert_eq!((&middle["eta"], &middle["peak_bytes"]), (&json!("estimated"), &json!(7)));
    let summary = lines.last().unwrap();
    assert_eq!(summary["phases"][0]["peak_bytes"], 7);
    assert_eq!(summary["planned_bytes"], 1 << 30);
}

#[test]
fn a_peak_between_two_looks_belongs_to_the_phase_at_work() {
    let mut progress = on(&Paper::default(), How::Nothing);
    unmetered(&progress);
    progress.shared.lock().note(1, 1);
    progress.event(phase("encode", None));
    progress.shared.lock().note(10, 90);
    progress.event(Event::Entered { phase: "decode" });
    progress.shared.lock().note(20, 90);
    let summary = progress.finish();
    let peaks: Vec<_> = summary.phases.iter().map(|p| p.peak_bytes).collect();
    assert_eq!((peaks, summary.peak_bytes), (vec![Some(90), Some(20)], Some(90)));
}

#[test]
fn the_bar_says_paused_and_its_clock_stands_still() {
    let paper = Paper::default();
    let mut progress = on(&paper, How::Bar);
    progress.event(phase("decode", Some(8)));
    progress.event(advanced("decode", 4, Duration::from_secs(4)));
    let pause = progress.pause();
    pause.set(true);
    let at = elapsed(&progress);
    assert!(paper.shown()[0].contains("paused, ETA"), "{:?}", paper.shown());
    // Memory is shown behind the time, and goes on changing.
    let time = |shown: Vec<String>| shown[0].split("  ").take(5).collect::<Vec<_>>().join("  ");
    let before = time(paper.shown());
    std::thread::sleep(3 * TICK);
    assert_eq!((elapsed(&progress), time(paper.shown())), (at, before));
    pause.set(false);
    assert!(!paper.shown()[0].contains("paused"), "{:?}", paper.shown());
    // The slice that was at work took this long with the pause in it.
    progress.event(advanced("decode", 4, Duration::from_secs(4) + 3 * TICK));
    let summary = progress.finish();
    assert!(summary.phases[0].seconds < 8.1, "{summary:?}");
}
