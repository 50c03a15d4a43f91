//! Findings about servers and their programs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::json;

use super::{Finding, complaints, doctor, expect, expect_any, expect_healthy, findings, follow};
use crate::support::{Agent, Place, Ran, SCRIPTED, Server, Setup, TAG, quoted, signal};

fn bare(name: &str) -> Server {
    Server::named(name).flags("--bare --tool x")
}

/// Looks at these servers where no daemon runs.
fn try_servers(servers: Vec<Server>, args: &[&str]) -> (Ran, std::rc::Rc<Place>) {
    let place = Place::new();
    let config = servers.into_iter().fold(Setup::new(), Setup::server).write(&place);
    let ran = place.client(&[&["doctor", "--json", "--config", config.to_str().expect("text")], args].concat());
    (ran, place)
}

/// A program of this place that runs a line of shell.
fn script(place: &Place, name: &str, text: &str) -> PathBuf {
    place.write_program(&format!("tools/{name}"), text)
}

#[test]
fn without_a_daemon_each_server_is_started_and_stopped() {
    let servers = vec![
        bare("good"),
        bare("lazy").line("start = \"lazy\""),
        bare("each").line("sharing = \"session\""),
        bare("here").arg("${agent:cwd}").line("sharing = \"workspace\""),
        Server::named("bad").flags("--exit-at-start 3"),
        Server::named("slow").flags("--init-never").line("handshake_timeout = \"300ms\""),
        Server::named("unset").env("A", "${NO_SUCH_VARIABLE}"),
    ];
    let (ran, place) = try_servers(servers, &[]);
    let all = findings(&ran);
    let of = |name: &str| all.iter().find(|one| one.get("group") == "servers" && one.get("about") == name).expect(name);
    for name in ["good", "lazy", "each"] {
        let finding = of(name);
        assert!(finding.get("level") == "ok" && finding.get("found").starts_with("ready after "), "{finding:?}");
        assert!(finding.get("found").ends_with(", 1 tool"), "{finding:?}");
    }
    for (name, found, line) in [
        ("bad", "did not start: exited with code 3", "cannot start: exit code 3"),
        ("slow", "did not start: did not answer `initialize` within 300ms (`handshake_timeout`)", ""),
        (
            "unset",
            "failed: environment variable `NO_SUCH_VARIABLE` is not set in mcpd's environment: \
             write `${NO_SUCH_VARIABLE:-DEFAULT}` for a default",
            "",
        ),
    ] {
        let finding = of(name);
        assert!(finding.get("level") == "problem" && finding.get("found") == found, "{finding:?}");
        assert!(finding.0["lines"].to_string().contains(line), "{finding:?}");
        let again = format!("`mcpd doctor {name} --config ");
        assert!(finding.get("advice").contains(&again), "{finding:?}");
    }
    // What was given the working directory takes it for an argument that it does not know, and says so.
    let here = of("here");
    assert!(
        here.0["lines"].to_string().contains(place.path("").to_str().expect("text").trim_end_matches('/')),
        "{here:?}"
    );
    assert!(place.processes(None).is_empty(), "nothing is left running");
    assert!(!place.path("run").exists(), "and nothing was made for it");
}

#[test]
fn doctor_starts_nothing_with_no_start() {
    let (ran, place) = try_servers(vec![bare("one")], &["--no-start"]);
    let ran = ran.expect_code(0);
    assert!(findings(&ran).iter().any(|one| one.get("found").contains("doctor starts no servers")), "{ran}");
    assert_eq!(fs::read_to_string(place.path("one.journal")).expect("text"), "");
    let (_, place) = try_servers(vec![bare("one"), bare("two")], &["two"]);
    assert_eq!(fs::read_to_string(place.path("one.journal")).expect("text"), "");
    assert_ne!(fs::read_to_string(place.path("two.journal")).expect("text"), "");
}

#[test]
fn server_that_cannot_start_is_up_after_the_printed_remedy() {
    let place = Place::new();
    let needed = place.path("needed");
    let server = bare("one").arg("--exit-unless").arg(&needed);
    let daemon = Setup::with(server).start_in(&place);
    daemon.wait_row("one", "was tried again", |row| row["restarts"].as_u64() >= Some(2));
    let finding = expect(doctor(&daemon), "problem", "one", "exited with code 3");
    assert!(finding.get("found").contains("more attempts to start it in the last hour"), "{finding:?}");
    assert!(finding.get("advice").contains("fix what its last lines report"), "{finding:?}");
    fs::write(needed, "").expect("the test's own");
    follow(&place, &finding).expect_code(0);
    let left = complaints(&doctor(&daemon));
    assert!(left.iter().all(|one| one.get("found").contains("in the last hour")), "{left:#?}");
}

#[test]
fn program_that_repeats_its_input_has_its_own_remedy() {
    let (ran, _place) = try_servers(vec![Server::run_by("echo", "cat").line("start = \"eager\"")], &[]);
    let finding = expect(ran, "problem", "echo", "is not an MCP server: it repeats");
    assert!(finding.get("advice").starts_with("correct `command` and `args` in [servers.echo]"), "{finding:?}");
}

#[test]
fn mistake_in_the_configuration_is_reported_once_at_the_server_that_it_stops() {
    let place = Place::new();
    let npx = "#!/bin/sh\n[ \"$1\" = --version ] && { echo 11; exit; }\necho 'Ok to proceed? (y)' >&2; exit 1\n";
    let npx = script(&place, "npx", npx);
    let servers = [bare("away").line("cwd = \"/nonexistent\""), Server::run_by("asks", &npx).flags("package")];
    let config = servers.into_iter().fold(Setup::new(), Setup::server).write(&place);
    let doctor = |args: &[&str]| {
        place.client(&[&["doctor", "--json", "--config", config.to_str().expect("text")], args].concat())
    };
    let mistakes = [
        ("away", "`/nonexistent` does not exist", "`mkdir -p /nonexistent`"),
        ("asks", "`npx` without `-y` asks before it installs a package", "write `\"-y\"`"),
    ];
    let (ran, unstarted) = (doctor(&[]).expect_code(1), doctor(&["--no-start"]));
    for (name, warning, advice) in mistakes {
        let all = findings(&ran);
        let of_configuration = |all: &[Finding]| {
            all.iter().filter(|one| one.get("group") == "configuration" && one.get("found").contains(warning)).count()
        };
        assert_eq!(of_configuration(&all), 0, "{ran}");
        let of_server: Vec<_> = all.iter().filter(|one| one.get("about") == name).collect();
        let [failed] = of_server[..] else { panic!("not one of {name}: {ran}") };
        assert!(failed.get("found").starts_with("did not start: "), "{failed:?}");
        let remedy = failed.get("advice");
        assert!(remedy.starts_with(advice) && remedy.contains("; then `mcpd doctor "), "{failed:?}");
        assert_eq!(of_configuration(&findings(&unstarted)), 1, "a server that is not checked: {unstarted}");
    }
}

#[test]
fn server_that_does_not_support_the_configured_era_is_a_problem() {
    let servers = vec![
        bare("old").line("era = \"modern\""),
        bare("new").flags("--era modern").line("era = \"legacy\""),
        bare("mute").flags("--probe silent").line("era = \"modern\"").line("handshake_timeout = \"300ms\""),
        bare("slow").flags("--init-delay 2500"),
        bare("asked").flags("--era modern"),
    ];
    let (ran, _place) = try_servers(servers, &[]);
    let all = findings(&ran);
    let of =
        |name: &str| all.iter().rfind(|one| one.get("group") == "servers" && one.get("about") == name).expect(name);
    for (name, found) in
        [("old", "does not speak MCP 2026-07-28"), ("new", "-32022"), ("mute", "`server/discover` within 300ms")]
    {
        let finding = of(name);
        assert!(finding.get("level") == "problem" && finding.get("found").contains(found), "{finding:?}");
        assert!(
            finding.get("advice").starts_with(&format!("set `era = \"auto\"` in [servers.{name}]; then ")),
            "{finding:?}"
        );
    }
    assert_eq!(of("slow").get("level"), "ok", "a slow start is not silence about the era");
    assert!(of("asked").get("found").contains("MCP 2026-07-28"), "{:?}", of("asked"));
}

#[test]
fn server_that_does_not_answer_discover_is_a_warning() {
    let daemon = Setup::with(bare("silent").flags("--probe silent").line("sharing = \"pool\"")).start();
    let finding = expect(doctor(&daemon), "warning", "silent", "waits 2s for it at the first start");
    assert!(
        finding.get("advice").starts_with("set `era = \"legacy\"` in [servers.silent]; then `mcpd reload "),
        "{finding:?}"
    );
}

#[test]
fn flapping_server_is_reported_while_it_is_up() {
    let daemon = Setup::with(Server::named("one")).backoff_reset(1).start();
    let mut agent = Agent::ready(&daemon);
    for restarts in 1..=3 {
        agent.call("one__die", &json!({"how": "kill"}));
        daemon.wait_row("one", "is up again", |row| row["restarts"] == restarts && row["state"] == "ready");
    }
    assert_eq!(daemon.row("one")["restarts_last_hour"], 3);
    let finding = expect(doctor(&daemon), "warning", "one", "was started again 3 times in the last hour");
    follow(daemon.place(), &finding).expect_code(0);
    // One that a person has restarted has not ended by itself.
    daemon.client(&["restart", "one"]).expect_code(0);
    let row = daemon.row("one");
    assert_eq!((&row["restarts"], &row["restarts_last_hour"]), (&4.into(), &3.into()));
}

#[test]
fn instances_of_a_server_are_counted_together() {
    let daemon = Setup::with(Server::named("each").line("sharing = \"session\"")).backoff_reset(1).start();
    for agents in 1..=2 {
        let mut agent = Agent::ready(&daemon);
        agent.call("each__die", &json!({"how": "kill"}));
        daemon.wait_row("each", "has started again", |row| row["restarts_last_hour"] == agents);
    }
}

#[test]
fn policy_that_hides_everything_and_empty_servers_are_reported() {
    let nothing = Server::named("nothing").flags("--no-tools-capability");
    let daemon = Setup::with(bare("closed").line("deny = [\"*\"]")).server(nothing).start();
    expect(doctor(&daemon), "warning", "closed", "policy hides everything it offers");
    expect(doctor(&daemon), "warning", "nothing", "offers neither tools nor prompts nor resources");
}

#[test]
fn servers_are_named_with_file_and_line() {
    let place = Place::new();
    let ours = place.write("ours.toml", "\n[servers.lost]\ncommand = 'no-such-program'\n");
    let servers = json!({ "mcpServers": { "My Web": { "command": "sh", "env": { "A": "${NO_SUCH_VARIABLE}" } } } });
    let theirs = place.write("claude.json", serde_json::to_string_pretty(&servers).expect("JSON"));
    let [ours, theirs] = [&ours, &theirs].map(|path| path.to_str().expect("text"));
    let doctor = |args: &[&str]| place.client(&[&["doctor", "--config", ours, "--config", theirs], args].concat());
    let finding = expect(doctor(&["--json"]), "problem", "lost", "command `no-such-program` not found");
    assert_eq!((finding.get("place"), finding.get("title")), (&*format!("{ours}:2"), "lost"), "{finding:?}");
    let finding = expect(doctor(&["--json"]), "problem", "My-Web", "`NO_SUCH_VARIABLE` is not set");
    assert_eq!((finding.get("place"), finding.get("title")), (&*format!("{theirs}:3"), "My Web"), "{finding:?}");
    assert!(finding.get("advice").contains(&format!("change `My Web` at {theirs}:3,")), "{finding:?}");
    let text = doctor(&[]).stdout;
    for line in [format!("at {ours}:2\n"), format!("at {theirs}:3, where it is called `My Web`\n")] {
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn command_found_only_in_this_shell_differs_from_a_missing_one() {
    let place = Place::new();
    script(&place, "wrapped-server", "#!/bin/sh\n");
    let servers =
        Setup::with(Server::run_by("here", "wrapped-server")).server(Server::run_by("none", "no-such-program"));
    let daemon = servers.start_in(&place);
    let mut command = place.command(crate::support::MCPD);
    let path = format!("{}:{}", place.path("tools").display(), std::env::var("PATH").expect("PATH is set"));
    command.args(["doctor", "--json", "--runtime-dir"]).arg(place.runtime_dir()).env("PATH", path);
    let finding = expect(crate::support::run(&mut command), "problem", "here", "command `wrapped-server` not found");
    let whole = format!("command = {}", quoted(place.path("tools/wrapped-server")));
    assert!(finding.get("advice").contains(&whole), "{finding:?}");
    let finding = expect(doctor(&daemon), "problem", "none", "command `no-such-program` not found");
    let advice = finding.get("advice");
    assert!(advice.starts_with("install it, then `mcpd restart none "), "{finding:?}");
    assert!(advice.contains("; or correct `command` in [servers.none], then `mcpd reload "), "{finding:?}");
}

#[test]
fn command_on_the_login_path_needs_a_restart_of_a_detached_daemon() {
    let place = Place::new();
    fs::create_dir(place.path("xdg-config/mcpd")).expect("a fresh directory");
    fs::create_dir(place.path("tools")).expect("a fresh directory");
    symlink(SCRIPTED, place.path("tools/late-server")).expect("a fresh path");
    let config = Setup::with(Server::run_by("late", "late-server")).write(&place);
    fs::rename(config, place.path("xdg-config/mcpd/config.toml")).expect("the same disk");
    let path = format!("{}:{}", place.path("tools").display(), std::env::var("PATH").expect("PATH is set"));
    let profile = format!("export {TAG}={}\n", place.tag());
    place.write("home/.bash_profile", &profile);
    place.mcpd(&["start"]).expect_code(0);
    let looked = |path: &str| {
        let mut command = place.command(crate::support::MCPD);
        let ran = crate::support::run(command.args(["doctor", "--json"]).env("PATH", path));
        let version = expect_any(&ran, "daemon", "version ");
        assert!(version.get("found").ends_with(", not started by systemd"), "{version:?}");
        expect(ran, "problem", "late", "command `late-server` ")
    };
    // Only this shell has it, whose PATH `mcpd start` uses.
    let advice = looked(&path).get("advice").to_owned();
    assert!(advice.contains("outside the daemon's PATH: `mcpd stop`, then `mcpd start`; or write"), "{advice}");
    // The login environment has it, this shell does not.
    place.write("home/.bash_profile", format!("{profile}export PATH='{path}'\n"));
    let advice = looked(&std::env::var("PATH").expect("PATH is set")).get("advice").to_owned();
    assert!(advice.contains("outside the daemon's PATH: `mcpd stop`, then `mcpd start`; or write"), "{advice}");
    place.mcpd(&["stop"]).expect_code(0);
    place.mcpd(&["start"]).expect_code(0);
    let ran = place.mcpd(&["doctor", "--json"]);
    assert!(!findings(&ran).iter().any(|one| one.get("found").contains("command `late-server` ")), "{ran}");
    place.mcpd(&["stop"]).expect_code(0);
}

#[test]
fn server_that_is_down_needs_a_reload_once_its_file_has_changed() {
    let daemon = Setup::with(Server::run_by("one", "no-such-program")).start();
    let file = daemon.place().path("config.toml");
    let text = fs::read_to_string(&file).expect("text");
    let finding = expect(doctor(&daemon), "problem", "one", "command `no-such-program` not found");
    assert!(finding.get("advice").contains("`mcpd restart one "), "{finding:?}");
    daemon.place().write("config.toml", text.replace("no-such-program", SCRIPTED));
    let ran = doctor(&daemon);
    let finding = findings(&ran)
        .into_iter()
        .find(|one| one.get("about") == "one" && one.get("group") == "servers")
        .expect("the daemon runs it as it was");
    assert!(!finding.get("advice").contains("mcpd restart"), "{finding:?}");
    assert!(finding.get("advice").contains("`mcpd reload "), "{finding:?}");
    daemon.client(&["reload"]).expect_code(0);
    let left = complaints(&doctor(&daemon));
    assert!(left.iter().all(|one| one.get("found").contains("in the last hour")), "{left:#?}");
}

#[test]
fn script_without_its_interpreter_differs_from_a_failing_one() {
    let place = Place::new();
    let lost = script(&place, "lost", "#!/nowhere/venv/bin/python\n");
    let path = place.path("tools").to_str().expect("text").to_owned();
    let found = script(&place, "found", "#!/usr/bin/env no-such-interpreter\n");
    let config = Setup::with(Server::run_by("one", lost)).server(Server::run_by("two", found).env("PATH", &path));
    let config = config.write(&place);
    let args = ["doctor", "--json", "--no-start", "--config", config.to_str().expect("text")];
    expect(place.client(&args), "problem", "lost", "needs the interpreter `/nowhere/venv/bin/python`");
    expect(place.client(&args), "problem", "found", "needs the interpreter `no-such-interpreter`");
}

#[test]
fn version_probes_of_launchers_are_bounded() {
    let place = Place::new();
    script(&place, "node", "#!/bin/sh\necho v16.20.0\n");
    script(&place, "npx", "#!/bin/sh\necho 8.19.4\n");
    script(&place, "docker", "#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2; exit 1\n");
    script(&place, "uvx", "#!/bin/sh\nsleep 600 & wait\n");
    let path = format!("{}:/usr/bin:/bin", place.path("tools").display());
    let with = |name: &str| Server::run_by(name, name).env("PATH", &path);
    let config = ["npx", "docker", "uvx"].into_iter().map(with).fold(Setup::new(), Setup::server).write(&place);
    let ran = place.client(&["doctor", "--json", "--no-start", "--config", config.to_str().expect("text")]);
    let all_findings = findings(&ran);
    assert!(
        all_findings.iter().any(|one| one.get("about") == "npx" && one.get("found").contains("version 8.19.4")),
        "{ran}"
    );
    let expected: Vec<_> =
        complaints(&ran).iter().map(|one| format!("{}: {}", one.get("about"), one.get("found"))).collect();
    let expected = expected.join("\n");
    for part in ["version v16.20.0; runs npx", "Cannot connect to the Docker daemon", "no output within 5s"] {
        assert!(expected.contains(part), "no {part}: {expected}");
    }
    assert!(place.processes(None).is_empty(), "what hung was ended with all that it had started");
}

#[test]
fn container_may_remain_after_its_client_was_killed() {
    let place = Place::new();
    let docker =
        script(&place, "docker", &format!("#!/bin/sh\n[ $1 = run ] || exit 0\nshift; exec {SCRIPTED} \"$@\"\n"));
    let container = |name| Server::run_by(name, &docker).flags("run --bare --tool x");
    let setup = [container("killed"), container("well"), bare("other")].into_iter().fold(Setup::new(), Setup::server);
    let daemon = setup.start_in(&place);
    for name in ["killed", "other"] {
        signal(daemon.guard_pid(name), Signal::KILL);
        daemon.wait_row(name, "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
    }
    let ran = doctor(&daemon);
    let found = "`docker` was killed or did not answer, so its container may still run";
    let about: Vec<_> = complaints(&ran).into_iter().filter(|one| one.get("found") == found).collect();
    assert!(matches!(&about[..], [one] if one.get("about") == "killed"), "{ran}");
    assert!(about[0].get("advice").contains("`docker ps`"), "{ran}");
}

#[test]
fn server_that_others_have_is_not_started_beside_a_daemon() {
    let daemon = Setup::with(bare("one")).start();
    let starts = || daemon.count_starts("one");
    expect_healthy(doctor(&daemon));
    assert_eq!(starts(), 1);
}
