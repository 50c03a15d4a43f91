//! Profiles by directory: agents that name no profile get the one that has their working directory.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;

use crate::support::{Daemon, Place, Ran, Server, Setup, Shim, code, quoted, result, run, until};

/// Profiles `work` and `secret`, and `default` with a directory of its own, below `home` of the place.
fn head(place: &Place) -> String {
    let home = |name: &str| quoted(place.path(&format!("home/{name}")));
    format!(
        "[profiles.work]\nservers = ['git']\ndirectories = ['~/work', {}]\n\
         [profiles.secret]\nservers = ['files']\ndirectories = [{}]\n\
         [profiles.default]\ndirectories = [{}]",
        home("link"),
        home("work/secret"),
        home("work/open")
    )
}

fn text(head: &str, place: &Place) -> String {
    ["files", "git"].map(|name| Server::named(name).flags("--bare --tool read").toml(place)).concat() + head
}

/// A daemon whose profiles the test changes, and the directories.
fn start() -> Daemon {
    let place = Place::new();
    for name in ["work/secret/x", "work/open", "work/x", "workshop", "real", "elsewhere"] {
        fs::create_dir_all(place.path(&format!("home/{name}"))).expect("a fresh directory");
    }
    symlink("real", place.path("home/link")).expect("a fresh name");
    symlink("work/x", place.path("home/to-work")).expect("a fresh name");
    start_with(&place, &head(&place))
}

fn start_with(place: &Rc<Place>, head: &str) -> Daemon {
    let file = place.write("changing.toml", text(head, place));
    Setup::new().config(file).start_in(place)
}

fn reload(daemon: &Daemon, head: &str) -> Ran {
    let place = daemon.place();
    place.replace("changing.toml", text(head, place));
    daemon.client(&["reload"]).expect_code(0)
}

/// A client's command in a directory below `home`.
fn command(place: &Place, directory: &str, args: &[&str]) -> Command {
    let mut command = Shim::command(place);
    command = rebuild(command, args);
    command.current_dir(place.path("home").join(directory));
    command
}

/// `mcpd connect --runtime-dir DIR` as another command.
fn rebuild(connect: Command, args: &[&str]) -> Command {
    let mut command = Command::new(connect.get_program());
    command.env_clear();
    command.envs(connect.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(args).args(connect.get_args().skip(1));
    command
}

fn tools(place: &Place, directory: &str, args: &[&str]) -> Ran {
    run(&mut command(place, directory, &[&["tools"], args].concat()))
}

/// The tools that an agent of `mcpd connect` sees in this directory.
fn shim(place: &Place, directory: impl AsRef<Path>, options: &[&str]) -> Shim {
    let mut shim = Shim::start_in(place, &place.path("home").join(directory), options);
    result(&shim.initialize("2025-11-25"));
    shim
}

const ALL: &[&str] = &["files__read", "git__read"];

/// Case D11.
#[test]
fn most_specific_directory_decides_unless_a_profile_is_named() {
    let daemon = start();
    let place = daemon.place();
    for (directory, expected) in [
        ("work", &["git__read"][..]),
        ("work/x", &["git__read"]),
        ("to-work", &["git__read"]),
        ("real", &["git__read"]),
        ("link", &["git__read"]),
        ("work/secret/x", &["files__read"]),
        ("work/open", ALL),
        ("workshop", ALL),
        ("elsewhere", ALL),
        (".", ALL),
    ] {
        assert_eq!(shim(place, directory, &[]).tools(), expected, "{directory}");
    }
    assert_eq!(shim(place, "work", &["--profile", "default"]).tools(), ALL);
    assert_eq!(shim(place, "work", &["--profile", "secret"]).tools(), ["files__read"]);
    assert_eq!(shim(place, "work/secret", &["--profile", "work"]).tools(), ["git__read"]);
}

#[test]
fn status_and_doctor_say_which_directory_has_chosen_a_profile() {
    let daemon = start();
    let place = daemon.place();
    let link = place.path("home/link").display().to_string();
    let agents = [shim(place, "work/x", &[]), shim(place, "real", &[]), shim(place, "elsewhere", &[])];
    let named = shim(place, "work", &["--profile", "work"]);
    let work = place.path("home/work").display().to_string();
    let rows: Vec<_> = daemon.status()["agents"].as_array().expect("agents").clone();
    let rows: Vec<_> = rows.iter().map(|row| (row["profile"].clone(), row["profile_directory"].clone())).collect();
    let expected = [
        (json!("work"), json!(work)),
        (json!("work"), json!(link)),
        (json!("default"), json!(null)),
        (json!("work"), json!(null)),
    ];
    assert_eq!(rows, expected);
    let profiles = daemon.status()["profiles"].clone();
    assert_eq!(profiles[1]["directories"], json!([work, link]), "{profiles}");
    let shown = daemon.client(&["status"]).expect_code(0).stdout;
    assert!(shown.contains(&format!("work by {work}")), "{shown}");
    drop((agents, named));

    for (directory, expected) in
        [("work/x", "`work` for agents in this directory"), ("elsewhere", "`default` for agents")]
    {
        let ran = run(&mut command(place, directory, &["doctor", "--json"]));
        let finding =
            ran.json()["findings"].as_array().expect("findings").iter().find(|one| one["about"] == "profile").cloned();
        let finding = finding.unwrap_or_else(|| panic!("{ran}"));
        assert!(finding["level"] == "ok" && finding["found"].as_str().expect("text").contains(expected), "{finding}");
    }
}

#[test]
fn tools_and_call_have_the_profile_of_their_directory() {
    let daemon = start();
    let place = daemon.place();
    let ran = tools(place, "work/x", &[]).expect_code(0);
    assert!(ran.stdout.contains("git__read") && !ran.stdout.contains("files__read"), "{ran}");
    assert!(ran.stderr.contains(&format!("profile work, which has {}", place.path("home/work").display())), "{ran}");
    let ran = tools(place, "work/x", &["--all"]).expect_code(0);
    assert!(ran.stderr.contains("profile work"), "{ran}");
    let ran = tools(place, "elsewhere", &[]).expect_code(0);
    assert!(ran.stdout.contains("files__read") && !ran.stderr.contains("profile"), "{ran}");
    let ran = tools(place, "work", &["--profile", "default"]).expect_code(0);
    assert!(ran.stdout.contains("files__read") && !ran.stderr.contains("profile"), "{ran}");
    let call = |directory: &str, args: &[&str]| run(&mut command(place, directory, &[&["call"], args].concat()));
    call("work", &["git/read"]).expect_code(0);
    let ran = call("work", &["files__read"]).expect_code(1);
    assert!(ran.stderr.contains("agents of profile `work` do not see `files/read`"), "{ran}");
    call("work", &["files__read", "--profile", "default"]).expect_code(0);
}

#[test]
fn face_of_a_server_outside_of_the_directorys_profile_is_refused() {
    let daemon = start();
    let place = daemon.place();
    assert_eq!(shim(place, "work", &["--server", "git"]).tools(), ["read"]);
    let mut refused = Shim::start_in(place, &place.path("home/work"), &["--server", "files"]);
    let answer = refused.initialize("2025-11-25");
    assert_eq!(code(&answer), -32602);
    assert_eq!(answer["error"]["message"], "this profile has no server `files`; its servers are git");
}

#[test]
fn reload_applies_to_agents_that_connect_afterwards() {
    let place = Place::new();
    fs::create_dir_all(place.path("home/work")).expect("a fresh directory");
    let daemon = start_with(&place, "[profiles.work]\nservers = ['git']");
    let mut before = shim(&place, "work", &[]);
    assert_eq!(before.tools(), ALL);
    let ran = reload(&daemon, "[profiles.work]\nservers = ['git']\ndirectories = ['~/work']");
    assert!(ran.stdout.contains("changed      profile work"), "{ran}");
    let mut after = shim(&place, "work", &[]);
    assert_eq!(after.tools(), ["git__read"]);
    assert_eq!(before.tools(), ALL, "it stays where it is");
    reload(&daemon, "[profiles.other]\nservers = ['files']\ndirectories = ['~/work']");
    after.wait_log("has this profile no more");
    assert_eq!(shim(&place, "work", &[]).tools(), ["files__read"]);
    reload(&daemon, "[profiles.work]\nservers = ['git']");
    assert_eq!(after.tools(), ["git__read"], "it keeps its choice");
    assert_eq!(shim(&place, "work", &[]).tools(), ALL);
    for agent in [&mut before, &mut after] {
        result(&agent.request("ping", &json!({})));
        agent.discard_notifications("notifications/tools/list_changed");
    }
}

/// Case D11.
#[test]
fn agent_keeps_its_profile_when_the_daemon_is_replaced() {
    let mut daemon = start();
    let place = Rc::clone(daemon.place());
    let mut agent = shim(&place, "work", &[]);
    daemon.kill9();
    // The next daemon knows no directories.
    let daemon = start_with(&place, "[profiles.work]\nservers = ['git']");
    assert_eq!(agent.tools(), ["git__read"]);
    let row = daemon.status()["agents"][0].clone();
    assert_eq!((&row["profile"], &row["profile_directory"]), (&json!("work"), &json!(place.path("home/work"))));
}

/// Case D11.
#[test]
fn unknown_directory_and_ambiguous_profiles_are_errors_instead_of_the_default_profile() {
    let daemon = start();
    let place = daemon.place();
    let script = |script: &str| {
        let mut command = command(place, ".", &["tools"]);
        let args: Vec<PathBuf> =
            [command.get_program()].into_iter().chain(command.get_args()).map(PathBuf::from).collect();
        command = {
            let mut shell = place.command("sh");
            shell.arg("-c").arg(format!("{script}; exec \"$0\" \"$@\"")).args(args).current_dir(place.path("home"));
            shell
        };
        run(&mut command)
    };
    let ran = script("mkdir gone && cd gone && rmdir ../gone").expect_code(1);
    assert!(
        ran.stderr.contains("working directory, which cannot be determined") && ran.stderr.contains("--profile"),
        "{ran}"
    );
    let connect = {
        let mut shell = place.command("sh");
        let shim = Shim::command(place);
        let args: Vec<PathBuf> = [shim.get_program()].into_iter().chain(shim.get_args()).map(PathBuf::from).collect();
        shell.arg("-c").arg("mkdir gone && cd gone && rmdir ../gone; exec \"$0\" \"$@\" </dev/null").args(args);
        run(shell.current_dir(place.path("home")).stdin(Stdio::null()))
    };
    assert!(connect.code == Some(1) && connect.stderr.contains("cannot be determined"), "{connect}");

    let both = format!(
        "[profiles.one]\ndirectories = ['~/link']\n[profiles.two]\ndirectories = [{}]",
        quoted(place.path("home/real"))
    );
    reload(&daemon, &both);
    let ran = tools(place, "real", &[]).expect_code(1);
    assert!(ran.stderr.contains("`one` and `two`") && ran.stderr.contains("--profile NAME"), "{ran}");
    tools(place, "real", &["--profile", "two"]).expect_code(0);
    let doctor = run(&mut command(place, "real", &["doctor", "--json"])).expect_code(1);
    assert!(doctor.stdout.contains("`one` and `two`"), "{doctor}");
    // Without directories, the working directory does not matter.
    reload(&daemon, "");
    script("mkdir gone && cd gone && rmdir ../gone").expect_code(0);
}

/// Case D11.
#[test]
fn directory_that_cannot_be_resolved_is_an_error_for_agents_that_name_no_profile() {
    let daemon = start();
    let place = daemon.place();
    let home = |name: &str| place.path(&format!("home/{name}"));
    fs::create_dir_all(home("deep/inner")).expect("a fresh directory");
    symlink("deep/inner", home("inlink")).expect("a fresh name");
    symlink("loop", home("loop")).expect("a fresh name");
    let of_work = |directory: &str| format!("[profiles.work]\nservers = ['git']\ndirectories = ['~/{directory}']");
    reload(&daemon, &of_work("inlink"));
    assert_eq!(shim(place, "deep/inner", &[]).tools(), ["git__read"]);
    let is_refused = |ran: &Ran, directory: &str| {
        assert!(ran.code == Some(1) && ran.stderr.contains(&home(directory).display().to_string()), "{ran}");
        assert!(ran.stderr.contains("name a profile with `--profile NAME`"), "{ran}");
    };
    // Root may enter it.
    if !rustix::process::geteuid().is_root() {
        let mut shell = place.command("sh");
        let tools = command(place, ".", &["tools"]);
        let args = [tools.get_program()].into_iter().chain(tools.get_args()).map(PathBuf::from);
        shell.args(["-c", "chmod 0 ../../deep; exec \"$0\" \"$@\""]).args(args).current_dir(home("deep/inner"));
        let ran = run(&mut shell);
        fs::set_permissions(home("deep"), fs::Permissions::from_mode(0o700)).expect("it is the test's own");
        is_refused(&ran, "deep/inner");
    }
    reload(&daemon, &of_work("loop"));
    is_refused(&tools(place, "elsewhere", &[]), "loop");
    let connect = run(Shim::command(place).current_dir(home("elsewhere")).stdin(Stdio::null()));
    is_refused(&connect, "loop");
    tools(place, "elsewhere", &["--profile", "default"]).expect_code(0);
    let doctor = run(&mut command(place, "elsewhere", &["doctor"])).expect_code(1);
    assert!(doctor.stdout.contains("let this user enter the directory"), "{doctor}");
}

/// Case D11.
#[test]
fn whatever_has_taken_the_place_of_the_file_of_directories_does_not_block_the_daemon() {
    let daemon = start();
    let place = daemon.place();
    let file = place.runtime_dir().join("directories.json");
    let is_file = || fs::symlink_metadata(&file).is_ok_and(|found| found.is_file());
    let fifo = place.path("fifo");
    mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).expect("a fresh name");
    fs::rename(&fifo, &file).expect("the same file system");
    until("the FIFO is replaced", || is_file().then_some(()));
    assert_eq!(shim(place, "work", &[]).tools(), ["git__read"]);
    fs::create_dir(place.path("other")).expect("a fresh name");
    fs::remove_file(&file).expect("it is there");
    until("the name is taken", || {
        let _ = fs::remove_file(&file);
        fs::rename(place.path("other"), &file).ok()
    });
    until("it is logged", || daemon.log().contains("clients may not find mcpd").then_some(()));
    let ran = tools(place, "work", &[]).expect_code(1);
    assert!(ran.stderr.contains("directories.json"), "{ran}");
    tools(place, "work", &["--profile", "work"]).expect_code(0);
    fs::remove_dir(&file).expect("it is empty");
    until("it is mended", || is_file().then_some(()));
}

/// Case D11.
#[test]
fn spoilt_file_of_directories_is_an_error_until_the_daemon_has_mended_it() {
    let daemon = start();
    let place = daemon.place();
    let file = place.runtime_dir().join("directories.json");
    assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    fs::set_permissions(place.runtime_dir(), fs::Permissions::from_mode(0o500)).expect("it is the test's own");
    fs::write(&file, "{").expect("it is writable");
    if rustix::process::geteuid().is_root() {
        // Nothing keeps root from mending it at once.
        until("it is mended", || fs::read_to_string(&file).is_ok_and(|text| text != "{").then_some(()));
    } else {
        let ran = tools(place, "work", &[]).expect_code(1);
        assert!(ran.stderr.contains("directories.json was changed by another program"), "{ran}");
    }
    fs::set_permissions(place.runtime_dir(), fs::Permissions::from_mode(0o700)).expect("it is the test's own");
    until("it is mended", || (tools(place, "work", &[]).code == Some(0)).then_some(()));
    fs::remove_file(&file).expect("it is there");
    until("it is there again", || file.exists().then_some(()));
    assert_eq!(shim(place, "work", &[]).tools(), ["git__read"]);
}

#[test]
fn agents_of_another_users_daemon_name_their_profile() {
    let daemon = start();
    let place = daemon.place();
    let uid = rustix::process::geteuid().as_raw().to_string();
    // As a guest's: no directory is read.
    assert_eq!(shim(place, "work", &["--daemon-uid", &uid]).tools(), ALL);
    assert_eq!(shim(place, "work", &["--daemon-uid", &uid, "--profile", "secret"]).tools(), ["files__read"]);
}

#[test]
fn check_refuses_a_directory_of_two_profiles() {
    let place = Place::new();
    let file = place.write("c.toml", "[profiles.a]\ndirectories = ['~/x']\n[profiles.b]\ndirectories = ['~/x/']\n");
    let ran = place.mcpd(&["check", "--config", file.to_str().expect("text")]).expect_code(2);
    assert!(ran.stderr.contains("the profiles `a` and `b` both have"), "{ran}");
}

#[test]
fn entries_name_no_profile() {
    let daemon = start();
    let place = daemon.place();
    let ran = run(&mut command(place, "work", &["connect", "--print", "cursor"])).expect_code(0);
    assert!(!ran.stdout.contains("--profile"), "{ran}");
    let ran =
        run(&mut command(place, "work", &["connect", "--print", "cursor", "--profile", "default"])).expect_code(0);
    assert!(ran.stdout.contains("--profile"), "{ran}");
}
