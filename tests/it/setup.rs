//! `mcpd setup` imports, serves and links in one go, and `--undo` gives everything back.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::link::call_through;
use crate::support::{
    MCPD, Place, Ran, Server, Setup, TAG, Terminal, UserManager, client_file, client_files, expect_same, mcpd_at_home,
    run, tree, until,
};

fn mcpd(place: &Place, args: &[&str]) -> Ran {
    run(&mut mcpd_at_home(place, args))
}

/// Case G9.
#[test]
fn clients_of_a_fresh_home_call_tools_after_setup_and_everything_is_given_back() {
    let place = Place::new();
    client_files().iter().for_each(|file| drop(file.put(&place)));
    let (home, session) = (place.path("home"), place.path("xdg-run"));
    let before = (tree(&home), tree(&session));

    let ran = mcpd(&place, &["setup", "--yes"]).expect_code(0);
    assert!(ran.stderr.contains("12 clients") || ran.stderr.matches(" is linked: ").count() == 12, "{ran}");
    assert!(ran.stderr.trim_end().lines().last().expect("a line").starts_with("next: "), "{ran}");
    for file in client_files() {
        let answer = call_through(&place, &mut file.entry(&place).command(&place), "notes__echo");
        assert!(answer.contains("it works"), "{}: {answer}", file.word);
        let text = fs::read_to_string(file.at(&place)).expect("text");
        assert!(!text.contains("demo-server"), "{}: {text}", file.word);
    }

    let ran = mcpd(&place, &["setup", "--undo", "--yes"]).expect_code(0);
    fs::remove_file(place.path("input.jsonl")).expect("the test's own");
    expect_same(&before.0, &tree(&home));
    expect_same(&before.1, &tree(&session));
    assert!(place.processes(None).is_empty(), "{ran}");
    let ran = mcpd(&place, &["setup", "--undo", "--yes"]).expect_code(0);
    assert!(ran.stderr.contains("nothing to undo"), "{ran}");
}

#[test]
fn second_setup_changes_nothing() {
    let place = Place::new();
    for word in ["cursor", "codex"] {
        client_file(word).put(&place);
    }
    mcpd(&place, &["setup", "--yes"]).expect_code(0);
    let pid = mcpd(&place, &["status", "--json"]).json()["pid"].clone();
    // What the daemon writes is not setup's.
    let of_setup = |place: &Place| {
        let mut tree = tree(&place.path("home"));
        tree.retain(|path, _| path.ends_with("setup.json") || !path.starts_with(place.path("home/.local")));
        tree.retain(|path, _| !path.starts_with(place.path("home/.cache")));
        tree
    };
    let first = of_setup(&place);
    let ran = mcpd(&place, &["setup", "--yes", "--json"]).expect_code(0);
    let report = ran.json();
    assert_eq!((&report["import"]["written"], &report["daemon"]), (&json!(false), &json!("running")), "{ran}");
    assert!(report["clients"].as_array().expect("a list").iter().all(|file| file["outcome"] == "unchanged"), "{ran}");
    expect_same(&first, &of_setup(&place));
    assert_eq!(mcpd(&place, &["status", "--json"]).json()["pid"], pid);
    mcpd(&place, &["setup", "--undo", "--yes"]).expect_code(0);
}

#[test]
fn dry_run_of_setup_shows_every_step_and_writes_nothing() {
    let place = Place::new();
    client_files().iter().for_each(|file| drop(file.put(&place)));
    let before = tree(&place.path("home"));
    let ran = mcpd(&place, &["setup", "--dry-run"]).expect_code(0);
    assert!(ran.stdout.contains("+[servers.notes]") && ran.stderr.contains("starts the daemon"), "{ran}");
    // The servers that would be imported would be taken over.
    assert!(ran.stdout.matches("\n--- ").count() == 12 && ran.stdout.contains("-    \"notes\""), "{ran}");
    expect_same(&before, &tree(&place.path("home")));
}

#[test]
fn undo_keeps_a_configuration_that_was_there_and_one_that_has_changed() {
    let place = Place::new();
    client_file("cursor").put(&place);
    fs::create_dir_all(place.path("home/.config/mcpd")).expect("a fresh home");
    let own = "# Mine.\n[servers.own]\ncommand = 'true'\nstart = 'lazy'\n";
    let config = place.write("home/.config/mcpd/config.toml", own);
    let before = tree(&place.path("home"));
    mcpd(&place, &["setup", "--yes"]).expect_code(0);
    assert!(fs::read_to_string(&config).expect("text").contains("[servers.notes]"));
    mcpd(&place, &["setup", "--undo", "--yes"]).expect_code(0);
    expect_same(&before, &tree(&place.path("home")));

    mcpd(&place, &["setup", "--yes"]).expect_code(0);
    let edited = fs::read_to_string(&config).expect("text") + "# Edited.\n";
    fs::write(&config, &edited).expect("one's own file");
    let ran = mcpd(&place, &["setup", "--undo", "--yes"]).expect_code(0);
    assert!(ran.stderr.contains("which has changed since"), "{ran}");
    assert_eq!(fs::read_to_string(&config).expect("text"), edited);
}

#[test]
fn secrets_that_setup_moved_go_with_the_configuration() {
    let place = with_secret();
    let before = tree(&place.path("home"));
    mcpd(&place, &["setup", "--yes"]).expect_code(0);
    let secrets = fs::read_dir(place.path("home/.config/mcpd/secrets")).expect("a directory").count();
    assert_eq!(secrets, 1);
    let text = fs::read_to_string(place.path("home/.cursor/mcp.json")).expect("text");
    assert!(!text.contains("ghp_"), "a server with a secret is taken over, too: {text}");
    mcpd(&place, &["setup", "--undo", "--yes"]).expect_code(0);
    expect_same(&before, &tree(&place.path("home")));
}

/// A home directory whose client has a server with a secret.
fn with_secret() -> std::rc::Rc<Place> {
    let place = Place::new();
    fs::create_dir(place.path("home/.cursor")).expect("a fresh home");
    let server = json!({"command": MCPD, "args": ["demo-server"], "env": {"GITHUB_TOKEN": "ghp_0123456789abcdefghijABCDEFGHIJ012345"}});
    place.write("home/.cursor/mcp.json", json!({"mcpServers": {"notes": server}}).to_string());
    place
}

#[test]
fn secrets_go_from_a_configuration_that_was_there_before() {
    let place = with_secret();
    fs::create_dir_all(place.path("home/.config/mcpd")).expect("a fresh home");
    place.write("home/.config/mcpd/config.toml", "# Mine.\n");
    let before = tree(&place.path("home"));
    mcpd(&place, &["setup", "--yes"]).expect_code(0);
    mcpd(&place, &["setup", "--undo", "--yes"]).expect_code(0);
    expect_same(&before, &tree(&place.path("home")));
}

/// Case G11.
#[test]
fn setup_that_was_interrupted_before_the_configuration_was_written_is_undone() {
    let place = with_secret();
    let before = tree(&place.path("home"));
    mcpd(&place, &["setup", "--yes"]).expect_code(0);
    fs::remove_file(place.path("home/.config/mcpd/config.toml")).expect("a configuration");
    let ran = mcpd(&place, &["setup", "--undo", "--yes"]).expect_code(0);
    assert!(!ran.stderr.contains("has changed since"), "{ran}");
    expect_same(&before, &tree(&place.path("home")));
}

/// Case G11.
#[test]
fn files_of_the_user_beside_the_configuration_stay_wherever_it_is() {
    let place = Place::new();
    client_file("cursor").put(&place);
    let elsewhere = place.path("home/elsewhere");
    let setup = ["setup", "--yes"];
    run(mcpd_at_home(&place, &setup).env("XDG_CONFIG_HOME", &elsewhere)).expect_code(0);
    let mine = place.write("home/elsewhere/mcpd/mine.toml", "# Mine.\n");
    let config = elsewhere.join("mcpd/config.toml");
    let edited = fs::read_to_string(&config).expect("text") + "# Edited.\n";
    fs::write(&config, &edited).expect("one's own file");
    mcpd(&place, &["setup", "--undo", "--yes"]).expect_code(0);
    assert_eq!(fs::read_to_string(&config).expect("text"), edited);
    assert!(mine.exists());
}

#[test]
fn each_step_has_one_question() {
    let place = Place::new();
    for word in ["cursor", "zed"] {
        client_file(word).put(&place);
    }
    let Some(terminal) = Terminal::open(&place, 160, 120) else { return };
    terminal.line("unset XDG_CONFIG_HOME; m setup; echo ended $?");
    terminal.wait("Add 1 server to ");
    terminal.line("y");
    terminal.wait("Start the daemon?");
    terminal.line("y");
    terminal.wait("Link 2 clients?");
    terminal.line("y");
    let screen = terminal.wait("ended 0");
    assert!(screen.contains("Cursor is linked") && screen.contains("Zed is linked"), "{screen}");
    terminal.line("clear; m setup --undo; echo undone $?");
    terminal.wait("Unlink 2 clients?");
    terminal.line("y");
    terminal.wait("Also undo the changes to mcpd's configuration and state?");
    terminal.line("n");
    terminal.wait("undone 0");
    assert!(place.path("home/.config/mcpd/config.toml").exists());
    until("the daemon has ended", || place.processes(None).is_empty().then_some(()));
}

#[test]
fn setup_installs_the_service_where_there_is_systemd_and_undo_removes_it() {
    let Some(manager) = UserManager::bare(&Setup::with(Server::named("plain"))) else { return };
    let place = manager.place();
    place.write("home/.bash_profile", format!("export {TAG}={}\n", place.tag()));
    fs::create_dir(place.path("home/.cursor")).expect("a fresh home");
    let servers = json!({"mcpServers": {"notes": {"command": MCPD, "args": ["demo-server"]}}}).to_string();
    place.write("home/.cursor/mcp.json", &servers);
    let config = place.path("xdg-config/mcpd/config.toml");
    fs::remove_file(&config).expect("a newcomer has none");
    let before = (tree(&place.path("home")), tree(&place.path("xdg-config")));

    let ran = manager.mcpd(&["setup", "--yes", "--json"]).expect_code(0);
    assert_eq!(ran.json()["daemon"], "installed", "{ran}");
    assert_eq!(manager.property("ActiveState"), "active");
    manager.mcpd(&["call", "notes__echo", "text=it works"]).expect_code(0);

    let ran = manager.mcpd(&["setup", "--undo", "--yes", "--json"]).expect_code(0);
    assert_eq!(ran.json()["daemon"], "removed", "{ran}");
    assert_ne!(manager.property("ActiveState"), "active");
    expect_same(&before.0, &tree(&place.path("home")));
    expect_same(&before.1, &tree(&place.path("xdg-config")));
    assert!(!Path::new(&config).exists());
}
