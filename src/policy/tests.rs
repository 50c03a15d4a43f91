//! What is exposed under which rules, as tables.

use super::*;

fn globs(texts: &[&str]) -> Vec<Glob> {
    texts.iter().map(|text| pattern(text).expect("a glob")).collect()
}

fn policy(kind: ListKind, allow: Option<&[&str]>, deny: &[&str]) -> Policy {
    let allow = allow.map(globs);
    Policy::default().with(kind, allow.as_deref(), &globs(deny)).expect("patterns compile")
}

fn check(allow: Option<&[&str]>, deny: &[&str], tool: &str, permitted: bool) {
    let found = policy(ListKind::Tools, allow, deny).permits(ListKind::Tools, tool, None);
    assert_eq!(found, permitted, "allow {allow:?} deny {deny:?} tool {tool:?}");
}

#[test]
fn allow_narrows_then_deny_wins() {
    check(None, &[], "write_file", true);
    check(None, &["write_*", "move_file"], "write_file", false);
    check(None, &["write_*", "move_file"], "move_file", false);
    check(None, &["write_*", "move_file"], "move_files", true);
    check(Some(&["read_*"]), &[], "list", false);
    check(Some(&["read_*"]), &["read_secret"], "read_secret", false);
    check(Some(&["read_*"]), &["read_secret"], "read_file", true);
    check(Some(&[]), &[], "anything", false);
}

#[test]
fn two_policies_together_expose_what_both_do() {
    let allow: [Option<&[&str]>; 4] = [None, Some(&[]), Some(&["read_*"]), Some(&["*_file"])];
    let deny: [&[&str]; 3] = [&[], &["write_*"], &["read_secret"]];
    let all = || allow.iter().flat_map(|allow| deny.iter().map(|deny| policy(ListKind::Tools, *allow, deny)));
    for (a, b) in all().flat_map(|a| all().map(move |b| (a.clone(), b))) {
        let both = a.clone().and(&b);
        for tool in ["read_file", "read_secret", "write_file", "list"] {
            let expected = a.permits(ListKind::Tools, tool, None) && b.permits(ListKind::Tools, tool, None);
            assert_eq!(both.permits(ListKind::Tools, tool, None), expected, "{tool}: {a:?} and {b:?}");
        }
    }
    let narrow = Policy::default().exposing(&[ListKind::Tools]).and(&Policy::default().read_only(true));
    assert!(!narrow.permits(ListKind::Prompts, "x", None) && !narrow.permits(ListKind::Tools, "x", None));
}

#[test]
fn policies_differ_by_their_rules_wherever_these_stand_and_whatever_is_denied_at_run_time() {
    let all = [
        Policy::default(),
        policy(ListKind::Tools, None, &["a"]),
        policy(ListKind::Tools, None, &["b"]),
        policy(ListKind::Tools, Some(&["a"]), &[]),
        policy(ListKind::Tools, Some(&[]), &[]),
        policy(ListKind::Prompts, None, &["a"]),
        policy(ListKind::Resources, None, &["a"]),
        Policy::default().read_only(true),
        Policy::default().exposing(&[ListKind::Tools]),
    ];
    for (at, one) in all.iter().enumerate() {
        for (other_at, other) in all.iter().enumerate() {
            let other = other.clone().with_table("elsewhere").under(run_time(&["x"], &["y*"]));
            assert_eq!(one.has_same_rules(&other), at == other_at, "{one:?} and {other:?}");
        }
    }
}

#[test]
fn a_tool_that_is_switched_off_is_hidden_by_its_very_name_whatever_else_holds() {
    let denying = policy(ListKind::Tools, None, &["write_*"]).under(run_time(&["read*", "list"], &[]));
    for (tool, permitted) in
        [("list", false), ("lists", true), ("read_file", true), ("read*", false), ("write_a", false)]
    {
        assert_eq!(denying.permits(ListKind::Tools, tool, None), permitted, "{tool}");
    }
    assert!(denying.permits(ListKind::Prompts, "list", None) && denying.permits(ListKind::Resources, "list", None));
    let both = Policy::default().under(run_time(&["a"], &["b*"])).and(&denying);
    for (tool, permitted) in [("list", false), ("write_a", false), ("a", false), ("b1", false), ("c", true)] {
        assert_eq!(both.permits(ListKind::Tools, tool, None), permitted, "{tool}");
    }
    let other = both.under(run_time(&["c"], &[]));
    for (tool, permitted) in [("list", true), ("write_a", false), ("a", true), ("b1", true), ("c", false)] {
        assert_eq!(other.permits(ListKind::Tools, tool, None), permitted, "{tool}");
    }
}

#[test]
fn patterns_of_the_run_time_hide_extensions_as_configured_ones_do() {
    let exposed = || Policy::default().exposing_extensions(&["x".into()]);
    let denying = || run_time(&[], &["a"]);
    for (policy, permitted) in [
        (Policy::default(), true),
        (Policy::default().under(denying()), false),
        (Policy::default().under(run_time(&["a"], &[])), true),
        (exposed().under(denying()), true),
    ] {
        assert_eq!(policy.permits_extension("x"), permitted, "{policy:?}");
        assert!(
            policy.permits_unknown_methods()
                == (permitted && policy.run_time.is_empty() && policy.extensions.is_empty())
        );
    }
}

/// What is denied at run time: these tools, and what these patterns match.
fn run_time(off: &[&str], deny: &[&str]) -> RunTimeDeny {
    let mut run_time = RunTimeDeny::default();
    run_time.set_off(off.iter().map(|name| Arc::from(*name)).collect());
    let globs: Vec<_> = deny.iter().map(|text| pattern(text).expect("a glob")).collect();
    run_time.set_patterns(&globs).expect("patterns compile");
    run_time
}

#[test]
fn a_star_crosses_slashes_and_case_counts() {
    check(None, &["fs*"], "fs/write", false);
    check(None, &["write"], "Write", true);
    check(None, &["*"], "", false);
    check(None, &["{write,move}_*"], "move_x", false);
}

#[test]
fn rules_of_one_kind_hide_nothing_of_another() {
    for (kind, hidden) in [
        (ListKind::Tools, &[ListKind::Tools][..]),
        (ListKind::Prompts, &[ListKind::Prompts]),
        (ListKind::Resources, &[ListKind::Resources, ListKind::Templates]),
    ] {
        let (denying, narrow) = (policy(kind, None, &["*"]), Policy::default().exposing(&[kind]));
        for other in ListKind::ALL.into_iter().filter(|other| *other != ListKind::Skills) {
            assert_eq!(denying.permits(other, "x", None), !hidden.contains(&other), "{kind:?} {other:?}");
            assert_eq!(narrow.permits(other, "x", None), hidden.contains(&other), "{kind:?} {other:?}");
        }
    }
    assert!(!ListKind::ALL.iter().any(|kind| Policy::default().exposing(&[]).permits(*kind, "x", None)));
}

#[test]
fn no_spelling_of_a_uri_leads_around_a_pattern() {
    let denying = policy(ListKind::Resources, None, &["file:///secret*"]);
    let allowing = policy(ListKind::Resources, Some(&["file:///pub/*"]), &[]);
    for (uri, denied, allowed) in [
        ("file:///pub/a", false, true),
        ("file:///secret/a", true, false),
        ("file:///%73ecret/a", true, false),
        ("file:///pub/../secret/a", true, false),
        ("file:///pub/%2e%2e/secret/a", true, false),
    ] {
        assert_eq!(denying.permits(ListKind::Resources, uri, None), !denied, "{uri}");
        assert_eq!(allowing.permits(ListKind::Resources, uri, None), allowed, "{uri}");
    }
}

#[test]
fn only_what_says_plainly_that_it_reads_only_is_taken_for_it() {
    let policy = Policy::default().read_only(true);
    for (definition, permitted) in [
        (r#"{"name":"a","annotations":{"x":1,"readOnlyHint":true}}"#, true),
        (r#"{"name":"a","annotations":{"readOnlyHint":false}}"#, false),
        (r#"{"name":"a","annotations":{"readOnlyHint":"true"}}"#, false),
        (r#"{"name":"a","annotations":{"readOnlyHint":1}}"#, false),
        (r#"{"name":"a","annotations":{"readonlyhint":true}}"#, false),
        (r#"{"name":"a","annotations":{"readOnlyHint":true,"readOnlyHint":true}}"#, false),
        (r#"{"name":"a","annotations":{"readOnlyHint":true,"ReadOnlyHint":false}}"#, false),
        (r#"{"name":"a","annotations":{"readOnlyHint":true},"annotations":{}}"#, false),
        (r#"{"name":"a","annotations":[true]}"#, false),
        (r#"{"name":"a","annotations":null}"#, false),
        (r#"{"name":"a","readOnlyHint":true}"#, false),
        (r#"{"name":"a"}"#, false),
    ] {
        let raw = Bytes::from_static(definition.as_bytes());
        assert_eq!(policy.permits(ListKind::Tools, "a", Some(&raw)), permitted, "{definition}");
        assert!(
            policy.permits(ListKind::Prompts, "a", Some(&raw))
                && Policy::default().permits(ListKind::Tools, "a", Some(&raw))
        );
    }
    assert!(!policy.permits(ListKind::Tools, "a", None), "nobody knows what it does");
}

#[test]
fn a_name_that_shows_another_than_it_is_is_not_fit() {
    for name in ["a", "read.file-2_x", "datei_öffnen", "読む", "", &"x".repeat(128), &"é".repeat(128)] {
        assert!(is_fit_name(name), "{name:?}");
    }
    for mark in "\0\n\r\t\u{1b}\u{7f}\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{200d}\u{200f}\u{2028}\u{202e}\u{2060}\u{2069}\u{feff}\u{fe0f}\u{e0041}".chars() {
        assert!(!is_fit_name(&format!("a{mark}b")), "{mark:?}");
    }
    assert!(!is_fit_name(&"x".repeat(129)));
    let named = |kind| Policy::default().permits(kind, "a\u{202e}", None);
    assert_eq!(ListKind::ALL.map(named), [false, false, true, true, true]);
}

const LIST: &str = r#"{"name":"list","description":"lists"}"#;
const OTHER_LIST: &str = r#"{"name":"list","description":"lists, and sends"}"#;

/// What is approved: a tool, a template and the instructions.
fn approval(rule: ApprovalRule) -> Approval {
    let mut pins = crate::pins::Pins::default();
    let instructions = instructions_json("be kind");
    for (kind, key, json) in [
        (PinnedKind::Tool, "list", LIST.as_bytes()),
        (PinnedKind::Template, "x://{a}", b"{}"),
        (PinnedKind::Instructions, INSTRUCTIONS_KEY, &instructions),
    ] {
        pins.approve(kind, &key.into(), Definition::plain(json));
    }
    Approval::new(rule, Arc::new(pins), Arc::default())
}

#[test]
fn what_is_held_is_exposed_only_as_it_was_approved() {
    let held = Policy::default().approved_by(Some(approval(ApprovalRule::Hold)));
    let definition = |json: &'static str| Some(Bytes::from_static(json.as_bytes()));
    for (kind, key, definition, expected) in [
        (ListKind::Tools, "list", definition(LIST), Ok(())),
        (ListKind::Tools, "list", definition(r#"{ "description":"lists", "name":"l\u0069st"}"#), Ok(())),
        (ListKind::Tools, "list", definition(OTHER_LIST), Err(Hidden::Withheld(Withheld::Changed))),
        (ListKind::Tools, "new", definition("{}"), Err(Hidden::Withheld(Withheld::New))),
        (ListKind::Prompts, "list", definition(LIST), Err(Hidden::Withheld(Withheld::New))),
        (ListKind::Templates, "x://{a}", definition("{}"), Ok(())),
        (ListKind::Templates, "y://{a}", definition("{}"), Err(Hidden::Withheld(Withheld::New))),
        (ListKind::Resources, "x://1", definition("{}"), Ok(())),
        (ListKind::Skills, "skill://a/SKILL.md", definition("{}"), Ok(())),
        (ListKind::Tools, "list", None, Ok(())),
    ] {
        for policy in [&held, &Policy::default().and(&held), &held.clone().and(&Policy::default())] {
            let fingerprint = Fingerprint::default();
            assert_eq!(policy.verdict(kind, key, definition.as_ref()), expected, "{kind:?} {key}");
            let listed = definition.as_ref().map(|json| policy.verdict_on_listed(kind, key, json, &fingerprint));
            assert_eq!(listed.unwrap_or(Ok(())), expected, "{kind:?} {key}");
        }
    }
    let instructed = |policy: &Policy, text| policy.permits_instructions(text, &Fingerprint::default());
    assert!(instructed(&held, "be kind") && !instructed(&held, "be evil"));
    assert!(held.holds() && !held.permits_unknown_methods(), "a method without a name could call anything");
    assert!(held.clone().under(run_time(&["x"], &[])).holds() && held.has_same_rules(&Policy::default()));
}

#[test]
fn what_only_warns_is_exposed_and_rules_hide_what_is_approved() {
    let warned = Policy::default().approved_by(Some(approval(ApprovalRule::Warn)));
    let (list, other) = (Bytes::from_static(LIST.as_bytes()), Bytes::from_static(OTHER_LIST.as_bytes()));
    assert!(warned.permits(ListKind::Tools, "list", Some(&other)) && warned.permits_unknown_methods());
    assert!(warned.permits_instructions("be evil", &Fingerprint::default()) && !warned.holds());
    let denied = policy(ListKind::Tools, None, &["list"]).approved_by(Some(approval(ApprovalRule::Hold)));
    let why = denied.verdict(ListKind::Tools, "list", Some(&list));
    assert!(matches!(why, Err(Hidden::Denied { .. })), "{why:?}");
    assert_eq!(denied.verdict_of_rules(ListKind::Tools, "new", Some(&other)), Ok(()));
}

#[test]
fn exact_pattern_matches_its_name_alone() {
    let names = ["read", r"back\slash", "a*", "a?", "[a]", "{a,b}", "!a", "a", "b", "ab", "backslash", r"\"];
    for name in names {
        let policy = policy(ListKind::Tools, None, &[&exact_pattern(name)]);
        let denied: Vec<_> = names.into_iter().filter(|other| !policy.permits(ListKind::Tools, other, None)).collect();
        assert_eq!(denied, [name]);
    }
}
