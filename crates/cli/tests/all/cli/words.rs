//! Help, versions and wrong usage.

use super::*;

#[test]
fn no_arguments_show_the_help_and_are_wrong_usage() {
    let run = desk().run("");
    run.ends(2, &["Usage: remaster", "doctor", "vae", "models"]);
    assert_eq!(run.stdout, "");
}

#[test]
fn help_goes_to_stdout_and_names_the_exit_codes() {
    let run = desk().works("--help");
    assert!(run.stdout.contains("Exit codes:\n  0    success\n  2    invalid usage"), "{}", run.stdout);
    for line in ["doctor --help", "vae roundtrip --help", "models inspect --help"] {
        let run = desk().works(line);
        assert!(run.stdout.contains("--json"), "{line}");
    }
}

#[test]
fn the_version_is_the_packages() {
    let run = desk().run("--version");
    assert_eq!(run.stdout.trim(), concat!("remaster ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_is_one_json_document_too() {
    let desk = desk();
    for line in [
        "--json vae encode",
        "doctor --json --dtype f8",
        "doctor --json --markdown",
        "models --json",
        "nonsense --json",
        "--json doctor --threads 0",
    ] {
        let run = desk.run(line);
        run.ends(2, &[]);
        let json = run.json();
        assert_eq!(json["exit_code"], 2, "{line}");
        assert!(!json["error"].as_str().unwrap().is_empty(), "{line}");
    }
    let run = desk.run("--json doctor --dtype f8");
    assert!(run.json()["error"].as_str().unwrap().contains("use f32, bf16 or f16"), "{}", run.stdout);
}

#[test]
fn a_number_out_of_its_range_is_refused_in_words() {
    let desk = desk();
    for (line, words) in [
        ("film.mkv -o o.mkv --crf 99", "'--crf <N>': it must be a whole number from 0 to 63"),
        ("film.mkv -o o.mkv --crf 300", "it must be a whole number from 0 to 63"),
        ("film.mkv -o o.mkv --encoder-threads 100000", "it must be a whole number from 1 to 64"),
        ("film.mkv -o o.mkv --unit-frames 0", "it must be a whole number from 1 to 1000000"),
        ("compare a.mkv b.mkv --frames 0", "it must be a whole number of 1 or more"),
        ("film.mkv -o o.mkv --seed 1.5", "it must be a whole number of 0 or more"),
    ] {
        desk.run(line).ends(2, &[words]);
    }
}

#[test]
fn a_flag_that_could_do_nothing_is_refused() {
    desk().run("doctor --backend reference --threads 2").ends(2, &["--threads", "reference"]);
}

#[test]
fn short_help_fits_a_screen_and_long_help_has_everything() {
    let desk = desk();
    for (command, most) in [("", 31), ("vae roundtrip", 60), ("plan", 72), ("compare", 60), ("doctor", 30)] {
        let (short, long) = (desk.run(&format!("{command} -h")), desk.run(&format!("{command} --help")));
        short.ends(0, &[]);
        long.ends(0, &[]);
        let lines = short.stdout.lines().count();
        assert!(lines < most, "{command}: {lines} lines\n{}", short.stdout);
        assert!(long.stdout.lines().count() > lines, "{command}");
        assert!(short.stdout.lines().all(|l| l.chars().count() <= 100), "{}", short.stdout);
    }
    let help = desk.run("vae roundtrip --help").stdout;
    for heading in ["Input:", "Output:", "Memory:", "Device:", "Expert:", "Global options:"] {
        assert_eq!(help.lines().filter(|l| *l == heading).count(), 1, "{heading}: {help}");
    }
    assert!(!desk.run("vae roundtrip -h").stdout.contains("Expert:"));
}

/// Libraries of GPU drivers look for a display server, and complain if there cannot be one.
#[cfg(feature = "gpu")]
#[test]
fn libraries_print_nothing_on_stderr() {
    for line in ["devices", "tune --help", "doctor --help"] {
        let desk = desk();
        let mut command = desk.command(line);
        let run = Run::of(command.env_remove("XDG_RUNTIME_DIR").env_remove("WAYLAND_DISPLAY"));
        assert_eq!(run.stderr, "", "{line}");
    }
}
