//! What a profile shows of which server, as tables.

use super::*;
use crate::policy::pattern;
use bytes::Bytes;
use proptest::prelude::*;

fn scoped(texts: &[&str]) -> Vec<ScopedPattern> {
    let glob = |text| pattern(text).expect("a glob");
    let parts = texts.iter().map(|text| text.split_once('/').expect("a pattern of a profile"));
    parts.map(|(server, key)| ScopedPattern::new(&glob(server), glob(key))).collect()
}

fn profile(servers: Option<&[&str]>, kind: ListKind, allow: Option<&[&str]>, deny: &[&str]) -> Profile {
    let mut profile = Profile::whole(Naming::default());
    profile.servers = servers.map(|names| names.iter().map(|name| Arc::from(*name)).collect());
    profile.narrowing.rules[kind] = ScopedRules { allow: allow.map(scoped), deny: scoped(deny) };
    profile
}

fn server(name: &str, deny: &[&str]) -> ServerConfig {
    let globs: Vec<_> = deny.iter().map(|text| pattern(text).expect("a glob")).collect();
    ServerConfig::new(name, "x").policy(Policy::new(None, &globs).expect("patterns compile"))
}

/// Which of these tools of the servers `files`, where `move` is denied, and `git` are seen: `server/tool` each.
fn check(servers: Option<&[&str]>, allow: Option<&[&str]>, deny: &[&str], expected: &[&str]) {
    let profile = profile(servers, ListKind::Tools, allow, deny);
    let mut seen = Vec::new();
    for (server, tools) in
        [(server("files", &["move"]), ["read", "edit_a", "move"]), (server("git", &[]), ["log", "edit_b", "a/b"])]
    {
        let Some(policy) = profile.policy(&server) else { continue };
        let tools = tools.into_iter().filter(|tool| policy.permits(ListKind::Tools, tool, None));
        seen.extend(tools.map(|tool| format!("{}/{tool}", server.name)));
    }
    assert_eq!(seen, expected, "servers {servers:?} allow {allow:?} deny {deny:?}");
}

#[test]
fn a_profile_only_narrows() {
    let all = ["files/read", "files/edit_a", "git/log", "git/edit_b", "git/a/b"];
    check(None, None, &[], &all);
    check(Some(&["files", "git"]), None, &[], &all);
    check(Some(&["files"]), None, &[], &all[..2]);
    check(Some(&[]), None, &[], &[]);
    check(None, Some(&["*/*"]), &[], &all);
    check(None, Some(&["files/*"]), &[], &all[..2]);
    check(None, Some(&["files/move"]), &[], &[]);
    check(None, Some(&[]), &[], &[]);
    check(Some(&["git"]), Some(&["files/*"]), &[], &[]);
    check(None, None, &["*/edit_*"], &["files/read", "git/log", "git/a/b"]);
    check(None, None, &["*/*"], &[]);
    check(None, Some(&["g*/*", "files/read"]), &["*/log"], &["files/read", "git/edit_b", "git/a/b"]);
}

#[test]
fn a_pattern_is_of_the_servers_that_its_first_part_matches() {
    check(None, None, &["git/a/b", "files/log"], &["files/read", "files/edit_a", "git/log", "git/edit_b"]);
    check(None, None, &["{git,x}/log", "fil?s/r*"], &["files/edit_a", "git/edit_b", "git/a/b"]);
    check(
        None,
        None,
        &["Git/*", "gi/*", "git?/*"],
        &["files/read", "files/edit_a", "git/log", "git/edit_b", "git/a/b"],
    );
}

#[test]
fn each_kind_goes_by_its_own_patterns() {
    let (files, uri) = (server("files", &[]), "file:///secret/a");
    let denying = profile(None, ListKind::Resources, None, &["files/file:///secret/*"]).policy(&files).expect("in it");
    assert!(!denying.permits(ListKind::Resources, uri, None) && !denying.permits(ListKind::Templates, uri, None));
    assert!(denying.permits(ListKind::Resources, "file:///pub/a", None) && denying.permits(ListKind::Tools, uri, None));
    assert!(!denying.permits(ListKind::Resources, "file:///pub/../secret/a", None), "nor is it led around");
    let prompts = profile(None, ListKind::Prompts, Some(&["git/*"]), &[]).policy(&files).expect("in it");
    assert!(!prompts.permits(ListKind::Prompts, "p", None) && prompts.permits(ListKind::Tools, "p", None));
}

#[test]
fn kinds_and_annotations_narrow_as_those_of_a_server_do() {
    let mut profile = Profile::whole(Naming::default());
    profile.narrowing.expose = Some(ExposeList { kinds: vec![ListKind::Tools], extensions: Vec::new() });
    profile.narrowing.read_only = true;
    let policy = profile.policy(&server("files", &[])).expect("in it");
    let reads = Bytes::from_static(br#"{"name":"a","annotations":{"readOnlyHint":true}}"#);
    assert!(policy.permits(ListKind::Tools, "a", Some(&reads)) && !policy.permits(ListKind::Tools, "a", None));
    assert!(!policy.permits(ListKind::Prompts, "a", None) && !policy.permits(ListKind::Resources, "a", None));
    assert!(!profile.is_whole() && Profile::whole(Naming::default()).is_whole());
}

#[test]
fn names_follow_those_of_servers_but_for_two() {
    for (name, good) in [("reviewer", true), ("default", true), ("a-b_c", true), ("mcp", false), ("admin", false)] {
        assert_eq!(is_profile_name(name), good, "{name}");
    }
    for name in ["", "a__b", "../a", "a/b", "a.sock", "_a"] {
        assert!(!is_profile_name(name), "{name}");
    }
}

proptest! {
    /// The model decides plainly: it looks at each pattern by itself.
    #[test]
    fn what_is_seen_is_what_the_server_and_the_profile_both_leave(
        servers in prop::option::of(prop::sample::subsequence(vec!["a", "b", "c"], 0..=3)),
        allow in prop::option::of(prop::collection::vec("[abc*?]{1,2}/[xy*?/]{1,3}", 0..3)),
        deny in prop::collection::vec("[abc*?]{1,2}/[xy*?/]{1,3}", 0..3),
        own in prop::collection::vec("[xy*?]{1,2}", 0..2),
        tools in prop::collection::vec("[xy/]{1,3}", 1..6),
    ) {
        fn texts(patterns: &[String]) -> Vec<&str> {
            patterns.iter().map(String::as_str).collect()
        }
        let profile = profile(servers.as_deref(), ListKind::Tools, allow.as_deref().map(texts).as_deref(), &texts(&deny));
        let matches = |text: &str, key: &str| pattern(text).expect("a glob").compile_matcher().is_match(key);
        for name in ["a", "b", "c"] {
            let policy = profile.policy(&server(name, &texts(&own)));
            prop_assert_eq!(policy.is_some(), servers.as_ref().is_none_or(|servers| servers.contains(&name)));
            let any = |patterns: &[String], tool: &str| patterns.iter().any(|text| {
                let (of, key) = text.split_once('/').expect("two parts");
                matches(of, name) && matches(key, tool)
            });
            for (tool, policy) in tools.iter().filter_map(|tool| Some((tool, policy.as_ref()?))) {
                let seen = allow.as_ref().is_none_or(|allow| any(allow, tool)) && !any(&deny, tool)
                    && !own.iter().any(|text| matches(text, tool));
                prop_assert_eq!(policy.permits(ListKind::Tools, tool, None), seen, "{}/{}", name, tool);
            }
        }
    }
}
