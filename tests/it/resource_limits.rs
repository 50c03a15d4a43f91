//! Memory and process limits affect only the server that exceeds them.
//!
//! The tests need a user manager with delegated controllers of cgroup v2. Without them the tests are skipped.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, Process, Server, Setup, UserManager, code, result, signal, skipped, supervised, until};

/// A manager that runs a server under `limits` beside one without. `None` where limits cannot be enforced; it is then
/// said why, by status too.
fn limited(limits: &str) -> Option<UserManager> {
    let limited = limits.lines().fold(Server::named("limited"), Server::line);
    let setup = Setup::with(limited).server(Server::named("free")).backoff_reset(1_000);
    let manager = UserManager::start(&setup)?;
    manager.systemctl(&["start", "mcpd"]).expect_code(0);
    for name in ["limited", "free"] {
        manager.wait_row(name, "is ready", |row| row["state"] == "ready");
    }
    let row = manager.wait_row("limited", "tells of its limits", |row| row["limits"]["state"].is_string());
    if row["limits"]["state"] == "enforced" {
        return Some(manager);
    }
    let reason = row["limits"]["reason"].as_str().expect("a reason").to_owned();
    assert_eq!(row["limits"]["state"], "not enforced");
    assert_eq!(manager.log().matches("limits of servers are not enforced").count(), 1, "{}", manager.log());
    assert!(manager.mcpd(&["status"]).stdout.contains(&format!("limited: limits not enforced: {reason}")));
    skipped(&reason);
    None
}

/// What a shell below the server made of `script`.
fn shell(agent: &mut Agent, server: &str, script: &str) -> Value {
    agent.call(&format!("{server}__run"), &json!({"argv": ["sh", "-c", script]}))
}

/// Keeps this much in memory, if it can.
const KEEP: &str = "head -c 60M /dev/zero | tail | wc -c";

/// Case A15.
#[test]
fn server_that_needs_too_much_memory_dies_alone_and_whole_and_is_started_again() {
    let Some(manager) = limited("memory_max = '40MiB'") else { return };
    assert_eq!(manager.cgroups(), ["daemon", "server-limited-1"]);
    let row = manager.wait_row("limited", "runs", |row| row["pid"].is_u64());
    assert_eq!(row["limits"], json!({"memory_max": 40 << 20, "state": "enforced"}));
    let before = manager.unit_processes();
    let mut agent = Agent::ready_at(&manager.agent_socket());
    let other = agent.start_call("free__sleep", &json!({"ms": 3000}));
    let answer = shell(&mut agent, "limited", KEEP);
    assert_eq!(code(&answer), -31001, "{answer}");
    let reason = "was killed: over its memory limit of 40MiB";
    assert!(answer["error"]["message"].as_str().expect("text").contains(reason), "{answer}");
    let row = manager.wait_row("limited", "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
    assert_eq!(row["last_error"], reason);
    assert!(manager.mcpd(&["status"]).stdout.contains(&format!("limited: last error: {reason}")));
    assert_eq!(manager.cgroups(), ["daemon", "server-limited-2"], "what is over is removed");
    result(&agent.answer(&other));
    let alive = before.iter().filter(|process| process.is_alive()).count();
    assert_eq!(alive, 4, "mcpd, its reaper, and the other server with its guard go on: {before:#?}");
    let answer = shell(&mut agent, "free", KEEP);
    assert_eq!(result(&answer)["structuredContent"]["stdout"].as_str().map(str::trim), Some("62914560"));
    let mcpd = before.iter().find(|process| process.command.contains("mcpd serve")).expect("the daemon");
    let is_zombie = |pid: &u32| Process::find(*pid).is_none();
    until("no zombie is left", || (!supervised(mcpd.pid).iter().any(is_zombie)).then_some(()));
}

/// Case A16.
#[test]
fn server_is_limited_to_its_number_of_processes_and_continues_to_serve() {
    let Some(manager) = limited("tasks_max = 12") else { return };
    let mut agent = Agent::ready_at(&manager.agent_socket());
    let script = "i=0; while [ $i -lt 20 ]; do sleep 30 >/dev/null 2>&1 & i=$((i+1)); echo $i; done";
    let ran = |answer: &Value| result(answer)["structuredContent"].clone();
    let limited = ran(&shell(&mut agent, "limited", script));
    let started = limited["stdout"].as_str().expect("text").lines().count();
    // The server and the shell are two of its tasks at least.
    assert!(limited["code"] != 0 && (1..=10).contains(&started), "{started} of twenty: {limited}");
    result(&agent.call("limited__echo", &json!({})));
    let free = ran(&shell(&mut agent, "free", script));
    assert_eq!((&free["code"], free["stdout"].as_str().expect("text").lines().count()), (&json!(0), 20));
    let answer = agent.call("limited__die", &json!({}));
    assert_eq!(code(&answer), -31001);
    let row = manager.wait_row("limited", "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
    assert_eq!(row["last_error"], "exited with code 1; it had reached its limit of 12 tasks");
    assert_eq!(manager.cgroups(), ["daemon", "server-limited-2"]);
}

#[test]
fn cgroup_is_removed_with_a_killed_guard_and_with_a_removed_server() {
    let Some(manager) = limited("memory_max = '100MiB'\ntasks_max = 64") else { return };
    let mut agent = Agent::ready_at(&manager.agent_socket());
    result(&shell(&mut agent, "limited", "setsid sleep 60 >/dev/null 2>&1 &"));
    let before = manager.unit_processes();
    let row = manager.wait_row("limited", "runs", |row| row["guard_pid"].is_u64());
    let cgroup = |process: &Process| fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).unwrap_or_default();
    let its_own: Vec<_> = before.iter().filter(|process| cgroup(process).contains("server-limited-1")).collect();
    assert_eq!(its_own.len(), 3, "guard, server and daughter: {before:#?} {row}");
    let guard = its_own.iter().find(|process| process.command.starts_with("mcpd-guard")).expect("a guard");
    signal(guard.pid, Signal::KILL);
    manager.wait_row("limited", "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
    until("they are gone", || its_own.iter().all(|process| !process.is_alive()).then_some(()));
    assert_eq!(manager.cgroups(), ["daemon", "server-limited-2"]);
    Setup::with(Server::named("free")).write(manager.place());
    manager.systemctl(&["reload", "mcpd"]).expect_code(0);
    until("its cgroup is gone", || (manager.cgroups() == ["daemon"]).then_some(()));
    result(&agent.call("free__echo", &json!({})));
}

#[test]
fn limits_hold_again_after_kill_9_of_mcpd() {
    let Some(manager) = limited("memory_max = '40MiB'") else { return };
    manager.systemctl(&["kill", "--signal=KILL", "--kill-whom=main", "mcpd"]).expect_code(0);
    manager.wait_property("NRestarts", "1");
    manager.wait_property("ActiveState", "active");
    manager.wait_row("limited", "is limited again", |row| {
        row["state"] == "ready" && row["limits"]["state"] == "enforced" && row["restarts"] == 0
    });
    assert_eq!(manager.cgroups(), ["daemon", "server-limited-1"]);
}

#[test]
fn limits_that_come_with_a_reload_hold_and_without_any_no_cgroup_is_made() {
    let Some(manager) = UserManager::start(&Setup::with(Server::named("free"))) else { return };
    manager.systemctl(&["start", "mcpd"]).expect_code(0);
    let row = manager.wait_row("free", "is ready", |row| row["state"] == "ready");
    assert!(row["limits"].is_null() && manager.cgroups().is_empty(), "{row} {:?}", manager.cgroups());
    let limited = Server::named("limited").line("memory_max = '100MiB'");
    Setup::with(Server::named("free")).server(limited).write(manager.place());
    manager.systemctl(&["reload", "mcpd"]).expect_code(0);
    let row = manager.wait_row("limited", "is ready", |row| row["state"] == "ready");
    assert_eq!(manager.wait_row("free", "goes on", |row| row["state"] == "ready")["restarts"], 0);
    if row["limits"]["state"] == "enforced" {
        assert_eq!(manager.cgroups(), ["daemon", "server-limited-1"]);
    } else {
        skipped(row["limits"]["reason"].as_str().expect("a reason"));
    }
}

#[test]
fn daemon_without_a_cgroup_serves_and_reports_that_limits_are_not_enforced() {
    let limits = "[defaults]\nmemory_max = '100MiB'\ntasks_max = 64";
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).head(limits).start();
    let row = daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    daemon.wait_row("b", "is ready", |row| row["state"] == "ready");
    let reason = "mcpd has no cgroup of its own: see `mcpd serve --own-cgroup`";
    let expected = json!({"memory_max": 100 << 20, "tasks_max": 64, "state": "not enforced", "reason": reason});
    assert_eq!(row["limits"], expected);
    assert!(daemon.client(&["status"]).expect_code(0).stdout.contains(&format!("a: limits not enforced: {reason}")));
    assert_eq!(daemon.log().matches("limits of servers are not enforced").count(), 1, "{}", daemon.log());
}
