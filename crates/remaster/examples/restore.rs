//! Restores a film: `cargo run --release -p remaster --example restore -- testdata/media/launch.mp4 out.mp4`.
#![allow(clippy::print_stderr, reason = "a program of its own")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use remaster::{Control, Event, Machine, Outcome, Request, WorkerProgram, prepare};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args_os().skip(1);
    let (Some(input), Some(output)) = (words.next(), words.next()) else {
        return Err("name an input and an output".into());
    };
    let (control, pressed) = (Control::default(), Arc::new(AtomicBool::new(false)));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&pressed))?;
    let stop = control.clone();
    std::thread::spawn(move || {
        while !pressed.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.cancel();
    });
    let mut show = |event: Event| match event {
        Event::Prepared(plan) => eprintln!("{} bytes of memory", plan.total.ram()),
        Event::Reached { phase, frames } => eprint!("\r{phase}: {frames} frames"),
        Event::Message(line) | Event::Warning(line) => eprintln!("{line}"),
        _ => {}
    };
    let mut request = Request::restore(input).output(output).model("testdata/nano_dit.safetensors");
    request.how.models.vae = Some("testdata/nano.safetensors".into());
    let job = prepare(request, &Machine::this(), &control, &mut show)?;
    match job.run(&WorkerProgram::this()?, &mut show)? {
        Outcome::Restored(film) => eprintln!("\nwrote {}: {} frames", film.output, film.frames),
        Outcome::Skipped { output, .. } => eprintln!("{} is done already", output.display()),
    }
    Ok(())
}
