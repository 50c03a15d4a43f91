//! What `add`, `import` and `check` know of the commands of servers, and how servers start that a runner downloads.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::support::{Agent, Daemon, Place, SCRIPTED, Server, Setup, arguments, until};

fn configuration(place: &Place) -> String {
    fs::read_to_string(place.path("xdg-config/mcpd/config.toml")).expect("text")
}

/// A program `name` that runs these lines of shell.
fn program(place: &Place, name: &str, script: &str) -> PathBuf {
    place.write_program(&format!("tools/{name}"), format!("#!/bin/sh\n{script}\n"))
}

#[test]
fn keys_that_a_known_command_needs_are_written_with_the_reason() {
    let shared = "sharing = \"session\"";
    let workspace = "# This server works in the directory of its agent.\nsharing = \"workspace\"\n";
    let lazy = "# This server keeps no state, so it runs only while it is called.\nstart = \"lazy\"\n";
    for (typed, written, noted) in [
        (
            &["npx", "-y", "@playwright/mcp@latest"][..],
            shared,
            "x has sandbox `scope`, which protects no files: its browser",
        ),
        (&["npx", "-y", "@playwright/mcp@latest"], "\"DISPLAY\"", "`pass_env` is written, because x needs"),
        (&["bunx", "chrome-devtools-mcp"], shared, "note: `sharing` is written, because x keeps one state"),
        (&["docker", "run", "-i", "--rm", "mcp/fetch"], "\"DOCKER_HOST\"", "note: `pass_env` is written"),
        (&["uvx", "mcp-server-git"], workspace, "note: `sharing` is written"),
        (&["uvx", "mcp-server-git", "--repository", "/"], lazy, "note: `start` is written"),
        (&["node", "index.js", "."], workspace, "note: `sharing` is written"),
        (&["node", "index.js", "${workspaceFolder}/a"], "args = [\"index.js\", \"${agent:cwd}/a\"]", "`sharing` is"),
        (&["npx", "some-mcp"], "", "warning: `npx` without `-y` asks before it installs a package"),
    ] {
        let place = Place::new();
        let ran = place.mcpd(&[&["add", "x", "--"], typed].concat()).expect_code(0);
        assert!(configuration(&place).contains(written), "{typed:?}: {}", configuration(&place));
        assert!(ran.stderr.contains(noted), "{typed:?}: {ran}");
        let checked = place.mcpd(&["check", "--json"]).json();
        let known: Vec<_> =
            checked["diagnostics"].as_array().expect("a list").iter().map(|one| &one["message"]).collect();
        let is_question = |text: &&serde_json::Value| text.to_string().contains("without `-y`");
        assert!(!known.iter().any(|text| text.to_string().contains("share")), "{typed:?}: {known:?}");
        assert_eq!(known.iter().any(is_question), typed[1] == "some-mcp", "{typed:?}: {known:?}");
    }
    let place = Place::new();
    place.mcpd(&["add", "--cwd", ".", "x", "--", "node", "index.js", "."]).expect_code(0);
    place.mcpd(&["add", "--lazy", "y", "--", "uvx", "mcp-server-time"]).expect_code(0);
    let text = configuration(&place);
    assert!(!text.contains("sharing") && text.matches("start = \"lazy\"").count() == 1, "{text}");
}

#[test]
fn import_writes_the_keys_that_a_known_command_needs() {
    let place = Place::new();
    let servers = json!({"mcpServers": {
        "browser": {"command": "npx", "args": ["-y", "@playwright/mcp"]},
        "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "${workspaceFolder}"]},
        "box": {"command": "docker", "args": ["run", "-i", "mcp/x"]},
    }});
    let file = place.write("client.json", servers.to_string());
    place.mcpd(&["import", "--yes", file.to_str().expect("text")]).expect_code(0);
    let text = configuration(&place);
    for part in ["[servers.browser]", "sharing = \"session\"", "sharing = \"workspace\"", "\"DOCKER_HOST\""] {
        assert!(text.contains(part), "no {part}: {text}");
    }
    assert_eq!(text.matches("sharing = \"workspace\"").count(), 1, "{text}");
}

#[test]
fn check_warns_of_what_a_known_command_lacks() {
    for (lines, variables, expected) in [
        (
            "command = 'npx'\nargs = ['-y', '@playwright/mcp']",
            &[][..],
            Some("all agents share `x`, which keeps one state"),
        ),
        ("command = 'npx'\nargs = ['-y', '@playwright/mcp']\nsharing = 'shared'", &[], None),
        ("command = 'uvx'\nargs = ['mcp-server-git']", &[], Some("which works in the directory of its agent")),
        ("command = 'node'\nargs = ['.']\ncwd = '/srv'", &[], None),
        (
            "command = 'docker'\nargs = ['run', '-i', 'x']",
            &[("DOCKER_HOST", "unix:///x")],
            Some("may need `DOCKER_HOST`"),
        ),
        ("command = 'docker'\nargs = ['run', '--rm', 'x']", &[], Some("a container gets no stdin without `-i`")),
        (
            "command = 'docker'\nargs = ['run', '-i', 'x']\npass_env = ['DOCKER_HOST', 'XDG_RUNTIME_DIR']",
            &[("DOCKER_HOST", "unix:///x")],
            None,
        ),
        ("command = 'uvx'\nargs = ['awslabs.x']", &[("AWS_PROFILE", "p")], Some("may need `AWS_PROFILE`")),
        ("command = 'npm'\nargs = ['exec', 'some']", &[], Some("`npx` without `-y`")),
        ("command = 'npx'\nargs = ['--yes', 'some']", &[], None),
    ] {
        let place = Place::new();
        let file = place.write("c.toml", format!("[servers.x]\n{lines}\n"));
        let mut command = place.command(crate::support::MCPD);
        command.args(["check", "--json", file.to_str().expect("text")]).envs(variables.iter().copied());
        let checked = crate::support::run(&mut command).json();
        let found: Vec<_> =
            checked["diagnostics"].as_array().expect("a list").iter().map(|one| one["message"].to_string()).collect();
        let found: Vec<_> = found.iter().filter(|text| !text.contains("is not found")).collect();
        assert_eq!(found.len(), usize::from(expected.is_some()), "{lines}: {found:?}");
        assert!(expected.is_none_or(|text| found[0].contains(text)), "{lines}: {found:?}");
    }
}

/// A server whose command is the runner `npx`, which is silent until the file `permit` exists. It notes each of its steps, and its start.
fn downloaded_server(place: &Place, name: &str, permit: &str) -> Server {
    let path = |name: &str| place.path(name).display().to_string();
    let script = format!(
        "echo $2 >> {starts}; until [ -e {here}/$3 ]; do echo >> {steps}; sleep 0.1; done; exec {SCRIPTED} --bare --tool echo",
        starts = path("starts"),
        here = path("."),
        steps = path("steps")
    );
    let npx = program(place, "npx", &script);
    Server::run_by(name, npx).arg("-y").arg(name).arg(permit).line("handshake_timeout = \"200ms\"")
}

fn read_starts(place: &Place) -> Vec<String> {
    fs::read_to_string(place.path("starts")).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn wait_steps(place: &Place, count: u64) {
    let steps = || fs::metadata(place.path("steps")).map_or(0, |file| file.len());
    let end = steps() + count;
    until("the runner goes on", || (steps() >= end).then_some(()));
}

fn wait_started(place: &Place, names: &[&str]) {
    until("they have been started", || (read_starts(place) == names).then_some(()));
}

fn expect_served(daemon: &Daemon, name: &str) {
    let row = daemon.wait_row(name, "is ready", |row| row["state"] == "ready");
    assert_eq!(row["restarts"], 0, "{row}\n{}", daemon.log());
}

/// Case A23.
#[test]
fn runner_that_is_silent_in_its_download_is_not_ended_at_the_handshake_limit() {
    let place = Place::new();
    let daemon = Setup::with(downloaded_server(&place, "a", "permit")).spawn_in(&place);
    // Thirty times the limit.
    wait_steps(&place, 60);
    place.write("permit", "");
    expect_served(&daemon, "a");
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
}

/// Case A23.
#[test]
fn downloads_of_one_runner_follow_each_other_and_a_called_server_is_first() {
    let place = Place::new();
    let servers = ["a", "b", "c"].map(|name| downloaded_server(&place, name, &format!("permit-{name}")));
    let setup = servers.into_iter().fold(Setup::with(Server::named("other").flags("--bare --tool x")), Setup::server);
    let daemon = setup.spawn_in(&place);
    // Any of them may be the first.
    let first = until("one has been started", || read_starts(&place).pop());
    expect_served(&daemon, "other");
    let mut others = vec!["a", "b", "c"];
    others.retain(|name| *name != first);
    let (next, last) = (others[1], others[0]);
    let mut agent = Agent::ready(&daemon);
    let call = agent.start_call(&format!("{next}__echo"), &json!({}));
    wait_steps(&place, 10);
    assert_eq!(read_starts(&place), [&*first]);
    for (name, expected) in
        [(&*first, &[&*first, next][..]), (next, &[&first, next, last]), (last, &[&first, next, last])]
    {
        place.write(&format!("permit-{name}"), "");
        wait_started(&place, expected);
    }
    ["a", "b", "c"].iter().for_each(|name| expect_served(&daemon, name));
    agent.answer(&call);
    agent.disconnect();
}

/// Case A23.
#[test]
fn incomplete_download_is_named_by_doctor() {
    let place = Place::new();
    let cache = place.path("home/.npm/_npx/0a1b").display().to_string();
    let failing = format!(
        "echo \"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from {cache}/node_modules/x/i.js\" >&2; exit 1"
    );
    let daemon = Setup::with(Server::run_by("a", program(&place, "npx", &failing)).arg("-y").arg("x")).spawn_in(&place);
    daemon.wait_row("a", "has failed", |row| row["state"] == "backoff");
    let ran = daemon.client(&["doctor", "a"]);
    assert!(ran.stdout.contains(&format!("its download in {cache} seems to be incomplete")), "{ran}");
    assert!(ran.stdout.contains(&format!("rm -r {cache}")), "{ran}");
}

/// Case A23.
#[test]
fn causes_that_a_server_reports_are_explained_by_doctor() {
    for (line, explained) in [
        ("Ok to proceed? (y) ", "asks before it installs a package, and nobody answers"),
        ("setuid_sandbox_host.cc: The SUID sandbox helper binary was found", "gains privileges"),
        ("sudo: The \"no new privileges\" flag is set", "gains privileges"),
        ("docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "pass_env = [\"DOCKER_HOST\""),
    ] {
        let place = Place::new();
        // The line does not end, and the server goes on.
        let asking = format!("printf '%s' '{line}' >&2; exec sleep 300");
        let server = Server::run_by("a", program(&place, "server", &asking)).line("handshake_timeout = \"2s\"");
        let daemon = Setup::with(server).spawn_in(&place);
        let explains = || Some(daemon.client(&["doctor", "a"])).filter(|ran| ran.stdout.contains(explained));
        let ran = until("doctor explains it", explains);
        assert!(ran.stdout.contains(&format!("| {}", line.trim_end())), "{ran}");
    }
}
