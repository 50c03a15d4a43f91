//! `mcpd doctor`: its findings, and the commands that it prints to fix them.

mod causes;
mod clients;
mod daemons;
mod fixes;
mod http_servers;
mod runtime_directory;
mod servers;
mod units;

use serde_json::Value;

use crate::support::{Daemon, Place, Ran, Server, Setup, run, until};

/// One finding, as programs get it.
#[derive(Debug)]
struct Finding(Value);

impl Finding {
    fn get(&self, member: &str) -> &str {
        self.0[member].as_str().unwrap_or_default()
    }

    /// The first command in what is to be done.
    fn command(&self) -> String {
        let command = self.get("advice").split('`').nth(1);
        command.unwrap_or_else(|| panic!("no command: {self:?}")).to_owned()
    }
}

/// All findings of `mcpd doctor` with these arguments.
fn findings(ran: &Ran) -> Vec<Finding> {
    let report = ran.json();
    assert_eq!(report["format"], 1, "{ran}");
    report["findings"].as_array().expect("a list").iter().map(|finding| Finding(finding.clone())).collect()
}

/// The only finding about this thing that is not `ok`, after a run that ended with the code which belongs to it.
#[track_caller]
fn expect(ran: Ran, level: &str, about: &str, found: &str) -> Finding {
    let all = findings(&ran);
    let is_problem = all.iter().any(|finding| finding.get("level") == "problem");
    let ran = ran.expect_code(i32::from(is_problem));
    let mut meant = all.into_iter().filter(|finding| {
        finding.get("level") == level && finding.get("about") == about && finding.get("found").contains(found)
    });
    let finding = meant.next().unwrap_or_else(|| panic!("no {level} about {about}: {found}\n{ran}"));
    assert!(!finding.get("advice").is_empty() || level == "ok", "{finding:?}");
    finding
}

/// The first finding about this thing that has `found` in its text, whatever its level.
#[track_caller]
fn expect_any(ran: &Ran, about: &str, found: &str) -> Finding {
    let mut all = findings(ran).into_iter();
    let finding = all.find(|finding| finding.get("about") == about && finding.get("found").contains(found));
    finding.unwrap_or_else(|| panic!("nothing about {about}: {found}\n{ran}"))
}

/// Everything that is not `ok`.
fn complaints(ran: &Ran) -> Vec<Finding> {
    findings(ran).into_iter().filter(|finding| finding.get("level") != "ok").collect()
}

#[track_caller]
fn expect_healthy(ran: Ran) {
    let complaints = complaints(&ran);
    assert!(complaints.is_empty(), "{complaints:#?}");
    ran.expect_code(0);
}

fn doctor(daemon: &Daemon) -> Ran {
    daemon.client(&["doctor", "--json"])
}

/// Runs what a finding says to do, as a shell does where `mcpd` is installed.
fn follow(place: &Place, finding: &Finding) -> Ran {
    let bin = place.path("bin");
    if !bin.exists() {
        std::fs::create_dir(&bin).expect("the test's own directory is writable");
        std::os::unix::fs::symlink(crate::support::MCPD, bin.join("mcpd")).expect("a link");
    }
    let mut command = place.command("sh");
    run(command.args(["-c", &format!("PATH={}:$PATH; {}", bin.display(), finding.command())]))
}

#[test]
fn where_all_is_well_there_is_nothing_to_do() {
    let daemon = Setup::with(Server::named("one")).server(Server::named("two").flags("--bare --tool x")).start();
    let ran = daemon.client(&["doctor"]).expect_code(0);
    assert!(ran.stdout.ends_with("\n\nno problem found\n") && !ran.stdout.contains('→'), "{ran}");
    for part in ["program and system\n  ok ", "mcp.sock", "one ", "two ", "scripted-server"] {
        assert!(ran.stdout.contains(part), "no {part}: {ran}");
    }
    assert!(ran.stderr.is_empty(), "nothing turns where nobody looks: {ran}");
    expect_healthy(doctor(&daemon));
    assert_eq!(daemon.row("one")["calls"], 0);
}

#[test]
fn doctor_prints_each_finding_on_one_line_with_its_remedy_below() {
    let daemon = Server::named("bad").flags("--exit-at-start 3").start();
    // So long that it is not tried again in the meantime.
    daemon.wait_row("bad", "is in backoff", |row| row["retry_in_ms"].as_u64() > Some(1000));
    let ran = daemon.client(&["doctor"]).expect_code(1);
    let lines: Vec<_> = ran.stdout.lines().collect();
    let at =
        lines.iter().position(|line| line.starts_with("  problem bad  backoff: exited with code 3")).expect("a line");
    assert_eq!(lines[at + 1], "            | cannot start: exit code 3");
    let mut below = lines[at + 1..].iter().skip_while(|line| line.starts_with("            | "));
    assert!(
        below.next().is_some_and(|line| line.starts_with("          at /") && line.contains("config.toml:")),
        "{ran}"
    );
    assert!(below.next().is_some_and(|line| line.starts_with("          → fix what its last lines report")), "{ran}");
    assert_eq!(*lines.last().expect("a line"), "1 problem");
}

#[test]
fn server_that_there_is_not_is_wrong_usage() {
    let daemon = Setup::with(Server::named("files")).server(Server::named("bad").flags("--exit-at-start 3")).start();
    let ran = daemon.client(&["doctor", "flies"]).expect_code(2);
    assert!(ran.stderr.contains("no server `flies`: did you mean `files`?") && ran.stdout.is_empty(), "{ran}");
    expect_healthy(daemon.client(&["doctor", "--json", "files"]));
    // Between two waits it is being started.
    let ran = until("it is seen while it waits", || {
        let ran = daemon.client(&["doctor", "--json", "bad"]);
        ran.stdout.contains("backoff").then_some(ran)
    });
    expect(ran, "problem", "bad", "backoff");
}
