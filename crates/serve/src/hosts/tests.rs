use super::*;

#[test]
fn only_addresses_of_the_internet_are_public() {
    // The first and the last address of a range, and its neighbours where they are public.
    let private = "0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 \
         127.0.0.1 127.255.255.255 168.63.129.16 169.254.0.0 169.254.169.254 169.254.255.255 \
         172.16.0.0 172.31.255.255 192.0.0.0 192.0.0.255 192.0.2.1 192.88.99.1 192.168.0.0 \
         192.168.255.255 198.18.0.0 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.0 \
         239.255.255.255 240.0.0.0 255.255.255.255 :: ::1 ::7f00:1 ::5db8:d822 ::ffff:127.0.0.1 \
         ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0:7f00:1 64:ff9b::127.0.0.1 \
         64:ff9b::10.0.0.1 64:ff9b:1::1.1.1.1 100::1 1fff:ffff:: 2001::1 2001:0:5ef5:79fb::1 \
         2001:2::1 2001:10::1 2001:1ff:ffff:: 2001:db8::1 2002:7f00:1::1 2002:5db8:d822::1 \
         3fff::1 3fff:fff::1 4000::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 febf::1 fec0::1 \
         ff02::1";
    let public = "1.0.0.0 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 \
         128.0.0.0 168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 \
         172.32.0.0 192.0.1.0 192.0.3.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 \
         223.255.255.255 2000::1 2001:200::1 2001:4860:4860::8888 2003::1 2606:2800:220:1::1 \
         3ffe::1 3fff:1000::1 ::ffff:93.184.216.34 64:ff9b::93.184.216.34";
    for address in private.split_whitespace() {
        assert!(!is_public(address.parse().unwrap()), "{address} is not public");
    }
    for address in public.split_whitespace() {
        assert!(is_public(address.parse().unwrap()), "{address} is public");
    }
}

fn target(url: &str) -> Result<Target, Refusal> {
    Target::of(&parse_url(url)?)
}

#[test]
fn values_of_the_option_are_names_or_addresses() {
    for value in [
        "films.example.com",
        "Films.Example.com:8080",
        "nas",
        "xn--bcher-kva.example",
        "127.0.0.1",
        "127.0.0.1:8080",
        "::1",
        "[::1]",
        "[::1]:8080",
        "1e100.net",
        "0x7f.example",
    ] {
        assert!(Entry::parse(value).is_ok(), "{value}");
    }
    for value in [
        "",
        "*",
        "*.example.com",
        "https://films.example.com",
        "films.example.com/x",
        "a:0",
        "a:65536",
        "a:+80",
        "a:",
        ":80",
        "a b",
        "bücher.example",
        "example.com.",
        ".example.com",
        "a..b",
        "-a.com",
        "a-.com",
        "a_b.com",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.1.",
        "1.2.3.4.5",
        "[127.0.0.1]",
        "[::1",
        "::1]",
        "fe80::1%eth0",
        "[fe80::1%25eth0]",
        "me@films.example.com",
        "a%2eb",
    ] {
        let error = Entry::parse(value).unwrap_err().to_string();
        assert!(error.ends_with("like 192.168.1.5"), "{value}: {error}");
    }
    assert!(Entry::parse(&"a.".repeat(127)).is_err());
    assert!(Entry::parse(&format!("{}.com", "a".repeat(64))).is_err());
}

#[test]
fn urls_with_other_schemes_passwords_and_odd_hosts_are_refused() {
    for url in ["https://films.example.com/a.mkv?x=1", "HTTP://films.example.com", "http://[::1]:8080/x"] {
        assert!(target(url).is_ok(), "{url}");
    }
    for url in [
        "",
        "films.example.com",
        "/etc/passwd",
        "file:///etc/passwd",
        "ftp://a.com/x",
        "gopher://a.com/x",
        "http://",
        "http:///x",
        "http://me@a.com/",
        "http://me:word@a.com/",
        "http://a.com@b.com/",
        "http://a.com:/",
        "http://a.com:0/",
        "http://a.com:99999/",
        "http://a.com:8x/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://127.0.0.1./",
        "http://[::ffff:127.0.0.1%25lo]/",
        "http://a%2ecom/",
        "http://a.com\\@b.com/",
        "http://a.com\r\nHost: b/",
        "http://a b/",
        "http://ａ.com/",
    ] {
        assert!(matches!(target(url), Err(Refusal::Url { .. })), "{url}: {:?}", target(url));
    }
    assert!(target(&format!("http://a.com/{}", "a".repeat(MOST_URL))).is_err());
    // Nothing of a URL with a password is repeated.
    assert!(!target("http://me:s3cret@a.com/").unwrap_err().to_string().contains("s3cret"));
}

/// What one question gives, with a resolver that knows one answer.
fn ask(
    values: &[&str],
    url: &str,
    purpose: Purpose,
    answer: &'static [&'static str],
) -> Result<String, String> {
    let lookup = move |_: &str| Ok(answer.iter().map(|a| a.parse().unwrap()).collect());
    let hosts = AllowedHosts::new(values).unwrap().with_lookup(Arc::new(lookup));
    let found = hosts.resolve(&target(url).unwrap(), purpose).map_err(|error| error.to_string())?;
    Ok(found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
}

#[test]
fn a_film_comes_from_allowed_hosts_with_public_addresses() {
    let input = |values: &[&str], url, answer| ask(values, url, Purpose::Input, answer);
    let public = &["93.184.216.34", "2606:2800:220:1::1"];
    let both = "93.184.216.34:443 [2606:2800:220:1::1]:443";
    assert_eq!(input(&["a.com"], "https://A.com/x", public).unwrap(), both);
    assert_eq!(input(&["a.com:8080"], "http://a.com:8080/", &["1.1.1.1"]).unwrap(), "1.1.1.1:8080");
    assert_eq!(input(&["127.0.0.1"], "http://127.0.0.1/", &[]).unwrap(), "127.0.0.1:80");
    assert_eq!(input(&["::1"], "http://[0::1]/", &[]).unwrap(), "[::1]:80");
    // The name and the address are both allowed.
    assert_eq!(input(&["nas", "192.168.1.5"], "http://nas/", &["192.168.1.5"]).unwrap(), "192.168.1.5:80");
    for (values, url, answer, says) in [
        (&[][..], "http://a.com/", &["1.1.1.1"][..], "--allow-host a.com"),
        (&["a.com"], "http://b.a.com/", &["1.1.1.1"], "--allow-host b.a.com"),
        (&["a.com"], "http://a.com.b.com/", &["1.1.1.1"], "--allow-host a.com.b.com"),
        (&["a.com"], "http://a.com:22/", &["1.1.1.1"], "--allow-host a.com:22"),
        (&["a.com:8080"], "http://a.com/", &["1.1.1.1"], "--allow-host a.com"),
        (&["a.com"], "http://1.1.1.1/", &[], "--allow-host 1.1.1.1"),
        (&["a.com"], "http://a.com/", &["10.0.0.1"], "--allow-host 10.0.0.1"),
        (&["a.com"], "http://a.com/", &["1.1.1.1", "127.0.0.1"], "--allow-host 127.0.0.1"),
        (&["a.com"], "https://a.com/", &["1.1.1.1", "::1"], "--allow-host [::1]"),
        (&["a.com:8080"], "http://a.com:8080/", &["127.0.0.1"], "--allow-host 127.0.0.1:8080"),
        (&["localhost"], "http://localhost/", &["127.0.0.1"], "--allow-host 127.0.0.1"),
        // One form of one address is allowed.
        (&["127.0.0.1"], "http://127.0.0.2/", &[], "--allow-host 127.0.0.2"),
        (&["127.0.0.1"], "http://localhost/", &["127.0.0.1"], "--allow-host localhost"),
        (&["127.0.0.1"], "http://127.0.0.1:6379/", &[], "--allow-host 127.0.0.1:6379"),
        (&["127.0.0.1"], "http://[::ffff:127.0.0.1]/", &[], "--allow-host [::ffff:127.0.0.1]"),
        (&["127.0.0.1"], "http://[::1]/", &[], "--allow-host [::1]"),
        (&["nas", "192.168.1.5"], "http://nas/", &["192.168.1.6"], "--allow-host 192.168.1.6"),
        (&["a.com"], "http://a.com/", &[], "check the name in the URL and the network of the server"),
    ] {
        let error = input(values, url, answer).unwrap_err();
        assert!(error.ends_with(says), "{url} -> {error}");
    }
}

#[test]
fn a_webhook_goes_to_public_addresses_and_to_those_that_are_named() {
    let webhook = |values: &[&str], url, answer| ask(values, url, Purpose::Webhook, answer);
    assert!(webhook(&[], "https://a.com/hook", &["1.1.1.1"]).is_ok());
    assert!(webhook(&[], "http://1.1.1.1:8080/", &[]).is_ok());
    assert!(webhook(&["127.0.0.1:3000"], "http://127.0.0.1:3000/", &[]).is_ok());
    assert!(webhook(&["10.0.0.1"], "http://a.com/", &["10.0.0.1"]).is_ok());
    for (values, url, answer, says) in [
        (&[][..], "http://a.com/", &["1.1.1.1", "10.0.0.1"][..], "--allow-host 10.0.0.1"),
        (&[], "http://127.0.0.1:3000/", &[], "--allow-host 127.0.0.1:3000"),
        (&["app:3000"], "http://app:3000/", &["172.18.0.2"], "--allow-host 172.18.0.2:3000"),
        (&[], "http://[fd00:ec2::254]/", &[], "--allow-host [fd00:ec2::254]"),
    ] {
        let error = webhook(values, url, answer).unwrap_err();
        assert!(error.ends_with(says), "{url} -> {error}");
    }
}
