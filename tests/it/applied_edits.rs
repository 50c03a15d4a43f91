//! `mcpd add`, `remove` and `import` apply to the running daemon, and say what agents see now.

use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Agent, Daemon, MCPD, Place, Ran, SCRIPTED, Server, Setup, poll, quoted, signal, until};

/// A daemon of the default files, with a server `first`.
fn start_by_default_files(head: &str) -> (Daemon, Rc<Place>) {
    let place = Place::new();
    place.write_user_config(format!("{head}{}", Server::named("first").toml(&place)));
    (Setup::new().without_config().start_in(&place), place)
}

/// Runs a client of the daemon whose last words belong to a server's command.
fn operate(place: &Place, args: &[&str]) -> Ran {
    let directory = place.runtime_dir();
    place.mcpd(&[&["--runtime-dir", directory.to_str().expect("text")], args].concat())
}

/// Adds a scripted server with three tools.
fn add(place: &Place, options: &[&str], name: &str) -> Ran {
    let command = ["--", SCRIPTED, "--bare", "--tool", "one", "--tool", "two", "--tool", "three", "--tool", "four"];
    operate(place, &[&["add"], options, &[name], &command].concat())
}

/// What `add` proposes for the program.
const PROPOSED: &str = "note: `--yes` writes `sandbox = \"files\"`, so that x reaches only the files it needs\n";

#[test]
fn added_server_is_started_at_once_and_its_tools_are_named() {
    let (daemon, place) = start_by_default_files("");
    let (mut agent, before) = (Agent::ready(&daemon), daemon.server_pid("first"));
    agent.tools();
    let ran = add(&place, &[], "x").expect_code(0);
    assert!(
        ran.stdout.ends_with("added        x\nx: agents see 4 tools: x__one, x__two, x__three and 1 more\n"),
        "{ran}"
    );
    assert_eq!(ran.stderr, PROPOSED);
    agent.expect_notification("notifications/tools/list_changed");
    assert!(agent.tools().contains(&"x__four".to_owned()));
    assert_eq!(daemon.server_pid("first"), before);
    let ran = place.client(&["remove", "x"]).expect_code(0);
    assert_eq!(ran.stdout, format!("removed x from {}\n", place.user_config().display()));
    agent.expect_notification("notifications/tools/list_changed");
    assert!(agent.tools().iter().all(|tool| tool.starts_with("first__")));
}

#[test]
fn servers_without_visible_tools_say_why() {
    let (_daemon, place) = start_by_default_files("[defaults]\ndeny = [\"*\"]\n");
    let ran = add(&place, &[], "x").expect_code(0);
    assert!(ran.stdout.ends_with("x: agents see none of its 4 tools: `mcpd tools x --all` shows why\n"), "{ran}");
}

#[test]
fn json_of_add_has_the_result_of_the_reload() {
    let (_daemon, place) = start_by_default_files("");
    let ran = add(&place, &["--json"], "x").expect_code(0);
    let objects: Vec<serde_json::Value> =
        serde_json::Deserializer::from_str(&ran.stdout).into_iter().map(|value| value.expect("JSON")).collect();
    let [added, reload] = &objects[..] else { panic!("{ran}") };
    assert_eq!((&added["name"], &reload["added"]), (&json!("x"), &json!(["x"])));
    assert_eq!(reload["tools"], json!({"x": ["x__one", "x__two", "x__three", "x__four"]}));
    let ran = place.client(&["remove", "x", "--json", "--no-reload"]).expect_code(0);
    assert_eq!(ran.json()["name"], "x");
}

#[test]
fn server_that_does_not_start_stays_in_the_file_and_fails_the_command() {
    let (daemon, place) = start_by_default_files("");
    let ran = operate(&place, &["add", "lost", "--", "no-such-server"]).expect_code(1);
    assert!(ran.stdout.contains("not started  lost: command `no-such-server` not found"), "{ran}");
    assert!(ran.stdout.contains("    → mcpd doctor lost\n"), "{ran}");
    assert_eq!(ran.to_string().matches("searched").count(), 1, "PATH is printed once: {ran}");
    let stays = format!("mcpd: lost stays in {}: `mcpd edit` corrects it", place.user_config().display());
    assert!(ran.stderr.contains(&stays), "{ran}");
    let ran = operate(&place, &["add", "sick", "--", SCRIPTED, "--exit-at-start", "3"]).expect_code(1);
    assert!(ran.stdout.contains("not started  sick: "), "{ran}");
    assert!(fs::read_to_string(place.user_config()).expect("text").contains("[servers.sick]"));
    place.client(&["remove", "lost", "sick"]).expect_code(0);
    assert_eq!(daemon.status()["servers"].as_array().map(Vec::len), Some(1));
}

#[test]
fn without_a_daemon_the_commands_say_what_applies_the_change() {
    let place = Place::new();
    let next =
        "mcpd: no daemon runs: `mcpd start` applies the change, and so does the next client that runs `mcpd connect`\n";
    let other = "mcpd: no daemon runs: `mcpd serve --config other.toml` applies the change\n";
    place.write("client.json", r#"{"mcpServers": {"c": {"command": "false"}}}"#);
    let default = place.user_config().display().to_string();
    for (args, expected) in [
        (&["add", "x", "--", "true"][..], next),
        (&["remove", "x"], next),
        (&["add", "--config", &default, "x", "--", "true"], next),
        (&["add", "--config", "other.toml", "x", "--", "true"], other),
        (&["import", "--yes", "--from", "client.json", "--config", "other.toml"], other),
        (&["import", "--yes", "--from", "client.json"], next),
    ] {
        let ran = place.mcpd(args).expect_code(0);
        assert!(ran.stderr.ends_with(expected), "{args:?}: {ran}");
    }
}

#[test]
fn daemon_with_another_configuration_is_not_reloaded() {
    let place = Place::new();
    let file = place.write("mine.toml", Server::named("first").toml(&place));
    let daemon = Setup::new().config(file.clone()).start_in(&place);
    let ran = add(&place, &[], "x").expect_code(0);
    let note = format!(
        "{PROPOSED}mcpd: the running daemon does not read {}, so it is not reloaded; it reads {}\n",
        place.user_config().display(),
        file.display()
    );
    assert_eq!(ran.stderr, note);
    assert!(!daemon.log().contains("reloaded"), "{}", daemon.log());
    let ran = add(&place, &["--config", "mine.toml"], "x").expect_code(0);
    assert!(ran.stdout.contains("x: agents see 4 tools"), "{ran}");
}

#[test]
fn broken_configuration_is_refused_and_nothing_changes() {
    let (daemon, place) = start_by_default_files("");
    for broken in ["[servers.x\n", "[servers.x]\ncomand = 'y'\n"] {
        place.write("xdg-config/mcpd/config.toml", broken);
        add(&place, &[], "y").expect_code(2);
        place.client(&["disable", "first", "--keep"]).expect_code(2);
        assert_eq!(fs::read_to_string(place.user_config()).expect("text"), broken);
    }
    assert!(!daemon.log().contains("reloaded"), "{}", daemon.log());
}

#[test]
fn imported_servers_are_started_and_a_preview_applies_nothing() {
    let (daemon, place) = start_by_default_files("");
    let client = json!({"mcpServers": {
        "a": {"command": SCRIPTED, "args": ["--bare", "--tool", "one"]},
        "b": {"command": "no-such-program"},
    }});
    let client = place.write("client.json", client.to_string()).display().to_string();
    let dry = place.client(&["import", "--from", &client, "--dry-run"]).expect_code(0);
    assert!(dry.stderr.ends_with("mcpd: nothing is written\n"), "{dry}");
    let written = place.client(&["import", "--from", &client, "--yes", "--no-reload"]).expect_code(0);
    assert!(
        written.stderr.ends_with("mcpd: run `mcpd reload` to apply the change to the running daemon\n"),
        "{written}"
    );
    assert!(!daemon.log().contains("reloaded"), "{}", daemon.log());
    place.client(&["remove", "a", "b", "--no-reload"]).expect_code(0);
    let ran = place.client(&["import", "--from", &client, "--yes"]).expect_code(1);
    assert!(ran.stdout.contains("added        a\nnot started  b: "), "{ran}");
    assert!(ran.stdout.ends_with("a: agents see 1 tool: a__one\n"), "{ran}");
}

/// Waits for the reload of a watching daemon, which must not come.
#[test]
fn watching_daemon_reloads_an_edit_once() {
    let (daemon, place) = start_by_default_files("[daemon]\nwatch = true\n");
    add(&place, &[], "x").expect_code(0);
    let reloads = || daemon.log().matches("reloaded: ").count();
    poll(Duration::from_secs(1), || (reloads() > 1).then_some(()));
    assert_eq!(reloads(), 1, "{}", daemon.log());
    fs::write(place.user_config(), format!("[daemon]\nwatch = true\n[servers.z]\ncommand = {}\n", quoted(SCRIPTED)))
        .expect("the test's own");
    daemon.wait_status("runs z", |status| {
        status["servers"][0]["name"] == "z" && status["servers"][0]["state"] == "ready"
    });
}

#[test]
fn interrupt_while_a_change_is_applied_says_what_stays() {
    let (_daemon, place) = start_by_default_files("");
    let directory = place.runtime_dir();
    let mut command = place.command(MCPD);
    command.args(["--runtime-dir", directory.to_str().expect("text"), "add", "slow", "--", SCRIPTED, "--init-never"]);
    let journal = place.path("slow.journal");
    let mut client = command.arg("--journal").arg(&journal).stderr(Stdio::piped()).spawn().expect("a client");
    until("the server is being started", || journal.exists().then_some(()));
    signal(client.id(), Signal::INT);
    let mut printed = String::new();
    client.stderr.take().expect("a pipe").read_to_string(&mut printed).expect("text");
    assert_eq!(client.wait().expect("it has ended").code(), Some(130), "{printed}");
    let stays =
        format!("mcpd: the change stays in {}, and the daemon goes on applying it", place.user_config().display());
    assert!(printed.contains(&stays), "{printed}");
}
