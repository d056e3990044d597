//! Kernels through the compiler of a card: each in a process of its own, two at a time.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cards::Card;
use crate::child::{self, LIMIT};
use crate::driver::{self, Compiled};
use crate::kernels::Kernel;

/// Processes at a time. Machines of CI have two cores.
const WORKERS: usize = 2;

/// What the compiler of a card makes of some kernels, in their order.
pub(crate) fn compile_all(mesa: &Path, card: &Card, kernels: &[Kernel]) -> Vec<Result<Compiled, String>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(kernel) = kernels.get(at) else { break };
                    let result = compile(mesa, card, kernel, at);
                    done.lock().unwrap_or_else(|e| e.into_inner()).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

fn compile(mesa: &Path, card: &Card, kernel: &Kernel, at: usize) -> Result<Compiled, String> {
    let file = std::env::temp_dir().join(format!("remaster-isa-{}-{at}.spv", std::process::id()));
    let bytes: Vec<u8> = kernel.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(&file, bytes).map_err(|e| format!("{}: {e}", file.display()))?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = card.command(mesa, &program);
    let said = child::run(command.arg("compile").arg(&file).arg(kernel.text.buffers.to_string()), LIMIT);
    let _ = std::fs::remove_file(&file);
    let said = said?;
    match said.status.success() {
        true => serde_json::from_str(&said.stdout).map_err(|e| e.to_string()),
        false => Err(format!("{}: {}", said.status, said.stdout.trim())),
    }
}

/// Compiles one kernel in this process.
pub(crate) fn compile_here(file: &Path, buffers: usize) -> Result<String, String> {
    let bytes = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let words: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    serde_json::to_string(&driver::compile(&words, buffers)?).map_err(|e| e.to_string())
}
