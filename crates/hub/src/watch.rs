//! Ends connections on cancellation: a read waits for as long as a transfer may stall, and on a system that does not wake it
//! then, such as Wine, still does.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::client::Client;
use crate::error::HubError;
use crate::settings::Stop;

/// How often to ask.
const STEP: Duration = Duration::from_millis(50);

/// Runs `work` while another thread watches. What fails because of it is a cancellation.
pub(crate) fn during<T>(
    client: &Client,
    stop: &Stop,
    work: impl FnOnce() -> Result<T, HubError>,
) -> Result<T, HubError> {
    let (done, over) = channel::<()>();
    let agent = client.agent();
    let result = std::thread::scope(|scope| {
        let watch = move || {
            while over.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                if stop() {
                    agent.shutdown();
                    return;
                }
            }
        };
        // Without the thread the end comes with the next bytes.
        drop(std::thread::Builder::new().name("hub".into()).spawn_scoped(scope, watch));
        let result = work();
        drop(done);
        result
    });
    match result {
        Err(_) if stop() => Err(HubError::Cancelled),
        result => result,
    }
}
