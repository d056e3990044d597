//! The proxy between us and the hub.

use ureq::{Proxy, ProxyProtocol};

use crate::error::HubError;
use crate::settings::HubSettings;

/// The proxy of the settings. SOCKS is refused here: without its feature the client panics.
pub(crate) fn proxy(settings: &HubSettings) -> Result<Option<Proxy>, HubError> {
    let Some(url) = settings.proxy.as_deref().filter(|url| !url.is_empty()) else { return Ok(None) };
    let wrong = |reason| HubError::Proxy { reason };
    let named = Proxy::new(url).map_err(|_| wrong("it is not a URL"))?;
    if !matches!(named.protocol(), ProxyProtocol::Http | ProxyProtocol::Https) {
        return Err(wrong("only HTTP proxies are supported"));
    }
    let Some(rules) = settings.no_proxy.as_deref().filter(|rules| !rules.is_empty()) else {
        return Ok(Some(named));
    };
    let mut builder = Proxy::builder(named.protocol()).host(named.host()).port(named.port());
    if let Some(name) = named.username() {
        builder = builder.username(name);
    }
    if let Some(word) = named.password() {
        builder = builder.password(word);
    }
    for rule in rules.split(',').map(str::trim).filter(|rule| !rule.is_empty()) {
        builder = builder.no_proxy(rule);
    }
    builder.build().map(Some).map_err(|_| wrong("it is not a URL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_proxies_are_taken_and_others_named() {
        let with = |url: &str, rules: &str| {
            let (proxy, no_proxy) = (Some(url.to_owned()), Some(rules.to_owned()));
            super::proxy(&HubSettings { proxy, no_proxy, ..HubSettings::new("/c") })
        };
        assert!(with("", "").unwrap().is_none());
        assert_eq!(with("http://p:3128", "").unwrap().unwrap().port(), 3128);
        let both = with("http://me:word@p:3128", "localhost, .corp").unwrap().unwrap();
        assert_eq!((both.host(), both.username()), ("p", Some("me")));
        assert!(both.is_no_proxy(&"https://x.corp/".parse().unwrap()));
        assert!(both.is_no_proxy(&"http://localhost/".parse().unwrap()));
        assert!(!both.is_no_proxy(&"https://huggingface.co/".parse().unwrap()));
        for url in ["socks5://p:1080", "://", "ftp://x"] {
            assert!(with(url, "").is_err(), "{url}");
        }
    }
}
