//! Memory and process limits affect only the server that exceeds them, and `status` says what is not enforced.
//!
//! Most tests need a user manager with delegated controllers of cgroup v2. Without them these tests are skipped.

use std::fs;

use nix::sys::sysinfo::sysinfo;
use rustix::process::{Signal, geteuid};
use serde_json::{Value, json};

use crate::support::{
    Agent, Gate, Process, Server, Setup, UserManager, code, result, signal, skipped, supervised, system_has_namespaces,
    until,
};

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
    assert!(manager.mcpd(&["status"]).stdout.replace("\n    ", " ").contains(&format!("not enforced: {reason}")));
    skipped(&reason);
    None
}

/// What a shell below the server made of `script`.
fn shell(agent: &mut Agent, server: &str, script: &str) -> Value {
    agent.call(&format!("{server}__run"), &json!({"argv": ["sh", "-c", script]}))
}

/// The cgroups of the unit, without their numbers.
fn cgroups(manager: &UserManager) -> Vec<String> {
    let mut names = manager.cgroups();
    for name in &mut names {
        name.truncate(name.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    }
    names.sort();
    names
}

/// That of the daemon, and those of both servers.
const BOTH: [&str; 3] = ["daemon", "server-free-", "server-limited-"];

/// Keeps this much in memory, if it can.
const KEEP: &str = "head -c 60M /dev/zero | tail | wc -c";

/// Case A15.
#[test]
fn server_that_needs_too_much_memory_dies_alone_and_whole_and_is_started_again() {
    let Some(manager) = limited("memory_max = '40MiB'") else { return };
    assert_eq!(cgroups(&manager), BOTH);
    let row = manager.wait_row("limited", "runs", |row| row["pid"].is_u64());
    let expected = json!({"memory_max": 40 << 20, "tasks_max": 4096, "cpu_weight": 100, "state": "enforced"});
    assert_eq!(row["limits"], expected);
    let before = manager.unit_processes();
    let mut agent = Agent::ready_at(&manager.agent_socket());
    let gate = Gate::new(manager.place());
    let other = agent.start_call("free__sleep", &gate.arguments());
    let answer = shell(&mut agent, "limited", KEEP);
    assert_eq!(code(&answer), -31001, "{answer}");
    let reason = "was killed: over its memory limit of 40MiB";
    assert!(answer["error"]["message"].as_str().expect("text").contains(reason), "{answer}");
    let row = manager.wait_row("limited", "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
    assert_eq!(row["last_error"], reason);
    assert!(manager.mcpd(&["status"]).stdout.contains(&format!("limited: last error: {reason}")));
    assert_eq!(cgroups(&manager), BOTH, "what is over is removed");
    gate.open();
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
    assert_eq!(cgroups(&manager), BOTH);
}

#[test]
fn cgroup_is_removed_with_a_killed_guard_and_with_a_removed_server() {
    let Some(manager) = limited("memory_max = '100MiB'\ntasks_max = 64") else { return };
    let mut agent = Agent::ready_at(&manager.agent_socket());
    result(&shell(&mut agent, "limited", "setsid sleep 60 >/dev/null 2>&1 &"));
    let before = manager.unit_processes();
    let row = manager.wait_row("limited", "runs", |row| row["guard_pid"].is_u64());
    let cgroup = |process: &Process| fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).unwrap_or_default();
    let its_own: Vec<_> = before.iter().filter(|process| cgroup(process).contains("server-limited-")).collect();
    assert_eq!(its_own.len(), 3, "guard, server and daughter: {before:#?} {row}");
    let guard = its_own.iter().find(|process| process.command.starts_with("mcpd-guard")).expect("a guard");
    signal(guard.pid, Signal::KILL);
    manager.wait_row("limited", "is ready again", |row| row["state"] == "ready" && row["restarts"] == 1);
    until("they are gone", || its_own.iter().all(|process| !process.is_alive()).then_some(()));
    assert_eq!(cgroups(&manager), BOTH);
    Setup::with(Server::named("free")).write(manager.place());
    manager.systemctl(&["reload", "mcpd"]).expect_code(0);
    until("its cgroup is gone", || (cgroups(&manager) == BOTH[..2]).then_some(()));
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
    manager.wait_row("free", "is ready again", |row| row["state"] == "ready");
    assert_eq!(cgroups(&manager), BOTH);
}

/// Case K30.
#[test]
fn server_without_limits_has_safe_defaults_and_a_restart_loop_leaves_no_cgroup() {
    let Some(manager) = limited("memory_max = 'none'\ntasks_max = 'none'\ncpu_weight = 7") else { return };
    let file = |server: &str, name: &str| {
        let directories = manager.cgroups();
        let directory = directories.iter().find(|one| one.starts_with(&format!("server-{server}-"))).expect("a cgroup");
        manager.shell(&format!("cat /sys/fs/cgroup{}/{directory}/{name}", manager.property("ControlGroup"))).stdout
    };
    let half = sysinfo().expect("it never fails").ram_total() / 2;
    let set = |server| ["memory.max", "memory.oom.group", "pids.max", "cpu.weight"].map(|name| file(server, name));
    let page = |bytes: u64| bytes / 4096 * 4096;
    assert_eq!(set("free").map(|text| text.trim().to_owned()), [&*page(half).to_string(), "1", "4097", "100"]);
    assert_eq!(set("limited").map(|text| text.trim().to_owned()), ["max", "1", "max", "7"]);
    let row = manager.wait_row("free", "is ready", |row| row["state"] == "ready");
    let expected = json!({"memory_max": half, "tasks_max": 4096, "cpu_weight": 100, "state": "enforced"});
    assert_eq!(row["limits"], expected);
    let mut agent = Agent::ready_at(&manager.agent_socket());
    for restarts in 1..=6 {
        assert_eq!(code(&agent.call("free__die", &json!({}))), -31001);
        manager.wait_row("free", "is ready again", |row| row["state"] == "ready" && row["restarts"] == restarts);
    }
    assert_eq!(cgroups(&manager), BOTH);
    manager.mcpd(&["restart", "--all"]).expect_code(0);
    assert_eq!(cgroups(&manager), BOTH);
}

#[test]
fn limits_that_come_with_a_reload_hold() {
    let Some(manager) = UserManager::start(&Setup::with(Server::named("free"))) else { return };
    manager.systemctl(&["start", "mcpd"]).expect_code(0);
    let row = manager.wait_row("free", "is ready", |row| row["state"] == "ready");
    let limited = Server::named("limited").line("memory_max = '100MiB'");
    Setup::with(Server::named("free")).server(limited).write(manager.place());
    manager.systemctl(&["reload", "mcpd"]).expect_code(0);
    assert_eq!(manager.wait_row("free", "goes on", |row| row["state"] == "ready")["pid"], row["pid"]);
    let row = manager.wait_row("limited", "is ready", |row| row["state"] == "ready");
    if row["limits"]["state"] == "enforced" {
        assert_eq!(cgroups(&manager), BOTH);
    } else {
        skipped(row["limits"]["reason"].as_str().expect("a reason"));
    }
}

/// Why there are no limits for a daemon that was started by hand.
fn reason() -> &'static str {
    let own = fs::read_to_string("/proc/self/cgroup").expect("a file of the kernel");
    match own.contains(":memory:") || own.contains(":pids:") {
        true => "this system has cgroup v1, which is not delegated",
        false => "mcpd has no cgroup of its own",
    }
}

/// Case K31.
#[test]
fn daemon_without_a_cgroup_serves_and_reports_that_limits_are_not_enforced() {
    let limits = "[defaults]\nsandbox = 'scope'\nmemory_max = '100MiB'\ntasks_max = 64";
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).head(limits).start();
    let row = daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    daemon.wait_row("b", "is ready", |row| row["state"] == "ready");
    let missing = json!(["memory_max", "tasks_max"]);
    let expected = json!({
        "memory_max": 100 << 20, "tasks_max": 64, "cpu_weight": 100,
        "state": "not enforced", "not_enforced": missing, "reason": reason(),
    });
    assert_eq!(row["limits"], expected);
    let found = format!("`memory_max`, `tasks_max` are not enforced: {}", reason());
    let status = daemon.client(&["status"]).expect_code(0).stdout.replace("\n    ", " ");
    assert_eq!(status.matches("not enforced").count(), 1, "once for both: {status}");
    assert!(status.contains(&format!("a, b: {found}")), "{status}");
    assert_eq!(daemon.log().matches("limits of servers are not enforced").count(), 1, "{}", daemon.log());
}

/// Case K31.
#[test]
fn defaults_that_cannot_be_enforced_are_no_problem() {
    let daemon = Setup::with(Server::named("a")).server(Server::named("b")).start();
    for server in ["a", "b"] {
        let row = daemon.wait_row(server, "is ready", |row| row["state"] == "ready");
        assert_eq!(
            (&row["limits"]["state"], &row["limits"]["reason"]),
            (&json!("defaults not enforced"), &json!(reason()))
        );
    }
    let status = daemon.client(&["status"]).expect_code(0).stdout;
    assert!(!status.contains("not enforced"), "{status}");
    assert!(!daemon.log().contains("not enforced"), "{}", daemon.log());
    let doctor = daemon.client(&["doctor"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let found =
        format!("limits of the default limits of servers, `memory_max`, `tasks_max` are not enforced: {}", reason());
    assert_eq!(doctor.matches(&found).count(), 1, "{doctor}");
}

/// Case K32.
#[test]
fn namespaces_limit_the_tasks_of_each_server_without_a_cgroup() {
    if !system_has_namespaces() {
        return;
    }
    let fenced =
        |name| Server::named(name).line("sandbox = { level = 'files', namespaces = 'require' }").line("tasks_max = 12");
    let daemon = Setup::with(fenced("a")).server(fenced("b")).start();
    let row = daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    if geteuid().is_root() {
        assert_eq!(row["limits"]["not_enforced"], json!(["memory_max", "tasks_max"]));
        return skipped("the kernel does not limit the tasks of root");
    }
    assert_eq!(row["limits"]["not_enforced"], json!(["memory_max"]));
    assert_eq!(row["limits"]["state"], "defaults not enforced");
    let mut agent = Agent::ready(&daemon);
    let script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 60 >/dev/null 2>&1 & echo $i; done";
    // Both together have more than 12.
    for server in ["a", "b"] {
        let ran = result(&shell(&mut agent, server, script))["structuredContent"].clone();
        let started = ran["stdout"].as_str().expect("text").lines().count();
        // The server and the shell are two of its tasks at least.
        assert!(ran["code"] != 0 && (5..=10).contains(&started), "{started} of fifteen: {ran}");
        result(&agent.call(&format!("{server}__echo"), &json!({})));
    }
}

/// Case K33.
#[test]
fn servers_are_killed_before_mcpd_when_memory_runs_out() {
    let score = |pid: u32| -> i32 {
        let text = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("it runs");
        text.trim().parse().expect("a number")
    };
    let levels = ["none", "scope", "files"];
    let at = |level: &str| Server::named(level).line(format!("sandbox = '{level}'"));
    let daemon = levels.iter().fold(Setup::new(), |setup, level| setup.server(at(level))).start();
    let own = score(daemon.pid());
    for level in levels {
        let row = daemon.wait_row(level, "runs", |row| row["state"] == "ready");
        let [pid, guard] =
            ["pid", "guard_pid"].map(|key| row[key].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a pid"));
        assert_eq!((score(pid), score(guard)), (own + 100, own), "{level}");
    }
}
