//! Which URLs belong together, and which addresses are public, as tables.

use super::*;

#[test]
fn an_origin_is_scheme_host_and_port() {
    for (one, other, expected) in [
        ("https://a.org/x", "https://A.org:443/y?z", true),
        ("https://a.org", "http://a.org", false),
        ("https://a.org", "https://a.org:8443", false),
        ("https://a.org", "https://b.a.org", false),
        ("http://127.0.0.1:80", "http://127.1", true),
        ("data:x", "data:x", false),
    ] {
        let [one, other] = [one, other].map(|url| Url::parse(url).unwrap());
        assert_eq!(same(&one, &other), expected, "{one} {other}");
    }
}

#[test]
fn only_redirects_within_the_origin_are_followed() {
    let from = Url::parse("https://a.org/mcp?k=v").unwrap();
    for (location, expected) in [
        ("/mcp/", Ok("https://a.org/mcp/")),
        ("x", Ok("https://a.org/x")),
        ("https://a.org:443/", Ok("https://a.org/")),
        ("http://a.org/mcp", Err("another origin: http://a.org")),
        ("//b.org/mcp?secret", Err("another origin: https://b.org")),
        ("https://a.org@b.org/", Err("user name")),
        ("https://u:p@a.org/", Err("user name")),
        ("file:///etc/passwd", Err("another origin: null")),
        ("https://[", Err("invalid URL")),
    ] {
        let found = redirect(&from, &HeaderValue::from_static(location));
        match (&found, expected) {
            (Ok(url), Ok(expected)) => assert_eq!(url.as_str(), expected),
            (Err(refused), Err(expected)) => {
                let reason = refused.to_string();
                assert!(reason.contains(expected) && !reason.contains("secret"), "{reason}")
            }
            _ => panic!("{location}: {found:?}"),
        }
    }
    let long = HeaderValue::try_from(format!("https://{}.org/", "a".repeat(5000))).unwrap();
    assert!(redirect(&from, &long).unwrap_err().to_string().len() < 400);
    assert!(redirect(&from, &HeaderValue::from_bytes(b"/\xff").unwrap()).is_err());
}

#[test]
fn redirects_repeat_the_request_a_few_times() {
    let (from, headers) =
        (Url::parse("https://a.org/mcp").unwrap(), HeaderMap::from_iter([(LOCATION, "/x".parse().unwrap())]));
    let follow = |redirects: &mut Redirects, method: &Method, status: u16, headers: &HeaderMap| {
        redirects.follow(method, &from, StatusCode::from_u16(status).unwrap(), headers)
    };
    for (method, status, is_followed) in [
        (Method::POST, 307, true),
        (Method::POST, 302, true),
        (Method::POST, 303, false),
        (Method::GET, 303, true),
        (Method::GET, 304, false),
        (Method::GET, 200, false),
    ] {
        let next = follow(&mut Redirects::default(), &method, status, &headers).unwrap();
        assert_eq!(next.is_some(), is_followed, "{method} {status}");
    }
    let mut redirects = Redirects::default();
    assert!(follow(&mut redirects, &Method::GET, 301, &HeaderMap::new()).unwrap().is_none());
    for _ in 0..MAX_REDIRECTS {
        follow(&mut redirects, &Method::GET, 301, &headers).unwrap().unwrap();
    }
    let refused = follow(&mut redirects, &Method::GET, 301, &headers).unwrap_err();
    assert_eq!(refused.to_string(), "redirects too often");
}

#[test]
fn public_is_what_the_internet_routes() {
    for (expected, addresses) in [
        (
            true,
            "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.0.0.1 128.0.0.1 169.253.0.1 172.15.0.1 \
             172.32.0.1 192.0.1.1 192.167.0.1 192.169.0.1 198.17.0.1 198.20.0.1 223.255.255.255 2606:4700::1111 2001:200::1 \
             2a00::1 3ffe::1 ::ffff:1.1.1.1 ::1.1.1.1 2002:101:101::1 64:ff9b::1.1.1.1",
        ),
        (
            false,
            "0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.255 169.254.169.254 172.16.0.1 \
             172.31.255.255 192.0.0.1 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 \
             224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 fc00::1 fd12::1 fe80::1 fec0::1 ff02::1 100::1 \
             2001::1 2001:2::1 2001:20::1 2001:db8::1 3fff::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::10.0.0.1 2002:a00:1::1 \
             2002:7f00:1::1 64:ff9b::10.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::1.1.1.1 ::ffff:0:1.1.1.1 5f00::1 4000::1",
        ),
    ] {
        for address in addresses.split_whitespace() {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(is_public(address), expected, "{address}");
        }
    }
}
