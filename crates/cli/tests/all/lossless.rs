//! What is not touched comes out as it went in, to the last bit; and a run that is stopped leaves nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside the test functions")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn media(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/media").join(name)
}

fn ffmpeg(args: &[&str]) -> Vec<u8> {
    let out = Command::new("ffmpeg").args(["-v", "error", "-nostdin", "-y"]).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

fn remaster(args: &[&str]) {
    let out = Command::new(env!("CARGO_BIN_EXE_remaster")).args(args).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn roundtrip(from: &Path, to: &Path, flags: &[&str]) {
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let mut args = vec!["vae", "roundtrip", from, "-o", to, "--weights", "identity", "--progress", "none"];
    args.extend(flags);
    remaster(&args);
}

/// Samples as they are, frame after frame.
fn raw(file: &Path, format: &str) -> Vec<u8> {
    let file = file.to_str().unwrap();
    ffmpeg(&["-i", file, "-fps_mode", "passthrough", "-pix_fmt", format, "-f", "rawvideo", "-"])
}

#[test]
fn rgb_of_8_and_16_bits_comes_back_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    for (format, sizes) in [("bgr0", "96x54"), ("gbrp16le", "97x53"), ("gbrp10le", "64x64")] {
        let from = folder.path().join(format!("{format}.mkv"));
        let source = format!("testsrc2=s={sizes}:r=10:d=0.7,noise=alls=60:allf=t,format={format}");
        ffmpeg(&["-f", "lavfi", "-i", &source, "-c:v", "ffv1", from.to_str().unwrap()]);
        let to = folder.path().join(format!("{format}.out.mkv"));
        roundtrip(&from, &to, &["--lossless"]);
        assert!(raw(&from, format) == raw(&to, format), "{format} differs");
    }
}

#[test]
fn pictures_of_16_bits_with_alpha_come_back_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("out");
    roundtrip(&media("png16a"), &to, &["--fps", "25"]);
    for i in 1..=3 {
        let from = raw(&media(&format!("png16a/f{i:04}.png")), "rgba64le");
        let back = raw(&to.join(format!("f{i:04}.png")), "rgba64le");
        assert!(from == back, "picture {i}");
    }
}

#[test]
fn light_of_an_exr_comes_back_but_only_when_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("out");
    roundtrip(&media("exr"), &to, &["--exr", "--fps", "24"]);
    let values = |file: &Path| -> Vec<f32> {
        raw(file, "gbrpf32le").chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let (a, b) = (values(&media("exr/f0001.exr")), values(&to.join("f0001.exr")));
    assert_eq!(a.len(), b.len());
    // Both files hold f16: 11 bits.
    let worst = a.iter().zip(&b).map(|(x, y)| (x - y).abs() / x.abs().max(0.01)).fold(0.0, f32::max);
    assert!(worst < 1e-3, "{worst}");
    let file = media("exr/f0001.exr");
    let out = folder.path().join("no.png");
    let args =
        ["vae", "roundtrip", file.to_str().unwrap(), "-o", out.to_str().unwrap(), "--weights", "identity"];
    let run = Command::new(env!("CARGO_BIN_EXE_remaster")).args(args).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("--exr"));
}

#[test]
fn yuv_of_any_depth_stays_within_one_code() {
    let folder = tempfile::tempdir().unwrap();
    for format in ["yuv420p", "yuv420p10le", "yuv422p10le", "yuv444p12le", "yuv411p", "gray10le"] {
        let from = folder.path().join(format!("{format}.mkv"));
        let source = format!("testsrc2=s=98x54:r=10:d=0.6,noise=alls=40:allf=t,format={format}");
        ffmpeg(&["-f", "lavfi", "-i", &source, "-c:v", "ffv1", from.to_str().unwrap()]);
        let to = folder.path().join(format!("{format}.out.mkv"));
        roundtrip(&from, &to, &["--lossless"]);
        let (a, b) = (raw(&from, format), raw(&to, format));
        assert_eq!(a.len(), b.len(), "{format}");
        let worst = match format.contains("le") {
            true => {
                let code = |p: &[u8]| i32::from(u16::from_le_bytes([p[0], p[1]]));
                a.chunks(2).zip(b.chunks(2)).map(|(x, y)| (code(x) - code(y)).abs()).max()
            }
            false => a.iter().zip(&b).map(|(x, y)| (i32::from(*x) - i32::from(*y)).abs()).max(),
        };
        assert!(worst <= Some(1), "{format}: {worst:?} codes");
    }
}

#[test]
fn latents_of_a_clip_become_the_clip_again() {
    let folder = tempfile::tempdir().unwrap();
    let (latents, out) = (folder.path().join("z.safetensors"), folder.path().join("out.mkv"));
    let (file, place) = (latents.to_str().unwrap(), out.to_str().unwrap());
    let clip = media("vfr.mkv");
    let common = ["--weights", "identity", "--progress", "none"];
    remaster(&[&["vae", "encode", clip.to_str().unwrap(), "-o", file][..], &common].concat());
    remaster(&[&["vae", "decode", file, "-o", place, "--lossless"][..], &common].concat());
    assert!(raw(&clip, "yuv420p") == raw(&out, "yuv420p"));
    let times = |file: &Path| {
        let entries =
            ["-v", "error", "-select_streams", "v:0", "-show_entries", "frame=pts_time", "-of", "csv=p=0"];
        let text = Command::new("ffprobe").args(entries).arg(file).output().unwrap().stdout;
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().filter_map(|l| l.trim_matches(',').parse::<f64>().ok()).collect::<Vec<_>>()
    };
    assert_eq!(times(&clip), times(&out));
}

#[test]
fn y4m_goes_in_and_out_of_pipes() {
    let clip = media("tears_of_steel_400p24_vp8.webm");
    let y4m = ffmpeg(&["-i", clip.to_str().unwrap(), "-frames:v", "6", "-f", "yuv4mpegpipe", "-"]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_remaster"))
        .args(["vae", "roundtrip", "-", "-o", "-", "--weights", "identity", "--progress", "none"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = y4m.clone();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &bytes));
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(out.status.success());
    let body = |bytes: &[u8]| {
        let start = bytes.iter().position(|b| *b == b'\n').unwrap();
        bytes[start..].to_vec()
    };
    assert!(body(&y4m) == body(&out.stdout));
}

/// Processes whose command line names `folder`.
fn alive(folder: &Path) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(folder.to_str().unwrap()) && entry.file_name().to_string_lossy() != own {
            found.push(line);
        }
    }
    found
}

#[test]
fn twenty_interrupted_runs_end_within_a_second_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let clip = folder.path().join("in.mkv");
    let source = "testsrc2=s=640x360:r=25:d=20";
    let coder = ["-c:v", "libx264", "-preset", "ultrafast"];
    ffmpeg(&[&["-f", "lavfi", "-i", source][..], &coder, &[clip.to_str().unwrap()]].concat());
    let out = folder.path().join("out.mkv");
    // A run of some 15 s, stopped anywhere in its first 3: start, probing, planning, frames.
    let mut seed = 7u64;
    for i in 0..20 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let moment = Duration::from_millis((seed >> 33) % 3000);
        let mut child = Command::new(env!("CARGO_BIN_EXE_remaster"))
            .args(["vae", "roundtrip", clip.to_str().unwrap(), "-o", out.to_str().unwrap()])
            .args(["--weights", "identity", "--progress", "none"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(moment);
        let asked = Instant::now();
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let status = child.wait().unwrap();
        let took = asked.elapsed();
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        // Before the handler is in place the system ends the process, which has made nothing by then.
        assert!(matches!(status.code(), Some(130) | None), "run {i} after {moment:?}: {status}");
        assert!(took < Duration::from_secs(1), "run {i} after {moment:?} took {took:?}");
        assert_eq!(names, ["in.mkv"], "run {i} after {moment:?}");
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(alive(folder.path()), [""; 0], "run {i} after {moment:?}");
    }
}
