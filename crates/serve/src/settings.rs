//! What a server is started with.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use remaster::Restoration;

use crate::hosts::AllowedHosts;
use crate::proxies::Proxy;

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address to listen on.
    pub listen: IpAddr,
    /// The port to listen on; any that is free if 0.
    pub port: u16,
    /// The folder of jobs, uploads and results.
    pub state: PathBuf,
    /// Jobs that may wait.
    pub jobs: usize,
    /// Bytes of an upload at most.
    pub upload_limit: u64,
    /// How long results and uploads are kept.
    pub keep: Duration,
    /// How long a preview may have a device.
    pub preview_limit: Duration,
    /// What clients have to know. Required unless the address is a loopback address.
    pub token: Option<String>,
    /// Folders whose films may be restored without an upload.
    pub folders: Vec<PathBuf>,
    /// Hosts that films may be fetched from.
    pub hosts: AllowedHosts,
    /// Names that the server is reached by, beside its addresses.
    pub names: Vec<String>,
    /// Proxies whose word about their clients' addresses counts.
    pub proxies: Vec<Proxy>,
    /// Devices; each does one job at a time.
    pub devices: Vec<String>,
    /// What every job begins with: limits of memory, folder of models, place of ffmpeg.
    pub how: Restoration,
}

impl Settings {
    /// The port that is listened on.
    pub const PORT: u16 = 8420;
    /// Jobs that may wait.
    pub const JOBS: usize = 200;
    /// Bytes of an upload at most.
    pub const UPLOAD_LIMIT: u64 = 64 << 30;
    /// How long results and uploads are kept.
    pub const KEEP: Duration = Duration::from_secs(7 * 86400);
    /// How long a preview may have a device: a frame of 1080p by the 7B network takes minutes on a CPU.
    pub const PREVIEW_LIMIT: Duration = Duration::from_secs(600);
}
