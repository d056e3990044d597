use super::*;

#[test]
fn versions_as_they_are_written() {
    let read = |text| version(text).map(|(_, v)| (v.major, v.minor));
    assert_eq!(read("ffmpeg version 5.1.9-0+deb12u1 Copyright"), Some((5, 1)));
    assert_eq!(read("ffmpeg version n7.0.2 Copyright"), Some((7, 0)));
    assert_eq!(read("ffprobe version 9 Copyright"), Some((9, 0)));
    assert_eq!(read("ffmpeg version 7.0.2-static https://example.org"), Some((7, 0)));
    assert_eq!(read("ffmpeg version N-118000-gabc Copyright"), Some((u32::MAX, 0)));
    assert_eq!(read("ffmpeg version 2026-05-02-git-71669f2ad5-full_build"), Some((2026, 5)));
    assert_eq!(read("ffmpeg version 4.4.2-0ubuntu Copyright"), Some((4, 4)));
    assert_eq!(read("something else"), None);
    assert_eq!(read("ffmpeg version"), None);
    let line = "libavutil      57. 28.100 / 57. 28.101";
    assert_eq!(library(line).as_deref(), Some("libavutil 57.28.101"));
    assert_eq!([library("built with gcc / 12"), library("libx / y"), library("lib")], [None, None, None]);
}

#[test]
#[cfg(unix)]
fn a_count_may_take_long_but_not_stand_still() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let tools = |script: &str| {
        let program = folder.path().join("ffmpeg");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let tool = Tool { program, ..Tool::default() };
        let (keeper, encoders) = (Keeper::new(Stop::never(), Secrets::default()), Arc::default());
        Tools { ffmpeg: tool.clone(), ffprobe: tool, start: std::time::Duration::ZERO, keeper, encoders }
    };
    let slow = "for i in 1 2 3 4 5; do echo frame=$i; echo progress=continue; sleep 0.5; done";
    assert_eq!(tools(slow).count_within(&[], 2).unwrap().0, 5);
    let started = Instant::now();
    let hung = "while true; do echo frame=7; echo progress=continue; sleep 0.2; done";
    let error = tools(hung).count_within(&[], 2).unwrap_err();
    assert!(matches!(error, MediaError::Stalled { .. }), "{error}");
    let silent = tools("sleep 60 & wait").count_within(&[], 1).unwrap_err();
    assert!(matches!(silent, MediaError::Stalled { .. }), "{silent}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[test]
#[cfg(unix)]
fn killing_all_ends_a_search_and_starts_no_more() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (program, started) = (folder.path().join("ffmpeg"), folder.path().join("started"));
    std::fs::write(&program, format!("#!/bin/sh\necho > {}\nsleep 60\n", started.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (stop, begun) = (Stop::never(), Instant::now());
    let (asked, path) = (stop.clone(), program.clone());
    let search = std::thread::spawn(move || Tools::find(Some(&path), asked, Secrets::default()));
    while !started.exists() {
        assert!(begun.elapsed() < Duration::from_secs(10), "it never starts");
        std::thread::sleep(Duration::from_millis(5));
    }
    stop.kill_all();
    assert!(search.join().unwrap().is_err());
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(matches!(Tools::find(Some(&program), stop, Secrets::default()), Err(MediaError::Cancelled)));
}

#[test]
fn ffprobe_is_looked_for_under_the_matching_name_first() {
    let places = |path: &str| {
        let found = beside(Path::new(path));
        found.iter().map(|p| p.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    if cfg!(windows) {
        assert_eq!(places(r"C:\bin\ffmpeg.exe"), [r"C:\bin\ffprobe.exe", "ffprobe"]);
        assert_eq!(
            places(r"C:\bin\ffmpeg-7.exe"),
            [r"C:\bin\ffprobe-7.exe", r"C:\bin\ffprobe.exe", "ffprobe"]
        );
        return;
    }
    assert_eq!(places("ffmpeg"), ["ffprobe"]);
    let expected = ["/opt/ffprobe-linux-x86_64-v7.0.2", "/opt/ffprobe", "ffprobe"];
    assert_eq!(places("/opt/ffmpeg-linux-x86_64-v7.0.2"), expected);
    assert_eq!(places("/opt/mine"), ["/opt/ffprobe", "ffprobe"]);
    assert_eq!(places("/a/ffmpeg"), ["/a/ffprobe", "ffprobe"]);
}
