//! Films of every codec and container that is begun in the middle: in one go, in units and in parts they have the same frames.
//!
//! The gate makes those that deceive most and a sample of the others, the night all of them. `REMASTER_SEEKS` makes those with a
//! word in their names.

mod films;

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use remaster_testkit::{Rng, in_threads, nightly, no_part};

use crate::desk::{Desk, Run, bytes, ffmpeg, private};
use films::{Film, Index, KINDS, SECONDS, all};

/// Films that decoders begin in the middle of without a frame that stands alone.
const WORST: [(&str, &str, Index); 5] = [
    ("mpeg4-long", "ts", Index::Whole),
    ("mpeg4-long", "mp4", Index::Lost),
    ("h264-across", "ts", Index::Whole),
    ("hevc-refresh", "mp4", Index::Lost),
    ("vp9-long", "mkv", Index::Lies),
];

/// Others that the gate makes.
const SAMPLE: usize = 4;

/// What all runs have.
const HOW: &str = "--lossless --deinterlace off --device cpu --progress none";

/// A film that is restored in units.
const RESTORE: &str = "restore --model identity --resolution 1x --scenes none --no-manifest";

/// A film whose frames come out as they went in.
const PASS: &str = "vae roundtrip --weights identity";

/// A frame: when it is shown, from the first one on, and its hash.
type Shown = (f64, String);

/// All frames of a film.
fn frames(folder: &Path, film: &str) -> Vec<Shown> {
    let text =
        ffmpeg(folder, &format!("-i {film} -fps_mode passthrough -enc_time_base 1:1000000 -f framemd5 -"));
    let lines = String::from_utf8(text).unwrap();
    let frame = |line: &str| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        (fields[2].parse::<f64>().unwrap() / 1e6, fields[5].to_owned())
    };
    let mut frames: Vec<Shown> = lines.lines().filter(|line| !line.starts_with('#')).map(frame).collect();
    let first = frames.first().map_or(0.0, |frame| frame.0);
    frames.iter_mut().for_each(|frame| frame.0 -= first);
    frames
}

/// The frames that a command makes of a film.
fn made(desk: &Desk, film: &str, command: &str) -> Result<Vec<Shown>, String> {
    let run = desk.run(&format!("{command} {film} -o out.mkv {HOW}"));
    match run.code {
        Some(0) => {
            let frames = frames(desk, "out.mkv");
            std::fs::remove_file(desk.join("out.mkv")).unwrap();
            Ok(frames)
        }
        code => Err(format!("{command}: code {code:?}: {}", run.stderr)),
    }
}

fn same(whole: &[Shown], got: &[Shown], about: &str) -> Result<(), String> {
    let differ = whole.iter().zip(got).filter(|(a, b)| a.1 != b.1).count();
    match whole.len() == got.len() && differ == 0 {
        true => Ok(()),
        false => {
            Err(format!("{about}: {} frames instead of {}, of which {differ} differ", got.len(), whole.len()))
        }
    }
}

/// Compares units and parts of a film with the whole.
fn check(film: &Film, rng: &mut Rng) -> Result<(), String> {
    // The environment may name an ffmpeg to test.
    let (desk, name) = (Desk::with(private), film.name());
    film.make(&desk);
    let whole = made(&desk, &name, RESTORE)?;
    if whole.len() < 100 {
        return Err(format!("it has {} frames", whole.len()));
    }
    let units = made(&desk, &name, &format!("{RESTORE} --unit-frames 47 --piece-frames 24"))?;
    same(&whole, &units, "units")?;
    let whole = made(&desk, &name, PASS)?;
    for _ in 0..nightly(1, 3) {
        let first = rng.between(52, whole.len() - 20);
        let count = rng.between(1, 15);
        // Times between two frames, so that no clock rounds one in or out.
        let time = |frame: usize| (whole[frame - 1].0 + whole[frame].0) / 2.0;
        let part = format!("{PASS} --ss {:.3} --to {:.3}", time(first), time(first + count));
        same(&whole[first..first + count], &made(&desk, &name, &part)?, &part)?;
    }
    Ok(())
}

/// Whether the ffmpeg under test dies of MPEG-TS, as static builds do.
fn dies_of_ts() -> bool {
    let program = std::env::var_os("REMASTER_FFMPEG").unwrap_or_else(|| "ffmpeg".into());
    let desk = Desk::bare();
    ffmpeg(&desk, "-f lavfi -i testsrc2=s=64x48:d=1 -c:v mpeg2video a.ts");
    let mut command = Command::new(program);
    command.args(["-v", "quiet", "-nostdin", "-i"]).arg(desk.join("a.ts")).args(["-f", "null", "-"]);
    command.status().unwrap().code().is_none_or(|code| code as u32 >> 24 == 0xC0)
}

/// The films of this run.
fn chosen() -> Vec<Film> {
    let mut films = all();
    if let Some(word) = std::env::var_os("REMASTER_SEEKS").and_then(|word| word.into_string().ok()) {
        films.retain(|film| film.name().contains(&word));
        return films;
    }
    let worst = |film: &Film| WORST.contains(&(KINDS[film.kind].name, film.ending, film.index));
    let (mut chosen, mut others): (Vec<Film>, Vec<Film>) = films.into_iter().partition(worst);
    assert_eq!(chosen.len(), WORST.len());
    let mut rng = Rng::new(11);
    for _ in 0..nightly(SAMPLE, others.len()) {
        chosen.push(others.swap_remove(rng.below(others.len())));
    }
    chosen
}

#[test]
fn units_and_parts_of_any_film_have_the_frames_of_the_whole() {
    const { assert!(SECONDS > 21, "the longest run-up is not reached") };
    let mut films = chosen();
    if dies_of_ts() {
        no_part("mpegts", "the films in MPEG-TS", "this ffmpeg dies of MPEG-TS");
        films.retain(|film| film.ending != "ts");
    }
    let failed = Mutex::new(Vec::new());
    in_threads(2, 0..films.len(), |n| {
        if let Err(reason) = check(&films[n], &mut Rng::new(n as u64)) {
            println!("{}: {reason}", films[n].name());
            failed.lock().unwrap().push(films[n].name());
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} films: {failed:?}", failed.len(), films.len());
}

/// A film that decoding can begin with at its start alone, of so many seconds.
fn without_entries(seconds: usize) -> Desk {
    Desk::filmed(&format!(
        "-f lavfi -i testsrc2=s=64x48:r=25:d={seconds} -c:v libx264 -preset ultrafast -g 100000 -sc_threshold 0 film.mkv"
    ))
}

#[test]
fn a_plan_says_that_a_film_is_read_from_its_start_and_what_that_costs() {
    let notes = |seconds| {
        let plan =
            without_entries(seconds).json("plan film.mkv --model anime --device cpu --resolution 1x --json");
        let notes = plan["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap().to_owned());
        notes.filter(|note| note.contains("read from its start")).collect::<Vec<_>>()
    };
    let long = notes(150);
    // Units begin at frames 1,500 and 3,000.
    assert!(long.len() == 1 && long[0].contains("3 units, 4,500 frames more in all, about "), "{long:?}");
    // One unit is read once.
    assert!(notes(50).is_empty());
}

#[test]
fn a_film_that_is_read_from_its_start_has_memory_for_a_decoder_that_waits() {
    let desk = without_entries(150);
    ffmpeg(&desk, "-i film.mkv -c:v libx264 -preset ultrafast -g 100 usual.mkv");
    let memory = |film: &str| {
        let how = "--model identity --vae identity --device cpu --resolution 1x --json";
        desk.json(&format!("plan {film} {how}"))["total"]["ram_bytes"].as_u64().unwrap()
    };
    // Two read the same frames, and one waits where the next unit begins.
    assert!(memory("film.mkv") > memory("usual.mkv") + (1 << 20));
}

#[test]
#[cfg(unix)]
fn units_in_one_process_read_a_film_from_its_start_once() {
    let desk = without_entries(20);
    let real = crate::desk::quick_ffmpeg()
        .map_or_else(|| "ffmpeg".into(), |path| path.to_string_lossy().into_owned());
    // Decoders of all frames write nut to a pipe. The film is looked at for shots by another one.
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *film.mkv*nut*pipe:1) echo >> starts;; esac\nexec '{real}' \"$@\"\n"
    );
    desk.program("ffmpeg", &script);
    desk.program("ffprobe", "#!/bin/sh\nexec ffprobe \"$@\"\n");
    let starts = |more: &str| {
        let _ = std::fs::remove_file(desk.join("starts"));
        let line = format!("film.mkv -o out.mkv -y {HOW} {}", RESTORE.trim_start_matches("restore "));
        let mut command = desk.command(&format!("{line} --ffmpeg ./ffmpeg {more}"));
        Run::of(command.env_remove("REMASTER_FFMPEG")).ends(0, &[]);
        bytes(&desk, "starts").len()
    };
    let one = starts("");
    let ten = starts("--unit-frames 50 --piece-frames 25");
    // The search for an entry frame tries two places.
    assert!(one >= 1 && ten <= one + 6, "{one} decoders for one unit, {ten} for ten");
}
