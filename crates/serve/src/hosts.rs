//! Who may be asked: the hosts of `--allow-host`, and the addresses that a name may lead to.
//!
//! There is one door: `AllowedHosts::resolve` turns a URL's host into the addresses to connect to, and checks both.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use thiserror::Error;
use ureq::http::Uri;

/// Longest URL that is read. Signed ones of object stores have 2 KiB.
const MOST_URL: usize = 8 << 10;

/// Finds the addresses of a name.
pub type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// The hosts of `--allow-host`.
///
/// An entry is an exact DNS name in ASCII or an address, with a port if it is not the usual one of the URL's scheme. A
/// name that leads to an address that is not public is refused, unless an entry names that address itself.
#[derive(Clone)]
pub struct AllowedHosts {
    entries: Vec<Entry>,
    lookup: Arc<Lookup>,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A film is read: the host must be allowed, whatever its address.
    Input,
    /// A prediction is sent: every public address will do.
    Webhook,
}

/// A value of `--allow-host` that names no host.
#[derive(Debug, Error)]
#[error(
    "`{value}` cannot be used as --allow-host: {reason}; give a name like films.example.com or films.example.com:8080, \
     or an address like 192.168.1.5"
)]
pub struct BadHost {
    /// What was given.
    pub value: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Why an address is not asked. Nothing was sent to it.
#[derive(Debug, Error)]
pub enum Refusal {
    /// It is not a URL that can be asked.
    #[error("the URL cannot be used: {reason}; give one like https://films.example.com/tape.mkv")]
    Url {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Nobody allowed this host.
    #[error("{host} is not an allowed host; start the server with --allow-host {host}")]
    Host {
        /// Name or address, with its port if it is not the usual one.
        host: String,
    },
    /// It leads into the machine or its network.
    #[error(
        "{host} has the address {address}, which is not public; if it is meant, start the server with --allow-host {entry}"
    )]
    Private {
        /// Name or address, with its port if it is not the usual one.
        host: String,
        /// Where it leads.
        address: IpAddr,
        /// The entry that would allow it.
        entry: String,
    },
    /// The name has no address.
    #[error(
        "the address of {host} cannot be found: {reason}; check the name in the URL and the network of the server"
    )]
    Unknown {
        /// The name.
        host: String,
        /// What the resolver says.
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// In lower case.
    Name(String),
    Address(IpAddr),
}

#[derive(Clone, Debug)]
struct Entry {
    host: Host,
    /// Without one, the usual port of the scheme alone: an allowed 127.0.0.1 does not open every service of the machine.
    port: Option<u16>,
}

/// Where a URL leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    host: Host,
    port: u16,
    pub(crate) secure: bool,
}

impl AllowedHosts {
    /// Reads the values of `--allow-host`.
    pub fn new<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Result<Self, BadHost> {
        let entries =
            values.into_iter().map(|value| Entry::parse(value.as_ref())).collect::<Result<_, _>>()?;
        Ok(AllowedHosts { entries, lookup: Arc::new(ask_system) })
    }

    /// The same hosts, found by other means than those of the system.
    pub fn with_lookup(self, lookup: Arc<Lookup>) -> Self {
        AllowedHosts { lookup, ..self }
    }

    /// The addresses to connect to. Looks the name up once; one bad address among several is enough to refuse it.
    pub(crate) fn resolve(&self, target: &Target, purpose: Purpose) -> Result<Vec<SocketAddr>, Refusal> {
        if purpose == Purpose::Input && !self.names(target) {
            return Err(Refusal::Host { host: target.to_string() });
        }
        let addresses = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let unknown = |reason| Refusal::Unknown { host: target.to_string(), reason };
                let found = (self.lookup)(name).map_err(|error| unknown(error.to_string()))?;
                if found.is_empty() {
                    return Err(unknown("the name has no address".to_owned()));
                }
                found
            }
        };
        for &address in &addresses {
            let itself = Target { host: Host::Address(address), ..target.clone() };
            if !is_public(address) && !self.names(&itself) {
                return Err(Refusal::Private {
                    host: target.to_string(),
                    address,
                    entry: itself.to_string(),
                });
            }
        }
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, target.port)).collect())
    }

    /// Refuses what can be refused without a lookup: a host that is not allowed, an address that is not public.
    pub(crate) fn check(&self, url: &str, purpose: Purpose) -> Result<(), Refusal> {
        let target = Target::of(&parse_url(url)?)?;
        match target.host {
            Host::Address(_) => self.resolve(&target, purpose).map(drop),
            Host::Name(_) if purpose == Purpose::Input && !self.names(&target) => {
                Err(Refusal::Host { host: target.to_string() })
            }
            Host::Name(_) => Ok(()),
        }
    }

    fn names(&self, target: &Target) -> bool {
        self.entries.iter().any(|entry| {
            entry.host == target.host && entry.port.map_or(target.is_usual(), |port| port == target.port)
        })
    }
}

impl fmt::Debug for AllowedHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllowedHosts").field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl Entry {
    fn parse(value: &str) -> Result<Self, BadHost> {
        let bad = |reason| BadHost { value: value.to_owned(), reason };
        // An IPv6 address has colons of its own.
        if let Ok(address) = value.parse::<Ipv6Addr>() {
            return Ok(Entry { host: Host::Address(address.into()), port: None });
        }
        if value.contains('/') {
            return Err(bad("it is a URL or a path"));
        }
        let (host, port) = match value.rsplit_once(':') {
            Some((host, port)) if !value.ends_with(']') => (host, Some(port)),
            _ => (value, None),
        };
        let port = port.map(|port| parse_port(port).ok_or_else(|| bad("its port is not one of 1 to 65535")));
        Ok(Entry { host: Host::parse(host).map_err(bad)?, port: port.transpose()? })
    }
}

impl Host {
    /// Reads the host of a URL. Brackets mark an IPv6 address.
    fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(inner) = text.strip_prefix('[') {
            let address = inner.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok());
            return address.map(|a| Host::Address(a.into())).ok_or("its host is not an IPv6 address");
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Host::Address(address.into()));
        }
        if !text.is_ascii() {
            return Err("its host is not ASCII (write the xn-- form of the name)");
        }
        if text.contains('*') {
            return Err("a host has no wildcards");
        }
        if !is_name(text) {
            return Err("its host is not a DNS name");
        }
        Ok(Host::Name(text.to_ascii_lowercase()))
    }
}

impl Target {
    pub(crate) fn of(uri: &Uri) -> Result<Self, Refusal> {
        let wrong = |reason| Refusal::Url { reason };
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("it is neither http nor https")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("it contains a user name or password"));
        }
        let host = Host::parse(authority.host()).map_err(wrong)?;
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => usual_port(secure),
            rest => rest
                .and_then(|rest| parse_port(rest.strip_prefix(':')?))
                .ok_or_else(|| wrong("its port is not one of 1 to 65535"))?,
        };
        Ok(Target { host, port, secure })
    }

    fn is_usual(&self) -> bool {
        self.port == usual_port(self.secure)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => f.write_str(name)?,
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
        }
        if self.is_usual() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// Reads a URL of a stranger.
pub(crate) fn parse_url(text: &str) -> Result<Uri, Refusal> {
    if text.len() > MOST_URL {
        return Err(Refusal::Url { reason: "it is longer than 8192 bytes" });
    }
    let uri: Uri = text.parse().map_err(|_| Refusal::Url { reason: "it is not a URL" })?;
    Target::of(&uri)?;
    Ok(uri)
}

fn usual_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

fn parse_port(text: &str) -> Option<u16> {
    // The parser alone would take `+80`.
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

/// A DNS name of letters, digits and hyphens. A last label like `1` or `0x7f` is refused: resolvers read `127.1`,
/// `2130706433` and `0x7f.1` as addresses.
fn is_name(text: &str) -> bool {
    let fits = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let is_number = last.bytes().all(|b| b.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    text.len() <= 253 && text.split('.').all(fits) && !is_number
}

fn ask_system(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// IPv4 ranges that are not public, after IANA's registry of special-purpose addresses.
const NOT_PUBLIC_V4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8), // this network; 0.0.0.0 is this machine on Linux
    (Ipv4Addr::new(10, 0, 0, 0), 8), // private
    (Ipv4Addr::new(100, 64, 0, 0), 10), // carrier-grade NAT, and metadata of Alibaba's machines
    (Ipv4Addr::new(127, 0, 0, 0), 8), // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32), // the host of Azure's machines: public by number alone
    (Ipv4Addr::new(169, 254, 0, 0), 16), // link-local, and metadata of most clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12), // private
    (Ipv4Addr::new(192, 0, 0, 0), 24), // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24), // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24), // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16), // private
    (Ipv4Addr::new(198, 18, 0, 0), 15), // benchmarking
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24), // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4), // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4), // reserved, broadcast
];

/// The part of IPv6 that is given out at all. Loopback, unique-local, link-local, site-local, multicast, IPv4-compatible
/// and local NAT64 (`64:ff9b:1::/48`) addresses lie outside.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// What is not public within it.
const NOT_PUBLIC_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments: Teredo, benchmarking, ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4: any IPv4 address, and no server today
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// How a network of IPv6 alone writes an IPv4 address.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Whether an address belongs to the internet, not to the inside of a machine, a network or a cloud.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC_V4.iter().any(|range| in_v4(address, *range)),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(inner) => is_public(inner.into()),
            None if in_v6(address, NAT64) => is_public(Ipv4Addr::from_bits(address.to_bits() as u32).into()),
            None => in_v6(address, GLOBAL_V6) && !NOT_PUBLIC_V6.iter().any(|range| in_v6(address, *range)),
        },
    }
}

fn in_v4(address: Ipv4Addr, (start, bits): (Ipv4Addr, u32)) -> bool {
    (address.to_bits() ^ start.to_bits()).leading_zeros() >= bits
}

fn in_v6(address: Ipv6Addr, (start, bits): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ start.to_bits()).leading_zeros() >= bits
}

#[cfg(test)]
mod tests;
