//! HTTP to hosts that strangers name: every address is checked, every wait has a limit and can be ended.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use thiserror::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Timeout};

use crate::hosts::{AllowedHosts, Purpose, Refusal, Target};

/// Bytes of a response's headers.
const MOST_HEADERS: usize = 64 << 10;

/// A connection that takes longer is not made.
const CONNECT: Duration = Duration::from_secs(10);

/// How often to ask whether to go on.
const STEP: Duration = Duration::from_millis(50);

/// What can happen to any request.
#[derive(Debug, Error)]
pub enum NetError {
    /// It was not sent.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No secure connection.
    #[error(
        "no secure connection to {host}: {reason}; check the certificate of {host} and the clock of the server"
    )]
    Insecure {
        /// Who.
        host: String,
        /// Why.
        reason: String,
    },
    /// No connection, or a broken one.
    #[error("the connection to {host} failed: {reason}; check that {host} can be reached and try again")]
    Network {
        /// Who.
        host: String,
        /// Why.
        reason: String,
    },
    /// Nothing came.
    #[error("{host} sent nothing for {} s; try again later", limit.as_secs_f32())]
    Silent {
        /// Who.
        host: String,
        /// How long it may say nothing.
        limit: Duration,
    },
    /// It took too long altogether.
    #[error("{host} took longer than {} s; try again later", limit.as_secs_f32())]
    Slow {
        /// Who.
        host: String,
        /// How long it may take.
        limit: Duration,
    },
    /// The system has no more threads.
    #[error("no thread for a connection: {0}; try again when the server has less to do")]
    Thread(#[source] io::Error),
    /// The caller wanted it to end.
    #[error("the request was cancelled")]
    Stopped,
}

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// Altogether.
    pub(crate) total: Duration,
    /// Without anything new.
    pub(crate) idle: Duration,
}

/// An agent that connects to checked addresses alone.
pub(crate) fn agent(hosts: &AllowedHosts, purpose: Purpose, waits: Waits) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        // Whoever follows a redirect checks it first.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(MOST_HEADERS)
        .accept_encoding("identity")
        .user_agent(concat!("remaster/", env!("CARGO_PKG_VERSION")))
        .timeout_global(Some(waits.total))
        .timeout_connect(Some(CONNECT))
        .timeout_per_read(Some(waits.idle))
        .timeout_per_write(Some(waits.idle))
        // A connection that is used again would not be checked again.
        .max_idle_connections(0)
        // A proxy would resolve the name itself; without this line the environment names one.
        .proxy(None)
        .build();
    Agent::with_parts(config, DefaultConnector::default(), Door { hosts: hosts.clone(), purpose })
}

/// The only way to an address. What is checked here is what the agent connects to: no second lookup follows whose
/// answer could be another.
#[derive(Debug)]
struct Door {
    hosts: AllowedHosts,
    purpose: Purpose,
}

impl Resolver for Door {
    /// Takes as long as the system's resolver does: [`watched`] does not wait for it.
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let refused = |refusal: Refusal| ureq::Error::Other(Box::new(refusal));
        let target = Target::of(uri).map_err(refused)?;
        let addresses = self.hosts.resolve(&target, self.purpose).map_err(refused)?;
        let mut checked = self.empty();
        for address in addresses {
            // All were checked; more than the 16 that fit are not needed.
            if checked.try_push(address).is_err() {
                break;
            }
        }
        Ok(checked)
    }
}

/// What an error of the agent means.
pub(crate) fn fault(host: &str, error: ureq::Error, waits: Waits) -> NetError {
    let host = host.to_owned();
    let insecure = |host, reason: String| NetError::Insecure { host, reason };
    match error {
        ureq::Error::Other(other) => match other.downcast::<Refusal>() {
            Ok(refusal) => NetError::Refused(*refusal),
            Err(other) => NetError::Network { host, reason: other.to_string() },
        },
        ureq::Error::Timeout(Timeout::PerRead | Timeout::PerWrite) => {
            NetError::Silent { host, limit: waits.idle }
        }
        ureq::Error::Timeout(Timeout::Global) => NetError::Slow { host, limit: waits.total },
        ureq::Error::Timeout(_) => {
            NetError::Network { host, reason: format!("no answer within {} s", CONNECT.as_secs()) }
        }
        ureq::Error::Rustls(error) => insecure(host, error.to_string()),
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            insecure(host, error.to_string())
        }
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            NetError::Network { host, reason: "it ended early".to_owned() }
        }
        error => NetError::Network { host, reason: error.to_string() },
    }
}

/// Shuts the agent when whoever waits for it leaves, for whatever reason.
struct Shut(Agent);

impl Drop for Shut {
    fn drop(&mut self) {
        self.0.clone().shutdown();
    }
}

/// What comes from the thread of a request.
enum Word<T, R> {
    Part(T),
    End(R),
}

/// Runs `work` on a thread of its own and gives its parts to `take` on this one. This thread never waits for the network
/// alone: looking up a name and connecting cannot be interrupted, so they are left behind. Their thread ends with them
/// (`CONNECT`, and the limits of the system's resolver), and a shut agent opens no connection.
pub(crate) fn watched<T, R, E>(
    agent: &Agent,
    host: &str,
    waits: Waits,
    stop: &dyn Fn() -> bool,
    work: impl FnOnce(&dyn Fn(T) -> bool) -> Result<R, E> + Send + 'static,
    mut take: impl FnMut(T) -> Result<(), E>,
) -> Result<R, E>
where
    T: Send + 'static,
    R: Send + 'static,
    E: From<NetError> + Send + 'static,
{
    let _shut = Shut(agent.clone());
    let (say, hear) = sync_channel(1);
    let run = move || {
        let end = work(&|part| say.send(Word::Part(part)).is_ok());
        // Nobody need be there any more.
        drop(say.send(Word::End(end)));
    };
    std::thread::Builder::new().name("request".into()).spawn(run).map_err(NetError::Thread)?;
    let start = Instant::now();
    let mut last = start;
    loop {
        if stop() {
            return Err(NetError::Stopped.into());
        }
        if start.elapsed() >= waits.total {
            return Err(NetError::Slow { host: host.to_owned(), limit: waits.total }.into());
        }
        match hear.recv_timeout(STEP) {
            Ok(Word::Part(part)) => {
                take(part)?;
                last = Instant::now();
            }
            Ok(Word::End(end)) => return end,
            Err(RecvTimeoutError::Timeout) if last.elapsed() >= waits.idle => {
                return Err(NetError::Silent { host: host.to_owned(), limit: waits.idle }.into());
            }
            Err(RecvTimeoutError::Timeout) => {}
            // The thread panicked; the server goes on.
            Err(RecvTimeoutError::Disconnected) => {
                let reason = "its answer cannot be read".to_owned();
                return Err(NetError::Network { host: host.to_owned(), reason }.into());
            }
        }
    }
}
