//! Jobs for schedulers, run with no more memory than they ask for.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use remaster_testkit::not_run;

use crate::desk::{Desk, quick, refused, testdata, works};

/// A control group with a limit of memory.
struct Group(PathBuf);

impl Group {
    /// `None` where this process may make none.
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("remaster-test-{}", std::process::id());
        let cases = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        for (root, limit) in cases {
            let folder = Path::new(root).join(&name);
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = Group(folder);
            if std::fs::write(group.0.join(limit), bytes.to_string()).is_ok() {
                return Some(group);
            }
        }
        None
    }

    /// A command that is in the group from its start.
    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new("sh");
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        command.current_dir(folder).args(["-c", &script, "sh"]).stdin(Stdio::null());
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The number behind a word.
fn number(text: &str, word: &str) -> u64 {
    let behind = text.split(word).nth(1).unwrap_or_else(|| panic!("no {word} in {text}"));
    behind.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

#[test]
fn a_job_works_in_the_memory_that_it_asks_for() {
    let at =
        &Desk::filmed("-f lavfi -i testsrc2=s=160x120:r=25:d=0.6 -c:v libx264 -pix_fmt yuv420p film.mkv");
    // The jobs call `remaster`.
    let bin = at.join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_remaster"), bin.join("remaster")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let how = "SMALL --resolution 320x240 --device cpu --no-collapse";
    for kind in ["slurm", "k8s", "openjd", "shell"] {
        let plan = format!("plan film.mkv -o {kind}.mkv --store {kind} {how} --emit {kind} --image none");
        let text = works(at, &plan);
        let ram = number(&text, "--ram=");
        // A worker computes where the plan says and as it says.
        assert!(text.contains("--device=cpu") && text.contains("--no-collapse"), "{text}");
        let limit = match kind {
            "slurm" => number(&text, "--mem="),
            "k8s" => number(&text, "limits: {memory: "),
            "openjd" => number(&text, "amount.worker.memory, min: "),
            // It does not prompt.
            _ => ram + ram / 10 + 128,
        };
        assert!(limit > ram, "{text}");
        let Some(group) = Group::new(limit << 20) else {
            not_run("a_job_works_in_the_memory_that_it_asks_for", "no control group can be made here");
            return;
        };
        let script = at.join(format!("{kind}.sh"));
        let mut command = group.command(at);
        quick(&mut command, at);
        command.env("PATH", &path).env("REMASTER_MODEL_DIR", testdata(""));
        match kind {
            "shell" | "slurm" => {
                std::fs::write(&script, &text).unwrap();
                command.arg("bash").arg(&script);
                if kind == "slurm" {
                    command.arg("remaster-restore").env("SLURM_ARRAY_TASK_ID", "0");
                }
            }
            _ => {
                command.args(["remaster", "unit", "run", "--index=0", "--device=cpu", "--no-collapse"]);
                command.arg(format!("--plan={}", at.join(kind).display()));
                command.arg(format!("--input={}", at.join("film.mkv").display()));
                command.arg(format!("--ram={ram}M"));
            }
        }
        let out = command.output().unwrap();
        assert!(out.status.success(), "{kind} in {limit} MiB: {}", String::from_utf8_lossy(&out.stderr));
        assert!(at.join(kind).join("units/000000/done.json").is_file(), "{kind}");
    }
}

#[test]
fn a_kubernetes_job_needs_an_image() {
    refused(&Desk::new(), "plan film.mkv -o out.mkv --store store --emit k8s", 2, &["--image"]);
}
