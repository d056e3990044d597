//! `remaster serve`: a page and an API around the library, on one machine.
//!
//! A [`Server`] takes films by upload, from allowed folders or from allowed hosts, keeps them as jobs in a folder, and restores
//! them one after the other on each device. The work is done by processes of a [`WorkerProgram`](remaster::WorkerProgram), which
//! get a [`Task`](remaster::Task) on stdin: a crash of a driver ends a job and not the server, and nothing of a request becomes an
//! option.
//!
//! The API is that of Replicate, so that its clients work unchanged, and a few things beside it. `docs/serve.md` describes it.

mod app;
mod child;
mod client;
mod door;
mod error;
pub mod fetch;
mod folders;
mod hooks;
pub mod hosts;
mod id;
mod input;
mod job;
mod jobs;
mod metrics;
mod openapi;
mod places;
mod problem;
mod proxies;
mod record;
mod routes;
mod runner;
mod server;
mod settings;
mod space;
mod time;
mod uploads;
mod watched;
pub mod webhooks;

pub use client::NetError;
pub use error::ServeError;
pub use hosts::{AllowedHosts, BadHost};
pub use proxies::{BadProxy, Proxy};
pub use server::Server;
pub use settings::Settings;
