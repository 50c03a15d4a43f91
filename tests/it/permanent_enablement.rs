//! `enabled = false`, and `mcpd enable` and `disable` with `--keep`, which write the configuration.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use serde_json::json;

use crate::reload::changing;
use crate::support::{Agent, Daemon, Place, Server, Setup};

/// A daemon of the default files with these servers.
fn start_by_default_files(servers: &[Server]) -> (Daemon, Rc<Place>) {
    let place = Place::new();
    place.write_user_config(servers.iter().map(|server| server.toml(&place)).collect::<String>());
    (Setup::new().without_config().start_in(&place), place)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("text")
}

fn server_with_two_tools() -> Server {
    Server::named("s").flags("--bare --tool one --tool two")
}

#[test]
fn disabled_server_of_the_configuration_is_not_started() {
    let off = Server::named("off").line("enabled = false");
    let (daemon, place) = changing(&[Server::named("s"), off]);
    let mut agent = Agent::ready(&daemon);
    assert!(agent.tools().iter().all(|tool| tool.starts_with("s__")));
    let row = daemon.row("off");
    assert_eq!((&row["state"], &row["disabled"]), (&json!("disabled"), &json!(true)));
    assert_eq!((&row["disabled_in_configuration"], &row["pid"]), (&json!(true), &json!(null)));
    assert!(!place.path("off.journal").exists(), "it has never run");
    let table = daemon.client(&["status"]).expect_code(0);
    assert!(table.stdout.contains("off: disabled by the configuration (`enabled = false`)\n"), "{table}");
    let ran = daemon.client(&["enable", "off"]).expect_code(0);
    assert_eq!(ran.stdout, "off: ready\n");
    assert_eq!(ran.stderr, "note: until you disable it or the daemon stops; `--keep` makes it permanent\n");
    agent.expect_notification("notifications/tools/list_changed");
    assert!(agent.tools().contains(&"off__echo".to_owned()));
    let table = daemon.client(&["status"]).expect_code(0);
    assert!(
        table.stdout.contains("off: enabled until the daemon stops; the configuration has `enabled = false`"),
        "{table}"
    );
    let before = daemon.server_pid("off");
    daemon.client(&["reload"]).expect_code(0);
    assert_eq!(daemon.server_pid("off"), before, "a reload without a change keeps what the operator said");
    daemon.client(&["disable", "off"]).expect_code(0);
    daemon.wait_row("off", "is stopped as configured", |row| row["pid"].is_null() && row["state"] == "disabled");
    agent.expect_notification("notifications/tools/list_changed");
}

#[test]
fn reload_starts_and_stops_servers_whose_enabled_has_changed() {
    let (daemon, place) = changing(&[Server::named("a"), Server::named("b").line("enabled = false")]);
    let texts = |a: &str, b: &str| {
        let (a, b) = (Server::named("a").line(a).toml(&place), Server::named("b").line(b).toml(&place));
        place.write("changing.toml", a + &b);
        daemon.client(&["reload"])
    };
    let ran = texts("enabled = false", "").expect_code(0);
    assert_eq!(ran.stdout, "changed      a, b\n");
    assert_eq!(daemon.row("b")["state"], "ready");
    daemon.wait_row("a", "is stopped", |row| row["pid"].is_null() && row["state"] == "disabled");
    // What the operator says holds until the configuration says something else.
    daemon.client(&["enable", "a"]).expect_code(0);
    daemon.client(&["disable", "b"]).expect_code(0);
    let before = daemon.server_pid("a");
    assert_eq!(texts("", "").expect_code(0).stdout, "kept         b\nupdated      a (not restarted)\n");
    assert_eq!((daemon.server_pid("a"), &daemon.row("b")["state"]), (before, &json!("disabled")));
    texts("", "enabled = false").expect_code(0);
    assert_eq!(texts("", "").expect_code(0).stdout, "kept         a\nchanged      b\n");
    assert_eq!(daemon.row("b")["state"], "ready");
    texts("enabled = false", "").expect_code(0);
    place.write("changing.toml", Server::named("a").flags("--exit-at-start 3").toml(&place));
    let ran = daemon.client(&["reload"]).expect_code(1);
    assert!(ran.stdout.contains("not started  a: "), "{ran}");
}

#[test]
fn permanent_decision_about_a_server_is_written_and_applied() {
    let (daemon, place) = start_by_default_files(&[Server::named("s"), Server::named("t")]);
    let (before, pid) = (read(&place.user_config()), daemon.server_pid("t"));
    let written = format!("mcpd: written to {}\n", place.user_config().display());
    let ran = daemon.client(&["disable", "s", "--keep"]).expect_code(0);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("s: disabled\n", &*written));
    assert_eq!(read(&place.user_config()).replace("enabled = false\n", ""), before);
    daemon.wait_row("s", "has stopped", |row| row["pid"].is_null() && row["disabled_in_configuration"] == true);
    let ran = daemon.client(&["enable", "s", "--keep"]).expect_code(0);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("s: ready\n", &*written));
    assert_eq!((read(&place.user_config()), daemon.server_pid("t")), (before.clone(), pid));
    let ran = daemon.client(&["enable", "s", "--keep"]).expect_code(0);
    assert_eq!(ran.stderr, format!("mcpd: {} already says so\n", place.user_config().display()));
    // It replaces what was said at run time.
    daemon.client(&["disable", "s"]).expect_code(0);
    let ran = daemon.client(&["enable", "s", "--keep", "--json"]).expect_code(0);
    assert_eq!((&ran.json()["state"], &ran.json()["file"]), (&json!("ready"), &json!(place.user_config())));
    let ran = daemon.client(&["disable", "sss", "--keep"]).expect_code(2);
    assert!(ran.stderr.contains("there is no server `sss`"), "{ran}");
    assert_eq!(read(&place.user_config()), before);
}

#[test]
fn permanent_decision_about_a_tool_is_one_entry_of_deny() {
    let (daemon, place) = start_by_default_files(&[server_with_two_tools().line("deny = [\"x*\"] # mine")]);
    let before = read(&place.user_config());
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    let ran = daemon.client(&["disable", "s__one", "--keep"]).expect_code(0);
    assert_eq!(ran.stdout, "s/one: disabled\n");
    assert!(read(&place.user_config()).contains("deny = [\"x*\", \"one\"] # mine\n"), "{}", read(&place.user_config()));
    agent.expect_notification("notifications/tools/list_changed");
    assert_eq!(agent.tools(), ["s__two"]);
    assert_eq!(daemon.row("s")["tools_disabled"], json!(null), "the configuration alone hides it");
    let ran = daemon.client(&["enable", "s/one", "--keep"]).expect_code(0);
    assert_eq!(ran.stdout, "s/one: enabled\n");
    assert_eq!(read(&place.user_config()), before);
    agent.expect_notification("notifications/tools/list_changed");
    assert_eq!(agent.tools(), ["s__one", "s__two"]);
    for args in [["disable", "s/oen", "--keep"], ["enable", "s/oen", "--keep"]] {
        let ran = daemon.client(&args).expect_code(1);
        assert!(ran.stderr.contains("server `s` offers no tool `oen`: did you mean `one`?"), "{ran}");
    }
    place.write("xdg-config/mcpd/config.toml", server_with_two_tools().line("deny = [\"on?\"]").toml(&place));
    let ran = daemon.client(&["enable", "s/one", "--keep"]).expect_code(0);
    assert_eq!(ran.stderr, "note: agents still do not see it: denied by `on?` of [servers.s]\n");
    agent.expect_notification("notifications/tools/list_changed");
}

#[test]
fn without_a_daemon_the_decision_is_written_to_the_file_that_defines_the_server() {
    let place = Place::new();
    place.write_user_config(
        "# mine\n[servers.a] # a\ncommand = 'true'\n\n[servers.b]\ncommand = 'true'\nenabled = true # why\n",
    );
    fs::create_dir(place.path("xdg-config/mcpd/config.d")).expect("a fresh directory");
    let other = place.write(
        "xdg-config/mcpd/config.d/w.toml",
        "[servers.w]\ncommand = 'true'\n\n[servers.a]\ncall_timeout = '5s'\n",
    );
    let next =
        "mcpd: no daemon runs: `mcpd start` applies the change, and so does the next client that runs `mcpd connect`\n";
    for (args, written) in [
        (["disable", "a"], "[servers.a] # a\ncommand = 'true'\nenabled = false\n\n"),
        (["disable", "b"], "enabled = false # why\n"),
        (["enable", "b"], "enabled = true # why\n"),
        (["enable", "a"], "# mine\n[servers.a] # a\ncommand = 'true'\n\n[servers.b]"),
        (["disable", "a/t*"], "[servers.a] # a\ncommand = 'true'\ndeny = [\"t[*]\"]\n"),
        (["enable", "a/t*"], "# mine\n[servers.a] # a\ncommand = 'true'\n\n[servers.b]"),
    ] {
        let ran = place.mcpd(&[&args[..], &["--keep"]].concat()).expect_code(0);
        let expected = format!("mcpd: written to {}\n{next}", place.user_config().display());
        assert_eq!(ran.stderr, expected);
        assert!(ran.stdout.starts_with(args[1]), "{ran}");
        assert!(read(&place.user_config()).contains(written), "{args:?}: {}", read(&place.user_config()));
    }
    place.mcpd(&["disable", "w", "--keep"]).expect_code(0);
    assert!(read(&other).starts_with("[servers.w]\ncommand = 'true'\nenabled = false\n\n"), "{}", read(&other));
    fs::write(&other, "[servers.a]\nenabled = true\n").expect("the test's own");
    let before = read(&place.user_config());
    let ran = place.mcpd(&["disable", "a", "--keep"]).expect_code(2);
    assert!(ran.stderr.contains(&format!("nothing is written: {}:2 decides about a", other.display())), "{ran}");
    assert_eq!(read(&place.user_config()), before);
    place.mcpd(&["disable", "a"]).expect_code(3);
}

#[test]
fn decision_is_written_to_the_configuration_of_the_running_daemon() {
    let (daemon, place) = changing(&[server_with_two_tools()]);
    daemon.client(&["disable", "s", "--keep"]).expect_code(0);
    assert!(read(&place.path("changing.toml")).contains("enabled = false\n"));
    assert_eq!(daemon.row("s")["state"], "disabled");
    place.write("clients.json", json!({"mcpServers": {"c": {"command": "true"}}}).to_string());
    let ran = place.mcpd(&["disable", "c", "--keep", "--config", "clients.json"]).expect_code(2);
    assert!(ran.stderr.contains("in the format of another client"), "{ran}");
}
