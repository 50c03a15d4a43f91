//! The readings of URIs: tables, properties, and what the parsers of Python and Node make of hostile spellings.

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::list_kind::ListKind;
use crate::policy::{Policy, pattern};

fn policy(allow: Option<&[&str]>, deny: &[&str]) -> Policy {
    let globs = |texts: &[&str]| texts.iter().map(|text| pattern(text).expect("a glob")).collect::<Vec<_>>();
    Policy::default().with(ListKind::Resources, allow.map(globs).as_deref(), &globs(deny)).expect("patterns compile")
}

fn permits(policy: &Policy, uri: &str) -> bool {
    policy.permits(ListKind::Resources, uri, None)
}

#[test]
fn ordinary_uri_has_one_reading() {
    for uri in ["x://1", "file:///a/b.txt", "mem:a", "", "x://h/a..b/...", "urn:isbn:1", "https://h/a", "plain text"] {
        assert_eq!(readings(uri), Some(vec![uri.to_owned()]));
    }
}

#[test]
fn normal_form_has_scheme_and_host_in_lower_case_and_no_host_for_this_machine() {
    for (uri, expected) in [
        ("FILE:///A", "file:///A"),
        ("file:/a", "file:///a"),
        ("File://LocalHost/a", "file:///a"),
        ("file://Other/A", "file://other/A"),
        ("Memo://Host:8/A?B#C", "memo://host:8/A?B#C"),
        ("MEM:A", "mem:A"),
        ("1x://A", "1x://A"),
        ("no scheme: A", "no scheme: A"),
    ] {
        assert_eq!(readings(uri).expect("readings")[0], expected);
    }
}

#[test]
fn readings_are_what_parsers_make_of_a_uri_in_any_order() {
    for (uri, others) in [
        ("file:////a", &["file:///a"][..]),
        ("file:a", &["file:///a"]),
        ("file://h/a", &["file:///a", "file:///h/a"]),
        ("file:///%2561", &["file:///%61", "file:///a"]),
        ("file:///a%zz%+%", &[]),
        ("file:///a/../b", &["file:///b"]),
        ("file:///a/.", &["file:///a/"]),
        ("file:///../..", &["file:///"]),
        ("x:\\\\h\\a", &["x://h/a"]),
        ("mem:a/../b", &["mem:b"]),
        ("x://h/a?b/../c#d", &["x://h/c#d", "x://h/a?b/../c", "x://h/a", "x://h/c"]),
        ("x://h/a;1/b;2;3", &["x://h/a;1/b", "x://h/a/b"]),
        ("http://u@H.:80/", &["http://u@h./", "http://h:80/", "http://h/"]),
        ("x://h/a%3fb", &["x://h/a?b", "x://h/a"]),
        (" x:a ", &["x:a"]),
    ] {
        let mut found = readings(uri).expect("readings");
        found.remove(0);
        for other in others {
            assert!(found.contains(&(*other).to_owned()), "{uri}: no {other} in {found:?}");
        }
        if others.len() < 3 {
            assert_eq!(found.len(), others.len(), "{uri}: {found:?}");
        }
    }
}

#[test]
fn uri_without_agreed_characters_or_with_too_many_readings_is_refused_where_there_are_rules() {
    let long = format!("x://{}", "a".repeat(MAX_URI_LEN));
    let many = format!("x://{}", "a;b/".repeat(MAX_READINGS + 2));
    let large = format!("x://{}", "a;b/".repeat(MAX_URI_LEN / 5));
    let deep = format!("x://a%{}2f", "25".repeat(MAX_READINGS));
    for uri in [
        "x://a\tb",
        "x://a\u{0}b",
        "x://a\u{7f}",
        "x://a\u{85}b",
        "x://a%00b",
        "x://a%0Ab",
        "x://a%250ab",
        "x://a%c2%85b",
        "x://%ff",
        "x://%c0%af",
        "x://%ed%a0%80",
        "x://%u0073",
        "x://%U0073",
        "x://%25u0073",
        &long,
        &many,
        &large,
        &deep,
    ] {
        let why = policy(None, &["y:*"]).verdict(ListKind::Resources, uri, None).map_err(|why| why.word());
        assert_eq!(why, Err("ambiguous"), "{uri:?}");
        assert!(!permits(&policy(Some(&["*"]), &[]), uri), "{uri:?}");
        assert!(permits(&Policy::default(), uri), "{uri:?}");
    }
    for uri in ["x://%", "x://100%25", "x://100%usable", "x://%C3%A9", "x://é", "x://a b"] {
        assert!(permits(&policy(None, &["y:*"]), uri), "{uri}");
    }
}

#[test]
fn pattern_is_compared_as_it_is_written_and_in_normal_form() {
    for (pattern, uris) in [
        ("FILE:///Secret/*", &["FILE:///Secret/a", "file:///Secret/a", "file:/Secret/a"][..]),
        ("file://localhost/a", &["file:///a", "file:/a", "file:////a", "file:///a/"]),
        ("file:/a//b/./c/../*", &["file:///a/b/x"]),
        ("file:///%61/%2a", &["file:///a/*", "file:///a/%2A", "file:///%61/%2a"]),
        ("file:///my dir/*", &["file:///my%20dir/x", "file:///my dir/x"]),
        ("file:///my%20dir/*", &["file:///my%20dir/x", "file:///my dir/x"]),
        ("file:///a/", &["file:///a", "file:///a/"]),
        (
            "https://*.Example.com/*",
            &["https://x.example.com/", "https://X.EXAMPLE.COM/a", "https://u@x.example.com./a"],
        ),
        ("*://Example.com/*", &["x://example.com/a", "https://EXAMPLE.com:443/a"]),
        ("https://example.com", &["https://example.com/", "https:example.com"]),
        ("memo://X", &["memo://X", "memo://x", "MEMO://x"]),
        ("x://{A,b}//[c/]/\\*%2F?", &["x://a/c/*/d", "x://B/c/*/d"]),
        ("x:a\\\\b", &["x:a\\b", "x:a/b"]),
    ] {
        for uri in uris {
            assert!(!permits(&policy(None, &[pattern]), uri), "{pattern} {uri}");
        }
    }
    for (pattern, uris) in [
        ("*/", &["x://a", "x://a/b"][..]),
        ("file:///a/*/", &["file:///a/b"]),
        ("file:///a/\\*", &["file:///a/b"]),
        ("file:///a/%2a", &["file:///a/b"]),
        ("https://*Secret", &["https://a/secret"]),
        ("file:///a/*/../b", &["file:///a/b", "file:///b"]),
    ] {
        for uri in uris {
            assert!(permits(&policy(None, &[pattern]), uri), "{pattern} {uri}");
        }
    }
}

#[test]
fn host_of_a_custom_scheme_is_read_as_a_directory_and_without_its_port() {
    let denying = policy(None, &["note://internal/*"]);
    for uri in [
        "note://internal/1",
        "note://public/../internal/1",
        "note://public/%2e%2e/internal/1",
        "note:///internal/1",
        "note:////internal/1",
        "note://internal:443/1",
        "note://user@internal:443/1",
        "note://internal:/1",
    ] {
        assert!(!permits(&denying, uri), "{uri}");
    }
    assert!(permits(&denying, "note://public/internal/1"));
    let allowing = policy(Some(&["note://public/*", "config:///app/*", "https://a.example:8443/*"]), &[]);
    for uri in ["note://public/1", "config:///app/x", "https://a.example:8443/x"] {
        assert!(permits(&allowing, uri), "{uri}");
    }
    for uri in ["note://public/../internal/1", "note:///internal/1", "https://b.example:8443/x"] {
        assert!(!permits(&allowing, uri), "{uri}");
    }
}

#[test]
fn pattern_of_allow_has_to_match_every_reading() {
    let allowing =
        policy(Some(&["file:///pub/*", "FILE:///my%20dir/a", "memo://X", "note://find?q=*", "https://a.example"]), &[]);
    for uri in [
        "file:///pub/a",
        "FILE:///pub/a",
        "file://localhost/pub/a%20b",
        "file:///pub/",
        "file:///pub/a//b/../c",
        "file:///my%20dir/a",
        "file:///my dir/a",
        "memo://X",
        "memo://x",
        "https://a.example",
        "https://A.example/",
    ] {
        assert!(permits(&allowing, uri), "{uri}");
    }
    // A reader may ignore the query, so the URI without it has to be allowed, too.
    for uri in ["file:///pub/../a", "file:///pub%2f../a", "file:///pub?/../../a", "file://pub/a", "note://find?q=a"] {
        assert!(!permits(&allowing, uri), "{uri}");
    }
    assert!(permits(&policy(Some(&["note://find?q=*", "note://find"]), &[]), "note://find?q=a"));
}

#[test]
fn template_is_judged_without_a_look_into_its_expressions() {
    let denying = policy(None, &["file:///secret/*", "x://a/b"]);
    let allowing = policy(Some(&["file:///pub/*", "q://s*"]), &[]);
    for (template, denied, allowed) in [
        ("file:///{+path}", false, false),
        ("file:///secret//{name}", true, false),
        ("FILE:///pub/../secret/{name}", true, false),
        ("file:///pub/{name}{?a,b}{#c}", false, true),
        ("file:///pub/{../../../secret/x}", false, true),
        ("q://s{?q,lang}", false, true),
        ("x://a/%62", true, false),
        ("file:///pub/\u{f0000}", true, false),
        ("file:///pub/{unclosed", false, true),
    ] {
        assert_eq!(!denying.permits(ListKind::Templates, template, None), denied, "{template}");
        assert_eq!(allowing.permits(ListKind::Templates, template, None), allowed, "{template}");
    }
}

/// A URI, whether it is innocent, and what a parser resolves it to.
#[derive(Deserialize)]
struct Spelling(String, bool, Vec<String>);

const PARSERS: [(&str, &str); 2] = [
    ("python", include_str!("../../../tests/fixtures/uris/python.json")),
    ("node", include_str!("../../../tests/fixtures/uris/node.json")),
];

fn spellings() -> impl Iterator<Item = (&'static str, Vec<Spelling>)> {
    PARSERS.into_iter().map(|(parser, text)| (parser, serde_json::from_str(text).expect("a list of spellings")))
}

#[test]
fn uri_that_a_parser_of_python_or_node_resolves_to_a_denied_one_is_refused() {
    let denied = ["file:///secret/", "note://internal/secret/", "https://intra.example/secret/"];
    let plain = policy(None, &denied.map(|prefix| format!("{prefix}*")).each_ref().map(|glob| &**glob));
    let exact = policy(None, &denied.map(|prefix| format!("{prefix}key")).each_ref().map(|glob| &**glob));
    let odd = ["FILE://localhost//%73ecret/*", "NOTE://Internal/x/../secret/*", "https://INTRA.example:443/secr%65t/*"];
    let odd = policy(None, &odd);
    for (parser, spellings) in spellings() {
        let mut found = 0;
        for Spelling(uri, is_innocent, resolved) in spellings {
            let is_denied = |resolved: &String| denied.iter().any(|prefix| resolved.starts_with(prefix));
            if resolved.iter().any(is_denied) {
                assert!(!permits(&plain, &uri) && !permits(&odd, &uri), "{parser} resolves {uri:?} to {resolved:?}");
                found += 1;
            }
            let is_key = |resolved: &String| denied.iter().any(|prefix| *resolved == format!("{prefix}key"));
            if resolved.iter().any(is_key) {
                assert!(!permits(&exact, &uri), "{parser} resolves {uri:?} to {resolved:?}");
            }
            if is_innocent {
                assert!(permits(&plain, &uri) && permits(&exact, &uri) && permits(&odd, &uri), "{uri:?}");
            }
        }
        assert!(found > 400, "{parser} resolves {found} spellings to a denied URI");
    }
}

#[test]
fn uri_that_a_parser_of_python_or_node_resolves_to_one_that_is_not_allowed_is_refused() {
    let allowed = ["file:///pub/", "note://public/", "https://www.example/"];
    let globs = allowed.map(|prefix| format!("{prefix}*"));
    let globs: Vec<_> =
        globs.iter().map(|glob| &**glob).chain(["https://www.example:443/*", "mem:*", "urn:*", "pkg:*"]).collect();
    let allowing = policy(Some(&globs), &[]);
    for (parser, spellings) in spellings() {
        for Spelling(uri, is_innocent, resolved) in spellings {
            assert!(!is_innocent || permits(&allowing, &uri), "{uri:?}");
            let is_allowed = |resolved: &String| allowed.iter().any(|prefix| resolved.starts_with(prefix));
            if !is_innocent && !resolved.iter().all(is_allowed) {
                assert!(!permits(&allowing, &uri), "{parser} resolves {uri:?} to {resolved:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn readings_of_a_reading_are_readings_of_the_uri(
        uri in r"((file|FILE|x|https):)?[a-bA:/\\.%2fFeE5cC?#;@ ]{0,24}|(\./|\.\./|//|%2e|%2F|%5c|%25|a|B|\\|\?|#|;|:|@){0,12}",
    ) {
        let Some(all) = readings(&uri) else { return Ok(()) };
        for reading in &all {
            let of_reading = readings(reading).expect("it has no more readings than the URI");
            prop_assert_eq!(&of_reading[0], reading, "a reading is in normal form");
            for other in of_reading {
                prop_assert!(all.contains(&other), "{} of {} of {}", other, reading, uri);
            }
        }
    }

    #[test]
    fn any_text_has_a_verdict(text in r"\PC{0,40}|.{0,40}|([a-z]{1,3}:)?[/\\.%0-9a-fA-F?#;:@\[\]{}*,\t\u{f0000}-\u{f0003}]{0,40}") {
        let denying = policy(None, &["x://secret/*"]);
        let _ = (permits(&denying, &text), denying.permits(ListKind::Templates, &text, None));
        if let Ok(glob) = pattern(&text) {
            let of_text = Policy::default().with(ListKind::Resources, None, &[glob]).expect("it compiles");
            let _ = (permits(&of_text, &text), permits(&of_text, "x://secret/a"));
        }
    }

    #[test]
    fn masked_pattern_matches_what_the_pattern_does(glob in r"[ab/*?\[\]{},\\!\-]{0,10}", text in r"[ab/*?,\-!\\\[]{0,6}") {
        if let (Ok(written), Some(masked)) = (pattern(&glob), mask_pattern(&glob)) {
            let unmasked = masked.unmask(masked.text().text);
            let other = pattern(&unmasked).expect("a glob");
            prop_assert_eq!(written.compile_matcher().is_match(&text), other.compile_matcher().is_match(&text), "{}", unmasked);
        }
    }
}
