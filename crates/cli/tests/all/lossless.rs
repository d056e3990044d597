//! What is not touched comes out as it went in, to the last bit; and a run that is stopped leaves nothing.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

#[cfg(unix)]
use crate::desk::signal;
use crate::desk::{Desk, ffmpeg, testdata, times};
use crate::tree::command_lines;

fn media(name: &str) -> PathBuf {
    testdata("media").join(name)
}

fn roundtrip(from: &Path, to: &str, flags: &str) -> String {
    let from = from.display();
    format!("vae roundtrip {from} -o {to} --weights identity --progress none {flags}")
}

/// Samples as they are, frame after frame.
fn raw(file: &Path, format: &str) -> Vec<u8> {
    let output = format!("-fps_mode passthrough -pix_fmt {format} -f rawvideo -");
    ffmpeg(Path::new("."), &format!("-i {} {output}", file.display()))
}

/// The samples of a noisy clip in one format, before and after.
fn there_and_back(desk: &Desk, source: &str, format: &str) -> [Vec<u8>; 2] {
    ffmpeg(desk, &format!("-f lavfi -i {source},format={format} -c:v ffv1 {format}.mkv"));
    let [from, to] = ["mkv", "out.mkv"].map(|ending| desk.join(format!("{format}.{ending}")));
    desk.works(&roundtrip(&from, to.to_str().unwrap(), "--lossless"));
    [raw(&from, format), raw(&to, format)]
}

#[test]
fn rgb_of_8_and_16_bits_comes_back_to_the_bit() {
    let desk = Desk::bare();
    for (format, sizes) in [("bgr0", "96x54"), ("gbrp16le", "97x53"), ("gbrp10le", "64x64")] {
        let source = format!("testsrc2=s={sizes}:r=10:d=0.7,noise=alls=60:allf=t");
        let [from, back] = there_and_back(&desk, &source, format);
        assert!(from == back, "{format} differs");
    }
}

#[test]
fn pictures_of_16_bits_with_alpha_come_back_to_the_bit() {
    let desk = Desk::bare();
    desk.works(&roundtrip(&media("png16a"), "out", "--fps 25"));
    for i in 1..=3 {
        let from = raw(&media(&format!("png16a/f{i:04}.png")), "rgba64le");
        let back = raw(&desk.join(format!("out/f{i:04}.png")), "rgba64le");
        assert!(from == back, "picture {i}");
    }
}

#[test]
fn light_of_an_exr_comes_back_but_only_when_it_is_asked_for() {
    let desk = Desk::bare();
    desk.works(&roundtrip(&media("exr"), "out", "--exr --fps 24"));
    let values = |file: &Path| -> Vec<f32> {
        raw(file, "gbrpf32le").chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let (a, b) = (values(&media("exr/f0001.exr")), values(&desk.join("out/f0001.exr")));
    assert_eq!(a.len(), b.len());
    // Both files hold f16: 11 bits.
    let worst = a.iter().zip(&b).map(|(x, y)| (x - y).abs() / x.abs().max(0.01)).fold(0.0, f32::max);
    assert!(worst < 1e-3, "{worst}");
    let line = format!("vae roundtrip {} -o no.png --weights identity", media("exr/f0001.exr").display());
    desk.run(&line).ends(2, &["--exr"]);
}

#[test]
fn yuv_of_any_depth_stays_within_one_code() {
    let desk = Desk::bare();
    for format in ["yuv420p", "yuv420p10le", "yuv422p10le", "yuv444p12le", "yuv411p", "gray10le"] {
        let [a, b] = there_and_back(&desk, "testsrc2=s=98x54:r=10:d=0.6,noise=alls=40:allf=t", format);
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
    let desk = Desk::bare();
    let (clip, identity) = (media("vfr.mkv"), "--weights identity --progress none");
    desk.works(&format!("vae encode {} -o z.safetensors {identity}", clip.display()));
    desk.works(&format!("vae decode z.safetensors -o out.mkv --lossless {identity}"));
    let out = desk.join("out.mkv");
    assert!(raw(&clip, "yuv420p") == raw(&out, "yuv420p"));
    assert_eq!(times(&clip), times(&out));
}

#[test]
fn y4m_goes_in_and_out_of_pipes() {
    let clip = media("tears_of_steel_400p24_vp8.webm");
    let desk = Desk::bare();
    let y4m = ffmpeg(&desk, &format!("-i {} -frames:v 6 -f yuv4mpegpipe -", clip.display()));
    let mut command = desk.command(&roundtrip(Path::new("-"), "-", ""));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
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
#[cfg(unix)]
fn alive(folder: &Path) -> Vec<String> {
    let own = std::process::id().to_string();
    let names_it = |line: &str| line.contains(folder.to_str().unwrap());
    let found = command_lines().filter(|(process, line)| names_it(line) && !process.ends_with(&own));
    found.map(|(_, line)| line).collect()
}

#[test]
#[cfg(unix)]
fn twenty_interrupted_runs_end_within_a_second_and_leave_nothing() {
    let desk = Desk::bare();
    ffmpeg(&desk, "-f lavfi -i testsrc2=s=640x360:r=25:d=20 -c:v libx264 -preset ultrafast in.mkv");
    // With the names of their folder, by which those that live on are found.
    let line = roundtrip(&desk.join("in.mkv"), desk.join("out.mkv").to_str().unwrap(), "");
    // A run of some 15 s, stopped anywhere in its first 3: start, probing, planning, frames.
    let mut seed = 7u64;
    for i in 0..20 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let moment = Duration::from_millis((seed >> 33) % 3000);
        let mut command = desk.command(&line);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(moment);
        let asked = Instant::now();
        signal(&child, "INT");
        let status = child.wait().unwrap();
        let took = asked.elapsed();
        let names = desk.names();
        // Before the handler is in place the system ends the process, which has made nothing by then.
        assert!(matches!(status.code(), Some(130) | None), "run {i} after {moment:?}: {status}");
        assert!(took < Duration::from_secs(1), "run {i} after {moment:?} took {took:?}");
        assert_eq!(names, ["in.mkv"], "run {i} after {moment:?}");
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(alive(&desk), [""; 0], "run {i} after {moment:?}");
    }
}
