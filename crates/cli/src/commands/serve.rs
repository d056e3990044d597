//! `remaster serve`.

use std::process::{Command, Stdio};

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
    if open_to_all {
        out.warn("there is no TLS: the token and all films can be read on the way; put a proxy with TLS in front of it");
    }
    if args.open {
        browse(&address, out);
    }
    server.run(&|| control.is_cancelled())?;
    Ok(())
}

/// Opens the page in the user's browser.
fn browse(address: &str, out: &Output) {
    let mut command = match std::env::consts::OS {
        "windows" => Command::new("explorer"),
        "macos" => Command::new("open"),
        _ => Command::new("xdg-open"),
    };
    let started =
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if started.is_err() {
        out.say("note: no browser could be started; open the address yourself");
    }
}
