//! A hostile server of one user leaves programs for another user. Both are ordinary users.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use crate::cases::call_argv;
use crate::support::{
    Agent, MCPD, NO_NAMESPACES, Place, Ran, SCRIPTED, Server, Setup, connect_as, quoted, result, run, skipped, until,
};

/// The users need no entry in `/etc/passwd`.
const OWNER: u32 = 61_001;
const ACCOMPLICE: u32 = 61_002;
/// The calls by which a program gets its mode.
const CALLS: [&str; 4] = ["chmod", "fchmod", "fchmodat", "fchmodat2"];

/// The options of `setpriv` that make a process one of this user and nothing else.
fn as_user(user: u32) -> [String; 3] {
    [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()]
}

/// Runs a program as this user.
fn run_as(user: u32, place: &Place, argv: &[&str]) -> Ran {
    run(place.command("setpriv").args(as_user(user)).args(argv))
}

/// The effective user and group of the accomplice in each program that the owner's server has left.
fn identities(sandbox: &str, has_namespaces: bool) -> Vec<String> {
    let place = Place::new();
    let left = place.path("left");
    fs::create_dir(&left).expect("a fresh directory");
    let sandbox = sandbox.replace("LEFT", &quoted(&left)).replace("JOURNAL", &quoted(place.path("hostile.journal")));
    let server = Server::named("hostile").flags("--tool attempt").line(format!("sandbox = {sandbox}"));
    let mut setup = Setup::with(server).after_shell(&format!(r#"exec setpriv {} "$0" "$@""#, as_user(OWNER).join(" ")));
    if !has_namespaces {
        setup = setup.variable(NO_NAMESPACES, "1");
    }
    // The files exist before their owner is set.
    setup.write(&place);
    run(place.command("chown").arg("-R").arg(format!("{OWNER}:{OWNER}")).arg(place.path(""))).expect_code(0);
    for path in [place.path(""), left.clone()] {
        fs::set_permissions(path, Permissions::from_mode(0o711)).expect("root may");
    }
    let daemon = setup.spawn_in(&place);
    let socket = daemon.agent_socket();
    let mut agent = Agent::from_stream(until("the socket accepts", || connect_as(OWNER, &socket).ok()));
    result(&agent.initialize("2025-11-25"));
    let found = CALLS.map(|call| {
        let program = left.join(call).display().to_string();
        let arguments = json!({"do": "run", "argv": call_argv(&["set_mode", call, &program, "6755", "/usr/bin/id"])});
        let answer = agent.call("hostile__attempt", &arguments);
        let outcome = &result(&answer)["structuredContent"]["value"];
        assert!(Path::new(&program).exists(), "{call}: {outcome}");
        let ran = |option| run_as(ACCOMPLICE, &place, &[&program, option]).stdout.trim().to_owned();
        format!("{call}: {} {}", ran("-u"), ran("-g"))
    });
    found.into()
}

/// Case K21.
#[test]
fn program_that_a_server_leaves_gives_another_user_no_rights() {
    if !rustix::process::getuid().is_root() {
        return skipped("only root can run programs as two other users");
    }
    let place = Place::new();
    fs::set_permissions(place.path(""), Permissions::from_mode(0o711)).expect("one's own directory");
    for program in [MCPD, SCRIPTED, "/usr/bin/python3"] {
        if run_as(OWNER, &place, &["test", "-x", program]).code != Some(0) {
            return skipped(&format!("another user cannot run {program}"));
        }
    }
    let all_by = |user: u32| CALLS.map(|call| format!("{call}: {user} {user}")).to_vec();
    if identities("\"none\"", false) != all_by(OWNER) {
        return skipped("the file system of temporary files ignores setuid bits, or the kernel lacks a call");
    }
    assert_eq!(identities("\"scope\"", false), all_by(OWNER), "only level `files` takes modes away");
    for has_namespaces in [true, false] {
        let files = "{ level = \"files\", write = [LEFT, JOURNAL] }";
        assert_eq!(identities(files, has_namespaces), all_by(ACCOMPLICE), "namespaces: {has_namespaces}");
    }
}
