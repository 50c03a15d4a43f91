//! How `mcpd status` and `mcpd reload` present many broken servers and configurations that changed on disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::{Daemon, Place, Server, Setup, Terminal, until};

/// A daemon with ten servers whose commands are not there, beside one that runs.
fn with_ten_broken() -> Daemon {
    let broken = (0..10).map(|number| Server::run_by(&format!("broken{number}"), format!("no-such-program-{number}")));
    broken.fold(Setup::with(Server::named("well")), Setup::server).start()
}

#[test]
fn ten_broken_servers_fit_on_a_small_terminal_with_one_line_each() {
    let daemon = with_ten_broken();
    let Some(terminal) = Terminal::open(daemon.place(), 80, 24) else { return };
    terminal.line("clear; m status --watch");
    let screen = terminal.wait("q quits");
    for number in 0..10 {
        let expected = format!(" broken{number}: command `no-such-program-{number}` not found");
        assert_eq!(screen.lines().filter(|line| line.contains(&format!("broken{number}"))).count(), 1, "{screen}");
        assert!(screen.contains(&expected), "no {expected}: {screen}");
    }
    assert_eq!(screen.matches("searched for commands:").count(), 1, "{screen}");
    assert!(screen.contains("→ mcpd doctor") && screen.contains("well "), "{screen}");
}

#[test]
fn path_that_was_searched_is_printed_once_for_all_servers() {
    let daemon = with_ten_broken();
    let ran = daemon.client(&["status"]).expect_code(1);
    assert_eq!(ran.stdout.matches("not found").count(), 10, "{ran}");
    assert_eq!(ran.stdout.matches("searched for commands: ").count(), 1, "{ran}");
}

#[test]
fn reload_reports_what_it_broke_and_names_what_was_down_before() {
    let mut daemon = with_ten_broken();
    let ran = daemon.client(&["reload"]).expect_code(0);
    assert!(ran.stdout.starts_with("kept         well\nstill down   broken0, broken1, "), "{ran}");
    assert_eq!(ran.stdout.lines().count(), 2, "{ran}");
    let file = daemon.place().path("config.toml");
    let text = fs::read_to_string(&file).expect("text");
    daemon
        .place()
        .write("config.toml", text + "[servers.new]\ncommand = 'none-at-all'\n[servers.new2]\ncommand = 'none'\n");
    let ran = daemon.client(&["reload"]).expect_code(1);
    assert!(ran.stdout.contains("\nnot started  new: command `none-at-all` not found\n"), "{ran}");
    assert_eq!(ran.stdout.matches("searched for commands: ").count(), 1, "{ran}");
    assert!(ran.stdout.contains("\nstill down   broken0, ") && !ran.stdout.contains("no-such-program"), "{ran}");
    let shown = daemon.client(&["reload", "--json"]).expect_code(0).json();
    assert_eq!(shown["still_down"].as_array().map(Vec::len), Some(12), "{shown}");
    daemon.term();
}

#[test]
fn status_names_the_file_that_differs_from_what_runs_until_the_reload() {
    let daemon = Server::named("s").start();
    let file = daemon.place().path("config.toml");
    let text = fs::read_to_string(&file).expect("text");
    let expected = format!("! {} has changed since mcpd read the configuration\n    → mcpd reload\n", file.display());
    let has_changed = |daemon: &Daemon| daemon.client(&["status"]).expect_code(0).stdout.contains(&expected);
    assert!(!has_changed(&daemon));
    // Another file of the same text, as an editor writes it, is no change.
    daemon.place().write("config.toml", &text);
    assert!(!has_changed(&daemon));
    daemon.place().write("config.toml", text.clone() + "# more\n");
    assert!(has_changed(&daemon), "{}", daemon.client(&["status"]));
    let report = daemon.client(&["status", "--json"]).expect_code(0).json();
    assert_eq!(report["files_changed"], json!([file.display().to_string()]));
    let check = || daemon.client(&["check", file.to_str().expect("text")]).expect_code(0).stderr;
    assert!(check().contains("run `mcpd reload` to apply it"), "{}", check());
    daemon.client(&["reload"]).expect_code(0);
    assert!(!has_changed(&daemon) && !check().contains("reload"), "{}", check());
    fs::remove_file(&file).expect("it is there");
    assert!(has_changed(&daemon));
}

#[test]
fn default_file_that_was_not_there_is_seen_as_well() {
    let place = Place::new();
    let daemon = Setup::new().without_config().start_in(&place);
    let directory = place.path("xdg-config/mcpd/config.d");
    let is_seen = |name: &str| {
        let shown = daemon.client(&["status"]).expect_code(0).stdout;
        shown.contains("changed since mcpd read") && shown.contains(name)
    };
    assert!(!daemon.client(&["status"]).expect_code(0).stdout.contains("changed since"));
    fs::create_dir_all(&directory).expect("a fresh directory");
    place.write("xdg-config/mcpd/config.toml", "");
    assert!(is_seen("config.toml"));
    daemon.client(&["reload"]).expect_code(0);
    assert!(!is_seen("config.toml"));
    place.write("xdg-config/mcpd/config.d/a.toml", "");
    assert!(is_seen("config.d"));
}

#[test]
fn status_of_a_refused_configuration_names_the_file_that_has_changed_since() {
    let daemon = Server::named("s").start();
    let file = daemon.place().path("config.toml");
    let text = fs::read_to_string(&file).expect("text");
    let status = || daemon.client(&["status"]).expect_code(0).stdout;
    let refused = || daemon.client(&["status", "--json"]).expect_code(0).json()["reload_refused"].clone();
    let doctor = || daemon.client(&["doctor"]).stdout;
    daemon.place().write("config.toml", format!("[deamon]\n{text}"));
    daemon.client(&["reload"]).expect_code(2);
    let shown = status();
    assert!(shown.contains("unknown key `deamon`") && shown.contains("    → mcpd check\n"), "{shown}");
    let report = refused();
    assert_eq!(report["files"][0]["path"], json!(file), "{report}");
    assert!(report["files"][0]["sha256"].is_string() && report.get("files_changed").is_none(), "{report}");

    daemon.place().write("config.toml", format!("{text}# mended\n"));
    let shown = status();
    let expected = format!("; {} has changed since then\n    → mcpd reload\n", file.display());
    assert!(shown.contains("! the configuration was rejected at ") && shown.contains(&expected), "{shown}");
    assert!(!shown.contains("mcpd check") && !shown.contains("deamon"), "{shown}");
    assert_eq!(refused()["files_changed"], json!([file]));
    let found = doctor();
    assert!(found.contains(&format!("; {} has changed since then\n", file.display())), "{found}");
    assert!(!found.contains("mcpd check"), "{found}");
    daemon.client(&["reload"]).expect_code(0);
    assert!(refused().is_null());
    assert!(!status().contains("since"), "{}", status());
}

#[test]
fn status_of_a_configuration_refused_for_its_mode_changes_with_the_mode() {
    let daemon = Server::named("s").start();
    let file = daemon.place().path("config.toml");
    let set_mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("the test's own");
    set_mode(0o666);
    daemon.client(&["reload"]).expect_code(2);
    let shown = daemon.client(&["status"]).expect_code(0).stdout;
    assert!(shown.contains("everybody may write to it") && shown.contains("→ mcpd check\n"), "{shown}");
    set_mode(0o644);
    let shown = daemon.client(&["status"]).expect_code(0).stdout;
    assert!(shown.contains("has changed since then\n    → mcpd reload\n"), "{shown}");
    daemon.client(&["reload"]).expect_code(0);
}

#[test]
fn restart_notes_that_it_does_not_apply_a_changed_file() {
    let daemon = Server::named("s").start();
    let file = daemon.place().path("config.toml");
    let ran = daemon.client(&["restart", "s"]).expect_code(0);
    assert!(ran.stderr.is_empty(), "{ran}");
    let text = fs::read_to_string(&file).expect("text");
    daemon.place().write("config.toml", text + "# more\n");
    let ran = daemon.client(&["restart", "s"]).expect_code(0);
    let note =
        format!("note: {} has changed since mcpd read the configuration; `mcpd reload` applies it\n", file.display());
    assert_eq!((ran.stdout.as_str(), &ran.stderr), ("s: ready\n", &note), "{ran}");
}

#[test]
fn searched_path_is_printed_separately_from_the_servers() {
    let daemon = with_ten_broken();
    let ran = daemon.client(&["status"]).expect_code(1);
    assert!(ran.stdout.contains("\nPATH of the daemon, searched for commands: "), "{ran}");
}

#[test]
fn status_shows_stderr_of_the_last_process() {
    let daemon = Server::named("bad").flags("--exit-at-start 3").start();
    let row = daemon.wait_row("bad", "has been tried again", |row| row["restarts"].as_u64() >= Some(2));
    assert_eq!(row["stderr"], json!(["cannot start: exit code 3"]), "{row}");
    let shown = until("status looks while it waits", || {
        let shown = daemon.client(&["status"]).stdout;
        shown.contains("✗ bad: exited with code 3").then_some(shown)
    });
    assert_eq!(shown.matches("    cannot start").count(), 1, "{shown}");
    let found = daemon.client(&["doctor"]).expect_code(1).stdout;
    assert_eq!(found.matches("| cannot start").count(), 1, "{found}");
}
