//! URLs: where a redirect leads, and whether that is the same host.

use ureq::http::Uri;

/// Scheme, host and port. A token given to one origin is not for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    /// `None` for what is not HTTP.
    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let usual = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return None,
        };
        let host = uri.host().filter(|h| !h.is_empty())?.to_ascii_lowercase();
        Some(Origin { scheme, host, port: uri.port_u16().unwrap_or(usual) })
    }
}

/// The host, for messages.
pub(crate) fn host(uri: &Uri) -> String {
    match (uri.host(), uri.port_u16()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => "the server".to_owned(),
    }
}

/// Where `location` leads from `base`; `None` if it cannot be asked.
pub(crate) fn join(base: &Uri, location: &str) -> Option<Uri> {
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    // What follows a # is for the reader of a page.
    let location = location.split('#').next().unwrap_or_default();
    let text = if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else if location.contains("://") {
        location.to_owned()
    } else if location.starts_with('?') {
        format!("{scheme}://{authority}{}{location}", base.path())
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{scheme}://{authority}{folder}/{location}")
    };
    let uri: Uri = text.parse().ok()?;
    Origin::of(&uri)?;
    // A password in a URL would be sent as one.
    (!uri.authority()?.as_str().contains('@')).then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_where_a_browser_would_go() {
        let base: Uri = "https://hub.co/a/b/resolve/main/f?x=1".parse().unwrap();
        for (location, leads) in [
            ("https://cdn.co/x?sig=1", Some("https://cdn.co/x?sig=1")),
            ("//cdn.co/x", Some("https://cdn.co/x")),
            ("/api/x#part", Some("https://hub.co/api/x")),
            ("g", Some("https://hub.co/a/b/resolve/main/g")),
            ("?y=2", Some("https://hub.co/a/b/resolve/main/f?y=2")),
            ("ftp://hub.co/x", None),
            ("file:///etc/passwd", None),
            ("https://me:word@cdn.co/x", None),
            ("https://", None),
            ("/a b", None),
        ] {
            assert_eq!(join(&base, location).map(|u| u.to_string()).as_deref(), leads, "{location}");
        }
    }

    #[test]
    fn another_port_scheme_or_host_is_another_origin() {
        let origin = |text: &str| Origin::of(&text.parse().unwrap());
        assert_eq!(origin("https://Hub.co/a"), origin("https://hub.co:443/b"));
        for other in ["http://hub.co/", "https://hub.co:8443/", "https://evil.co/", "https://hub.co.evil.co/"]
        {
            assert_ne!(origin("https://hub.co/"), origin(other), "{other}");
        }
        assert_eq!(origin("ftp://hub.co/"), None);
    }
}
