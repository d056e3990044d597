//! Films restored through the library. No process of ours is started but workers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use remaster::machine::SystemMemory;
use remaster::{
    Amount, Backend, Class, Control, Cut, Error, Event, FilmOutcome, Machine, Outcome, PlanRequest,
    PreviewRequest, Request, Resize, Units, WorkerProgram, prepare,
};

use crate::desk::{Desk, bytes, files, quick_ffmpeg, small_disk};

/// A restoration by units of some frames each.
fn request(folder: &Path, output: &str) -> Request {
    let mut request = Request::restore(folder.join("film.mkv"))
        .output(folder.join(output))
        .model("identity")
        .device("cpu")
        .resolution(Resize::Short(48));
    // The networks of a restoration, which compute nothing.
    request.how.models.vae = Some("identity".into());
    request.how.device.threads = Some(1);
    request.how.source.programs.ffmpeg = quick_ffmpeg().map(PathBuf::from);
    let cut = Cut { unit_frames: 12, piece_frames: Some(6), ..Cut::default() };
    request.units = Units { cut, checkpoint: Duration::ZERO, ..Units::default() };
    request
}

fn worker() -> WorkerProgram {
    WorkerProgram { program: env!("CARGO_BIN_EXE_remaster").into(), without: Vec::new(), with: Vec::new() }
}

/// Runs a request; every event goes to `told`, too.
fn run(request: Request, control: &Control, told: &mut dyn FnMut(&Event)) -> Result<FilmOutcome, Error> {
    run_with(request, control, &worker(), told)
}

fn run_with(
    request: Request,
    control: &Control,
    worker: &WorkerProgram,
    told: &mut dyn FnMut(&Event),
) -> Result<FilmOutcome, Error> {
    let mut events = |event: Event| told(&event);
    match prepare(request, &Machine::this(), control, &mut events)?.run(worker, &mut events)? {
        Outcome::Restored(outcome) => Ok(*outcome),
        other => panic!("{other:?}"),
    }
}

fn restored(folder: &Path, output: &str) -> Vec<u8> {
    run(request(folder, output), &Control::default(), &mut |_| ()).unwrap();
    bytes(folder, output)
}

fn film() -> Desk {
    Desk::of_shots([14, 12, 8], "film.mkv")
}

#[test]
fn a_film_is_planned_restored_and_then_skipped() {
    let (at, control) = (&film(), Control::default());
    let prepared = prepare(request(at, "out.mkv"), &Machine::this(), &control, &mut |_| ()).unwrap();
    let plan = prepared.plan(&mut |_| ()).unwrap();
    assert_eq!((plan.shown, prepared.is_resumable()), ([64, 48], true));
    assert!(plan.total.ram() > 0 && !at.join("out.mkv").exists());
    let mut seen = 0;
    let outcome = match prepared.run(&worker(), &mut |event| {
        seen += usize::from(matches!(event, Event::Advanced { phase: "decode", .. }));
    }) {
        Ok(Outcome::Restored(outcome)) => outcome,
        other => panic!("{other:?}"),
    };
    assert_eq!((outcome.frames, outcome.shots.len()), (34, 3));
    assert!(seen > 0 && at.join("out.mkv").is_file());
    let again = prepare(request(at, "out.mkv"), &Machine::this(), &control, &mut |_| ()).unwrap();
    assert!(again.plan(&mut |_| ()).is_none());
    assert!(matches!(again.run(&worker(), &mut |_| ()), Ok(Outcome::Skipped { frames: Some(34), .. })));
}

#[test]
fn a_film_that_is_cancelled_is_resumed_to_the_same_film() {
    let at = &film();
    let whole = restored(at, "whole.mkv");
    let control = Control::default();
    let stop = control.clone();
    let error = run(request(at, "out.mkv"), &control, &mut |event| {
        if let Event::Reached { phase: "decode", frames: 1.. } = event {
            stop.cancel();
        }
    });
    assert_eq!(error.unwrap_err().class(), Class::Stopped);
    assert!(!at.join("out.mkv").exists() && at.join("out.mkv.remaster/store").is_dir());
    let mut said = Vec::new();
    run(request(at, "out.mkv"), &Control::default(), &mut |event| {
        if let Event::Message(line) = event {
            said.push(line.clone());
        }
    })
    .unwrap();
    assert!(said.iter().any(|line| line.starts_with("resuming at frame ")), "{said:?}");
    assert!(bytes(at, "out.mkv") == whole && !at.join("out.mkv.remaster").exists());
}

#[test]
fn a_film_that_is_stopped_at_a_time_ends_behind_a_segment_and_is_resumed() {
    let at = &film();
    let whole = restored(at, "whole.mkv");
    let control = Control::default();
    control.stop_at(Instant::now());
    let error = run(request(at, "out.mkv"), &control, &mut |_| ()).unwrap_err();
    assert!(matches!(error, Error::Until), "{error}");
    run(request(at, "out.mkv"), &Control::default(), &mut |_| ()).unwrap();
    assert!(bytes(at, "out.mkv") == whole);
}

#[test]
fn a_paused_run_waits_and_goes_on() {
    let at = &film();
    let whole = restored(at, "whole.mkv");
    let control = Control::default();
    let (events, wakes) = (AtomicUsize::new(0), control.clone());
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            run(request(at, "out.mkv"), &control, &mut |event| {
                if matches!(event, Event::Advanced { phase: "encode", .. }) {
                    // The first one makes it wait.
                    control.pause(events.fetch_add(1, Ordering::SeqCst) == 0);
                }
            })
        });
        while events.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(400));
        assert!(!run.is_finished() && events.load(Ordering::SeqCst) == 1, "it goes on while it is paused");
        wakes.pause(false);
        run.join().unwrap().unwrap();
    });
    assert!(bytes(at, "out.mkv") == whole);
}

#[test]
fn several_devices_make_the_film_of_one_and_a_bad_one_is_set_aside() {
    let at = &film();
    let whole = restored(at, "whole.mkv");
    let two = |output: &str| {
        let mut request = request(at, output);
        request.how.device.name = None;
        request.how.device.threads = None;
        request.units.devices = vec!["cpu".into(), "cpu".into()];
        request
    };
    run(two("two.mkv"), &Control::default(), &mut |_| ()).unwrap();
    assert!(bytes(at, "two.mkv") == whole);
    // Every unit fails at first: it is tried elsewhere, and then the run ends with its reason.
    let bad = WorkerProgram { with: vec![("REMASTER_TEST_UNIT".into(), "start:cpu".into())], ..worker() };
    let mut warned = Vec::new();
    let error = run_with(two("bad.mkv"), &Control::default(), &bad, &mut |event| {
        if let Event::Warning(line) = event {
            warned.push(line.clone());
        }
    });
    assert!(matches!(error, Err(Error::NoDevice { class: Class::Device, .. })), "{error:?}");
    assert!(warned.iter().any(|line| line.contains("is not used any more")), "{warned:?}");
    // The same command with devices that work makes the film.
    run(two("bad.mkv"), &Control::default(), &mut |_| ()).unwrap();
    assert!(bytes(at, "bad.mkv") == whole);
}

#[test]
fn a_full_disk_is_an_error_and_the_work_stays() {
    let at = &film();
    let whole = restored(at, "whole.mkv");
    let Some(disk) = small_disk(&at.join("small"), 24) else {
        return remaster_testkit::no_disk("a_full_disk_is_an_error_and_the_work_stays");
    };
    let ballast = disk.0.join("ballast");
    // As much as there is.
    std::fs::write(&ballast, vec![0; 25 << 20]).unwrap_err();
    let mut on_it = request(at, "out.mkv");
    on_it.units.temp = Some(disk.0.clone());
    on_it.units.wait_disk = Duration::ZERO;
    let error = run(on_it.clone(), &Control::default(), &mut |_| ()).unwrap_err();
    assert_eq!(error.kind(), "disk-full", "{error}");
    std::fs::remove_file(&ballast).unwrap();
    run(on_it, &Control::default(), &mut |_| ()).unwrap();
    assert!(bytes(at, "out.mkv") == whole && files(&disk.0).is_empty());
}

#[test]
fn a_made_up_machine_decides_what_is_refused() {
    let (at, control) = (&film(), Control::default());
    let on = |machine: &Machine, request: Request| {
        let mut said = Vec::new();
        let prepared = prepare(request, machine, &control, &mut |event| {
            if let Event::Message(line) = event {
                said.push(line);
            }
        });
        (prepared, said.join("\n"))
    };
    let refused = |machine: &Machine, request: Request| match on(machine, request).0 {
        Ok(_) => panic!("it is not refused"),
        Err(error) => error,
    };
    // 64 MiB are less than the process takes.
    let memory = |total, free| Some(SystemMemory { total: Some(total), free: Some(free) });
    let small = Machine { memory: memory(2 << 30, 64 << 20), ..Machine::this() };
    let error = refused(&small, request(at, "out.mkv"));
    assert_eq!((error.kind(), error.class()), ("not-enough-memory", Class::Memory), "{error}");
    let mut more = request(at, "out.mkv");
    more.how.limits.ram = Amount::Bytes(4 << 30);
    assert_eq!(refused(&small, more).kind(), "more-memory-than-installed");
    // A full disk leaves no room for unfinished work, and is no reason to refuse.
    let full = Machine { free_space: Some(0), ..Machine::this() };
    let (prepared, said) = on(&full, request(at, "out.mkv"));
    assert!(!prepared.unwrap().is_resumable() && said.contains("cannot be resumed"), "{said}");
    // Eight cards of which one is broken: it is named, and the others share the memory.
    let cards = |names: &[String]| {
        let mut request = request(at, "out.mkv");
        (request.how.device.name, request.how.device.threads) = (None, None);
        request.units.devices = names.to_vec();
        request
    };
    let names: Vec<String> = (0..8).map(|i| format!("vulkan:{i}")).collect();
    let seven: Vec<String> = names.iter().filter(|name| *name != "vulkan:5").cloned().collect();
    let devices = Some(seven.iter().map(|name| (name.clone(), Backend::cpu())).collect());
    let farm = Machine { devices, memory: memory(64 << 30, 64 << 30), ..Machine::this() };
    let error = refused(&farm, cards(&names));
    assert!(error.kind() == "unknown-device" && error.to_string().contains("vulkan:5"), "{error}");
    let plan = on(&farm, cards(&seven)).0.unwrap().plan(&mut |_| ()).unwrap();
    assert!(plan.total.ram() <= (64 << 30) / 7, "{}", plan.total.ram());
    // Models are looked for where the environment of the machine says.
    let bare = Machine::this().without_environment();
    assert_eq!(refused(&bare, request(at, "out.mkv").model("3b")).kind(), "model-not-installed");
    let named = &bare.clone().with("REMASTER_MODEL_DIR", "/nowhere/at/all");
    assert_eq!(refused(named, request(at, "out.mkv").model("3b")).kind(), "not-readable");
    // A request that was made by a program is checked like one that was typed.
    let mut wrong = request(at, "out.mkv");
    wrong.how.look.finish.strength = f32::NAN;
    assert_eq!(refused(&bare, wrong).kind(), "out-of-range");
    let plan: PlanRequest = serde_json::from_value(serde_json::json!({"input": "-"})).unwrap();
    assert!(matches!(prepare(plan, &bare, &control, &mut |_| ()), Err(Error::PlanPipe)));
}

#[test]
fn a_preview_is_one_sheet() {
    let at = &film();
    let (input, output) = (at.join("film.mkv"), Some(at.join("sheet.png")));
    let how = request(at, "unused.mkv").how;
    let request = PreviewRequest { input, output, overwrite: false, shots: 2, how };
    let job = prepare(request, &Machine::this(), &Control::default(), &mut |_| ()).unwrap();
    assert!(job.known().output == Some(at.join("sheet.png")) && job.known().total.is_some());
    assert!(!at.join("sheet.png").exists());
    let made = job.run(&mut |_| ()).unwrap();
    assert_eq!(made.frames.len(), 2);
    assert!(bytes(at, "sheet.png").starts_with(b"\x89PNG"));
}

#[test]
fn what_is_ready_can_be_run_by_another_thread() {
    fn sent<T: Send>(job: T) -> T {
        job
    }
    let at = &film();
    let control = Control::default();
    let film = sent(prepare(request(at, "out.mkv"), &Machine::this(), &control, &mut |_| ()).unwrap());
    let outcome = std::thread::spawn(move || film.run(&worker(), &mut |_| ())).join().unwrap().unwrap();
    assert!(matches!(outcome, Outcome::Restored(outcome) if outcome.frames == 34));
    let request = PreviewRequest {
        input: at.join("film.mkv"),
        output: Some(at.join("sheet.png")),
        overwrite: false,
        shots: 1,
        how: request(at, "out.mkv").how,
    };
    let job = sent(prepare(request, &Machine::this(), &control, &mut |_| ()).unwrap());
    std::thread::spawn(move || job.run(&mut |_| ())).join().unwrap().unwrap();
    assert!(at.join("sheet.png").is_file());
}

/// Says to a process of this test that it is one.
const ABORTS: &str = "REMASTER_TEST_ABORTS";

#[test]
#[ignore = "child: started by the test below, as it spoils its process"]
fn aborting() {
    if std::env::var_os(ABORTS).is_none() {
        return;
    }
    let at = &film();
    Control::default().abort();
    let other = Control::default();
    let error = run(request(at, "out.mkv"), &other, &mut |_| ()).unwrap_err();
    assert_eq!(error.class(), Class::Stopped, "{error}");
    assert!(!at.join("out.mkv").exists() && !other.is_cancelled());
}

/// Documented, so that nobody aborts a run and goes on.
#[test]
fn after_an_abort_no_run_of_the_process_makes_a_file() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "library::aborting", "--ignored"]).env(ABORTS, "1");
    let out = child.output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
}
