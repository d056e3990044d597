//! Numbers, files and folders that must not cost memory, time or a half-done run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use remaster_weights::{NamedTensor, write_tensors};
use tempfile::TempDir;

struct Desk(TempDir);

struct Run {
    code: i32,
    told: String,
    took: Duration,
    /// Highest resident memory in bytes, where the system says it.
    peak: Option<u64>,
}

impl Desk {
    fn new() -> Self {
        Desk(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, line: &str) -> Run {
        let started = Instant::now();
        // The shell's child is the only one it waits for, so its peak is that child's.
        let script = "\"$0\" \"$@\" & wait $!; code=$?; exit $code";
        let remaster = env!("CARGO_BIN_EXE_remaster");
        let mut command = Command::new("sh");
        command.args(["-c", script, remaster]).args(line.split_whitespace()).current_dir(self.0.path());
        let (out, peak) = watched(&mut command);
        let told = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        Run { code: out.status.code().unwrap_or(-1), told, took: started.elapsed(), peak }
    }
}

/// Runs a command and samples what it and its children hold.
fn watched(command: &mut Command) -> (Output, Option<u64>) {
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let id = child.id();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(crate::tree::resident(id));
        std::thread::sleep(Duration::from_millis(5));
    }
    (child.wait_with_output().unwrap(), Path::new("/proc/self").exists().then_some(peak))
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
    let desk = Desk::new();
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
            let run = desk.run(&format!("plan --network {half} {flags}"));
            run.fails(2, &[word]);
            run.is_cheap(5, 64);
        }
    }
}

#[test]
fn a_refusal_is_in_the_units_of_the_flags_and_works() {
    let desk = Desk::new();
    let line = "plan --network decode --height 128 --width 192 --frames 17 --dtype bf16";
    let run = desk.run(&format!("{line} --ram 100M --disk 0"));
    run.fails(4, &["not enough memory", "it needs at least --ram "]);
    let ram = run.told.split("at least --ram ").nth(1).unwrap();
    let ram = ram.split([',', ' ', '\n']).next().unwrap();
    let again = desk.run(&format!("{line} --ram {ram} --disk 0"));
    assert_eq!(again.code, 0, "--ram {ram}: {}", again.told);
    // The parts that are named add up to the total.
    assert!(again.told.contains("--ram") && again.told.contains("network") && again.told.contains("ffmpeg"));
    let number: u64 = ram.trim_end_matches('M').parse().unwrap();
    desk.run(&format!("{line} --ram {}M --disk 0", number * 9 / 10)).fails(4, &["not enough memory"]);
}

#[test]
fn a_forgotten_unit_and_more_than_there_is_are_noticed() {
    let desk = Desk::new();
    desk.run("plan --network decode --height 64 --width 64 --ram 2").fails(2, &["did you mean 2G?"]);
    let run = desk.run("vae encode none.mp4 -o out.safetensors --weights identity --ram 900000G");
    run.fails(2, &["--ram", "machine"]);
}

#[test]
fn a_bad_spill_folder_is_found_before_the_run() {
    let desk = Desk::new();
    fs::write(desk.path("file"), "").unwrap();
    for folder in ["nowhere/at/all", "file"] {
        let line = format!("vae encode in.y4m -o out.safetensors --weights identity --spill {folder}");
        desk.run(&line).fails(3, &[folder, "folder"]);
    }
    assert!(!desk.path("out.safetensors").exists());
}

fn y4m(desk: &Desk, name: &str, width: usize, height: usize, frames: usize) {
    let mut file = format!("YUV4MPEG2 W{width} H{height} F25:1 Ip A1:1 C420jpeg\n").into_bytes();
    for i in 0..frames {
        file.extend(b"FRAME\n");
        file.extend((0..width * height * 3 / 2).map(|j| (i * 7 + j * 13) as u8));
    }
    fs::write(desk.path(name), file).unwrap();
}

#[test]
fn the_network_that_computes_nothing_is_planned_for_nothing() {
    let desk = Desk::new();
    y4m(&desk, "large.y4m", 1920, 1080, 1);
    let run = desk.run("vae roundtrip large.y4m -o out.y4m --weights identity --ram 120M");
    run.fails(4, &["not enough memory", "--ram"]);
    run.is_cheap(10, 200);
    y4m(&desk, "small.y4m", 64, 48, 9);
    // It has no statistics to share.
    let shared = "vae roundtrip small.y4m -o small-out.y4m --weights identity --mode shared-stats";
    desk.run(shared).fails(2, &["encode has no shared-stats mode", "--mode exact"]);
    for mode in ["auto", "exact", "blend --tile 32 --overlap 8"] {
        let run = desk
            .run(&format!("vae roundtrip small.y4m -o small-out.y4m -y --weights identity --mode {mode}"));
        assert_eq!(run.code, 0, "{mode}: {}", run.told);
        if !mode.starts_with("blend") {
            // Headers may differ.
            let frames = |name: &str| {
                let file = fs::read(desk.path(name)).unwrap();
                file[file.len() - 9 * (6 + 64 * 48 * 3 / 2)..].to_vec()
            };
            assert!(frames("small.y4m") == frames("small-out.y4m"), "{mode}");
        }
    }
}

#[test]
fn an_unused_tensor_costs_nothing() {
    let desk = Desk::new();
    let frames =
        NamedTensor { name: "x".into(), shape: vec![1, 3, 1, 32, 32], data: vec![0.25; 3 * 32 * 32] };
    write_tensors(&desk.path("good.safetensors"), &[frames], &Default::default()).unwrap();
    // The same with 1.5 GB behind it that are not there.
    let good = fs::read(desk.path("good.safetensors")).unwrap();
    let length = usize::try_from(u64::from_le_bytes(good[..8].try_into().unwrap())).unwrap();
    let (header, data) = (std::str::from_utf8(&good[8..8 + length]).unwrap().trim_end(), &good[8 + length..]);
    let more = 1_500_000_000usize / 4 * 4;
    let unused = format!(
        ",\"unused\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[{},{}]}}}}",
        more / 4,
        data.len(),
        data.len() + more
    );
    let mut header = format!("{}{unused}", header.strip_suffix('}').unwrap());
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    fs::write(desk.path("bomb.safetensors"), &file).unwrap();
    let sparse = fs::OpenOptions::new().write(true).open(desk.path("bomb.safetensors")).unwrap();
    sparse.set_len((file.len() + more) as u64).unwrap();
    for name in ["good", "bomb"] {
        let line = format!(
            "vae encode {name}.safetensors -o {name}-z.safetensors --weights formula:tiny --ram 300M"
        );
        let run = desk.run(&line);
        assert_eq!(run.code, 0, "{name}: {}", run.told);
        run.is_cheap(60, 300);
    }
    let read = |name: &str| fs::read(desk.path(name)).unwrap();
    assert_eq!(read("good-z.safetensors"), read("bomb-z.safetensors"));
}

#[test]
fn comparing_is_bound_by_ram() {
    let desk = Desk::new();
    y4m(&desk, "a.y4m", 1280, 720, 1);
    y4m(&desk, "small.y4m", 64, 48, 2);
    let run = desk.run("compare a.y4m a.y4m --ram 100M");
    run.fails(4, &["--ram"]);
    run.is_cheap(5, 100);
    let run = desk.run("compare small.y4m small.y4m --ram 100M");
    assert_eq!(run.code, 0, "{}", run.told);
}
