//! Processes of servers are no operators, and are agents only if their server is configured so.

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, MCPD, NO_NAMESPACES, Place, Server, Setup, answer_to_ended_operator, arguments, kernel_has_landlock,
    quoted, skipped, until,
};

fn start(line: &str) -> Daemon {
    Setup::with(Server::named("a").line(line)).server(Server::named("b")).start()
}

/// What a tool of server `a` returns.
fn tool(daemon: &Daemon, tool: &str, arguments_: &Value) -> Value {
    let called = Agent::ready(daemon).call(&format!("a__{tool}"), arguments_);
    let content = &called["result"]["structuredContent"];
    content.get("value").unwrap_or(content).clone()
}

/// `mcpd`, run by server `a`.
fn run_by_server(daemon: &Daemon, arguments: &[&str]) -> Value {
    let directory = daemon.place().runtime_dir();
    let argv = [&[MCPD], arguments, &["--runtime-dir", directory.to_str().expect("text")]].concat();
    tool(daemon, "run", &json!({"argv": argv}))
}

#[track_caller]
fn expect_refusal(ran: &Value, reasons: &[&str]) {
    let stderr = ran["stderr"].as_str().expect("text");
    assert!(ran["code"] == 1 && ran["stdout"] == "", "{ran}");
    assert!(reasons.iter().all(|reason| stderr.contains(reason)), "{reasons:?}: {ran}");
}

/// Case H10.
#[test]
fn process_of_a_server_is_refused_as_operator_with_the_reason() {
    for line in ["", "agent = true"] {
        let daemon = start(line);
        for arguments in [&["status"][..], &["disable", "b"], &["reload"]] {
            let ran = run_by_server(&daemon, arguments);
            expect_refusal(&ran, &["server `a` has started this process, and servers have no operator rights"]);
        }
        let socket = daemon.place().runtime_dir().join("admin.sock");
        let answer = tool(&daemon, "connect", &json!({"path": socket}));
        assert!(answer.as_str().expect("text").contains(r#""connection":"refused""#), "{answer}");
        daemon.client(&["status"]).expect_code(0);
        assert_eq!(daemon.log().matches("refused an operator").count(), 1, "{}", daemon.log());
    }
}

/// Case H10.
#[test]
fn orphaned_process_of_a_server_is_refused_as_operator() {
    let daemon = start("");
    let (place, directory) = (daemon.place(), daemon.place().runtime_dir());
    let script = format!(
        "(setsid sh -c 'until [ -e go ]; do sleep 0.02; done; {MCPD} status --runtime-dir {} >out 2>err; mv err done' \
         </dev/null >/dev/null 2>&1 &)",
        directory.display()
    );
    let script = format!("cd {}; {script}", place.path("").display());
    tool(&daemon, "run", &json!({"argv": ["sh", "-c", script]}));
    place.write("go", "");
    let refusal = until("it is refused", || fs::read_to_string(place.path("done")).ok());
    assert!(refusal.contains("server `a` has started this process"), "{refusal}");
    assert_eq!(fs::read_to_string(place.path("out")).expect("text"), "");
}

/// Case H14.
#[test]
fn process_of_a_server_is_refused_as_agent_with_the_reason() {
    let daemon = start("");
    for arguments in [&["call", "b__echo", "{}"][..], &["tools"]] {
        let ran = run_by_server(&daemon, arguments);
        expect_refusal(&ran, &["server `a` has started this process", "set `agent = true` in [servers.a]"]);
    }
    let script = format!(
        r#"echo '{{"jsonrpc":"2.0","id":7,"method":"ping"}}' | {MCPD} connect --runtime-dir {}"#,
        daemon.place().runtime_dir().display()
    );
    // It may be refused before it has read the request.
    let answer = until("it answers the request", || {
        let ran = tool(&daemon, "run", &json!({"argv": ["sh", "-c", script]}));
        assert!(ran["code"] == 1 && ran["stderr"].as_str().expect("text").contains("set `agent = true`"), "{ran}");
        ran["stdout"].as_str().filter(|answer| !answer.is_empty()).map(str::to_owned)
    });
    let refusal: Value = serde_json::from_str(&answer).expect("one line of JSON");
    assert_eq!((&refusal["id"], &refusal["error"]["data"]["outcome"]), (&json!(7), &json!("not_sent")), "{refusal}");
    let answer = tool(&daemon, "connect", &json!({"path": daemon.agent_socket()}));
    let answer: Value = serde_json::from_str(answer.as_str().expect("text")).expect("a line of JSON");
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)), "{answer}");
    assert_eq!(answer["error"]["data"], json!({"connection": "refused"}));
    assert!(!daemon.journal("b").iter().any(|line| line.contains("tools/call")));
    assert_eq!(daemon.log().matches("refused an agent").count(), 1, "{}", daemon.log());
}

/// Case H14.
#[test]
fn process_of_a_server_is_refused_behind_more_parents_than_mcpd_reads() {
    let daemon = start("");
    let script = format!(
        "if [ $1 -gt 0 ]; then sh \"$0\" $(($1 - 1)); else {MCPD} call b__echo '{{}}' --runtime-dir {}; fi\nexit $?\n",
        daemon.place().runtime_dir().display()
    );
    daemon.place().write("deep.sh", script);
    let path = daemon.place().path("deep.sh");
    let ran = tool(&daemon, "run", &json!({"argv": ["sh", path, "1100"]}));
    expect_refusal(&ran, &["cannot determine the parent processes of this process"]);
}

/// Case H14.
#[test]
fn process_of_a_server_that_may_be_an_agent_is_admitted() {
    let daemon = start("agent = true");
    let ran = run_by_server(&daemon, &["call", "b__echo", "{}"]);
    assert_eq!(ran["code"], 0, "{ran}");
    let answer = tool(&daemon, "connect", &json!({"path": daemon.agent_socket()}));
    assert!(answer.as_str().expect("text").contains(r#""result":{}"#), "{answer}");
}

/// Case H14.
#[test]
fn process_of_a_server_that_may_be_an_agent_is_refused_by_other_profiles() {
    let place = Place::new();
    let setup = Setup::with(Server::named("a").line("agent = true")).server(Server::named("b"));
    let daemon = setup.head("[profiles.default]\nservers = [\"a\"]\n[profiles.full]").start_in(&place);
    let ran = run_by_server(&daemon, &["call", "b__echo", "{}", "--profile", "full"]);
    expect_refusal(&ran, &["server `a` has started this process", "only to the default profile"]);
    let answer = tool(&daemon, "connect", &json!({"path": place.runtime_dir().join("full.sock")}));
    assert!(answer.as_str().expect("text").contains(r#""connection":"refused""#), "{answer}");
    assert!(!daemon.journal("b").iter().any(|line| line.contains("tools/call")));
}

/// Case H14.
#[test]
fn daemon_that_is_its_own_server_does_not_list_its_own_tools_again() {
    for sharing in ["shared", "session"] {
        let place = Place::new();
        let own = Server::run_by("self", MCPD).arg("connect").arg("--runtime-dir").arg(place.runtime_dir());
        let own = own.line("agent = true").line(format!("sharing = \"{sharing}\""));
        let daemon = Setup::with(own).server(Server::named("b").flags("--bare --tool echo")).spawn_in(&place);
        let listed = |agent: &mut Agent| {
            until("the tools of the other server are listed twice", || {
                let tools = agent.tools();
                (tools.len() > 1).then_some(tools)
            })
        };
        let mut agent = Agent::ready(&daemon);
        assert_eq!(listed(&mut agent), ["self__b__echo", "b__echo"], "{sharing}");
        agent.disconnect();
        // By now its own tools are known.
        daemon.client(&["restart", "self"]).expect_code(0);
        let mut agent = Agent::ready(&daemon);
        assert_eq!(listed(&mut agent), ["self__b__echo", "b__echo"], "{sharing}");
        arguments(&agent.call("self__b__echo", &json!({"n": 1})));
        agent.disconnect();
    }
}

/// A process that has the id `pid`; `None` if the system does not let a test choose it.
fn with_pid(pid: u32) -> Option<Child> {
    // Another process may start in between.
    for _ in 0..500 {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let mut child = Command::new("sleep").arg("300").stdout(Stdio::null()).spawn().expect("sleep starts");
        if child.id() == pid {
            return Some(child);
        }
        child.kill().and_then(|()| child.wait()).expect("one's own child");
    }
    None
}

/// Case H10.
#[test]
fn process_that_has_the_id_of_an_ended_operator_is_not_taken_for_it() {
    let daemon = start("");
    let mut successor = None;
    let answer = answer_to_ended_operator(&daemon, |pid| successor = with_pid(pid));
    match successor {
        None => skipped("a process id cannot be chosen"),
        Some(mut successor) => {
            successor.kill().and_then(|()| successor.wait()).expect("one's own child");
            assert!(
                answer.contains("the process that connected has ended") && !answer.contains("\"servers\""),
                "{answer}"
            );
        }
    }
    daemon.client(&["status"]).expect_code(0);
    arguments(&Agent::ready(&daemon).call("a__echo", &json!({})));
}

/// Landlock alone restricts it, and it still learns the directories of profiles.
#[test]
fn server_at_level_files_without_namespaces_is_an_agent_of_the_default_profile() {
    if !kernel_has_landlock(6) {
        return skipped("the kernel has no Landlock of version 6");
    }
    let place = Place::new();
    let (program, journal) = (quoted(MCPD), quoted(place.path("a.journal")));
    let sandbox = format!("sandbox = {{ level = \"files\", unix = true, read = [{program}], write = [{journal}] }}");
    let server = Server::named("a").line("agent = true").line(sandbox);
    let daemon = Setup::with(server).server(Server::named("b")).variable(NO_NAMESPACES, "1").start_in(&place);
    let ran = run_by_server(&daemon, &["tools"]);
    assert!(ran["code"] == 0 && ran["stdout"].as_str().is_some_and(|text| text.contains("b__echo")), "{ran}");
}
