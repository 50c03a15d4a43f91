//! Tables of where metadata is, and of what holds.

use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).expect("a URL")
}

fn texts(urls: Vec<Url>) -> Vec<String> {
    urls.into_iter().map(String::from).collect()
}

#[test]
fn metadata_is_looked_for_in_the_order_of_the_specification() {
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
        assert_eq!(texts(Resource::places(&url(server))), expected, "{server}");
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
        assert_eq!(texts(Issuer::places(&url(issuer))), expected, "{issuer}");
    }
}

#[test]
fn a_server_is_named_as_itself_or_as_all_that_it_is_in() {
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
fn an_authorization_server_is_the_one_that_was_named() {
    let issuer = Issuer { issuer: "https://b.org/t".into(), ..Issuer::assumed(&url("https://b.org/t")) };
    assert_eq!(issuer.token_endpoint, "https://b.org/token");
    for (named, expected) in [("https://b.org/t", true), ("https://b.org/t/", true), ("https://b.org", false)] {
        assert_eq!(issuer.is_of(named), expected, "{named}");
    }
}

#[test]
fn a_person_is_sent_only_to_where_a_code_is_safe() {
    let good = Issuer::assumed(&url("https://b.org"));
    assert_eq!(good.page(), Ok("https://b.org/authorize"));
    let told = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    for (issuer, expected) in [
        (Issuer { authorization_endpoint: None, ..good.clone() }, "it has no page"),
        (Issuer { code_challenge_methods_supported: None, ..good.clone() }, "it does not say that it checks"),
        (
            Issuer { code_challenge_methods_supported: told(&["plain"]), ..good.clone() },
            "it does not say that it checks",
        ),
        (Issuer { response_types_supported: told(&["token"]), ..good.clone() }, "it gives no codes"),
    ] {
        let error = issuer.page().expect_err("refused");
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(Issuer { response_types_supported: told(&["code"]), ..good }.page().is_ok());
}

#[test]
fn nothing_is_sent_where_others_could_read_it() {
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
