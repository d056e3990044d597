//! docs/parity.md: how far this build is from the original, measured.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Outcome;

const FILE: &str = "docs/parity.md";

/// The diffusion transformer.
const DIT: &str = "testdata/dit";

/// The golden 16-bit storage is measured on: the real network over more than one latent.
const SIXTEEN_BIT: &str = "testdata/full_video_9x48x80.safetensors";

pub(crate) fn write(root: &Path) -> Outcome {
    let f32 = doctor(root, "testdata", "f32")?;
    let bf16 = doctor(root, SIXTEEN_BIT, "bf16")?;
    let f16 = doctor(root, SIXTEEN_BIT, "f16")?;
    let dit = doctor(root, DIT, "f32")?;
    let dit_bf16 = doctor(root, DIT, "bf16")?;
    let dit_f16 = doctor(root, DIT, "f16")?;
    let paths = paths(root)?;
    let text = format!(
        "# Parity with the original\n\n\
         Written by `cargo xtask parity`; do not edit by hand. Measured on {machine}.\n\n\
         Every row compares a tensor that this build computed with the one that the original computed in\n\
         PyTorch from the same input and the same formula weights (`testdata/MANIFEST.toml`). In f32 a row\n\
         passes if no value differs by more than 5e-5. PSNR is for values that span 2 (from -1 to 1).\n\n\
         ## f32\n\n{f32}\n\
         ## bf16 storage\n\nActivations and weights are stored in 16 bits; sums and statistics stay f32. The\n\
         PSNR is the result here; a row fails below 30 dB.\n\n{bf16}\n\
         ## f16 storage\n\n{f16}\n\
         ## The diffusion transformer\n\nIn f32 a row passes within 1e-5 (6e-5 for the sinusoids of the time, whose frequencies the original\n\
         rounds by one unit more, times 1000). PSNR is for the largest value of the original.\n\n\
         {dit}\n{dit_bf16}\n{dit_f16}\n\
         ## Every kernel path\n\nAll goldens of the VAE in f32 with each path of the CPU backend forced in turn, upsamplers folded\n\
         and spelled out: `remaster doctor --goldens testdata --cpu-path PATH [--no-collapse]`.\n\n{paths}",
        machine = machine(),
    );
    std::fs::write(root.join(FILE), text).map_err(|e| format!("{FILE}: {e}"))
}

/// Whether the stored report names every golden there is.
pub(crate) fn check(root: &Path) -> Outcome {
    let failed = |what: &str, e: std::io::Error| format!("{what}: {e}");
    let report = std::fs::read_to_string(root.join(FILE)).map_err(|e| failed(FILE, e))?;
    let mut missing = Vec::new();
    let entries = |folder: &str| std::fs::read_dir(root.join(folder)).map_err(|e| failed(folder, e));
    for entry in entries("testdata")?.chain(entries(DIT)?) {
        let name = entry.map_err(|e| failed("testdata", e))?.file_name().to_string_lossy().into_owned();
        // The doctor runs the two networks of the original; small ones have a test of their own.
        let small = |g: &&str| !g.starts_with("nano") && !g.starts_with("trained");
        let golden = name.strip_suffix(".safetensors").filter(small);
        if golden.is_some_and(|g| !report.contains(&format!("| {g} |"))) {
            missing.push(name);
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("{FILE} lacks {}; run `cargo xtask parity`", missing.join(", "))),
    }
}

/// The command, as a person would type it, and its output.
fn doctor(root: &Path, goldens: &str, dtype: &str) -> Result<String, String> {
    let line = format!("remaster doctor --goldens {goldens} --markdown --dtype {dtype}");
    Ok(format!("`{line}`\n\n{}", output(root, &line)?))
}

/// One row per kernel path and form of the upsamplers.
fn paths(root: &Path) -> Result<String, String> {
    let mut table =
        "| path | upsamplers | comparisons | largest error | |\n|---|---|---:|---:|---|\n".to_owned();
    let sets = if cfg!(target_arch = "aarch64") {
        &["portable", "neon"][..]
    } else {
        &["portable", "avx2", "avx512"]
    };
    for path in sets.iter().flat_map(|set| [(*set).to_owned(), format!("{set},direct")]) {
        for (flag, form) in [("", "folded"), (" --no-collapse", "spelled out")] {
            let command = format!("remaster doctor --goldens testdata --json --cpu-path {path}{flag}");
            let report: serde_json::Value =
                serde_json::from_str(&output(root, &command)?).map_err(|e| format!("`{command}`: {e}"))?;
            let stages = report["stages"].as_array().cloned().unwrap_or_default();
            let worst = stages.iter().filter_map(|s| s["max_abs"].as_f64()).fold(0.0, f64::max);
            let verdict = if report["passed"] == true { "pass" } else { "FAIL" };
            table += &format!("| {path} | {form} | {} | {worst:.2e} | {verdict} |\n", stages.len());
        }
    }
    Ok(table)
}

/// What a command says, from a release build.
fn output(root: &Path, command: &str) -> Result<String, String> {
    let out = Command::new(crate::tool())
        .args(["run", "--release", "--quiet", "--locked", "--package", "remaster-cli", "--"])
        .args(command.split(' ').skip(1))
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("`{command}` cannot be run: {e}"))?;
    let table = String::from_utf8(out.stdout).map_err(|e| format!("`{command}`: {e}"))?;
    if out.status.success() {
        Ok(table)
    } else {
        Err(format!("`{command}` ended with {}\n{table}", out.status))
    }
}

/// What matters for the numbers, and no more: the architecture and its vector instructions.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find(|l| l.starts_with("flags") || l.starts_with("Features"));
    let flags: Vec<&str> = flags.unwrap_or_default().split_whitespace().collect();
    let known =
        [("amx_tile", "AMX"), ("avx512f", "AVX-512"), ("avx2", "AVX2"), ("fma", "FMA"), ("asimd", "NEON")];
    let found: Vec<&str> = known.iter().filter(|(flag, _)| flags.contains(flag)).map(|k| k.1).collect();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let with = if found.is_empty() { String::new() } else { format!(" with {}", found.join(", ")) };
    format!("{} ({}){with}, {threads} threads", std::env::consts::ARCH, std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_stored_report_names_every_golden() {
        super::check(&crate::root()).unwrap();
    }
}
