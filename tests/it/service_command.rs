//! `mcpd service` installs, reports and removes the systemd units, and leaves foreign units alone.

use std::fs;

use serde_json::{Value, json};

use crate::support::{MCPD, Place, Ran, Server, Setup, TAG, UserManager, request};

const UNITS: &str = "xdg-config/systemd/user";

/// A user who has never heard of units, with this PATH in the files of the login shell.
fn newcomer(path: &str) -> Option<UserManager> {
    let manager = UserManager::bare(&Setup::with(Server::named("plain")))?;
    set_path(&manager, path);
    Some(manager)
}

fn set_path(manager: &UserManager, path: &str) {
    // Whatever the shell's files start is the test's, too.
    let tag = manager.place().tag();
    manager.place().write("home/.bash_profile", format!("export PATH={path} {TAG}={tag}\n"));
}

fn service(manager: &UserManager, args: &[&str]) -> Ran {
    manager.mcpd(&[&["service"], args].concat())
}

/// The `PATH` that the daemon of the unit was started with.
fn path_of_unit(manager: &UserManager) -> String {
    let pid = manager.property("MainPID");
    let environment = manager.shell(&format!("tr '\\0' '\\n' </proc/{pid}/environ")).expect_code(0).stdout;
    environment.lines().find_map(|line| line.strip_prefix("PATH=")).unwrap_or_default().to_owned()
}

/// The files below the directory of units, and the links that enable them.
fn files(manager: &UserManager) -> Vec<String> {
    let mut found = Vec::new();
    let root = manager.place().path(UNITS);
    let mut waiting = vec![root.clone()];
    while let Some(next) = waiting.pop() {
        for path in fs::read_dir(next).into_iter().flatten().flatten().map(|entry| entry.path()) {
            match path.is_dir() {
                true => waiting.push(path),
                false => found.push(path.strip_prefix(&root).expect("below it").display().to_string()),
            }
        }
    }
    // The test's own, for want of a journal.
    found.retain(|name| !name.ends_with("log.conf"));
    found.sort();
    found
}

#[test]
fn install_on_a_fresh_home_serves_at_once_and_uninstall_leaves_nothing() {
    let Some(manager) = newcomer("/opt/tools/bin:$PATH") else { return };
    let ran = service(&manager, &["install"]).expect_code(0);
    for expected in ["mcpd.service", "mcpd.socket", "daemon-reload", "enable", "PATH", "npx: ", "1 server", "linger"] {
        assert!(ran.stdout.contains(expected), "{expected}: {ran}");
    }
    manager.mcpd(&["call", "plain__echo"]).expect_code(0);
    let states = ["mcpd.service", "mcpd.socket"].map(|unit| manager.systemctl(&["is-enabled", unit]).stdout);
    assert_eq!(states, ["enabled\n", "enabled\n"]);
    assert!(path_of_unit(&manager).starts_with("/opt/tools/bin:"));
    let unit = fs::read_to_string(manager.place().path(UNITS).join("mcpd.service")).expect("it was written");
    assert!(unit.contains(&format!("ExecStart={MCPD} serve")), "{unit}");
    manager.systemctl(&["reload", "mcpd"]).expect_code(0);

    let ran = service(&manager, &["uninstall"]).expect_code(0);
    assert!(ran.stdout.contains("configuration stays"), "{ran}");
    assert_eq!(files(&manager), [""; 0], "{ran}");
    assert_eq!(manager.systemctl(&["show", "--property=LoadState", "--value", "mcpd"]).stdout, "not-found\n");
    manager.expect_nothing_left();
    assert!(manager.place().path("xdg-config/mcpd/config.toml").exists());
    service(&manager, &["uninstall"]).expect_code(0);
}

#[test]
fn three_commands_install_and_serve() {
    let Some(manager) = newcomer("$PATH") else { return };
    let place = manager.place();
    fs::remove_file(place.path("xdg-config/mcpd/config.toml")).expect("a newcomer has none");
    let servers = json!({"mcpServers": {"notes": {"command": MCPD, "args": ["demo-server"]}}});
    fs::create_dir(place.path("home/.cursor")).expect("a fresh home");
    place.write("home/.cursor/mcp.json", servers.to_string());

    manager.mcpd(&["import", "--yes"]).expect_code(0);
    service(&manager, &["install", "--no-linger"]).expect_code(0);
    let printed = manager.mcpd(&["connect", "--print", "cursor"]).expect_code(0).json();
    let entry = &printed["mcpServers"]["mcpd"];
    assert_eq!(entry["args"], json!(["connect"]), "nothing else is needed to find it");

    let call = request(
        2,
        "tools/call",
        &json!({
        "name": "notes__echo", "arguments": {"text": "it works"}}),
    );
    let ran = manager.converse(entry["command"].as_str().expect("a path"), &call);
    let answer = ran.stdout.lines().find(|line| line.contains("\"id\":2")).unwrap_or_default();
    assert!(answer.contains("it works"), "{ran}");
}

#[test]
fn second_install_changes_only_outdated_files() {
    let Some(manager) = newcomer("/opt/one:$PATH") else { return };
    service(&manager, &["install"]).expect_code(0);
    let first = manager.property("MainPID");
    let ran = service(&manager, &["install"]).expect_code(0);
    assert!(!ran.stdout.contains("wrote") && !ran.stdout.contains("restart"), "{ran}");
    assert_eq!(manager.property("MainPID"), first);

    set_path(&manager, "/opt/two:$PATH");
    let ran = service(&manager, &["status"]).expect_code(1);
    assert!(ran.stdout.contains("it has now /opt/two"), "{ran}");
    let ran = service(&manager, &["install", "--hardened", "--dry-run"]).expect_code(0);
    assert!(
        ran.stdout.contains("service.env, mode 0600\n# sets MCPD_TEST_TAG, PATH\n")
            && ran.stdout.contains("NoNewPrivileges"),
        "{ran}"
    );
    assert_eq!(manager.property("MainPID"), first);
    let ran = service(&manager, &["install"]).expect_code(0);
    assert!(ran.stdout.contains("renewed") && ran.stdout.contains("restart"), "{ran}");
    assert!(path_of_unit(&manager).starts_with("/opt/two:"));
    assert_ne!(manager.property("MainPID"), first);
    service(&manager, &["status"]).expect_code(0);
}

#[test]
fn install_after_an_interrupted_one_starts_the_daemon_with_the_written_units() {
    let Some(manager) = newcomer("$PATH") else { return };
    service(&manager, &["install"]).expect_code(0);
    let first = manager.property("MainPID");
    // Written, and broken off before systemd was told.
    let drop_in = manager.place().path(UNITS).join("mcpd.service.d/10-environment.conf");
    let text = fs::read_to_string(&drop_in).expect("it was written");
    fs::write(&drop_in, text).expect("the test's own directory is writable");
    assert_eq!(manager.property("NeedDaemonReload"), "yes");
    let ran = service(&manager, &["install"]).expect_code(0);
    assert!(ran.stdout.contains("daemon-reload") && ran.stdout.contains("restart"), "{ran}");
    assert_ne!(manager.property("MainPID"), first);
}

#[test]
fn handwritten_unit_survives_uninstall() {
    let Some(manager) = newcomer("$PATH") else { return };
    let unit = "[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=default.target\n";
    manager.place().write(&format!("{UNITS}/mcpd.service"), unit);
    manager.systemctl(&["daemon-reload"]).expect_code(0);
    manager.systemctl(&["enable", "--now", "mcpd.service"]).expect_code(0);
    let ran = service(&manager, &["uninstall"]).expect_code(0);
    assert!(ran.stdout.contains("which somebody else has written"), "{ran}");
    assert_eq!(manager.systemctl(&["is-enabled", "mcpd.service"]).stdout, "enabled\n");
    assert_eq!(manager.property("ActiveState"), "active");
    manager.systemctl(&["stop", "mcpd.service"]).expect_code(0);
}

#[test]
fn edited_unit_is_backed_up_and_does_not_block_the_next_install() {
    let Some(manager) = newcomer("$PATH") else { return };
    service(&manager, &["install"]).expect_code(0);
    let unit = manager.place().path(UNITS).join("mcpd.service");
    let read = |name: &str| fs::read_to_string(unit.with_file_name(name)).unwrap_or_default();
    for (watchdog, aside) in [("WatchdogSec=60", "mcpd.service.old"), ("WatchdogSec=90", "mcpd.service.old.1")] {
        let text = read("mcpd.service").replace("WatchdogSec=30", watchdog);
        fs::write(&unit, &text).expect("the test's own directory is writable");
        let ran = service(&manager, &["install", "--dry-run"]).expect_code(0);
        assert!(ran.stdout.contains(&format!("-{watchdog}")) && ran.stdout.contains("+WatchdogSec=30"), "{ran}");
        let ran = service(&manager, &["uninstall", "--dry-run"]).expect_code(0);
        assert!(ran.stdout.contains("somebody has changed"), "{ran}");
        assert_eq!(read("mcpd.service"), text);
        let ran = service(&manager, &["install"]).expect_code(0);
        assert!(ran.stdout.contains(&format!("/{aside}: ")), "{ran}");
        assert_eq!(read(aside), text);
        assert!(read("mcpd.service").contains("WatchdogSec=30"));
        assert_eq!(manager.property("WatchdogUSec"), "30s");
    }
    assert_eq!(files(&manager).iter().filter(|name| name.contains(".old")).count(), 2, "{:?}", files(&manager));
}

#[test]
fn edited_hardening_stays_until_hardening_is_requested_again() {
    let Some(manager) = newcomer("$PATH") else { return };
    service(&manager, &["install"]).expect_code(0);
    // What is left of the file is what every machine can enforce.
    let drop_in = manager.place().path(UNITS).join("mcpd.service.d/20-hardened.conf");
    let text = "# Written by `mcpd service install` of mcpd 0.1.0. 0123456789abcdef\n[Service]\nNoNewPrivileges=yes\n";
    fs::write(&drop_in, text).expect("the test's own directory is writable");
    manager.systemctl(&["daemon-reload"]).expect_code(0);
    assert_eq!(manager.property("NoNewPrivileges"), "yes");
    let ran = service(&manager, &["install"]).expect_code(0);
    assert!(
        ran.stdout.contains("left") && ran.stdout.contains("20-hardened.conf, which somebody has changed"),
        "{ran}"
    );
    assert_eq!(fs::read_to_string(&drop_in).expect("it is there"), text);

    let ran = service(&manager, &["install", "--no-hardened"]).expect_code(0);
    assert!(ran.stdout.contains("removed") && ran.stdout.contains("20-hardened.conf.old: "), "{ran}");
    assert!(!drop_in.exists());
    assert_eq!(manager.property("NoNewPrivileges"), "no");
    manager.mcpd(&["call", "plain__echo"]).expect_code(0);
    service(&manager, &["install", "--hardened", "--no-hardened"]).expect_code(2);
}

/// A machine on which one of the paths that the hardening names is missing, so that systemd cannot make its mount namespace.
fn without_var_tmp(manager: &UserManager) {
    manager.shell("mount -t tmpfs tmpfs /var").expect_code(0);
}

#[test]
fn hardening_that_systemd_cannot_enforce_is_rolled_back_and_the_setting_is_named() {
    let Some(manager) = newcomer("$PATH") else { return };
    service(&manager, &["install"]).expect_code(0);
    let before = files(&manager);
    without_var_tmp(&manager);
    let ran = service(&manager, &["install", "--hardened"]).expect_code(1);
    for expected in ["`ReadWritePaths=/tmp /var/tmp`", "mount namespace", "the former units are restored and run"] {
        assert!(ran.stderr.contains(expected), "{expected}: {ran}");
    }
    assert_eq!(files(&manager), before);
    assert_eq!([manager.property("ActiveState"), manager.property("NoNewPrivileges")], ["active", "no"]);
    manager.mcpd(&["call", "plain__echo"]).expect_code(0);
    service(&manager, &["status"]).expect_code(0);
    let probes = fs::read_dir(manager.place().path("xdg-run/systemd/user")).into_iter().flatten().flatten();
    assert_eq!(probes.filter(|entry| entry.file_name().to_string_lossy().contains("probe")).count(), 0);
}

#[test]
fn first_installation_with_hardening_that_cannot_be_enforced_leaves_nothing() {
    let Some(manager) = newcomer("$PATH") else { return };
    without_var_tmp(&manager);
    let ran = service(&manager, &["install", "--hardened"]).expect_code(1);
    assert!(
        ran.stderr.contains("`ReadWritePaths=/tmp /var/tmp`") && ran.stderr.contains("nothing was installed"),
        "{ran}"
    );
    assert_eq!(files(&manager), [""; 0], "{ran}");
    assert_eq!(manager.systemctl(&["show", "--property=LoadState", "--value", "mcpd"]).stdout, "not-found\n");
    service(&manager, &["install"]).expect_code(0);
}

#[test]
fn daemon_started_by_hand_is_reported_with_its_remedy() {
    let Some(manager) = newcomer("$PATH") else { return };
    // An agent starts it, as nobody knows of any unit.
    assert!(manager.connect().stdout.contains("\"result\""));
    let status = manager.mcpd(&["status", "--json"]).expect_code(0).json();
    let pid = status["pid"].as_u64().expect("a process id");
    let ran = service(&manager, &["install"]).expect_code(1);
    assert!(ran.stderr.contains(&format!("pid {pid}: `mcpd stop`, then `mcpd start`")), "{ran}");
    let ran = service(&manager, &["status"]).expect_code(3);
    assert!(ran.stdout.contains(&format!("pid {pid}: `mcpd stop`, then `mcpd start`")), "{ran}");
    manager.mcpd(&["stop"]).expect_code(0);
    manager.mcpd(&["start"]).expect_code(0);
    service(&manager, &["status"]).expect_code(0);
}

#[test]
fn agent_that_finds_no_daemon_has_systemd_start_it_if_it_is_a_unit() {
    let Some(manager) = newcomer("$PATH") else { return };
    service(&manager, &["install"]).expect_code(0);
    manager.systemctl(&["stop", "mcpd.socket", "mcpd.service"]).expect_code(0);
    service(&manager, &["status"]).expect_code(3);
    assert!(manager.connect().stdout.contains("\"result\""));
    let status: Value = manager.mcpd(&["status", "--json"]).expect_code(0).json();
    assert_eq!(status["pid"].to_string(), manager.property("MainPID"));
    let report = service(&manager, &["status", "--json"]).expect_code(0).json();
    assert_eq!(report["pid"], status["pid"]);
    assert_eq!([&report["active"], &report["enabled"], &report["socket_enabled"]], ["active", "enabled", "enabled"]);

    manager.systemctl(&["stop", "mcpd.socket", "mcpd.service"]).expect_code(0);
    manager.systemctl(&["disable", "mcpd.socket"]).expect_code(0);
    manager.place().write("config.toml", "[deamon]\n");
    let ran = manager.connect().expect_code(3);
    assert!(ran.stderr.contains("systemd did not start") && ran.stderr.contains("deamon"), "{ran}");
}

#[test]
fn install_without_a_service_manager_prints_an_alternative() {
    let place = Place::new();
    for command in [&["install"][..], &["uninstall"], &["status"]] {
        let ran = place.mcpd(&[&["service"], command].concat()).expect_code(1);
        assert!(ran.stderr.contains("mcpd connect") && ran.stderr.contains("mcpd start"), "{ran}");
    }
    let ran = place.client(&["service", "install"]).expect_code(2);
    assert!(ran.stderr.contains("--runtime-dir"), "{ran}");
    assert!(!place.path("xdg-config/systemd").exists());
}
