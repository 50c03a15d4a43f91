//! One log warning for each failed start and each unexpected exit.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, signal, until};

/// The warnings about server `a`, as JSON.
fn warnings(daemon: &Daemon) -> Vec<Value> {
    let log = daemon.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["level"] == "WARN" && line["fields"]["server"] == "a").collect()
}

/// The first `count` warnings about server `a`: the fields of each.
#[track_caller]
fn wait_warnings(daemon: &Daemon, count: usize) -> Vec<Value> {
    let all = until("the log has the warnings", || Some(warnings(daemon)).filter(|all| all.len() >= count));
    all.into_iter().take(count).map(|line| line["fields"].clone()).collect()
}

fn json_log(server: Server) -> Setup {
    Setup::with(server).option("--log-format=json")
}

/// Case A2.
#[test]
fn each_failed_start_is_one_warning_with_code_reason_and_last_stderr_line() {
    let script = r"printf 'first\nwhy: \033[31m%s\n' no-key >&2; exit 7";
    // Not opened in the other era as well, which is a second end.
    let server = Server::run_by("a", "/bin/sh").arg("-c").arg(script).line("era = \"legacy\"");
    let daemon = json_log(server).start();
    daemon.wait_row("a", "has been tried again", |row| row["restarts"].as_u64() >= Some(2));
    for (fields, attempt) in wait_warnings(&daemon, 3).iter().zip(1..) {
        assert_eq!((&fields["code"], &fields["attempt"]), (&json!(7), &json!(attempt)), "{fields}");
        assert_eq!(fields["reason"], "exited with code 7");
        assert_eq!(fields["stderr"], "why: \\u{1b}[31mno-key");
        assert!(fields["message"].as_str().is_some_and(|text| text.contains("start failed")), "{fields}");
        assert!(fields["retry_in"].is_string(), "{fields}");
    }
    let warnings = warnings(&daemon).len() as u64;
    let restarts = daemon.row("a")["restarts"].as_u64().expect("a number");
    assert!(warnings <= restarts + 1, "one for each: {}", daemon.log());
}

#[test]
fn process_that_ends_when_it_is_opened_in_one_era_is_a_warning_too() {
    let daemon = json_log(Server::named("a").flags("--probe fatal").line("sharing = \"pool\"")).start();
    let all = wait_warnings(&daemon, 1);
    assert_eq!(
        all[0]["message"], "exited before it answered `server/discover`, restarting with `initialize`",
        "{all:?}"
    );
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
    assert_eq!(warnings(&daemon).len(), 1, "{}", daemon.log());
}

/// Case A1.
#[test]
fn command_that_cannot_be_run_is_a_warning_without_exit_code_and_stderr() {
    let daemon = json_log(Server::run_by("a", "no-such-command")).start();
    let fields = &wait_warnings(&daemon, 1)[0];
    assert!(fields["reason"].as_str().is_some_and(|reason| reason.contains("`no-such-command` not found")), "{fields}");
    assert!(fields["code"].is_null() && fields["stderr"].is_null(), "{fields}");
}

/// Case A3.
#[test]
fn each_exit_is_one_warning_with_the_last_line_of_that_process() {
    let daemon = json_log(Server::named("a")).start();
    let mut agent = Agent::ready(&daemon);
    agent.call("a__stderr", &json!({"text": "the last words"}));
    agent.call("a__die", &json!({}));
    arguments(&agent.call("a__echo", &json!({})));
    signal(daemon.server_pid("a"), Signal::KILL);
    let both = wait_warnings(&daemon, 2);
    assert_eq!((&both[0]["code"], &both[0]["stderr"]), (&json!(1), &json!("the last words")), "{}", both[0]);
    assert_eq!((&both[1]["signal"], &both[1]["stderr"]), (&json!(9), &Value::Null), "{}", both[1]);
    for fields in &both {
        assert!(fields["message"].as_str().is_some_and(|text| text.contains("ended")), "{fields}");
        assert!(fields["reason"].is_string() && fields["retry_in"].is_string(), "{fields}");
    }
    daemon.wait_row("a", "is ready again", |row| row["state"] == "ready" && row["restarts"] == 2);
    assert_eq!(warnings(&daemon).len(), 2, "{}", daemon.log());
}

/// Case A7.
#[test]
fn restart_of_a_server_that_hangs_is_a_warning_with_the_reason() {
    let server = Server::named("a").line("health_interval = \"100ms\"");
    let daemon = json_log(server.line("health_timeout = \"50ms\"")).start();
    signal(daemon.server_pid("a"), Signal::STOP);
    let fields = &wait_warnings(&daemon, 1)[0];
    assert_eq!(fields["reason"], "did not answer 3 pings in a row; it does not read its stdin any more");
    assert!(fields["code"].is_null(), "it was ended by mcpd: {fields}");
}

#[test]
fn server_that_is_stopped_or_restarted_by_order_is_no_warning() {
    let mut daemon = json_log(Server::named("a")).start();
    daemon.client(&["restart", "a"]).expect_code(0);
    daemon.client(&["disable", "--stop", "a"]).expect_code(0);
    assert!(daemon.term().success());
    assert_eq!(warnings(&daemon), Vec::<Value>::new());
}

/// Case H9.
#[test]
fn warning_in_plain_text_is_one_line_without_control_characters_and_secrets() {
    let place = Place::new();
    let script = r#"printf 'key %s\r\033[2J\n' "$KEY" >&2; exit 7"#;
    let secret = place.write("secret", "hunter2-secret");
    let reference = format!("${{file:{}}}", secret.display());
    let daemon =
        Setup::with(Server::run_by("a", "/bin/sh").arg("-c").arg(script).env("KEY", &reference)).start_in(&place);
    let line = until("the log has the warning", || {
        daemon.log().lines().find(|line| line.contains("WARN") && line.contains("server=a")).map(str::to_owned)
    });
    for part in ["code=7", "reason=exited with code 7", "stderr=key …\\r\\u{1b}[2J"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!daemon.log().contains("hunter2"), "{}", daemon.log());
}
