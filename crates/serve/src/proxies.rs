//! Proxies that may say for whom they ask.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use axum::http::HeaderMap;

/// Where a proxy says whom it asks for. Anybody can send it.
const HEADER: &str = "x-forwarded-for";

/// A proxy, or a network of proxies: `127.0.0.1`, `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proxy {
    address: IpAddr,
    /// Leading bits that count.
    bits: u32,
}

/// Text that names no proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the address of a proxy; write 127.0.0.1, ::1, or 10.0.0.0/8")]
pub struct BadProxy(String);

/// Those that are believed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies(Vec<Proxy>);

impl FromStr for Proxy {
    type Err = BadProxy;

    fn from_str(text: &str) -> Result<Self, BadProxy> {
        let wrong = || BadProxy(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            None => (text, None),
            Some((address, bits)) => (address, Some(bits)),
        };
        let address = plain(address.parse().map_err(|_| wrong())?);
        let most = if address.is_ipv4() { 32 } else { 128 };
        let digits = |bits: &&str| (1..=3).contains(&bits.len()) && bits.bytes().all(|b| b.is_ascii_digit());
        let bits = match bits {
            None => most,
            Some(bits) => Some(bits).filter(digits).and_then(|bits| bits.parse().ok()).ok_or_else(wrong)?,
        };
        // With no bits everybody would be one.
        if !(1..=most).contains(&bits) || first(address, bits) != address {
            return Err(wrong());
        }
        Ok(Proxy { address, bits })
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Proxies {
    pub(crate) fn new(all: &[Proxy]) -> Self {
        Proxies(all.to_vec())
    }

    fn has(&self, address: IpAddr) -> bool {
        let is = |proxy: &Proxy| {
            proxy.address.is_ipv4() == address.is_ipv4() && first(address, proxy.bits) == proxy.address
        };
        self.0.iter().any(is)
    }

    /// Whom a request is from: the peer, or, if that is a proxy, whom it names. Each proxy adds an address at the end, so the
    /// last one that is no proxy counts; what is before it anybody could have sent.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = plain(peer);
        let lines: Vec<&str> = headers.get_all(HEADER).iter().filter_map(|line| line.to_str().ok()).collect();
        let mut named = lines.iter().rev().flat_map(|line| line.rsplit(','));
        while self.has(client) {
            let Some(before) = named.next().and_then(address) else { break };
            client = before;
        }
        client
    }
}

/// An address as proxies write it: some add the port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let inside = |text: &str| text.strip_prefix('[')?.split_once(']').map(|(address, _)| address.to_owned());
    let bare = text.parse().ok().or_else(|| inside(text)?.parse().ok());
    let with_port = || text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip());
    bare.or_else(with_port).map(plain)
}

/// An address of IPv4 that a socket for both shows as one of IPv6.
fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// The first address of a network.
fn first(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - bits.min(32)).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

/// What counts as one client: an address of IPv4, or the 64 bits of IPv6 that a single line gets.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match plain(address) {
        address @ IpAddr::V4(_) => address,
        address @ IpAddr::V6(_) => first(address, 64),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn proxies(all: &[&str]) -> Proxies {
        Proxies(all.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn client(proxies: &Proxies, peer: &str, lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(HEADER, HeaderValue::from_str(line).unwrap());
        }
        proxies.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn only_a_named_proxy_is_believed_and_only_its_own_word() {
        let none = proxies(&[]);
        assert_eq!(client(&none, "127.0.0.1", &["1.2.3.4"]), "127.0.0.1");
        let some = proxies(&["127.0.0.1", "10.0.0.0/8", "fd00::/8"]);
        for (peer, lines, expected) in [
            ("127.0.0.1", &["1.2.3.4"][..], "1.2.3.4"),
            ("::ffff:127.0.0.1", &["1.2.3.4"], "1.2.3.4"),
            ("127.0.0.2", &["1.2.3.4"], "127.0.0.2"),
            // What the client itself sent stands before what the proxy added.
            ("127.0.0.1", &["9.9.9.9, 1.2.3.4"], "1.2.3.4"),
            ("127.0.0.1", &["9.9.9.9", "1.2.3.4"], "1.2.3.4"),
            ("127.0.0.1", &["9.9.9.9", "1.2.3.4, 10.1.1.1"], "1.2.3.4"),
            ("fd00::1", &["2001:db8::7 , 10.1.1.1"], "2001:db8::7"),
            ("127.0.0.1", &["1.2.3.4:5678"], "1.2.3.4"),
            ("127.0.0.1", &["[2001:db8::7]:443"], "2001:db8::7"),
            ("127.0.0.1", &["[2001:db8::7]"], "2001:db8::7"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["", "unknown"], "127.0.0.1"),
            // Behind what cannot be read nothing is believed.
            ("127.0.0.1", &["1.2.3.4, unknown, 10.1.1.1"], "10.1.1.1"),
            ("127.0.0.1", &["10.1.1.1"], "10.1.1.1"),
        ] {
            assert_eq!(client(&some, peer, lines), expected, "{peer} {lines:?}");
        }
    }

    #[test]
    fn a_proxy_is_an_address_or_a_network_and_nothing_else() {
        for text in ["127.0.0.1", "::1", "10.0.0.0/8", "192.168.1.0/24", "2001:db8::/32", "1.2.3.4/32"] {
            assert!(text.parse::<Proxy>().is_ok(), "{text}");
        }
        for text in [
            "",
            "proxy.example",
            "10.0.0.1/8",
            "0.0.0.0/0",
            "::/0",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "1.2.3.4:80",
            "/8",
        ] {
            assert_eq!(text.parse::<Proxy>(), Err(BadProxy(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_client_of_ipv6_is_its_network() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("::ffff:10.0.0.1"), "10.0.0.1");
        assert_eq!(of("10.0.0.1"), "10.0.0.1");
    }
}
