//! What ffmpeg may open, how long it may take, and what is left of it.

use std::time::{Duration, Instant};

use crate::common::{clip, dies_of, media, read, tools};
use remaster_media::{MediaError, ReadOptions, Secrets, Stop, Tools, probe};

#[test]
fn a_playlist_under_any_name_is_refused_and_says_what_to_do() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let secret = clip(folder.path(), "secret.ts", "testsrc2=s=64x48:r=10:d=1", &["-c:v", "mpeg2video"]);
    let secret = secret.to_str().unwrap();
    let hls = format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{secret}\n#EXT-X-ENDLIST\n");
    let concat = format!("ffconcat version 1.0\nfile '{secret}'\n");
    let sdp = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n";
    let dash = format!(
        "<?xml version=\"1.0\"?><MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type=\"static\" mediaPresentationDuration=\"PT1S\"><Period>\
         <AdaptationSet mimeType=\"video/mp2t\"><Representation id=\"1\" bandwidth=\"1\"><BaseURL>{secret}</BaseURL>\
         </Representation></AdaptationSet></Period></MPD>"
    );
    for (kind, text) in [("hls", &hls), ("concat", &concat), ("sdp", &sdp.to_owned()), ("dash", &dash)] {
        for name in ["film.mp4", "film.m3u8", "film"] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            match probe(&tools, &path) {
                Err(MediaError::NotOneFile { format, .. }) => {
                    assert!(format.contains(kind), "{kind} as {name}: {format}");
                }
                // A build without the demuxer does not know what it is.
                Err(MediaError::Unreadable { .. }) if kind != "hls" && kind != "concat" => {}
                other => panic!("{kind} as {name}: {other:?}"),
            }
        }
    }
    let path = folder.path().join("film.mp4");
    std::fs::write(&path, &hls).unwrap();
    let words = probe(&tools, &path).unwrap_err().to_string();
    assert!(words.contains("joined.mkv") && !words.contains("matroska"), "{words}");
}

#[test]
fn names_are_taken_literally() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let everywhere = ["a%03d.png.mkv", "-i.mkv", "a[b]{c}.mkv"];
    // Windows has no such names.
    let elsewhere = ["a*?[b]{c}.mkv", "http:x.mkv", "concat:a|b.mkv", "pipe:0.mkv"];
    for name in everywhere.into_iter().chain(elsewhere.into_iter().filter(|_| !cfg!(windows))) {
        let path = folder.path().join(name);
        std::fs::copy(media("vfr.mkv"), &path).unwrap();
        let found = probe(&tools, &path).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(found.video.codec, "h264", "{name}");
    }
    // A picture is one file, whatever its siblings are called.
    let path = clip(folder.path(), "one.jpg", "testsrc2=s=64x48:d=1:r=1", &[]);
    assert_eq!(probe(&tools, &path).unwrap().video.width, 64);
    let path = clip(folder.path(), "sound.wav", "sine=d=0.1", &[]);
    assert!(matches!(probe(&tools, &path), Err(MediaError::NoVideo { .. })));
}

#[test]
fn a_frame_of_another_size_is_reported_at_once() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let part = |size: &str| {
        let (name, source) = (format!("{size}.ts"), format!("testsrc2=s={size}:r=25:d=1"));
        std::fs::read(clip(folder.path(), &name, &source, &["-c:v", "mpeg2video", "-q:v", "2"])).unwrap()
    };
    let (small, large) = (part("64x48"), part("640x480"));
    for (name, parts) in [("grows", [&small, &large]), ("shrinks", [&large, &small])] {
        let path = folder.path().join(format!("{name}.ts"));
        std::fs::write(&path, parts.map(Vec::as_slice).concat()).unwrap();
        if dies_of(&path) {
            let died = read(&tools, &path, ReadOptions::default()).err();
            assert!(matches!(died, Some(MediaError::Died { .. })), "{died:?}");
            continue;
        }
        for keep_damaged in [false, true] {
            let started = Instant::now();
            let error =
                read(&tools, &path, ReadOptions { keep_damaged, ..ReadOptions::default() }).err().unwrap();
            assert!(matches!(error, MediaError::SizeChange { frame: 20..=26, .. }), "{name}: {error}");
            assert!(started.elapsed() < Duration::from_secs(20), "{name}: {:?}", started.elapsed());
        }
    }
}

#[test]
fn what_is_missing_is_said_when_damage_is_kept() {
    let (folder, tools) = (tempfile::tempdir().unwrap(), tools());
    let coder = ["-c:v", "mpeg4", "-q:v", "2", "-movflags", "+faststart"];
    let whole = clip(folder.path(), "whole.mp4", "testsrc2=s=160x96:r=25:d=4", &coder);
    let bytes = std::fs::read(&whole).unwrap();
    let cut = folder.path().join("cut.mp4");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    assert!(read(&tools, &cut, ReadOptions::default()).is_err());
    let found = read(&tools, &cut, ReadOptions { keep_damaged: true, ..ReadOptions::default() }).unwrap();
    let got = found.frames.len();
    assert!((10..90).contains(&got), "{got}");
    let note = found.late.join("; ");
    assert!(note.contains(&format!("{got} of about 100 frames")), "{note}");
    let found = read(&tools, &whole, ReadOptions { keep_damaged: true, ..ReadOptions::default() }).unwrap();
    assert_eq!((found.frames.len(), found.late.len()), (100, 0));
}

/// Scripts stand in for ffmpeg there.
#[cfg(unix)]
mod wrapped {
    use std::path::Path;

    use super::*;
    use crate::common::script;

    fn one_second(folder: &Path) -> std::path::PathBuf {
        clip(folder, "clip.mkv", "testsrc2=s=64x48:r=25:d=1", &["-c:v", "ffv1"])
    }

    #[test]
    fn background_processes_of_a_wrapper_are_not_waited_for() {
        for (start, lives_on) in [("", false), ("setsid ", true)] {
            let folder = tempfile::tempdir().unwrap();
            let clip = one_second(folder.path());
            let note = folder.path().join("pids");
            let text = format!("{start}sleep 20 & echo $! >> {}; exec ffmpeg \"$@\"", note.display());
            let program = script(folder.path(), &text);
            let started = Instant::now();
            let tools = Tools::find(Some(&program), Stop::never(), Secrets::default()).unwrap();
            let found = read(&tools, &clip, ReadOptions::default()).unwrap();
            assert_eq!(found.frames.len(), 25);
            assert!(started.elapsed() < Duration::from_secs(15), "`{start}`: {:?}", started.elapsed());
            drop(found);
            for id in std::fs::read_to_string(&note).unwrap().lines() {
                assert!(lives_on || ends(id), "`{start}`: {id} lives on");
            }
        }
    }

    /// Whether a process ends within two seconds; a zombie has.
    fn ends(id: &str) -> bool {
        (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.rsplit(')').next().is_none_or(|s| s.is_empty() || s.starts_with(" Z"))
        })
    }

    #[test]
    fn a_decoder_that_was_killed_is_an_error_in_every_mode() {
        // In the middle of a frame, and when all frames are out.
        for (end, bytes) in [("kill -9 $$", 30_000), ("kill -SEGV $$", 1_000_000), ("exit 137", 30_000)] {
            let folder = tempfile::tempdir().unwrap();
            let clip = one_second(folder.path());
            let decode = format!("ffmpeg \"$@\" 2>/dev/null | head -c {bytes}; {end}");
            let text = format!("case \"$*\" in *rawvideo*) {decode};; esac; exec ffmpeg \"$@\"");
            let tools =
                Tools::find(Some(&script(folder.path(), &text)), Stop::never(), Secrets::default()).unwrap();
            for keep_damaged in [false, true] {
                let options = ReadOptions { keep_damaged, ..ReadOptions::default() };
                let error = read(&tools, &clip, options).err().unwrap();
                assert!(matches!(error, MediaError::Died { .. }), "{end}, {keep_damaged}: {error}");
            }
        }
    }

    #[test]
    fn ffprobe_may_be_elsewhere_and_a_new_version_is_only_noted() {
        let folder = tempfile::tempdir().unwrap();
        let version = |text: &str| {
            let text = format!(
                "if [ \"$1\" = -version ]; then echo ffmpeg version {text}; else exec ffmpeg \"$@\"; fi"
            );
            let program = script(folder.path(), &text);
            Tools::find(Some(&program), Stop::never(), Secrets::default())
        };
        assert_eq!(version("7.1").unwrap().note(), None);
        let note = version("12.3-future").unwrap().note().unwrap();
        assert!(note.contains("12.3-future"), "{note}");
        assert!(version("N-118000-gabcdef").unwrap().note().is_some());
        assert!(matches!(version("4.4.2"), Err(MediaError::OldTool { .. })));
        // Without an ffprobe beside it the system's is used; one that is named must be there.
        let program = script(folder.path(), "exec ffmpeg \"$@\"");
        std::fs::remove_file(folder.path().join("ffprobe")).unwrap();
        let odd = folder.path().join("ffmpeg-linux-x86_64-v7");
        std::fs::rename(program, &odd).unwrap();
        let tools = Tools::find(Some(&odd), Stop::never(), Secrets::default()).unwrap();
        assert_eq!(tools.versions()[1].0, Path::new("ffprobe"));
        assert!(probe(&tools, &one_second(folder.path())).is_ok());
        let missing = folder.path().join("nowhere");
        let error =
            Tools::find_apart(Some(&odd), Some(&missing), Stop::never(), Secrets::default()).unwrap_err();
        assert!(matches!(error, MediaError::NoTool { .. }), "{error}");
    }
}

/// A program in place of ffmpeg that writes its environment to a file and is nothing else. Windows takes a batch file.
fn revealing(folder: &std::path::Path, written: &std::path::Path) -> std::path::PathBuf {
    #[cfg(unix)]
    {
        let program = folder.join("ffmpeg");
        remaster_testkit::program(&program, &format!("#!/bin/sh\nenv >> '{}'\n", written.display()));
        program
    }
    #[cfg(windows)]
    {
        let program = folder.join("ffmpeg.cmd");
        std::fs::write(&program, format!("@set >> \"{}\"\r\n", written.display())).unwrap();
        program
    }
}

/// What variables are called, and whether a child may have them.
const VARIABLES: [(&str, bool); 8] = [
    ("AWS_SECRET_ACCESS_KEY", false),
    ("Aws_Region", false),
    ("REMASTER_TOKEN", false),
    ("hf_home", false),
    ("Some_ApiKey", false),
    ("GIT_PASSWORD", false),
    ("HTTPS_PROXY", false),
    ("PLAIN_VARIABLE", true),
];

/// Runs in a process of its own that [`no_child_knows_a_secret`] starts: an environment is that of a whole process.
#[test]
fn a_child_is_started_with_what_is_no_secret() {
    let Some(folder) = std::env::var_os("CHILD_FOLDER") else { return };
    let folder = std::path::PathBuf::from(folder);
    let (program, written) = (revealing(&folder, &folder.join("env")), folder.join("env"));
    let secrets = || Secrets::among(std::env::vars_os().map(|(name, _)| name));
    // None of them is what it should be, but all were started.
    assert!(Tools::find(Some(&program), Stop::never(), secrets()).is_err());
    assert!(remaster_media::Vspipe::find(Some(&program), Stop::never(), secrets()).is_err());
    let text = String::from_utf8_lossy(&std::fs::read(written).unwrap()).into_owned();
    assert_eq!(text.lines().filter(|line| line.starts_with("PLAIN_VARIABLE=")).count(), 2, "{text}");
}

#[test]
fn no_child_knows_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = std::process::Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "doors::a_child_is_started_with_what_is_no_secret"]);
    process.env("CHILD_FOLDER", folder.path()).envs(VARIABLES.map(|(name, _)| (name, "swordfish")));
    let out = process.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    let text = String::from_utf8_lossy(&std::fs::read(folder.path().join("env")).unwrap()).into_owned();
    let has = |name: &str| {
        text.lines().any(|line| line.split('=').next().is_some_and(|known| known.eq_ignore_ascii_case(name)))
    };
    for (name, allowed) in VARIABLES {
        assert_eq!(has(name), allowed, "{name}: {text}");
    }
    assert_eq!(text.matches("swordfish").count(), 2, "{text}");
    assert!(has("PATH") && (!cfg!(windows) || has("SystemRoot") && has("TEMP")), "{text}");
}
