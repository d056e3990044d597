//! Transfers that break, stall, lie or change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::*;

#[test]
fn a_connection_that_breaks_often_is_continued_each_time() {
    let (desk, content) = (Desk::new(), Content::new(2_000_000));
    // More breaks than retries: each brings something.
    let server = server::hub(&content, |content, request, stream| content.send(request, stream, 150_000));
    is_whole(&pull(desk.settings(&server), &content).unwrap(), &content);
    let starts: Vec<_> = server.gets().iter().map(|r| r.start().unwrap_or(0)).collect();
    assert_eq!(starts, (0..14).map(|n| n * 150_000).collect::<Vec<_>>());
    // The second request knows what the first response called its content.
    assert_eq!(server.gets()[0].header("if-range"), None);
    assert_eq!(server.gets()[1].header("if-range"), Some("\"v1\""));
}

#[test]
fn a_later_run_continues_where_the_first_stopped() {
    let (desk, content, server) = scene(1_000_000);
    desk.begun(&content, &content.bytes[..600_001]);
    let mut checked = 0;
    let path = pull_with(desk.settings(&server), &content, &mut |event| {
        if let Event::Checking { done, .. } = event {
            checked = done;
        }
    });
    is_whole(&path.unwrap(), &content);
    assert_eq!((checked, server.gets().len()), (600_001, 1));
    assert_eq!(server.gets()[0].start(), Some(600_001));
}

#[test]
fn a_part_that_is_all_of_it_needs_no_request_for_bytes() {
    let (desk, content, server) = scene(10_000);
    desk.begun(&content, &content.bytes);
    is_whole(&pull(desk.settings(&server), &content).unwrap(), &content);
    assert_eq!(server.gets().len(), 0);
}

#[test]
fn a_part_that_is_too_long_is_no_part() {
    let (desk, content, server) = scene(10_000);
    desk.begun(&content, &[7; 10_001]);
    is_whole(&pull(desk.settings(&server), &content).unwrap(), &content);
    assert_eq!(server.gets()[0].start(), None);
}

/// The whole file whatever was asked for.
fn whole(content: &Content, stream: &mut std::net::TcpStream, most: usize) -> std::io::Result<()> {
    let length = content.bytes.len().to_string();
    server::head(stream, "200 OK", &[("Content-Length", &length)])?;
    std::io::Write::write_all(stream, &content.bytes[..content.bytes.len().min(most)])
}

#[test]
fn a_server_without_ranges_sends_it_again_from_the_start() {
    let (desk, content) = (Desk::new(), Content::new(400_000));
    desk.begun(&content, &content.bytes[..300_000]);
    let server = server::hub(&content, |content, _, stream| whole(content, stream, usize::MAX));
    let mut again = 0;
    let path = pull_with(desk.settings(&server), &content, &mut |event| {
        again += u32::from(matches!(event, Event::Again { .. }));
    });
    is_whole(&path.unwrap(), &content);
    assert_eq!((again, server.gets().len()), (1, 1));
}

#[test]
fn a_server_without_ranges_that_always_breaks_is_given_up() {
    let (desk, content) = (Desk::new(), Content::new(400_000));
    let server = server::hub(&content, |content, _, stream| whole(content, stream, 250_000));
    let error = pull(desk.settings(&server), &content).unwrap_err();
    assert!(matches!(&error, HubError::Network { tries: 4, .. }), "{error}");
    assert!(error.to_string().contains("continues where it stopped"), "{error}");
    assert_eq!(server.gets().len(), 4);
}

#[test]
fn another_part_than_was_asked_for_is_not_appended() {
    let (desk, content) = (Desk::new(), Content::new(300_000));
    desk.begun(&content, &content.bytes[..100_000]);
    for (status, range) in [
        ("206 Partial Content", "bytes 0-299999/300000"),
        ("206 Partial Content", "bytes 100000-299998/299999"),
        ("206 Partial Content", "nonsense"),
        ("416 Range Not Satisfiable", "bytes */300000"),
    ] {
        let server = server::hub(&content, move |content, request, stream| match request.start() {
            None => content.send(request, stream, usize::MAX),
            Some(_) => server::head(stream, status, &[("Content-Range", range), ("Content-Length", "0")]),
        });
        is_whole(&pull(desk.settings(&server), &content).unwrap(), &content);
        assert_eq!(server.gets().len(), 2, "{status} {range}");
        std::fs::remove_dir_all(desk.repo()).unwrap();
        desk.begun(&content, &content.bytes[..100_000]);
    }
}

#[test]
fn a_file_that_changes_on_the_server_is_received_anew() {
    let (desk, content) = (Desk::new(), Content::new(300_000));
    let count = AtomicUsize::new(0);
    let other = Content::of(vec![1; 300_000]);
    // The first answer is of another version, and breaks; the second one knows that from If-Range.
    let server = server::hub(&content, move |content, request, stream| {
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            return other.send(request, stream, 100_000);
        }
        assert_eq!(request.header("if-range"), Some("\"v1\""));
        whole(content, stream, usize::MAX)
    });
    is_whole(&pull(desk.settings(&server), &content).unwrap(), &content);
}

#[test]
fn the_wrong_bytes_are_kept_aside_and_never_used() {
    let (desk, content) = (Desk::new(), Content::new(100_000));
    let wrong = Content::of(vec![3; 100_000]);
    let bytes = wrong.bytes.clone();
    let server = server::hub(&content, move |_, request, stream| wrong.send(request, stream, usize::MAX));
    for name in ["wrong-sha256", "wrong-sha256.2"] {
        let error = pull(desk.settings(&server), &content).unwrap_err();
        let HubError::Mismatch { kept, expected, found } = &error else { panic!("{error}") };
        assert_eq!(kept, &desk.blob(&format!("{}.{name}", content.sha256)));
        assert_eq!(std::fs::read(kept).unwrap(), bytes);
        assert!(expected == &content.sha256 && found != expected);
        assert!(!desk.blob(&content.sha256).exists() && !desk.partial(&content).exists());
        assert!(!desk.repo().join("snapshots").exists());
    }
    // A part of an earlier run may be what is wrong.
    let server = server::hub(&content, server::all);
    desk.begun(&content, &[9; 50_000]);
    assert!(matches!(pull(desk.settings(&server), &content), Err(HubError::Mismatch { .. })));
    is_whole(&pull(desk.settings(&server), &content).unwrap(), &content);
}

#[test]
fn a_silent_server_and_one_that_drips_have_stalled() {
    let content = Content::new(100_000);
    for drips in [false, true] {
        let desk = Desk::new();
        let server = server::hub(&content, move |content, request, stream| {
            content.send(request, stream, 10)?;
            for n in 10..200 {
                std::thread::sleep(Duration::from_millis(20));
                if drips {
                    std::io::Write::write_all(stream, &content.bytes[n..n + 1])?;
                }
            }
            Ok(())
        });
        let started = Instant::now();
        let limits = Limits { stall: Duration::from_millis(300), retries: 1, ..LIMITS };
        let error = pull(HubSettings { limits, ..desk.settings(&server) }, &content).unwrap_err();
        assert!(error.to_string().contains("stalled for 0.3 s (2 attempts)"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    }
}

#[test]
fn a_length_that_is_not_the_file_s_is_refused_before_a_byte_is_written() {
    let (desk, content) = (Desk::new(), Content::new(100_000));
    for length in ["12", "100001", "99999999999999"] {
        let server = server::hub(&content, move |_, _, stream| {
            server::head(stream, "200 OK", &[("Content-Length", length), ("Content-Type", "text/html")])?;
            std::io::Write::write_all(stream, b"<html>login")
        });
        let error = pull(desk.settings(&server), &content).unwrap_err();
        assert!(matches!(error, HubError::Size { expected: 100_000, .. }), "{error}");
        assert_eq!(std::fs::metadata(desk.partial(&content)).unwrap().len(), 0);
        assert_eq!(server.gets().len(), 1);
    }
    // Compressed bytes are not the file's.
    let server = server::hub(&content, |_, _, stream| {
        server::head(stream, "200 OK", &[("Content-Length", "100000"), ("Content-Encoding", "gzip")])
    });
    assert!(matches!(pull(desk.settings(&server), &content), Err(HubError::NotAHub { .. })));
}

#[test]
fn more_bytes_than_the_file_has_are_not_read() {
    let (desk, content) = (Desk::new(), Content::new(100_000));
    // No length at all, as of a program that makes it up as it goes.
    let server = server::hub(&content, |content, _, stream| {
        server::head(stream, "200 OK", &[])?;
        std::io::Write::write_all(stream, &content.bytes)?;
        loop {
            std::io::Write::write_all(stream, &[0; 4096])?;
        }
    });
    is_whole(&pull(desk.settings(&server), &content).unwrap(), &content);
}
