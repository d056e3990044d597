//! Requests to others, over real sockets: servers that lie, stall, redirect and never end, and names that lead elsewhere.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod fetch;
#[cfg(target_os = "linux")]
mod namespace;
mod server;
mod webhooks;
