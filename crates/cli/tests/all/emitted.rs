//! Jobs for schedulers, run with no more memory than they ask for.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use remaster_testkit::{not_run, rooted};

use crate::desk::{Desk, quick, refused, testdata, three_shots, works};

/// A control group with a limit of memory.
struct Group(PathBuf);

impl Group {
    /// `None` where this process may make none.
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("remaster-test-{}", std::process::id());
        let cases = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        for (root, limit) in cases {
            let folder = Path::new(root).join(&name);
            let works = |command: &mut Command| command.status().is_ok_and(|status| status.success());
            if !works(rooted("mkdir").arg(&folder).stderr(Stdio::null())) {
                continue;
            }
            let group = Group(folder);
            let script = format!("echo {bytes} > {}", group.0.join(limit).display());
            if works(rooted("sh").args(["-c", &script]).stderr(Stdio::null())) {
                return Some(group);
            }
        }
        None
    }

    /// A command that is in the group from its start.
    fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new("sh");
        let tee = rooted("tee");
        let tee = std::iter::once(tee.get_program()).chain(tee.get_args());
        let tee: Vec<_> = tee.map(|word| word.to_string_lossy()).collect();
        let script = format!(
            "echo $$ | {} {}/cgroup.procs >/dev/null && exec \"$@\"",
            tee.join(" "),
            self.0.display()
        );
        command.current_dir(folder).args(["-c", &script, "sh"]).stdin(Stdio::null());
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = rooted("rmdir").arg(&self.0).status();
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
fn a_job_has_the_memory_that_was_asked_for_or_what_the_plan_takes() {
    let at = &Desk::filmed("-f lavfi -i testsrc2=s=64x48:r=25:d=0.4 -c:v ffv1 film.mkv");
    let plan = |how: &str, store: &str| {
        let line =
            format!("plan film.mkv -o out.mkv --store {store} --model anime --resolution 1x --device cpu");
        works(at, &format!("{line} {how} --emit slurm"))
    };
    let asked = plan("--ram 2G", "asked");
    assert_eq!((number(&asked, "--ram="), number(&asked, "--mem=")), (2048, 2048 + 204 + 128));
    let least = plan("", "least");
    assert!(number(&least, "--ram=") < 1024, "{least}");
}

#[test]
fn a_kubernetes_job_needs_an_image() {
    refused(&Desk::new(), "plan film.mkv -o out.mkv --store store --emit k8s", 2, &["--image"]);
}

/// The lines of the first block of commands behind a heading of a document.
fn block(document: &str, heading: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let text = std::fs::read_to_string(path).unwrap();
    let behind = text.split(heading).nth(1).unwrap_or_else(|| panic!("no {heading} in {document}"));
    let block = behind.split("```").nth(1).unwrap();
    block.lines().skip(1).map(str::to_owned).collect()
}

#[test]
#[ignore = "openjd: the scheduler"]
fn the_documented_commands_of_openjd_make_the_film_of_an_uncut_run() {
    let tools = PathBuf::from(std::env::var_os("REMASTER_FARM_TOOLS").unwrap());
    let at = &Desk::new();
    let bin = at.join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_remaster"), bin.join("remaster")).unwrap();
    let path = format!("{}:{}:{}", bin.display(), tools.display(), std::env::var("PATH").unwrap());
    let commands = block("docs/scale.md", "**OpenJD**");
    let [plan, run] = commands.as_slice() else { panic!("{commands:?}") };
    assert!(plan.contains("plan film.mkv") && run.starts_with("openjd run film.yaml "), "{commands:?}");
    for name in ["plain", "it's \"odd\" $HOME {{Param.Plan}} #1", "-y "] {
        let folder = at.join(name);
        std::fs::create_dir(&folder).unwrap();
        three_shots(&folder, [10, 9, 8], "film.mkv");
        let there = |line: &str, folder: &Path| {
            let mut command = Command::new("bash");
            quick(&mut command, at);
            let how = [("MODEL", "anime"), ("RESOLUTION", "1x"), ("DEVICE", "cpu")];
            command.envs(how.map(|(name, value)| (format!("REMASTER_{name}"), value)));
            command.env("PATH", &path).current_dir(folder).stdin(Stdio::null()).args(["-c", line]);
            let out = command.output().unwrap();
            let [said, errors] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text));
            assert!(out.status.success(), "{name}: {line}\n{said}{errors}");
        };
        there(&format!("{plan} && remaster film.mkv -o uncut.mkv --no-manifest"), &folder);
        match name {
            "plain" => there(run, &folder),
            // From another folder.
            _ => there(
                &run.replace(" film.yaml ", " \"$OLDPWD/film.yaml\" ").replace("openjd", "cd /; openjd"),
                &folder,
            ),
        }
        let film = |name: &str| std::fs::read(folder.join(name)).unwrap();
        assert!(film("out.mkv") == film("uncut.mkv"), "{name}: another film");
    }
}
