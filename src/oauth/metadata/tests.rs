//! Tables of metadata URLs and of their validity.

use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).expect("a URL")
}

fn texts(urls: Vec<Url>) -> Vec<String> {
    urls.into_iter().map(String::from).collect()
}

#[test]
fn metadata_urls_are_in_the_order_of_the_specification() {
    for (server, expected) in [
        (
            "https://a.org/public/mcp",
            &[
                "https://a.org/.well-known/oauth-protected-resource/public/mcp",
                "https://a.org/.well-known/oauth-protected-resource",
            ][..],
        ),
        (
            "https://a.org:8443/mcp/?k=v",
            &[
                "https://a.org:8443/.well-known/oauth-protected-resource/mcp?k=v",
                "https://a.org:8443/.well-known/oauth-protected-resource",
            ],
        ),
        ("https://a.org", &["https://a.org/.well-known/oauth-protected-resource"]),
    ] {
        assert_eq!(texts(Resource::metadata_urls(&url(server))), expected, "{server}");
    }
    for (issuer, expected) in [
        (
            "https://b.org/tenant1/",
            &[
                "https://b.org/.well-known/oauth-authorization-server/tenant1",
                "https://b.org/.well-known/openid-configuration/tenant1",
                "https://b.org/tenant1/.well-known/openid-configuration",
            ][..],
        ),
        (
            "https://b.org",
            &["https://b.org/.well-known/oauth-authorization-server", "https://b.org/.well-known/openid-configuration"],
        ),
    ] {
        assert_eq!(texts(Issuer::metadata_urls(&url(issuer))), expected, "{issuer}");
    }
}

#[test]
fn resource_is_the_server_or_a_parent_path() {
    for (resource, expected) in [
        ("https://a.org/x/mcp", true),
        ("https://A.ORG:443/x/mcp/", true),
        ("https://a.org/x", true),
        ("https://a.org", true),
        ("https://a.org/x/m", false),
        ("https://a.org/y", false),
        ("https://a.org/x/mcp/more", false),
        ("https://a.org/x#y", false),
        ("https://b.org/x/mcp", false),
        ("http://a.org/x/mcp", false),
        ("https://a.org:444/x/mcp", false),
        ("urn:x", false),
        ("", false),
    ] {
        let named = Resource { resource: resource.into(), authorization_servers: vec![], scopes_supported: vec![] };
        assert_eq!(named.is_of(&url("https://a.org/x/mcp")), expected, "{resource}");
    }
    for (given, expected) in [
        ("https://a.org", "https://a.org"),
        ("https://A.org/?key=secret", "https://a.org"),
        ("https://a.org/mcp?key=secret#x", "https://a.org/mcp"),
        ("https://a.org/mcp/", "https://a.org/mcp/"),
    ] {
        assert_eq!(canonical(&url(given)), expected);
    }
}

#[test]
fn issuer_must_have_the_requested_name() {
    let issuer = Issuer { issuer: "https://b.org/t".into(), ..Issuer::assumed(&url("https://b.org/t")) };
    assert_eq!(issuer.token_endpoint, "https://b.org/token");
    for (named, expected) in [("https://b.org/t", true), ("https://b.org/t/", true), ("https://b.org", false)] {
        assert_eq!(issuer.is_of(named), expected, "{named}");
    }
}

#[test]
fn consent_page_requires_pkce_and_codes() {
    let good = Issuer::assumed(&url("https://b.org"));
    assert_eq!(good.page(), Ok("https://b.org/authorize"));
    let values = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    for (issuer, expected) in [
        (Issuer { authorization_endpoint: None, ..good.clone() }, "it has no authorization page"),
        (Issuer { code_challenge_methods_supported: None, ..good.clone() }, "it does not declare support for PKCE"),
        (
            Issuer { code_challenge_methods_supported: values(&["plain"]), ..good.clone() },
            "it does not declare support for PKCE",
        ),
        (
            Issuer { response_types_supported: values(&["token"]), ..good.clone() },
            "it does not support authorization codes",
        ),
    ] {
        let error = issuer.page().expect_err("refused").to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(Issuer { response_types_supported: values(&["code"]), ..good }.page().is_ok());
}

#[test]
fn endpoints_are_encrypted_or_local() {
    for (text, configured, expected) in [
        ("https://b.org/token", "https://a.org", true),
        ("http://127.0.0.1:1/token", "https://a.org", true),
        ("http://[::1]:1/token", "https://a.org", true),
        ("http://localhost:1/token", "https://a.org", true),
        ("http://lan.example/token", "http://lan.example/mcp", true),
        ("http://lan.example:1/token", "http://lan.example/mcp", false),
        ("http://b.org/token", "https://a.org", false),
        ("http://localhost.b.org/token", "https://a.org", false),
        ("javascript:alert(1)", "https://a.org", false),
        ("file:///etc/passwd", "https://a.org", false),
        ("https://u:p@b.org/", "https://a.org", false),
        ("https://b.org/#x", "https://a.org", false),
        ("/token", "https://a.org", false),
    ] {
        assert_eq!(endpoint(text, &url(configured)).is_ok(), expected, "{text}");
    }
}
