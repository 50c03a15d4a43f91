//! `mcpd doctor --fix`, and advice that works however the daemon was started.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::{complaints, doctor, expect, expect_any, findings};
use crate::support::{Daemon, Place, Ran, SCRIPTED, Server, Setup, TAG, Terminal, skipped, until};

/// Options that make `--fix` ask nothing.
const FIX: [&str; 3] = ["doctor", "--fix", "--yes"];

/// Fixes what the configuration at `place` has, without a daemon and without starting its servers.
fn fix(place: &Place, args: &[&str]) -> Ran {
    let config = place.path("config.toml");
    place.client(&[&FIX[..], &["--no-start", "--config", config.to_str().expect("text")], args].concat())
}

fn text(place: &Place) -> String {
    fs::read_to_string(place.path("config.toml")).expect("text")
}

fn mode(path: PathBuf) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

fn program(place: &Place, name: &str, script: &str) -> PathBuf {
    place.write_program(&format!("tools/{name}"), format!("#!/bin/sh\n{script}\n"))
}

#[test]
fn misspelt_keys_are_corrected_where_one_key_is_meant() {
    let place = Place::new();
    let before = "# mine\n[servers.a]\ncommand = \"cat\" # first\ndney = [] # none\ncal_timeout = \"5s\"\n\
                  [servers.b]\ncommand = \"cat\"\nxyz = 1\ndeny = []\ndeyn = []\n";
    place.write("mine.toml", before);
    symlink("mine.toml", place.path("config.toml")).expect("a fresh path");
    let ran = fix(&place, &[]).expect_code(1);
    let after = before.replace("dney", "deny").replace("cal_timeout", "call_timeout");
    // `xyz` resembles nothing, and a second `deny` would be an error.
    assert_eq!(text(&place), after, "{ran}");
    assert!(place.path("config.toml").is_symlink());
    for line in ["-dney = [] # none", "+deny = [] # none", "+call_timeout = \"5s\""] {
        assert!(ran.stdout.lines().any(|one| one == line), "no {line}: {ran}");
    }
    assert_eq!(ran.stdout.matches("\nfixed ").count(), 2, "{ran}");
    let (_, left) = ran.stdout.rsplit_once("\nleft\n").expect("what is left");
    assert!(left.contains("unknown key `xyz`") && left.contains("unknown key `deyn`"), "{ran}");
    assert!(!left.contains("dney") && left.ends_with("\n2 problems, 1 warning\n"), "{ran}");
    // There is nothing more to fix.
    let again = fix(&place, &[]).expect_code(1);
    assert!(again.stderr.contains("there is nothing that `--fix` can change") && text(&place) == after, "{again}");
}

#[test]
fn nothing_is_changed_without_a_confirmation() {
    let place = Place::new();
    let before = "[servers.a]\ncommand = \"cat\"\ndney = []\n";
    let config = place.write("config.toml", before);
    let config = config.to_str().expect("text");
    let ran = place.client(&["doctor", "--fix", "--no-start", "--config", config]).expect_code(2);
    assert!(ran.stdout.contains("+deny = []"), "{ran}");
    assert!(ran.stderr.contains("nothing is changed: add `--yes`, or run the command on a terminal"), "{ran}");
    assert_eq!(text(&place), before);
    let ran = place.client(&["doctor", "--no-start", "--config", config]).expect_code(1);
    assert!(ran.stdout.contains("1 problem, 1 warning; `mcpd doctor --fix --config "), "{ran}");
    for (refused, part) in [(&["--fix", "--json"][..], "cannot be used with"), (&["--yes"], "--fix")] {
        let ran = place.client(&[&["doctor"], refused].concat()).expect_code(2);
        assert!(ran.stderr.contains(part), "{ran}");
    }
    let Some(terminal) = Terminal::open(&place, 100, 50) else { return };
    terminal.line(&format!("m doctor --fix --no-start --config {config}; echo code=$?"));
    terminal.wait("Make 1 change? [y/N]");
    assert_eq!(text(&place), before);
    terminal.line("n");
    terminal.wait("mcpd: nothing is changed");
    terminal.line(&format!("clear; m doctor --fix --no-start --config {config}; echo code=$?"));
    terminal.wait("Make 1 change? [y/N]");
    terminal.line("y");
    terminal.wait("code=0");
    assert_eq!(text(&place), before.replace("dney", "deny"));
}

#[test]
fn modes_and_owners_of_own_files_are_corrected() {
    let place = Place::new();
    fs::create_dir(place.runtime_dir()).expect("a fresh directory");
    let set = |name: &str, mode| fs::set_permissions(place.path(name), Permissions::from_mode(mode)).expect("own");
    place.write("secret", "s3cret-value");
    place.write(
        "config.toml",
        format!("[servers.a]\ncommand = \"cat\"\nenv = {{ A = \"${{file:{}}}\" }}\n", place.path("secret").display()),
    );
    for (name, mode) in [("run", 0o755), ("secret", 0o644), ("config.toml", 0o666)] {
        set(name, mode);
    }
    // A test's directory is its own, and so is what it has.
    fs::set_permissions(place.path("."), Permissions::from_mode(0o755)).expect("own");
    let ran = fix(&place, &[]);
    assert_eq!([mode(place.path("run")), mode(place.path("config.toml"))], [0o700, 0o644], "{ran}");
    // The file of the secret is known once the configuration can be read.
    let ran = fix(&place, &[]);
    assert_eq!(mode(place.path("secret")), 0o600, "{ran}");
    assert!(ran.stdout.contains("$ chmod 600 "), "{ran}");
    if !rustix::process::getuid().is_root() {
        return skipped("only root can change owners");
    }
    chown(place.path("config.toml"), Some(12345), None).expect("root may");
    let ran = fix(&place, &[]);
    assert!(ran.stdout.contains("$ chown 0 ") && ran.stdout.contains("\nfixed "), "{ran}");
}

/// A server that is wrong in one way, what `--fix` shows, and the part of the configuration after it.
struct Case {
    name: &'static str,
    server: Server,
    shown: String,
    written: String,
}

/// Directories and programs of the cases, of which `cache` is half written.
fn cases(place: &Place, cache: &Path) -> [Case; 6] {
    program(place, "scripted-server", &format!("exec {SCRIPTED} \"$@\""));
    let npx = format!(
        "[ \"$1\" = --version ] && {{ echo 11; exit; }}\n[ \"$1\" = -y ] || {{ echo 'Ok to proceed? (y)' >&2; exit 1; }}\nshift 2; exec {SCRIPTED} \"$@\""
    );
    let npx = program(place, "npx", &npx);
    fs::create_dir_all(cache.join("node_modules/x")).expect("a fresh directory");
    let broken = format!(
        "[ -d {0} ] && {{ echo \"ERR_MODULE_NOT_FOUND: imported from {0}/node_modules/x/i.js\" >&2; exit 1; }}\nexec {SCRIPTED} \"$@\"",
        cache.display()
    );
    let broken = program(place, "broken", &broken);
    fs::create_dir_all(place.path("projects/notes")).expect("a fresh directory");
    let at = |name: &str| place.path(name).display().to_string();
    let path = format!("{}:/usr/bin:/bin", at("tools"));
    let bare = "--bare --tool x";
    let case =
        |name, server, shown: &str, written: &str| Case { name, server, shown: shown.into(), written: written.into() };
    [
        case(
            "command",
            Server::run_by("command", "scripted-sever").flags(bare).env("PATH", &path),
            "+command = \"scripted-server\"",
            "command = \"scripted-server\"",
        ),
        case(
            "npx",
            Server::run_by("npx", &npx).flags("package --bare --tool x"),
            "+args = [\"-y\", \"package\", ",
            "args = [\"-y\", \"package\", ",
        ),
        case(
            "away",
            Server::named("away").flags(bare).line(format!("cwd = \"{}\"", at("fresh"))),
            &format!("$ mkdir {}", at("fresh")),
            &format!("cwd = \"{}\"", at("fresh")),
        ),
        case(
            "moved",
            Server::named("moved").flags(bare).line(format!("cwd = \"{}\" # mine", at("projcts/notes"))),
            &format!("+cwd = \"{}\" # mine", at("projects/notes")),
            &format!("cwd = \"{}\" # mine", at("projects/notes")),
        ),
        case("cache", Server::run_by("cache", &broken).flags(bare), &format!("$ rm -r {}", cache.display()), ""),
        case(
            "denied",
            Server::named("denied").flags("--bare --tool x --tool y").line("deny = [\"denied__y\", 'denied/y']"),
            "+deny = [\"denied__y\", \"y\"]",
            "deny = [\"y\", \"y\"]",
        ),
    ]
}

#[test]
fn servers_are_ready_after_their_fixes() {
    let place = Place::new();
    let cache = place.path("home/.npm/_npx/0a1b");
    let cases = cases(&place, &cache);
    let (names, shown): (Vec<_>, Vec<_>) =
        cases.iter().map(|case| (case.name, (case.shown.clone(), case.written.clone()))).unzip();
    let setup = cases.into_iter().fold(Setup::new(), |setup, case| setup.server(case.server));
    let daemon = setup.start_in(&place);
    daemon.wait_row("denied", "has listed", |row| row["tools_exposed"] == 2);
    for name in &names[..5] {
        daemon.wait_row(name, "has failed", |row| matches!(row["state"].as_str(), Some("backoff" | "failed")));
    }
    // A server that is being tried again has no reason.
    let ran = fixed(&daemon, &shown.iter().map(|(line, _)| &**line).collect::<Vec<_>>());
    for (_, written) in &shown {
        assert!(text(&place).contains(written), "no {written}: {}", text(&place));
    }
    assert!(!cache.exists() && place.path("fresh").is_dir());
    for name in names {
        daemon.wait_row(name, "is ready", |row| row["state"] == "ready");
    }
    daemon.wait_row("denied", "is denied one", |row| row["tools_exposed"] == 1);
    assert!(complaints(&doctor(&daemon)).iter().all(|left| left.get("found").contains("in the last hour")), "{ran}");
}

/// Runs `--fix` until its output has lines that begin with each of `shown`. Returns all output.
fn fixed(daemon: &Daemon, shown: &[&str]) -> String {
    let mut output = String::new();
    until("everything is fixed", || {
        output += &daemon.client(&FIX).to_string();
        shown.iter().all(|begin| output.lines().any(|line| line.starts_with(begin))).then_some(())
    });
    output
}

#[test]
fn download_outside_of_a_cache_or_behind_a_link_is_not_removed() {
    let place = Place::new();
    fs::create_dir_all(place.path("home/precious/data")).expect("a fresh directory");
    symlink("precious", place.path("home/_npx")).expect("a fresh path");
    let named = place.path("home/_npx/data").display().to_string();
    let failing = program(&place, "npx", &format!("echo 'Cannot find module {named}/i.js' >&2; exit 1"));
    let daemon = Setup::with(Server::run_by("a", failing).flags("-y x")).spawn_in(&place);
    daemon.wait_row("a", "has failed", |row| row["state"] == "backoff");
    fixed(&daemon, &[&format!("$ rm -r {named}"), &format!("mcpd: rm -r {named}: ")]);
    assert!(place.path("home/precious/data").is_dir());
}

/// The advice about the server `a`, which needs a variable.
fn advice(ran: &Ran) -> String {
    let finding = expect_any(ran, "a", "`MCPD_IT_UNSET` is not set");
    assert_eq!(finding.get("level"), "problem", "{finding:?}");
    finding.get("advice").to_owned()
}

fn needy() -> Server {
    Server::named("a").flags("--bare --tool x").env("A", "${MCPD_IT_UNSET}")
}

fn default_config(place: &Place) {
    fs::create_dir(place.path("xdg-config/mcpd")).expect("a fresh directory");
    fs::rename(Setup::with(needy()).write(place), place.path("xdg-config/mcpd/config.toml")).expect("the same disk");
}

#[test]
fn unset_variable_needs_a_restart_however_the_daemon_was_started() {
    // No daemon: doctor itself starts the server.
    let place = Place::new();
    let config = Setup::with(needy()).write(&place);
    let ran = place.client(&["doctor", "--json", "--config", config.to_str().expect("text")]);
    assert!(advice(&ran).starts_with("`export MCPD_IT_UNSET=…` in this shell, "), "{ran}");
    assert!(advice(&ran).contains("; then `mcpd doctor a "), "{ran}");
    // `mcpd serve`, by hand.
    let daemon: Daemon = Setup::with(needy()).start();
    let by_hand = advice(&doctor(&daemon));
    let start = "`export MCPD_IT_UNSET=…` in the shell that starts mcpd; then `mcpd stop ";
    assert!(by_hand.starts_with(start) && by_hand.contains("then `mcpd serve --config "), "{by_hand}");
    drop(daemon);
    // `mcpd serve`, on a terminal, with the default configuration.
    let place: Rc<Place> = Place::new();
    default_config(&place);
    if let Some(terminal) = Terminal::open(&place, 100, 50) {
        terminal.line("m serve 2>serve.log &");
        let ran = until("it serves", || {
            let ran = place.client(&["doctor", "--json"]);
            // Before, doctor itself starts the server.
            let parts = ["not started by systemd", "is not set in mcpd's environment"];
            parts.iter().all(|part| ran.stdout.contains(part)).then_some(ran)
        });
        assert!(advice(&ran).starts_with(start) && advice(&ran).contains("then `mcpd serve --runtime-dir "), "{ran}");
        place.client(&["stop"]).expect_code(0);
    }
    // Detached, with the login environment.
    let place: Rc<Place> = Place::new();
    default_config(&place);
    let profile = format!("export {TAG}={}\n", place.tag());
    place.write("home/.bash_profile", &profile);
    place.mcpd(&["start"]);
    let looked = place.mcpd(&["doctor", "--json"]);
    let expected =
        "set `MCPD_IT_UNSET` in the profile of your login shell; then `mcpd stop`, then `mcpd start`; or change ";
    assert!(advice(&looked).starts_with(expected), "{}", advice(&looked));
    place.write("home/.bash_profile", format!("{profile}export MCPD_IT_UNSET=1\n"));
    place.mcpd(&["stop"]).expect_code(0);
    place.mcpd(&["start"]).expect_code(0);
    until("it is ready", || {
        let ready = findings(&place.mcpd(&["doctor", "--json"]));
        ready.iter().any(|one| one.get("about") == "a" && one.get("found").starts_with("ready")).then_some(())
    });
    place.mcpd(&["stop"]).expect_code(0);
}

#[test]
fn misspelt_command_is_a_problem_with_the_name_that_is_meant() {
    let place = Place::new();
    program(&place, "scripted-server", "exit 1");
    let server =
        Server::run_by("a", "scripted-sever").env("PATH", &format!("{}:/usr/bin", place.path("tools").display()));
    let config = Setup::with(server).write(&place);
    let ran = place.client(&["doctor", "--json", "--no-start", "--config", config.to_str().expect("text")]);
    let finding = expect(ran, "problem", "a", "command `scripted-sever` ");
    let meant =
        "did you mean `scripted-server`? Write `command = \"scripted-server\"` in [servers.a]; then `mcpd doctor a ";
    assert!(finding.get("advice").starts_with(meant), "{finding:?}");
}
