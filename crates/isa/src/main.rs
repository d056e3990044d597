//! What real GPU compilers make of the kernels, for cards that are not there: Mesa's drivers compile for the card that a
//! stand-in of its kernel driver names. Nothing runs, so these are counts and never speeds.

mod cards;
mod counts;
mod driver;
mod kernels;
mod spirv;
mod table;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use cards::{CARDS, Card};
use counts::Counts;
use driver::Compiled;
use remaster_compute::gpu::KernelText;
use table::Row;

/// A compiler that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

const USAGE: &str = "usage: remaster-isa MESA [CARD...]   MESA is the folder that .ci/mesa prints";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["compile", file, buffers] => compile(Path::new(file), buffers),
        ["--help" | "-h"] | [] => Err(USAGE.into()),
        [mesa, wanted @ ..] => report(Path::new(mesa), wanted),
    };
    let (text, code) = match done {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(text) => (format!("error: {text}\n"), ExitCode::FAILURE),
    };
    let _ = std::io::stdout().write_all(text.as_bytes());
    code
}

/// Compiles one kernel in this process.
fn compile(file: &Path, buffers: &str) -> Result<String, String> {
    let bytes = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let words =
        bytes.chunks_exact(4).map(|b| b.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)));
    let words: Vec<u32> = words.collect();
    let buffers = buffers.parse().map_err(|_| USAGE.to_owned())?;
    serde_json::to_string(&driver::compile(&words, buffers)?).map_err(|e| e.to_string())
}

/// Compiles every kernel for every card that is wanted, each in a process of its own, and returns the document.
fn report(mesa: &Path, wanted: &[&str]) -> Result<String, String> {
    let known = |card: &&Card| wanted.is_empty() || wanted.contains(&card.name);
    let cards: Vec<&Card> = CARDS.iter().filter(known).collect();
    if cards.is_empty() {
        let names: Vec<&str> = CARDS.iter().map(|card| card.name).collect();
        return Err(format!("no card is named {}; there are {}", wanted.join(", "), names.join(", ")));
    }
    let mut document = String::from(table::HEAD);
    for card in cards {
        let (mut device, mut rows) = (String::new(), Vec::new());
        for kernel in kernels::all(card.units()) {
            let result = compiled(mesa, card, &kernel);
            if let Ok(found) = &result {
                device.clone_from(&found.device);
            }
            rows.push(Row { name: kernel.name, counts: result.map(|found| Counts::of(&found)) });
        }
        document += &table::section(card.name, &device, &rows);
    }
    Ok(document)
}

/// What the compiler of a card makes of a kernel.
fn compiled(mesa: &Path, card: &Card, kernel: &KernelText) -> Result<Compiled, String> {
    let words = spirv::words(kernel)?;
    let file: PathBuf = std::env::temp_dir().join(format!("remaster-isa-{}.spv", std::process::id()));
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(&file, bytes).map_err(|e| format!("{}: {e}", file.display()))?;
    let told = asked(mesa, card, &file, kernel.buffers);
    let _ = std::fs::remove_file(&file);
    serde_json::from_str(&told?).map_err(|e| e.to_string())
}

/// Runs the compiler within the limit and returns what it prints.
fn asked(mesa: &Path, card: &Card, file: &Path, buffers: usize) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut child = card
        .command(mesa, &program)
        .arg("compile")
        .arg(file)
        .arg(buffers.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("{}: {e}", mesa.display()))?;
    // Its answer is larger than a pipe.
    let mut stdout = child.stdout.take().ok_or("no pipe")?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let began = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break status,
            None if began.elapsed() > LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the compiler took longer than {} s", LIMIT.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let text = reader.join().map_err(|_| "the reader ended".to_owned())?.map_err(|e| e.to_string())?;
    if status.success() { Ok(text) } else { Err(format!("{status}: {}", text.trim())) }
}
