//! Numbers, files and folders that must not cost memory, time or a half-done run.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::desk::{Desk, bytes};

struct Run {
    code: i32,
    told: String,
    took: Duration,
    /// Highest resident memory in bytes, where the system says it.
    peak: Option<u64>,
}

fn run(desk: &Desk, line: &str) -> Run {
    let started = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_remaster"));
    let (out, peak) = watched(command.args(line.split_whitespace()).current_dir(&**desk));
    let told = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    Run { code: out.status.code().unwrap_or(-1), told, took: started.elapsed(), peak }
}

/// Runs a command and samples what it and its children hold.
fn watched(command: &mut Command) -> (Output, Option<u64>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let peak = crate::tree::peak(&mut child);
    (child.wait_with_output().unwrap(), cfg!(target_os = "linux").then_some(peak))
}

impl Run {
    fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{}", self.told);
        for word in words {
            assert!(self.told.contains(word), "no `{word}` in: {}", self.told);
        }
    }

    fn is_cheap(&self, seconds: u64, mib: u64) {
        assert!(self.took < Duration::from_secs(seconds), "{:?}: {}", self.took, self.told);
        assert!(self.peak.is_none_or(|p| p < mib << 20), "{:?} bytes: {}", self.peak, self.told);
    }
}

#[test]
fn sizes_beyond_any_machine_are_refused_at_once() {
    let desk = Desk::bare();
    for (flags, word) in [
        ("--frames 4000000000001 --height 480 --width 864", "1099511627776"),
        ("--height 64 --width 1073741824", "1048576"),
        ("--height 8 --width 8388608", "1048576"),
        ("--height 1048576 --width 1048576 --mode blend --tile 16 --overlap 8", "1073741824"),
        ("--height 16384 --width 16384 --mode blend --tile 16 --overlap 8", "2048"),
        ("--height 64 --width 64 --slice 9223372036854775804 --frames 999999999997", "--slice"),
        ("--height 18446744073709551608 --width 18446744073709551608", "1048576"),
    ] {
        for half in ["encode", "decode"] {
            let ran = run(&desk, &format!("plan --network {half} {flags}"));
            ran.fails(2, &[word]);
            ran.is_cheap(5, 64);
        }
    }
}

#[test]
fn a_refusal_is_in_the_units_of_the_flags_and_works() {
    let desk = Desk::bare();
    let line = "plan --network decode --height 128 --width 192 --frames 17 --dtype bf16";
    let ran = run(&desk, &format!("{line} --ram 100M --disk 0"));
    ran.fails(4, &["not enough memory", "it needs at least --ram "]);
    let ram = ran.told.split("at least --ram ").nth(1).unwrap();
    let ram = ram.split([',', ' ', '\n']).next().unwrap();
    let again = run(&desk, &format!("{line} --ram {ram} --disk 0"));
    assert_eq!(again.code, 0, "--ram {ram}: {}", again.told);
    // The parts that are named add up to the total.
    assert!(again.told.contains("--ram") && again.told.contains("network") && again.told.contains("ffmpeg"));
    let number: u64 = ram.trim_end_matches('M').parse().unwrap();
    run(&desk, &format!("{line} --ram {}M --disk 0", number * 9 / 10)).fails(4, &["not enough memory"]);
}

#[test]
fn a_forgotten_unit_and_more_than_there_is_are_noticed() {
    let desk = Desk::bare();
    run(&desk, "plan --network decode --height 64 --width 64 --ram 2").fails(2, &["did you mean 2G?"]);
    let ran = run(&desk, "vae encode none.mp4 -o out.safetensors --weights identity --ram 900000G");
    ran.fails(2, &["--ram", "machine"]);
}

#[test]
fn a_bad_spill_folder_is_found_before_the_run() {
    let desk = Desk::bare();
    desk.put("file", "");
    for folder in ["nowhere/at/all", "file"] {
        let line = format!("vae encode in.y4m -o out.safetensors --weights identity --spill {folder}");
        run(&desk, &line).fails(3, &[folder, "folder"]);
    }
    assert!(!desk.join("out.safetensors").exists());
}

fn y4m(desk: &Desk, name: &str, width: usize, height: usize, frames: usize) {
    let mut file = format!("YUV4MPEG2 W{width} H{height} F25:1 Ip A1:1 C420jpeg\n").into_bytes();
    for i in 0..frames {
        file.extend(b"FRAME\n");
        file.extend((0..width * height * 3 / 2).map(|j| (i * 7 + j * 13) as u8));
    }
    desk.put(name, file);
}

#[test]
fn the_network_that_computes_nothing_is_planned_for_nothing() {
    let desk = Desk::bare();
    y4m(&desk, "large.y4m", 1920, 1080, 1);
    let ran = run(&desk, "vae roundtrip large.y4m -o out.y4m --weights identity --ram 120M");
    ran.fails(4, &["not enough memory", "--ram"]);
    ran.is_cheap(10, 200);
    y4m(&desk, "small.y4m", 64, 48, 9);
    // It has no statistics to share.
    let shared = "vae roundtrip small.y4m -o small-out.y4m --weights identity --mode shared-stats";
    run(&desk, shared).fails(2, &["encode has no shared-stats mode", "--mode exact"]);
    for mode in ["auto", "exact", "blend --tile 32 --overlap 8"] {
        let line = format!("vae roundtrip small.y4m -o small-out.y4m -y --weights identity --mode {mode}");
        let ran = run(&desk, &line);
        assert_eq!(ran.code, 0, "{mode}: {}", ran.told);
        if !mode.starts_with("blend") {
            // Headers may differ.
            let frames = |name: &str| {
                let file = bytes(&desk, name);
                file[file.len() - 9 * (6 + 64 * 48 * 3 / 2)..].to_vec()
            };
            assert!(frames("small.y4m") == frames("small-out.y4m"), "{mode}");
        }
    }
}

#[test]
fn an_unused_tensor_costs_nothing() {
    let desk = Desk::bare();
    desk.frames("good.safetensors", 1, 32, 32);
    // The same with 1.5 GB behind it that are not there.
    let good = bytes(&desk, "good.safetensors");
    let length = usize::try_from(u64::from_le_bytes(good[..8].try_into().unwrap())).unwrap();
    let (header, data) = (std::str::from_utf8(&good[8..8 + length]).unwrap().trim_end(), &good[8 + length..]);
    let more = 1_500_000_000usize / 4 * 4;
    let (shape, start, end) = (more / 4, data.len(), data.len() + more);
    let unused = format!(r#","unused":{{"dtype":"F32","shape":[{shape}],"data_offsets":[{start},{end}]}}}}"#);
    let mut header = format!("{}{unused}", header.strip_suffix('}').unwrap());
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    desk.put("bomb.safetensors", &file);
    let sparse = fs::OpenOptions::new().write(true).open(desk.join("bomb.safetensors")).unwrap();
    sparse.set_len((file.len() + more) as u64).unwrap();
    for name in ["good", "bomb"] {
        let line = format!(
            "vae encode {name}.safetensors -o {name}-z.safetensors --weights formula:tiny --ram 300M"
        );
        let ran = run(&desk, &line);
        assert_eq!(ran.code, 0, "{name}: {}", ran.told);
        ran.is_cheap(60, 300);
    }
    assert_eq!(bytes(&desk, "good-z.safetensors"), bytes(&desk, "bomb-z.safetensors"));
}

#[test]
fn comparing_is_bound_by_ram() {
    let desk = Desk::bare();
    y4m(&desk, "a.y4m", 1280, 720, 1);
    y4m(&desk, "small.y4m", 64, 48, 2);
    let ran = run(&desk, "compare a.y4m a.y4m --ram 100M");
    ran.fails(4, &["--ram"]);
    ran.is_cheap(5, 100);
    let ran = run(&desk, "compare small.y4m small.y4m --ram 100M");
    assert_eq!(ran.code, 0, "{}", ran.told);
}
