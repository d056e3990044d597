//! The same cases under `strace`: what they and their children open, change, remove, start and connect to.

use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::{Ground, HOW};
use crate::desk::command;

/// Cases that are traced; a traced run takes some seconds.
const TRACED: usize = 20;

/// Where programs, libraries and what the system says of itself lie. Nothing of it is written.
const SYSTEM: [&str; 8] =
    ["/usr/", "/lib", "/etc/", "/proc", "/sys/", "/dev/null", "/dev/urandom", "/dev/random"];

/// What hostile links point at, though the system's own libraries are beside it.
const AIMS: [&str; 2] = ["/etc/passwd", "/mem"];

#[test]
#[ignore = "nightly: runs that are traced take ten times as long"]
fn hostile_runs_open_change_and_start_nothing_of_others() {
    if !Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).status().is_ok_and(|s| s.success()) {
        let name = "hostile_runs_open_change_and_start_nothing_of_others";
        return remaster_testkit::not_run(name, "no strace");
    }
    let ground = Ground::new();
    let mut wrong = Vec::new();
    for seed in 0..TRACED {
        // One honest run shows that what is allowed is enough.
        let mut case = ground.case(100_000 + seed);
        if seed == 0 {
            case.line = format!("film.mkv -o honest.mkv {HOW}");
        }
        let plain = command(&case.desk, &case.line);
        let mut traced = Command::new("strace");
        let log = ground.root.join("trace");
        traced
            .args(["-f", "--seccomp-bpf", "-y", "-s", "4096", "-e", "trace=%file,%network,ftruncate", "-o"])
            .arg(&log);
        traced.arg(plain.get_program()).args(plain.get_args()).current_dir(&case.desk);
        traced.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = ground.run(&case.desk, &mut traced);
        if seed == 0 {
            assert_eq!(ran.code, Some(0), "{}", ran.said);
        }
        let trace = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
        let own = [case.desk.as_path(), Path::new(plain.get_program())];
        let foreign: Vec<&str> = trace.lines().filter(|line| !is_allowed(line, &own)).collect();
        if !foreign.is_empty() {
            wrong.push(format!("{}:\n{}", case.about, foreign.join("\n")));
        }
        assert!(trace.lines().count() > 20, "strace says nothing: {trace}");
        // Whoever follows a link touches the canary.
        assert_eq!(ground.touched(), None, "{}", case.about);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Whether a call that succeeded concerns only what a run may touch.
fn is_allowed(line: &str, own: &[&Path]) -> bool {
    let Some((call, rest)) = line.split_once(' ').and_then(|(_, call)| call.trim_start().split_once('('))
    else {
        return true;
    };
    let Some((_, result)) = rest.rsplit_once(" = ") else { return true };
    // Whether it succeeded is known later.
    if call == "connect" {
        return !rest.contains("AF_INET");
    }
    if result.starts_with("-1") {
        return true;
    }
    let is_own = |path: &Path| own.iter().any(|own| path.starts_with(own));
    let is_system = |path: &Path| {
        let path = path.to_string_lossy();
        SYSTEM.iter().any(|place| path.starts_with(place)) && !AIMS.iter().any(|aim| path.ends_with(aim))
    };
    match call {
        // What was opened in truth stands behind the new handle.
        "open" | "openat" | "openat2" | "creat" => {
            let opened = result.trim_end_matches("(deleted)").split_once('<');
            let opened = Path::new(opened.and_then(|(_, path)| path.strip_suffix('>')).unwrap_or_default());
            let reads = !["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| rest.contains(flag));
            // A directory handle reads nothing: paths below it are calls of their own.
            is_own(opened)
                || opened == Path::new("/dev/null")
                || reads && (is_system(opened) || rest.contains("O_PATH"))
                || reads && own[0].starts_with(opened)
        }
        "execve" => paths(rest).iter().all(|path| is_own(path) || is_system(path)),
        "unlink" | "unlinkat" | "rename" | "renameat" | "renameat2" | "mkdir" | "mkdirat" | "rmdir"
        | "link" | "linkat" | "symlinkat" | "symlink" | "truncate" | "chmod" | "fchmodat" | "fchownat"
        | "chown" | "utimensat" | "mknod" | "mknodat" => paths(rest).iter().all(|path| is_own(path)),
        "sendto" | "sendmsg" => !rest.contains("AF_INET"),
        _ => true,
    }
}

/// The paths among a call's arguments, each from its folder's handle on.
fn paths(arguments: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let (mut rest, mut base) = (arguments, "");
    while let Some(at) = rest.find(['<', '"']) {
        let (close, is_base) = if rest[at..].starts_with('<') { ('>', true) } else { ('"', false) };
        let Some(end) = rest[at + 1..].find(close) else { break };
        let text = &rest[at + 1..at + 1 + end];
        match is_base {
            true => base = text,
            false => {
                found.push(Path::new(base).join(text).components().fold(PathBuf::new(), |path, part| {
                    match part {
                        Component::ParentDir => path.parent().map(Path::to_owned).unwrap_or_default(),
                        part => path.join(part),
                    }
                }))
            }
        }
        rest = &rest[at + 1 + end + 1..];
        // A program's own words and environment are no paths of the call.
        if arguments.contains('[') && !is_base {
            break;
        }
    }
    found
}

#[test]
fn a_trace_is_understood() {
    let own = [Path::new("/desk")];
    for (line, allowed) in [
        ("7 openat(AT_FDCWD</desk>, \"a\", O_RDONLY|O_CLOEXEC) = 3</desk/a>", true),
        ("7 openat(AT_FDCWD</desk>, \"a\", O_RDONLY|O_CLOEXEC) = 3</canary/a>", false),
        ("7 openat(AT_FDCWD</desk>, \"a\", O_RDONLY) = -1 ENOENT (No such file or directory)", true),
        ("7 openat(AT_FDCWD</desk>, \"/desk\", O_RDWR|O_TMPFILE, 0666) = 3</desk/#1>(deleted)", true),
        ("7 openat(AT_FDCWD</desk>, \"/canary\", O_RDWR|O_TMPFILE, 0666) = 3</canary/#1>(deleted)", false),
        ("7 openat(AT_FDCWD</desk>, \"/usr/lib/x\", O_RDONLY) = 3</usr/lib/x>", true),
        ("7 openat(AT_FDCWD</desk>, \"/usr/lib/x\", O_RDWR) = 3</usr/lib/x>", false),
        ("7 openat(4</desk/s>, \"lock\", O_RDONLY) = 3</etc/passwd>", false),
        ("7 unlinkat(4</desk/store>, \"../../canary/x\", 0) = 0", false),
        ("7 unlinkat(4</desk/store>, \"x\", 0) = 0", true),
        ("7 renameat(4</desk>, \"x\", 5</canary>, \"y\") = 0", false),
        ("7 execve(\"/usr/bin/ffmpeg\", [\"ffmpeg\", \"/canary\"], 0x7f /* 9 vars */) = 0", true),
        ("7 execve(\"/tmp/sh\", [\"sh\"], 0x7f /* 9 vars */) = 0", false),
        (
            "7 connect(3, {sa_family=AF_INET, sin_port=htons(9)}, 16) = -1 EINPROGRESS (Operation now in progress)",
            false,
        ),
    ] {
        assert_eq!(is_allowed(line, &own), allowed, "{line}");
    }
}
