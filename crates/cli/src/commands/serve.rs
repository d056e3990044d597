//! `remaster serve`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use remaster::{Machine, WorkerProgram};
use remaster_serve::Server;
use serde_json::json;

use super::worker;
use crate::args::{ServeArgs, TOKEN};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output::Output;

pub(crate) fn run(args: &ServeArgs, out: &Output, interrupt: &Interrupt) -> Result<(), CliError> {
    let settings = args.settings(&Machine::this())?;
    memory::give_back();
    let control = interrupt.watch()?.control();
    let mut children = worker();
    // What clients have to know is not for the processes that read their films.
    children.without.push(TOKEN.into());
    let open_to_all = !settings.listen.is_loopback();
    let state = settings.state.display().to_string();
    let server = Server::bind(settings, WorkerProgram { ..children })?;
    let address = format!("http://{}", server.address());
    out.result(&json!({"address": address, "state": state}), || format!("{address}\n"));
    out.say(format_args!(
        "films and results are in {state}; press Ctrl-C to stop, jobs go on with the next start"
    ));
    server.warnings().iter().for_each(|warning| out.warn(warning));
    if open_to_all {
        out.warn("there is no TLS: the token and all films can be read on the way; put a proxy with TLS in front of it");
    }
    if args.open {
        browse(&address, out);
    }
    server.run(&|| control.is_cancelled())?;
    Ok(())
}

/// Memory of large requests. The allocator of glibc keeps what was freed for the next one, in each thread: 272 MB after
/// forty requests of 20 MB.
mod memory {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "the allocator is set by a function of the C library")]
    pub(super) fn give_back() {
        // SAFETY: `mallopt` changes a number of the allocator, under its own lock, and takes any value. Blocks of 256 KiB
        // or more are mappings of their own from now on, which go back to the system when they are freed. Threads that wait
        // for the disk come and go, and each would get a heap of its own.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
            libc::mallopt(libc::M_ARENA_MAX, 2);
        }
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub(super) fn give_back() {}
}

/// A program that opens a browser and fails does so within this time. Later its end is that of the browser.
const OPENING: Duration = Duration::from_secs(10);

/// Opens the page in the user's browser, or says that there is none.
fn browse(address: &str, out: &Output) {
    let mut command = match std::env::consts::OS {
        "windows" => Command::new("explorer"),
        "macos" => Command::new("open"),
        _ => Command::new("xdg-open"),
    };
    let command = command.env_remove(TOKEN).arg(address);
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let (screen, note) =
        (out.screen(), format!("note: no browser could be started; open {address} yourself"));
    let Ok(mut child) = started else {
        screen.line("message", note);
        return;
    };
    let watch = move || {
        let begun = Instant::now();
        let failed = child.wait().is_ok_and(|status| !status.success());
        // The one of Windows says 1 when all is well.
        if failed && begun.elapsed() < OPENING && !cfg!(windows) {
            screen.line("message", note);
        }
    };
    // Without a thread nothing is said of a browser that fails.
    drop(std::thread::Builder::new().name("browser".into()).spawn(watch));
}
