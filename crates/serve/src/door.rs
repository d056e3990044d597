//! Who may come in. A server on loopback is reachable by every page that the user opens, so requests are looked at before
//! anything else is.

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use ring::hmac;

use crate::error::ServeError;
use crate::id;
use crate::problem::Problem;

/// The header that a form cannot send.
pub(crate) const HEADER: &str = "x-remaster";

/// The cookie of a page that knows the token.
const COOKIE: &str = "remaster_session";

/// Lengths of a token.
const TOKEN: std::ops::RangeInclusive<usize> = 16..=512;

/// Who may come in.
pub(crate) struct Door {
    token: Option<String>,
    listen: IpAddr,
    names: Vec<String>,
    /// Of cookies, and of comparisons that take the same time for every word.
    key: hmac::Key,
}

/// What a path is, for the door.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// The page itself and what says that the server lives.
    Public,
    /// The way in.
    Session,
    /// All others.
    Inside,
}

impl Door {
    pub(crate) fn new(token: Option<&str>, listen: IpAddr, names: &[String]) -> Result<Self, ServeError> {
        match token {
            None if !listen.is_loopback() => return Err(ServeError::NoToken(listen)),
            Some(token) => {
                let usable = token.chars().filter(char::is_ascii_graphic).count();
                if usable != token.chars().count() || !TOKEN.contains(&usable) {
                    return Err(ServeError::Token(usable));
                }
            }
            None => {}
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, &id::random::<32>()?);
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Ok(Door { token: token.map(str::to_owned), listen, names, key })
    }

    /// True if clients have to know a token.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Lets a request in, or says why not.
    pub(crate) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        room: Room,
    ) -> Result<(), Problem> {
        let forbidden = |detail: &str| Problem::new(StatusCode::FORBIDDEN, "not-allowed", detail);
        // A name in the request line counts before the header.
        let same = |host: &&str| {
            uri.authority().is_none_or(|authority| authority.as_str().eq_ignore_ascii_case(host))
        };
        let host = single(headers, header::HOST).filter(|host| self.knows(host)).filter(same);
        // A page of another name that points at this address would be let in otherwise.
        let Some(host) = host else {
            return Err(Problem::new(
                StatusCode::MISDIRECTED_REQUEST,
                "not-allowed",
                "this server does not know the name that it was called by; use its address, or start it with --hostname NAME",
            ));
        };
        let other_origin =
            headers.get_all(header::ORIGIN).iter().any(|origin| !is_origin(origin.as_bytes(), host));
        let site = headers.get_all("sec-fetch-site").iter();
        let other_site = site.into_iter().any(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"));
        if other_origin || (other_site && room != Room::Public) {
            return Err(forbidden("pages of other sites are not let in; open the page of this server"));
        }
        let changes = !matches!(*method, Method::GET | Method::HEAD);
        // A browser adds `Authorization: Basic` by itself.
        let has_header = headers.contains_key(HEADER) || bearer(headers).is_some();
        if changes && !has_header {
            return Err(forbidden(
                "a change needs the header `X-Remaster: 1` or `Authorization`; add one of them",
            ));
        }
        if room == Room::Inside && !self.knows_token(headers) {
            let detail = "the token is missing or wrong; send it as `Authorization: Bearer TOKEN`";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "token", detail));
        }
        Ok(())
    }

    /// True if a name is one of ours: an address, which no foreign name can be, or a name that was given.
    fn knows(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else { return false };
        let name = name.to_ascii_lowercase();
        if self.names.contains(&name) {
            return true;
        }
        if name == "localhost" {
            return self.listen.is_loopback() || self.listen.is_unspecified();
        }
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
        match address.parse::<IpAddr>() {
            Ok(address) if self.listen.is_loopback() => address.is_loopback(),
            Ok(_) => true,
            Err(_) => false,
        }
    }

    /// True if a request has the token or the cookie of a page that knows it, or where there is none.
    pub(crate) fn knows_token(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        if headers.contains_key(header::AUTHORIZATION) {
            return bearer(headers).is_some_and(|word| self.same(word, token));
        }
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let ours = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let expected = self.session();
        ours.filter(|(name, _)| *name == COOKIE).any(|(_, value)| self.same(value, &expected))
    }

    /// True if a word is the token.
    pub(crate) fn is_token(&self, word: &str) -> bool {
        self.token.as_ref().is_none_or(|token| self.same(word, token))
    }

    /// The cookie for a page that knows the token. It holds as long as the server runs.
    pub(crate) fn cookie(&self) -> String {
        format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict", self.session())
    }

    fn session(&self) -> String {
        remaster_disk::hex(hmac::sign(&self.key, b"session").as_ref())
    }

    /// Compares in a time that does not depend on where two words differ.
    fn same(&self, a: &str, b: &str) -> bool {
        let expected = hmac::sign(&self.key, b.as_bytes());
        hmac::verify(&self.key, a.as_bytes(), expected.as_ref()).is_ok()
    }
}

/// The word of `Authorization: Bearer WORD`, or `Token WORD` of older clients.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, word) = single(headers, header::AUTHORIZATION)?.split_once(' ')?;
    let known = ["bearer", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    Some(word.trim()).filter(|word| known && !word.is_empty())
}

/// The value of a header that is there once.
fn single(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { first.to_str().ok() }
}

/// A host without its port, if the port is one.
fn without_port(host: &str) -> Option<&str> {
    let (name, port) = match host.rfind(':') {
        // The last colon of an address in brackets is inside them.
        Some(at) if !host.ends_with(']') => (host.get(..at)?, host.get(at + 1..)?),
        _ => (host, "0"),
    };
    (!name.is_empty() && port.parse::<u16>().is_ok()).then_some(name)
}

/// True if an origin is that of our own pages.
fn is_origin(origin: &[u8], host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    [format!("http://{host}"), format!("https://{host}")]
        .iter()
        .any(|ours| ours.as_bytes().eq_ignore_ascii_case(origin))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in list {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn door(token: Option<&str>, listen: &str) -> Door {
        Door::new(token, listen.parse().unwrap(), &["Films.example.org".into()]).unwrap()
    }

    #[test]
    fn only_our_own_names_are_known() {
        let here = door(None, "127.0.0.1");
        for host in [
            "127.0.0.1:8420",
            "127.0.0.1",
            "localhost:1",
            "LOCALHOST",
            "[::1]:8420",
            "[::1]",
            "films.example.org:443",
        ] {
            assert!(
                here.check(&Method::GET, &Uri::default(), &headers(&[("host", host)]), Room::Inside).is_ok(),
                "{host}"
            );
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8420",
            "",
            ":8420",
            "127.0.0.1:x",
            "10.0.0.1",
            "localhost:8420@evil",
            "[::1",
            "2130706433",
        ] {
            assert!(
                here.check(&Method::GET, &Uri::default(), &headers(&[("host", host)]), Room::Public).is_err(),
                "{host}"
            );
        }
        assert!(here.check(&Method::GET, &Uri::default(), &headers(&[]), Room::Public).is_err());
        let evil = Uri::from_static("http://evil.example/");
        assert!(here.check(&Method::GET, &evil, &headers(&[("host", "localhost")]), Room::Public).is_err());
        assert!(
            here.check(
                &Method::GET,
                &Uri::default(),
                &headers(&[("host", "localhost"), ("host", "localhost")]),
                Room::Public
            )
            .is_err()
        );
        let there = door(Some("0123456789abcdef"), "0.0.0.0");
        let bearer = ("authorization", "Bearer 0123456789abcdef");
        assert!(
            there
                .check(
                    &Method::GET,
                    &Uri::default(),
                    &headers(&[("host", "192.168.1.7:8420"), bearer]),
                    Room::Inside
                )
                .is_ok()
        );
        assert!(
            there
                .check(
                    &Method::GET,
                    &Uri::default(),
                    &headers(&[("host", "evil.example"), bearer]),
                    Room::Inside
                )
                .is_err()
        );
    }

    #[test]
    fn foreign_pages_stay_outside() {
        let here = door(None, "127.0.0.1");
        let check = |method: Method, list: &[(&'static str, &str)]| {
            let all: Vec<_> = [("host", "127.0.0.1:8420")].iter().chain(list).copied().collect();
            here.check(&method, &Uri::default(), &headers(&all), Room::Inside).is_ok()
        };
        let own = ("origin", "http://127.0.0.1:8420");
        assert!(check(Method::POST, &[own, ("x-remaster", "1"), ("sec-fetch-site", "same-origin")]));
        assert!(check(Method::POST, &[("authorization", "Bearer any"), ("sec-fetch-mode", "cors")]));
        assert!(check(Method::GET, &[("sec-fetch-site", "none")]));
        assert!(
            !check(Method::POST, &[("authorization", "Basic dXNlcg==")])
                && !check(Method::POST, &[("authorization", "Bearer")])
        );
        // A form sends neither header.
        assert!(!check(Method::POST, &[own]) && !check(Method::DELETE, &[]) && !check(Method::PUT, &[]));
        for origin in
            ["null", "http://evil.example", "http://localhost:8420", "http://127.0.0.1:9", "file://", ""]
        {
            assert!(!check(Method::GET, &[("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site", "", "SAME-ORIGIN "] {
            assert!(!check(Method::GET, &[("sec-fetch-site", site)]), "{site}");
        }
        assert!(!check(Method::POST, &[own, ("origin", "http://evil.example"), ("x-remaster", "1")]));
    }

    #[test]
    fn a_token_is_asked_for_where_others_can_knock() {
        let none = |listen: &str, token| Door::new(token, listen.parse().unwrap(), &[]).is_err();
        assert!(none("0.0.0.0", None) && none("192.168.1.2", None) && none("::", None) && !none("::1", None));
        assert!(
            none("::1", Some("short"))
                && none("::1", Some("with a space in it 123"))
                && none("::1", Some(""))
        );
        let door = door(Some("0123456789abcdef"), "127.0.0.1");
        let knows = |list: &[(&'static str, &str)]| {
            let all: Vec<_> = [("host", "localhost")].iter().chain(list).copied().collect();
            door.check(&Method::GET, &Uri::default(), &headers(&all), Room::Inside).is_ok()
        };
        assert!(
            knows(&[("authorization", "Bearer 0123456789abcdef")])
                && knows(&[("authorization", "token 0123456789abcdef")])
        );
        for wrong in [
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert!(!knows(&[("authorization", wrong)]), "{wrong}");
        }
        assert!(
            !knows(&[])
                && !knows(&[("authorization", "Bearer 0123456789abcdef"), ("authorization", "Bearer x")])
        );
        let cookie = door.cookie();
        let pair = cookie.split(';').next().unwrap();
        assert!(knows(&[("cookie", &format!("a=b; {pair}"))]));
        assert!(!knows(&[("cookie", "remaster_session=0")]));
        // A wrong word does not become right by a cookie.
        assert!(!knows(&[("cookie", pair), ("authorization", "Bearer x")]));
        assert!(door.is_token("0123456789abcdef") && !door.is_token("x"));
        let public = headers(&[("host", "localhost")]);
        assert!(door.check(&Method::GET, &Uri::default(), &public, Room::Public).is_ok());
    }
}
