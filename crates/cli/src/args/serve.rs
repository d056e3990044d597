//! `remaster serve`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use remaster::{Amount, Machine, Restoration};
use remaster_serve::{AllowedHosts, Proxy, Settings};

use super::clock;
use super::limits::LimitArgs;
use super::media::ProgramArgs;
use super::whole::{at_least, whole};
use crate::error::CliError;

/// `remaster serve`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServeArgs {
    /// Port to listen on; 0 takes any that is free
    #[arg(long, value_parser = at_least(0u16), value_name = "PORT", default_value_t = Settings::PORT)]
    port: u16,
    /// Address to listen on
    ///
    /// An address that other machines can reach needs a token. There is no TLS: put a proxy with TLS in front of it.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) listen: IpAddr,
    /// Open the page in a browser
    #[arg(long)]
    pub(crate) open: bool,
    /// Folder for jobs, uploads and results [default: remaster/serve in the user's data folder]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Jobs that may wait
    #[arg(long, value_name = "N", default_value = "200", value_parser = whole(1u16..=10_000))]
    jobs: u16,
    /// Largest upload; the disk may allow less
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = bytes)]
    upload_limit: u64,
    /// How long results and uploads are kept, e.g. 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = clock::span)]
    keep: Duration,
    /// Read the token that clients must send from this file [default: $REMASTER_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Allow films below this folder as input; may be repeated
    #[arg(long, value_name = "DIR")]
    allow_folder: Vec<PathBuf>,
    /// Allow films to be fetched from this host; may be repeated
    ///
    /// NAME is a host, with :PORT if that is not the usual one. Private addresses are allowed only if they are named themselves,
    /// for webhooks too.
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Name that the server is reached by, beside its address; may be repeated
    #[arg(long, value_name = "NAME")]
    hostname: Vec<String>,
    /// Address of a proxy, or a network like 10.0.0.0/8, in front of the server; may be repeated
    ///
    /// Its X-Forwarded-For says who its clients are, so that one of them cannot take the places of the others. Anybody else's is
    /// ignored.
    #[arg(long, value_name = "ADDRESS")]
    trusted_proxy: Vec<Proxy>,
    /// Devices, as listed by `remaster devices`; each restores one film at a time
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "auto")]
    devices: Vec<String>,
    /// Search this folder for models first
    #[arg(long, value_name = "DIR")]
    model_dir: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
    /// GPU memory limit of each job: 8G, 80% or -1G [default: free minus a tenth, at least 512M]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Memory")]
    vram: Option<Amount>,
    #[command(flatten)]
    programs: ProgramArgs,
}

/// A number of bytes.
fn bytes(word: &str) -> Result<u64, String> {
    match word.parse::<Amount>()? {
        Amount::Bytes(bytes @ 1..) => Ok(bytes),
        _ => Err(format!("`{word}` is not a size of a file; write 64G or 500M")),
    }
}

/// The variable of the token.
pub(crate) const TOKEN: &str = "REMASTER_TOKEN";

/// Bytes of the file of a token at most.
const MOST_TOKEN: u64 = 4096;

impl ServeArgs {
    /// The same for the server.
    pub(crate) fn settings(&self, machine: &Machine) -> Result<Settings, CliError> {
        let state =
            self.state.clone().or_else(|| Some(machine.data()?.join("serve"))).ok_or(CliError::NoState)?;
        let mut how = Restoration { limits: self.limits.limits(self.vram), ..Restoration::default() };
        how.models.folder.clone_from(&self.model_dir);
        how.source.programs = self.programs.programs();
        Ok(Settings {
            listen: self.listen,
            port: self.port,
            state,
            jobs: usize::from(self.jobs),
            upload_limit: self.upload_limit,
            keep: self.keep,
            preview_limit: Settings::PREVIEW_LIMIT,
            token: self.token()?,
            folders: self.allow_folder.clone(),
            hosts: AllowedHosts::new(&self.allow_host)?,
            names: self.hostname.clone(),
            proxies: self.trusted_proxy.clone(),
            devices: self.devices.clone(),
            how,
        })
    }

    fn token(&self) -> Result<Option<String>, CliError> {
        let Some(path) = &self.token_file else {
            return Ok(std::env::var(TOKEN).ok().filter(|token| !token.is_empty()));
        };
        let failed = |source| CliError::TokenFile { path: path.clone(), source };
        let mut text = String::new();
        let file = remaster_disk::read_named(path).map_err(failed)?;
        std::io::Read::read_to_string(&mut std::io::Read::take(file, MOST_TOKEN), &mut text)
            .map_err(failed)?;
        // Windows editors write a byte order mark.
        Ok(Some(text.trim_start_matches('\u{feff}').trim().to_owned()))
    }
}
