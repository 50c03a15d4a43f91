//! Profiles are added, removed and changed by reload without affecting agents of other profiles.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, Place, Server, Setup, arguments, code, connect_as, result, signal, skipped, until, wait_exit,
};

const CHANGED: &str = "notifications/tools/list_changed";
/// A user that nobody is.
const STRANGE: u32 = 54_321;

fn agent(daemon: &Daemon, profile: &str) -> Agent {
    let mut agent = Agent::ready_at(&daemon.profile_socket(profile));
    agent.tools();
    agent
}

fn text(head: &str, place: &Place) -> String {
    let servers = ["a", "b"].map(|name| Server::named(name).flags("--bare --tool echo --tool sleep").toml(place));
    format!("{head}\n{}", servers.concat())
}

/// A daemon with two servers, whose profiles the test changes.
fn start(head: &str) -> Daemon {
    let place: Rc<Place> = Place::new();
    let file = place.write("changing.toml", text(head, &place));
    Setup::new().config(file).start_in(&place)
}

fn reload(daemon: &Daemon, head: &str) {
    daemon.place().write("changing.toml", text(head, daemon.place()));
    let ran = daemon.client(&["reload"]).expect_code(0);
    assert!(ran.stdout.starts_with("kept         a, b\n"), "{ran}");
}

#[test]
fn reload_names_the_profiles_that_it_adds_changes_and_removes() {
    let daemon = start("[profiles.one]\nservers = ['a']\n[profiles.two]\nservers = ['b']");
    let head = "[profiles.one]\nservers = ['b']\n[profiles.three]\nservers = ['b']";
    daemon.place().write("changing.toml", text(head, daemon.place()));
    let ran = daemon.client(&["reload"]).expect_code(0);
    let expected =
        "kept         a, b\nadded        profile three\nchanged      profile one\nremoved      profile two\n";
    assert_eq!(ran.stdout, expected);
    assert_eq!(daemon.client(&["reload"]).expect_code(0).stdout, "kept         a, b\n");
    let ran = daemon.client(&["remove", "b", "--config", daemon.place().path("changing.toml").to_str().expect("text")]);
    let ran = ran.expect_code(2);
    assert!(ran.stderr.contains("not removed: profile `one` uses `b`: take it out there first (`mcpd edit`)"), "{ran}");
}

fn pids(daemon: &Daemon) -> [u32; 2] {
    ["a", "b"].map(|server| daemon.server_pid(server))
}

#[test]
fn profiles_change_without_affecting_agents_of_other_profiles() {
    let daemon = start("[profiles.one]\nservers = ['a']\n[profiles.two]\nservers = ['b']");
    let before = pids(&daemon);
    let [mut default, mut one, mut two] = ["mcp", "one", "two"].map(|profile| agent(&daemon, profile));
    let gate = daemon.gate();
    let call = one.start_call("a__sleep", &gate.arguments());
    daemon.wait_at_gate("a", &gate);

    reload(&daemon, "[profiles.one]\nservers = ['a']\n[profiles.two]\n[profiles.three]\ndeny = ['*/sleep']");
    two.expect_notification(CHANGED);
    assert_eq!(two.tools(), ["a__echo", "a__sleep", "b__echo", "b__sleep"]);
    arguments(&two.call("a__echo", &json!({})));
    let mut three = agent(&daemon, "three");
    assert_eq!(three.tools(), ["a__echo", "b__echo"]);
    gate.open();
    arguments(&one.answer(&call));

    reload(&daemon, "[profiles.one]\nservers = ['a']\n[profiles.three]\ndeny = ['*/echo']");
    three.expect_notification(CHANGED);
    assert_eq!(three.tools(), ["a__sleep", "b__sleep"]);
    assert_eq!(code(&three.call("a__echo", &json!({}))), -32602);
    two.expect_end();
    assert_eq!(
        daemon.runtime_files(),
        ["admin.sock", "directories.json", "lock", "mcp.sock", "one.sock", "three.sock"]
    );
    let ran = daemon.client(&["tools", "--profile", "two"]).expect_code(2);
    assert!(ran.stderr.contains("default, one, three"), "{ran}");
    for agent in [&mut default, &mut one, &mut three] {
        agent.expect_quiet();
    }
    assert_eq!(pids(&daemon), before);
}

#[test]
fn agents_are_notified_when_the_default_profile_is_narrowed_and_widened() {
    let daemon = start("");
    let mut agent = agent(&daemon, "mcp");
    let before = pids(&daemon);
    for (head, tools) in [
        ("[profiles.default]\nservers = ['b']", &["b__echo", "b__sleep"][..]),
        ("[profiles.default]\nallow = ['*/echo']", &["a__echo", "b__echo"]),
        ("", &["a__echo", "a__sleep", "b__echo", "b__sleep"]),
    ] {
        reload(&daemon, head);
        agent.expect_notification(CHANGED);
        assert_eq!(agent.tools(), tools, "{head}");
    }
    reload(&daemon, "[profiles.default]");
    agent.expect_quiet();
    assert_eq!(pids(&daemon), before);
}

#[test]
fn agents_of_a_removed_profile_get_their_answers_first_for_a_bounded_time() {
    let daemon = start("[profiles.p]");
    let [mut soon, mut late] = [(); 2].map(|()| agent(&daemon, "p"));
    let answered = soon.start_call("a__sleep", &json!({ "ms": 700 }));
    let cancelled = late.start_call("b__sleep", &json!({ "ms": 600_000 }));
    daemon.wait_journal("a", "700");
    daemon.wait_journal("b", "600000");
    reload(&daemon, "");
    let refused = soon.call("a__echo", &json!({}));
    assert_eq!((code(&refused), &refused["error"]["data"]["outcome"]), (-31005, &json!("not_sent")), "{refused}");
    arguments(&soon.answer(&answered));
    soon.expect_end();
    let end = late.answer(&cancelled);
    assert_eq!((code(&end), &end["error"]["data"]["outcome"]), (-31005, &json!("unknown")), "{end}");
    late.expect_end();
    daemon.wait_journal("b", "notifications/cancelled");
    assert!(!daemon.journal("a").iter().any(|line| line.contains("echo\"") && line.contains("tools/call")));
}

#[test]
fn reload_with_an_unusable_socket_is_refused_as_a_whole() {
    let daemon = start("[profiles.old]");
    let mut agent = agent(&daemon, "old");
    daemon.place().write("run/taken.sock", "precious");
    let long = "x".repeat(100);
    for (name, why) in [("taken", "is not a socket"), (&long, "the maximum is 107")] {
        let head = format!("[profiles.fine]\n[profiles.{name}]");
        daemon.place().write("changing.toml", text(&head, daemon.place()));
        let ran = daemon.client(&["reload"]);
        assert!(ran.code != Some(0) && ran.stderr.contains(why), "{ran}");
        let profiles = daemon.status()["profiles"].clone();
        assert_eq!(profiles.as_array().expect("profiles").len(), 2, "{profiles}");
        assert!(!daemon.profile_socket("fine").exists(), "nothing has changed");
    }
    agent.expect_quiet();
    fs::remove_file(daemon.profile_socket("taken")).expect("it is there");
    reload(&daemon, "[profiles.fine]\n[profiles.taken]");
    Agent::ready_at(&daemon.profile_socket("taken")).expect_quiet();
}

#[test]
fn profile_with_too_long_a_name_is_refused_at_the_start() {
    let place = Place::new();
    let file = place.write("long.toml", format!("[profiles.{}]\n", "x".repeat(100)));
    let ran = place.client(&["serve", "--config", file.to_str().expect("text")]).expect_code(1);
    assert!(ran.stderr.contains("the maximum is 107") && ran.stderr.contains("shorten the profile's name"), "{ran}");
}

#[test]
fn profile_sockets_of_a_dead_daemon_are_removed() {
    let mut killed = start("[profiles.gone]\n[profiles.stays]");
    let place = Rc::clone(killed.place());
    killed.kill9();
    assert!(killed.runtime_files().contains(&"gone.sock".to_owned()), "a killed daemon cannot tidy up");
    drop(killed);
    place.client(&["tools", "--profile", "gone"]).expect_code(3);
    let _others = UnixListener::bind(place.path("run/others.sock")).expect("free");
    let file = place.write("changing.toml", text("[profiles.stays]", &place));
    let mut daemon = Setup::new().config(file).start_in(&place);
    Agent::ready_at(&daemon.profile_socket("stays")).expect_quiet();
    assert_eq!(
        daemon.runtime_files(),
        ["admin.sock", "directories.json", "lock", "mcp.sock", "others.sock", "stays.sock"]
    );
    fs::remove_file(place.path("run/others.sock")).expect("it is there");
    assert!(daemon.term().success());
    assert_eq!(daemon.runtime_files(), ["lock"]);
}

#[test]
fn deleted_profile_socket_is_recreated_with_its_mode() {
    let daemon = start("[profiles.p]\n[profiles.open]\nallow_uids = [54321]");
    let mode =
        |profile: &str| Some(fs::symlink_metadata(daemon.profile_socket(profile)).ok()?.permissions().mode() & 0o777);
    for (profile, expected) in [("mcp", 0o600), ("p", 0o600), ("open", 0o666)] {
        assert_eq!(mode(profile), Some(expected), "{profile}");
        fs::remove_file(daemon.profile_socket(profile)).expect("it is there");
        until("it is there again", || (mode(profile) == Some(expected)).then_some(()));
        Agent::ready_at(&daemon.profile_socket(profile)).expect_quiet();
    }
    reload(&daemon, "[profiles.p]\nallow_uids = [54321]\n[profiles.open]");
    assert_eq!((mode("p"), mode("open")), (Some(0o666), Some(0o600)));
}

#[test]
fn names_follow_a_new_scheme_at_once_and_lead_to_no_other_tool() {
    let daemon = start("[profiles.own]\nnaming = 'mcp__{server}__{tool}'\nservers = ['b']");
    let before = pids(&daemon);
    let [mut agent, mut own] = ["mcp", "own"].map(|profile| agent(&daemon, profile));
    reload(&daemon, "[daemon]\nnaming = '{tool}'\n[profiles.own]\nnaming = 'mcp__{server}__{tool}'\nservers = ['b']");
    agent.expect_notification(CHANGED);
    assert_eq!(agent.tools(), ["echo", "sleep", "b__echo", "b__sleep"]);
    assert_eq!(code(&agent.call("a__echo", &json!({}))), -32602);
    let pid = |answer: &Value| result(answer)["structuredContent"]["pid"].clone();
    assert_eq!(pid(&agent.call("b__echo", &json!({}))), before[1]);
    own.expect_quiet();
    reload(&daemon, "[profiles.own]\nnaming = '{tool}'\nservers = ['b']");
    agent.expect_notification(CHANGED);
    assert_eq!(agent.tools(), ["a__echo", "a__sleep", "b__echo", "b__sleep"]);
    own.expect_notification(CHANGED);
    assert_eq!(own.tools(), ["echo", "sleep"]);
    assert_eq!(pid(&own.call("echo", &json!({}))), before[1]);
    assert_eq!(pids(&daemon), before);
}

#[test]
fn inherited_socket_is_used_for_the_profile_of_its_name() {
    let place: Rc<Place> = Place::new();
    let given = place.path("given.sock");
    let listener = UnixListener::bind(&given).expect("free");
    fs::set_permissions(&given, fs::Permissions::from_mode(0o600)).expect("one's own");
    let file = place.write("changing.toml", text("[profiles.p]", &place));
    let activated = "exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=p";
    let mut command = Setup::new().config(file).after_shell(activated).command(&place);
    command.stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut daemon = command.spawn().expect("mcpd starts");
    let served = |has: bool| {
        place.write("changing.toml", text(if has { "[profiles.p]" } else { "" }, &place));
        place.client(&["reload"]).expect_code(0);
    };
    let mut agent = Agent::ready_at(&given);
    assert_eq!(agent.tools().len(), 4);
    assert!(!place.path("run/p.sock").exists());
    served(false);
    agent.expect_end();
    assert!(given.exists(), "it is not mcpd's to remove");
    served(true);
    Agent::ready_at(&given).expect_quiet();
    signal(daemon.id(), Signal::TERM);
    assert!(wait_exit(&mut daemon).success());
    assert!(given.exists());
}

#[test]
fn profile_admits_only_the_users_that_it_lists() {
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can connect as somebody else");
    }
    let daemon = start(
        "[profiles.closed]\n[profiles.open]\nservers = ['a']\nallow_uids = [54321]\n[profiles.other]\nallow_uids = [7]",
    );
    for closed in ["mcp", "closed", "admin"] {
        let refused = connect_as(STRANGE, &daemon.profile_socket(closed)).expect_err("the mode forbids it");
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "{closed}");
    }
    let mut other = Agent::from_stream(connect_as(STRANGE, &daemon.profile_socket("other")).expect("the mode lets it"));
    other.expect_end();
    until("it is said", || daemon.log().contains("refused another user").then_some(()));

    let mut guest = Agent::from_stream(connect_as(STRANGE, &daemon.profile_socket("open")).expect("it may come in"));
    result(&guest.initialize("2025-11-25"));
    assert_eq!(guest.tools(), ["a__echo", "a__sleep"]);
    arguments(&guest.call("a__echo", &json!({})));
    let status = daemon.status();
    let agents = status["agents"].as_array().expect("agents");
    assert!(agents.iter().any(|agent| agent["uid"] == STRANGE && agent["profile"] == "open"), "{status}");
    let mut host = agent(&daemon, "open");

    reload(&daemon, "[profiles.open]\nservers = ['a']\nallow_uids = [7]");
    guest.expect_end();
    host.expect_quiet();
}

#[test]
fn socket_deleted_during_a_mode_change_is_recreated_with_the_new_mode() {
    let daemon = start("[profiles.p]");
    let path = daemon.profile_socket("p");
    fs::remove_file(&path).expect("it is there");
    reload(&daemon, "[profiles.p]\nallow_uids = [54321]");
    let mode = || Some(fs::symlink_metadata(&path).ok()?.permissions().mode() & 0o777);
    until("it is there again, for others", || (mode() == Some(0o666)).then_some(()));
    agent(&daemon, "p");
}
