use super::display::{JSON_PAUSE, TICK};
use super::*;
use crate::output::paper::Paper;

fn on(paper: &Paper, how: How) -> Progress {
    let style = Style { columns: 80, colour: false, blocks: false };
    Progress::with("frames", how, style, Screen::new(paper.clone()))
}

#[test]
fn ten_thousand_steps_do_not_flood_the_terminal() {
    for how in [How::Bar, How::Plain, How::Json, How::Nothing] {
        let paper = Paper::default();
        let mut progress = on(&paper, how);
        let started = Instant::now();
        progress.phase("encode", Some(10_000));
        for _ in 0..10_000 {
            progress.advance("encode", 1, Duration::from_micros(10));
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
    progress.phase("decode", Some(8));
    std::thread::sleep(Duration::from_millis(700));
    progress.warn("careful");
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
    progress.plan(1 << 30, &[("encode", 1.0), ("decode", 2.0)]);
    progress.phase("encode", Some(4));
    progress.phase_about("decode", 4);
    progress.memory(5, 7);
    progress.advance("encode", 4, Duration::from_millis(20));
    std::thread::sleep(JSON_PAUSE + TICK);
    progress.advance("decode", 4, Duration::from_millis(40));
    progress.warn("careful");
    progress.finish();
    let lines: Vec<serde_json::Value> =
        paper.text().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let events: Vec<&str> = lines.iter().map(|l| l["event"].as_str().unwrap()).collect();
    assert_eq!(events[..3], ["plan", "phase", "phase"]);
    assert_eq!(events[events.len() - 2..], ["warning", "summary"]);
    assert_eq!(lines[2]["estimated"], true);
    let middle = &lines[3];
    assert_eq!(
        (&middle["phase"], &middle["done"], &middle["total"]),
        (&json!("encode"), &json!(4), &json!(4))
    );
    assert_eq!((&middle["eta"], &middle["peak_bytes"]), (&json!("estimated"), &json!(7)));
    let summary = lines.last().unwrap();
    assert_eq!(summary["phases"][0]["peak_bytes"], 7);
    assert_eq!(summary["planned_bytes"], 1 << 30);
}

#[test]
fn a_peak_between_two_looks_belongs_to_the_phase_at_work() {
    let mut progress = on(&Paper::default(), How::Nothing);
    progress.memory(1, 1);
    progress.phase("encode", None);
    progress.memory(10, 90);
    progress.enter("decode");
    progress.memory(20, 90);
    let summary = progress.finish();
    let peaks: Vec<_> = summary.phases.iter().map(|p| p.peak_bytes).collect();
    assert_eq!((peaks, summary.peak_bytes), (vec![Some(90), Some(20)], Some(90)));
}

#[test]
fn the_bar_says_paused_and_its_clock_stands_still() {
    let paper = Paper::default();
    let mut progress = on(&paper, How::Bar);
    progress.phase("decode", Some(8));
    progress.advance("decode", 4, Duration::from_secs(4));
    let pause = progress.pause();
    pause.set(true);
    let at = progress.elapsed();
    assert!(paper.shown()[0].contains("paused, ETA"), "{:?}", paper.shown());
    // Memory is shown behind the time, and goes on changing.
    let time = |shown: Vec<String>| shown[0].split("  ").take(5).collect::<Vec<_>>().join("  ");
    let before = time(paper.shown());
    std::thread::sleep(3 * TICK);
    assert_eq!((progress.elapsed(), time(paper.shown())), (at, before));
    pause.set(false);
    assert!(!paper.shown()[0].contains("paused"), "{:?}", paper.shown());
    // The slice that was at work took this long with the pause in it.
    progress.advance("decode", 4, Duration::from_secs(4) + 3 * TICK);
    let summary = progress.finish();
    assert!(summary.phases[0].seconds < 8.1, "{summary:?}");
}
