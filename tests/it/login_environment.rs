//! The unit gets the login environment by `mcpd service install` and `mcpd reload --environment`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::support::{Place, SCRIPTED, Server, Setup, TAG, UserManager};

const FILE: &str = "service.env";
/// Everything that the syntax of the file gives a meaning.
const ODD: &str = "a \"b\" $c ${d} \\e \\\\ `f` ; # = ' %h\n  next\tline \\";
const PROXY: &str = "http://me:hunter2-word@proxy.example:3128";

/// A user with these variables in the files of the login shell.
fn user(setup: &Setup, variables: &[(&str, &str)]) -> Option<UserManager> {
    let manager = UserManager::bare(setup)?;
    log_in_with(&manager, variables);
    Some(manager)
}

fn log_in_with(manager: &UserManager, variables: &[(&str, &str)]) {
    // Whatever the shell's files start is the test's, too.
    let profile = format!("export {TAG}={}\n", manager.place().tag());
    let profile = variables.iter().fold(profile, |profile, (name, value)| {
        profile + &format!("export {name}='{}'\n", value.replace('\'', "'\\''"))
    });
    manager.place().write("home/.bash_profile", profile);
}

/// What a server has in its environment.
fn environment_of(manager: &UserManager, server: &str) -> Value {
    let answer = manager.mcpd(&["call", &format!("{server}__env"), "--json"]).expect_code(0).json();
    answer["structuredContent"].clone()
}

fn file(manager: &UserManager) -> Option<std::path::PathBuf> {
    let place = manager.place();
    let candidates = [format!("xdg-state/mcpd/{FILE}"), format!("home/.local/state/mcpd/{FILE}")];
    candidates.iter().map(|name| place.path(name)).find(|path| path.exists())
}

#[test]
fn servers_of_an_installed_unit_have_the_login_environment_and_no_secret_is_shown() {
    let server = Server::named("a").env("OWN", "${TOKEN}").line(r#"pass_env = ["PASSED"]"#);
    let variables =
        [("TOKEN", ODD), ("PASSED", "passed-secret"), ("HTTPS_PROXY", PROXY), ("UNRELATED", "unrelated-value")];
    let Some(manager) = user(&Setup::with(server), &variables) else { return };
    let ran = manager.mcpd(&["service", "install", "--dry-run"]).expect_code(0);
    assert!(ran.stdout.contains("TOKEN") && file(&manager).is_none(), "{ran}");
    let ran = manager.mcpd(&["service", "install"]).expect_code(0);
    for name in ["TOKEN", "PASSED", "HTTPS_PROXY", FILE] {
        assert!(ran.stdout.contains(name), "{name}: {ran}");
    }
    let environment = environment_of(&manager, "a");
    assert_eq!(
        [&environment["OWN"], &environment["PASSED"], &environment["HTTPS_PROXY"]],
        [ODD, "passed-secret", PROXY]
    );
    let file = file(&manager).expect("it was written");
    assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&file).expect("text").contains("unrelated-value"));

    let shown =
        manager.systemctl(&["show", "mcpd.service"]).stdout + &manager.systemctl(&["cat", "mcpd.service"]).stdout;
    let text = [shown, ran.stdout, manager.log(), manager.mcpd(&["status", "--json"]).stdout].concat();
    for secret in ["passed-secret", "hunter2-word", "next\tline"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    manager.mcpd(&["service", "uninstall"]).expect_code(0);
    assert!(!file.exists());
}

#[test]
fn reload_of_the_environment_replaces_servers_with_other_values_only() {
    let setup = Setup::with(Server::named("a").env("OWN", "${TOKEN}")).server(Server::named("b"));
    let Some(manager) = user(&setup, &[("TOKEN", "first")]) else { return };
    manager.mcpd(&["service", "install"]).expect_code(0);
    assert_eq!(environment_of(&manager, "a")["OWN"], "first");
    let pid = |name: &str| manager.wait_row(name, "runs", |row| row["pid"].is_u64())["pid"].clone();
    let (daemon, other) = (manager.property("MainPID"), pid("b"));

    log_in_with(&manager, &[("TOKEN", ODD)]);
    let ran = manager.mcpd(&["reload"]).expect_code(0);
    assert!(ran.stdout.contains("kept         a, b"), "{ran}");
    let ran = manager.mcpd(&["service", "status"]).expect_code(1);
    assert!(ran.stdout.contains("other values for TOKEN: run `mcpd reload --environment`"), "{ran}");
    let ran = manager.mcpd(&["reload", "--environment"]).expect_code(0);
    for text in ["TOKEN", "kept         b\n", "changed      a\n"] {
        assert!(ran.stdout.contains(text), "{text}: {ran}");
    }
    assert!(!ran.stdout.contains("next"), "{ran}");
    assert_eq!(environment_of(&manager, "a")["OWN"], ODD);
    assert_eq!((manager.property("MainPID"), pid("b")), (daemon, other));
    manager.mcpd(&["service", "status"]).expect_code(0);

    manager.systemctl(&["restart", "mcpd.service"]).expect_code(0);
    assert_eq!(environment_of(&manager, "a")["OWN"], ODD);

    // A configuration that is not valid changes nothing.
    let config = manager.place().path("config.toml");
    let text = fs::read_to_string(&config).expect("text");
    log_in_with(&manager, &[("TOKEN", "third")]);
    fs::write(&config, "[deamon]\n").expect("the test's own");
    manager.mcpd(&["reload", "--environment"]).expect_code(2);
    fs::write(&config, text).expect("the test's own");
    manager.mcpd(&["reload"]).expect_code(0);
    assert_eq!(environment_of(&manager, "a")["OWN"], ODD);
}

#[test]
fn doctor_names_variables_that_only_the_login_environment_has() {
    let server = Server::named("a").env("OWN", "${LATER:-none}");
    let Some(manager) = user(&Setup::with(server), &[]) else { return };
    let ran = manager.mcpd(&["service", "install"]).expect_code(0);
    assert!(ran.stdout.contains("lacks") && ran.stdout.contains("LATER"), "{ran}");
    log_in_with(&manager, &[("LATER", "late-secret")]);
    let ran = manager.mcpd(&["doctor"]);
    let finding = "the login environment has LATER";
    assert!(ran.stdout.contains(finding) && ran.stdout.contains("`mcpd reload --environment`"), "{ran}");
    assert!(!ran.stdout.contains("late-secret"), "{ran}");
    manager.mcpd(&["reload", "--environment"]).expect_code(0);
    let ran = manager.mcpd(&["doctor"]);
    assert!(!ran.stdout.contains(finding), "{ran}");
    assert_eq!(environment_of(&manager, "a")["OWN"], "late-secret");
}

#[test]
fn doctor_has_the_unit_reload_the_environment_for_a_command_on_the_login_path() {
    let setup = Setup::with(Server::run_by("late", "late-server"));
    let Some(manager) = user(&setup, &[]) else { return };
    manager.mcpd(&["service", "install"]);
    // Below the home directory, since what is in a directory for temporary files does not last.
    let tools = manager.place().path("home/tools");
    fs::create_dir(&tools).expect("a fresh directory");
    symlink(SCRIPTED, tools.join("late-server")).expect("a fresh path");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").expect("PATH is set"));
    log_in_with(&manager, &[("PATH", &path)]);
    let ran = manager.mcpd(&["doctor", "--json"]).expect_code(1);
    let findings = ran.json()["findings"].clone();
    let is_meant = |one: &&Value| one["group"] == "servers" && one["about"] == "late";
    let finding = findings.as_array().expect("a list").iter().find(is_meant).expect("it is not found");
    let advice = finding["advice"].as_str().expect("text");
    assert!(advice.contains("outside the daemon's PATH: `mcpd reload --environment`; or write"), "{ran}");
    manager.mcpd(&["reload", "--environment"]).expect_code(0);
    manager.wait_row("late", "is ready", |row| row["state"] == "ready");
}

#[test]
fn environment_of_a_daemon_without_a_unit_is_left_alone() {
    let place = Place::new();
    let ran = place.mcpd(&["reload", "--environment"]).expect_code(1);
    assert!(ran.stderr.contains("mcpd service install"), "{ran}");
    assert!(!place.path("home/.local/state/mcpd").join(FILE).exists());
}
