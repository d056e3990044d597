//! Over real sockets: our server and clients that are slow, greedy or gone; and our requests to servers that lie, stall, redirect
//! and never end.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod fetch;
#[cfg(target_os = "linux")]
mod namespace;
mod ours;
#[cfg(unix)]
mod queue;
mod server;
#[cfg(target_os = "linux")]
mod stays_up;
mod webhooks;
