//! Whose certificates are believed.

use std::io::Read;
use std::path::Path;

use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::error::{self, HubError};

/// Largest file of certificates that is read. That of Debian has 220 KB.
const MOST_BYTES: u64 = 16 << 20;

/// Mozilla's list, or that of a file.
pub(crate) fn trust(certificates: Option<&Path>) -> Result<TlsConfig, HubError> {
    let roots = match certificates {
        Some(path) => RootCerts::from(read(path)?),
        None => RootCerts::WebPki,
    };
    Ok(TlsConfig::builder().root_certs(roots).build())
}

fn read(path: &Path) -> Result<Vec<ureq::tls::Certificate<'static>>, HubError> {
    let file = remaster_disk::read_named(path).map_err(error::read(path))?;
    let mut pem = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut pem).map_err(error::read(path))?;
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(HubError::NoCertificates { path: path.to_owned() });
    }
    Ok(certificates)
}
