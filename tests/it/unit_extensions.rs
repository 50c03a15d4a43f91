//! Supported extensions of the shipped unit: profile sockets, credentials, hardening.

use std::fs;

use serde_json::json;

use crate::support::{Agent, Server, Setup, UserManager, result, skipped, until};

fn plain() -> Setup {
    Setup::with(Server::named("plain"))
}

/// Puts a drop-in beside the unit.
fn extend(manager: &UserManager, name: &str, text: &str) {
    manager.place().write(&format!("xdg-config/systemd/user/mcpd.service.d/{name}.conf"), text);
    manager.systemctl(&["daemon-reload"]).expect_code(0);
}

fn shipped(name: &str) -> String {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(name);
    fs::read_to_string(file).expect("text")
}

#[test]
fn activated_profile_socket_exists_before_and_during_restarts() {
    let other = Server::named("other");
    let profile = Server::named("plain").line("[profiles.few]\nservers = [\"other\"]\n");
    let Some(manager) = UserManager::start(&Setup::with(profile).server(other)) else { return };
    manager.systemctl(&["start", "mcpd@few.socket"]).expect_code(0);
    assert_eq!(manager.property("ActiveState"), "inactive", "nobody has connected yet");
    let socket = manager.place().path("xdg-run/mcpd/few.sock");
    let tools = || Agent::ready_at(&socket).tools();
    assert!(tools().iter().all(|name| name.starts_with("other__")));
    let before = manager.property("MainPID");
    manager.systemctl(&["restart", "mcpd"]).expect_code(0);
    assert!(!tools().is_empty());
    assert_ne!(manager.property("MainPID"), before);
    manager.systemctl(&["stop", "mcpd@few.socket", "mcpd"]).expect_code(0);
    manager.expect_nothing_left();
}

#[test]
fn systemd_credential_reaches_the_server_that_uses_it() {
    let server = Server::named("plain").env("TOKEN", "${cred:github}").env("OTHER", "${cred:set}");
    let Some(manager) = UserManager::start(&Setup::with(server)) else { return };
    fs::create_dir(manager.place().path("xdg-config/mcpd/credentials")).expect("a fresh directory");
    manager.place().write("xdg-config/mcpd/credentials/github", "of github");
    extend(&manager, "30-credentials", &(shipped("credentials.conf") + "SetCredential=set:of the unit\n"));
    manager.systemctl(&["start", "mcpd"]).expect_code(0);
    until("the server has started, or not", || {
        let status = manager.mcpd(&["status"]);
        assert!(!status.stdout.contains("failed"), "{status}");
        (status.code == Some(0)).then_some(())
    });
    let answer = Agent::ready_at(&manager.agent_socket()).call("plain__env", &json!({}));
    let environment = &result(&answer)["structuredContent"];
    assert_eq!([&environment["TOKEN"], &environment["OTHER"]], ["of github", "of the unit"]);
    assert!(environment.get("CREDENTIALS_DIRECTORY").is_none());
}

/// What needs mounts, which this manager cannot make: nothing is above it that would give it a root of its own.
const MOUNTS: [&str; 7] = [
    "PrivateUsers=",
    "ProtectSystem=",
    "ReadWritePaths=",
    "InaccessiblePaths=",
    "ProtectKernelModules=",
    "ProtectClock=",
    "ProtectHostname=",
];

#[test]
fn hardened_unit_starts_by_its_socket_serves_and_stops() {
    let Some(manager) = UserManager::start(&plain()) else { return };
    let hardened = shipped("hardened.conf");
    extend(&manager, "20-hardened", &hardened);
    if manager.systemctl(&["start", "mcpd"]).code == Some(0) {
        manager.systemctl(&["stop", "mcpd"]).expect_code(0);
    } else {
        // Each of its restarts forgets the status.
        until("a start fails in its mounts", || (manager.property("ExecMainStatus") == "226").then_some(()));
        skipped("this user manager cannot mount, so the hardened unit is started without what needs that");
        let without = |line: &&str| !MOUNTS.iter().any(|key| line.starts_with(key));
        let reduced: Vec<_> = hardened.lines().filter(without).collect();
        extend(&manager, "20-hardened", &(reduced.join("\n") + "\n"));
        // It is tried again and again until then.
        manager.systemctl(&["stop", "mcpd"]).expect_code(0);
    }
    manager.systemctl(&["start", "mcpd.socket"]).expect_code(0);
    let mut agent = Agent::ready_at(&manager.agent_socket());
    result(&agent.call("plain__echo", &json!({})));
    let server = manager.unit_processes().into_iter().find(|process| process.command.contains("scripted-server"));
    let server = server.expect("it runs").pid;
    assert_eq!(crate::support::field(server, "NoNewPrivs"), "1");
    assert_eq!(crate::support::field(server, "Seccomp"), "2");
    drop(agent);
    manager.systemctl(&["stop", "mcpd.socket", "mcpd"]).expect_code(0);
    until("nothing is left", || manager.unit_processes().is_empty().then_some(()));
    manager.expect_nothing_left();
}
