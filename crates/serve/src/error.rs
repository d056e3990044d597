//! Why a server does not start or run.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server does not start or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another address than loopback without a token.
    #[error(
        "--listen {0} lets other machines in, so a token is needed; write one into a file and name it with --token-file"
    )]
    NoToken(std::net::IpAddr),
    /// A token that can be guessed, or that no header can hold.
    #[error("the token has {0} usable characters; use 16 to 512 letters, digits or signs without spaces")]
    Token(usize),
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}; choose another port with --port")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Another server has the folder.
    #[error("another server uses {0}; stop it, or choose another folder with --state")]
    Taken(PathBuf),
    /// The folder cannot be used.
    #[error("cannot use {path}; choose another folder with --state")]
    State {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder of `--allow-folder` cannot be opened.
    #[error("cannot open {path}, which --allow-folder names")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Answers, and names of what is kept, have a time.
    #[error(
        "the clock of this machine shows a time before 1970 or behind 9999; set it, then start the server again"
    )]
    Clock,
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
    /// Threads or sockets cannot be had.
    #[error("the system refuses what a server needs")]
    System(#[from] io::Error),
}
