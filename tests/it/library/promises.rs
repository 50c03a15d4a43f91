//! What a program is promised: about calls that fail, denied tools, servers that start, and the end.

use std::sync::Arc;
use std::time::Duration;

use mcpd::config::{Malformed, Settings, Start};
use mcpd::manager::{Naming, RestartDelays, Setup, Toggle};
use mcpd::policy::{Policy, pattern};
use mcpd::{
    Client, ClientError, ClientState, Content, GuardProgram, Manager, ManagerError, Outcome, ResourceTool,
    ServerConfig, ServerState,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{ServerFixture, run};
use crate::support::{MCPD, signal};

fn start_with(setup: Setup, servers: impl IntoIterator<Item = ServerConfig>) -> Manager {
    Manager::start_with(setup.guard(GuardProgram::Program(MCPD.into())), servers).expect("good names")
}

fn start(servers: impl IntoIterator<Item = ServerConfig>) -> Manager {
    start_with(Setup::default(), servers)
}

fn spawn(server: ServerConfig) -> Client {
    Client::spawn_with(server, GuardProgram::Program(MCPD.into())).expect("a good name")
}

fn denying(tools: &str) -> Policy {
    Policy::new(None, &[pattern(tools).expect("a glob")]).expect("a policy")
}

async fn names(manager: &Manager) -> Vec<String> {
    manager.all_tools().await.into_iter().map(|tool| tool.name).collect()
}

/// Lets the tasks of the runtime run until this holds.
async fn eventually(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn received(owned: &ServerFixture, count: usize) {
    eventually(|| owned.journal().matches("tools/call").count() == count).await;
}

/// How a call of a tool ends that the server has received, and that ends only when `end` has happened.
async fn ended(end: impl AsyncFnOnce(&Manager)) -> ClientError {
    let owned = ServerFixture::new();
    let settings = Settings { health_interval: Duration::from_secs(600), ..Settings::default() };
    let manager = start([owned.server("s", &[]).settings(settings)]);
    names(&manager).await;
    let arguments = json!({"ms": 600_000});
    let (called, ()) = tokio::join!(manager.call_tool("s__sleep", &arguments), async {
        received(&owned, 1).await;
        end(&manager).await;
    });
    manager.close().await;
    match called {
        Err(ManagerError::Server(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn kill(manager: &Manager) {
    signal(manager.servers()[0].pid.expect("it runs"), Signal::KILL);
}

#[test]
fn call_that_the_server_has_received_is_never_reported_as_refused() {
    run(async {
        let killed = ended(async |manager| {
            manager.set_denied_tools("s", &["sleep"]).await.expect("denied");
            kill(manager);
        });
        let disabled = ended(async |manager| {
            manager.toggle("s", Toggle::DisableTool("sleep".to_owned())).await.expect("disabled");
            kill(manager);
        });
        for died in [killed.await, disabled.await] {
            let is_it = matches!(&died, ClientError::Died { code: "signaled", outcome: Outcome::Unknown, .. });
            assert!(is_it && died.outcome() == Outcome::Unknown, "{died:?}");
        }
        for stopped in [
            ended(async |manager| manager.disconnect("s").await.expect("it leaves")).await,
            ended(async |manager| drop(manager.set_servers([]).await.expect("none"))).await,
            ended(async |manager| manager.toggle("s", Toggle::Stop).await.expect("stopped")).await,
            ended(async |manager| manager.close().await).await,
        ] {
            assert!(matches!(stopped, ClientError::Stopped { outcome: Outcome::Unknown, .. }), "{stopped:?}");
        }
    });
}

#[test]
fn calls_that_a_disconnected_server_has_not_read_are_reported_as_not_sent() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.server("s", &[])]);
        manager.call_tool("s__echo", &json!({})).await.expect("it runs");
        signal(manager.servers()[0].pid.expect("it runs"), Signal::STOP);
        // More than a pipe holds, in lines of which several fit.
        let arguments = json!({"text": "x".repeat(100_000)});
        let calls = (0..8).map(|_| manager.call_tool("s__echo", &arguments));
        let (ended, ()) = tokio::join!(futures_util::future::join_all(calls), async {
            eventually(|| manager.servers()[0].in_flight == 8).await;
            manager.disconnect("s").await.expect("it leaves");
        });
        let outcomes: Vec<_> = ended.into_iter().map(|ended| ended.expect_err("it was stopped").outcome()).collect();
        let unknown = outcomes.iter().take_while(|outcome| **outcome == Outcome::Unknown).count();
        assert!(0 < unknown && unknown < 8, "{outcomes:?}");
        assert!(outcomes[unknown..].iter().all(|outcome| *outcome == Outcome::NotSent), "{outcomes:?}");
        manager.close().await;
    });
}

#[test]
fn tools_are_denied_by_the_configuration_and_by_the_program() {
    let owned = ServerFixture::new();
    let flags = ["--bare", "--tool", "a", "--tool", "b", "--tool", "c", "--tool", "d"];
    run(async {
        let server = || owned.server("s", &flags).policy(denying("a"));
        let manager = start([]);
        manager.set_denied_tools("s", &["b"]).await.expect("denied before it is connected");
        manager.connect(server()).await.expect("connected");
        let is_kept = async |when: &str| assert_eq!(names(&manager).await, ["s__c", "s__d"], "{when}");
        is_kept("connected").await;
        for toggle in [Toggle::Disable, Toggle::Enable, Toggle::Stop, Toggle::Enable] {
            manager.toggle("s", toggle).await.expect("there is such a server");
        }
        is_kept("toggled").await;
        for tool in ["c", "d"] {
            manager.toggle("s", Toggle::DisableTool(tool.to_owned())).await.expect("there is such a tool");
            manager.toggle("s", Toggle::EnableTool(tool.to_owned())).await.expect("there is such a tool");
        }
        is_kept("tools toggled").await;
        manager.set_servers([server()]).await.expect("good names");
        is_kept("set again").await;
        manager.set_servers([server().env("X", "1")]).await.expect("good names");
        is_kept("changed").await;
        manager.set_servers([server().policy(denying("[ac]"))]).await.expect("good names");
        assert_eq!(names(&manager).await, ["s__d"], "a changed policy holds beside the pattern");
        manager.set_servers([]).await.expect("none");
        manager.set_servers([server()]).await.expect("good names");
        is_kept("removed and set again").await;
        manager.toggle("s", Toggle::DisableTool("c".to_owned())).await.expect("there is such a tool");
        manager.disconnect("s").await.expect("left");
        manager.connect(server()).await.expect("again");
        assert_eq!(names(&manager).await, ["s__d"], "connected again");
        manager.toggle("s", Toggle::EnableTool("c".to_owned())).await.expect("there is such a tool");
        manager.set_denied_tools("s", &[]).await.expect("permitted");
        assert_eq!(names(&manager).await, ["s__b", "s__c", "s__d"], "what the configuration denies stays denied");
        let denied = manager.call_tool("s__a", &json!({})).await;
        assert!(matches!(denied, Err(ManagerError::Server(ClientError::ToolDenied { .. }))), "{denied:?}");
        manager.close().await;
    });
}

#[test]
fn call_waits_for_a_server_that_is_starting() {
    let owned = ServerFixture::new();
    run(async {
        let setup = Setup::default().first_list_wait(Duration::from_millis(1));
        let manager = start_with(setup, [owned.server("s", &["--init-delay", "500"])]);
        assert!(names(&manager).await.is_empty(), "nobody waits for the first lists");
        manager.call_tool("s__echo", &json!({})).await.expect("it waits");
        manager.connect(owned.server("t", &["--init-delay", "500"])).await.expect("connected");
        manager.call_tool(("t", "echo"), &json!({})).await.expect("it is ready");
        manager.close().await;
    });
}

#[test]
fn call_of_a_server_that_cannot_start_fails_with_its_state() {
    run(async {
        let manager = start([ServerConfig::new("s", "no-such-program")]);
        for called in
            [manager.call_tool("s__echo", &json!({})).await, manager.call_tool(("s", "echo"), &json!({})).await]
        {
            let Err(ManagerError::Server(error)) = &called else { panic!("{called:?}") };
            let ClientError::Unavailable { state, code, outcome, retry_after, .. } = error else { panic!("{error:?}") };
            assert_eq!((*state, *code, *outcome), (ServerState::Backoff, "command_not_found", Outcome::NotSent));
            assert!(retry_after.is_some() && error.to_string().contains("no-such-program"), "{error}");
        }
        manager.close().await;
    });
}

#[test]
fn call_that_waits_for_a_server_that_is_removed_is_not_sent() {
    let owned = ServerFixture::new();
    run(async {
        let setup = Setup::default().first_list_wait(Duration::from_millis(1));
        let manager = start_with(setup, [owned.server("s", &["--init-never"])]);
        let arguments = json!({});
        let (called, ()) = tokio::join!(manager.call_tool("s__echo", &arguments), async {
            eventually(|| owned.journal().contains("initialize")).await;
            manager.disconnect("s").await.expect("it leaves");
        });
        assert_eq!(called.expect_err("it has not run").outcome(), Outcome::NotSent);
        manager.close().await;
    });
}

#[test]
fn each_failure_of_a_call_has_a_variant_with_what_is_known() {
    let owned = ServerFixture::new();
    let settings =
        Settings { call_timeout: Duration::from_millis(300), max_message: Some(64 << 10), ..Settings::default() };
    run(async {
        let client = spawn(owned.server("s", &[]).settings(settings));
        client.initialize().await.expect("initialized");
        let call = async |tool: &str, arguments: Value| client.call_tool(tool, &arguments).await.expect_err("it fails");
        let timeout = call("sleep", json!({"ms": 600_000})).await;
        let is_it = |after: Duration| after == Duration::from_millis(300);
        assert!(matches!(timeout, ClientError::Timeout { after, .. } if is_it(after)), "{timeout:?}");
        let answer = call("big", json!({"bytes": 100_000})).await;
        assert!(matches!(answer, ClientError::TooLarge { limit: 65_536, .. }), "{answer:?}");
        let request = call("echo", json!({"text": "x".repeat(100_000)})).await;
        assert!(matches!(request, ClientError::TooLarge { size: Some(_), .. }), "{request:?}");
        let protocol = call("invalid_utf8", json!({})).await;
        assert!(matches!(protocol, ClientError::Protocol { .. } | ClientError::Timeout { .. }), "{protocol:?}");
        for (error, outcome) in [
            (&timeout, Outcome::Unknown),
            (&answer, Outcome::Unknown),
            (&request, Outcome::NotSent),
            (&protocol, Outcome::Unknown),
        ] {
            assert_eq!(error.outcome(), outcome, "{error:?}");
            assert!(&**error.server() == "s" && error.to_string().contains("`s`"), "{error}");
        }
        let died = call("die", json!({"how": "kill"})).await;
        assert!(matches!(died, ClientError::Died { outcome: Outcome::Unknown, .. }), "{died:?}");
        eventually(|| client.state() == ClientState::Failed).await;
        let gone = call("echo", json!({})).await;
        let is_it = matches!(
            gone,
            ClientError::Unavailable { state: ServerState::Failed, code: "signaled", outcome: Outcome::NotSent, .. }
        );
        assert!(is_it, "{gone:?}");
    });
}

#[test]
fn error_of_a_server_is_its_own_whatever_its_code_and_data_are() {
    let owned = ServerFixture::new();
    run(async {
        let client = spawn(owned.server("s", &[]));
        client.initialize().await.expect("initialized");
        for code in [-31001, -31002, -31003, -31004, -31005, -31006, -32602] {
            let arguments = json!({"code": code, "message": "Unknown tool: fail"});
            let error = client.call_tool("fail", &arguments).await.expect_err("it fails");
            assert!(matches!(&error, ClientError::ErrorResponse { error, .. } if error.code == code), "{error:?}");
            assert_eq!(error.outcome(), Outcome::Answered);
        }
        client.close().await;
    });
}

#[test]
fn client_is_closed_through_an_arc_and_says_so() {
    let owned = ServerFixture::new();
    run(async {
        let client = Arc::new(spawn(owned.server("s", &[])));
        client.initialize().await.expect("initialized");
        let other = Arc::clone(&client);
        let call = tokio::spawn(async move { other.call_tool("sleep", &json!({"ms": 600_000})).await });
        received(&owned, 1).await;
        client.close().await;
        client.close().await;
        assert_eq!(client.state(), ClientState::Closed);
        let stopped = call.await.expect("no panic").expect_err("it was stopped");
        assert!(matches!(stopped, ClientError::Stopped { outcome: Outcome::Unknown, .. }), "{stopped:?}");
        for closed in [
            client.list_tools().await.map(drop),
            client.ping().await.map(drop),
            client.initialize().await,
            client.call_tool("echo", &json!({})).await.map(drop),
        ] {
            assert!(matches!(closed, Err(ClientError::Closed { .. })), "{closed:?}");
        }
    });
}

#[test]
fn what_waits_for_a_server_ends_when_the_manager_closes() {
    let owned = ServerFixture::new();
    run(async {
        let setup = Setup::default().first_list_wait(Duration::from_secs(3600));
        let manager = start_with(setup, [owned.server("s", &["--init-never"])]);
        let arguments = json!({});
        let (by_name, own, tools, ()) = tokio::join!(
            manager.call_tool("s__echo", &arguments),
            manager.call_tool(("s", "echo"), &arguments),
            manager.all_tools(),
            async {
                eventually(|| owned.journal().contains("initialize")).await;
                manager.close().await;
            },
        );
        for called in [by_name, own] {
            assert_eq!(called.map(drop), Err(ManagerError::Closed));
        }
        assert!(tools.is_empty());
    });
}

#[test]
fn closed_manager_lists_nothing() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.demo("s")]);
        assert!(!names(&manager).await.is_empty() && !manager.is_closed());
        manager.close().await;
        manager.close().await;
        assert!(names(&manager).await.is_empty() && manager.servers().is_empty() && manager.is_closed());
        assert!(manager.find_tool("s__echo").await.is_none() && manager.find_tools("echo").await.is_empty());
        for closed in [
            manager.call_tool("s__echo", &json!({})).await.map(drop),
            manager.call_tool(("s", "echo"), &json!({})).await.map(drop),
            manager.call_tool("no__echo", &json!({})).await.map(drop),
            ResourceTool::List.call(&manager, &json!({})).await.map(drop),
            manager.set_denied_tools("s", &[]).await,
            manager.watch().changed().await,
        ] {
            assert_eq!(closed, Err(ManagerError::Closed));
        }
    });
}

#[test]
fn content_has_types_beside_the_raw_json() {
    let owned = ServerFixture::new();
    run(async {
        let client = spawn(owned.server("s", &["--tool", "answer"]));
        client.initialize().await.expect("initialized");
        let image = json!({"type": "image", "data": "AQI=", "mimeType": "image/png"});
        let content = json!([{"type": "text", "text": "a"}, image, {"type": "future", "x": 1}]);
        let result = json!({"result": {"content": content, "structuredContent": {"n": 1}}});
        let result = client.call_tool("answer", &result).await.expect("answered");
        let Content::Text(text) = &result.content().expect("content")[0] else { panic!("{result:?}") };
        assert_eq!((&**text, result.text().expect("content")), ("a", "a".to_owned()));
        let expected = Content::Image { data: vec![1, 2], mime_type: "image/png".to_owned() };
        assert_eq!(result.content().expect("content")[1], expected);
        assert!(matches!(result.content().expect("content")[2], Content::Other(_)));
        assert_eq!(result.structured_content().expect("JSON"), Some(json!({"n": 1})));
        client.close().await;
    });
}

#[test]
fn tool_is_found_and_called_by_its_own_name_under_every_naming() {
    let owned = ServerFixture::new();
    let servers = || ["a", "b"].map(|name| owned.server(name, &["--bare", "--tool", "x"]));
    run(async {
        for (naming, expected) in [
            (Naming::Prefixed, ["a__x", "b__x"]),
            (Naming::McpPrefixed, ["mcp__a__x", "mcp__b__x"]),
            (Naming::Bare, ["x", "b__x"]),
        ] {
            let manager = start_with(Setup::default().naming(naming), servers());
            assert_eq!(names(&manager).await, expected);
            let found = manager.find_tools("x").await;
            assert_eq!(found.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), expected);
            assert_eq!(manager.find_tool(("b", "x")).await.as_ref(), Some(&found[1]));
            manager.call_tool(("b", "x"), &json!({})).await.expect("called");
            manager.call_tool(&found[0], &json!({})).await.expect("called");
            manager.call_tool(expected[1], &json!({})).await.expect("called");
            assert!(manager.find_tool(("b", "y")).await.is_none() && manager.find_tool(("c", "x")).await.is_none());
            let refused = manager.call_tool(("b", "xx"), &json!({})).await.expect_err("there is none");
            assert_eq!(refused.to_string(), "server `b` offers no tool `xx`: did you mean `x`?");
            let refused = manager.call_tool(("c", "x"), &json!({})).await.expect_err("there is none");
            assert_eq!(refused.to_string(), "there is no server `c`");
            manager.toggle("b", Toggle::Disable).await.expect("there is such a server");
            let refused = manager.call_tool(("b", "x"), &json!({})).await.expect_err("it is disabled");
            assert_eq!(refused.to_string(), "server `b` is not available: is disabled");
            manager.close().await;
        }
    });
}

#[test]
fn delays_of_restarts_are_those_of_the_setup() {
    let owned = ServerFixture::new();
    run(async {
        let delays = RestartDelays { first: Duration::from_secs(7200), factor: 1.0, max: Duration::from_secs(7200) };
        let setup = Setup::default().restart_delays(delays);
        let manager = start_with(setup, [owned.server("s", &["--exit-at-start", "1"])]);
        eventually(|| manager.servers()[0].state == ServerState::Backoff).await;
        let retry_in_ms = manager.servers()[0].retry_in_ms.expect("a delay");
        assert!(retry_in_ms > 3_000_000, "{retry_in_ms}");
        manager.close().await;
    });
}

#[test]
fn report_counts_the_answers_of_a_server_and_the_times_they_took() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.server("s", &[])]);
        names(&manager).await;
        assert_eq!(manager.servers()[0].answer_times, None);
        manager.call_tool("s__sleep", &json!({"ms": 50})).await.expect("answered");
        manager.call_tool("s__fail", &json!({})).await.expect_err("an error");
        let report = &manager.servers()[0];
        let times = report.answer_times.expect("two answers");
        assert_eq!((report.calls, report.errors, times.count), (2, 1, 2), "{report:?}");
        assert!(times.max_us >= 50_000 && times.total_us >= times.max_us, "{times:?}");
        assert!(times.mean().expect("two answers") <= Duration::from_micros(times.max_us));
        manager.close().await;
    });
}

#[test]
fn pool_grows_to_the_size_that_the_program_chooses() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.server("s", &[]).pool(3)]);
        names(&manager).await;
        let report = &manager.servers()[0];
        assert_eq!((report.max_instances, report.instances.len()), (Some(3), 1));
        let arguments = json!({"ms": 600_000});
        let calls = futures_util::future::join_all((0..6).map(|_| manager.call_tool("s__sleep", &arguments)));
        tokio::select! {
            ended = calls => panic!("{ended:?}"),
            () = received(&owned, 6) => {}
        }
        let report = &manager.servers()[0];
        assert_eq!(report.instances.len(), 3, "{report:?}");
        assert!(report.instances.iter().all(|instance| instance.in_flight == 2), "{report:?}");
        manager.close().await;
    });
}

#[test]
fn malformed_tool_is_left_out_alone() {
    let owned = ServerFixture::new();
    let list = json!({"tools": [{"name": "a", "inputSchema": {}}, {"name": "b", "description": 7}]});
    let list = owned.place.write("list.json", list.to_string());
    run(async {
        let settings = Settings { malformed: Malformed::Pass, ..Settings::default() };
        let client = spawn(owned.server("s", &["--tool-list", list.to_str().expect("text")]).settings(settings));
        client.initialize().await.expect("initialized");
        let tools = client.list_tools().await.expect("listed");
        assert_eq!(tools.iter().map(|tool| tool.name()).collect::<Vec<_>>(), ["a"]);
        client.close().await;
    });
}

#[test]
fn names_of_servers_and_tools_are_checked_alike() {
    let owned = ServerFixture::new();
    run(async {
        for name in ["", "a__b", "../x", "a b", "é"] {
            let client = Client::spawn_with(ServerConfig::new(name, "true"), GuardProgram::None).map(drop);
            let remote = Client::connect(name, "http://127.0.0.1:9/").map(drop);
            let manager = Manager::start([ServerConfig::new(name, "true")]).map(drop);
            let Err(ManagerError::Server(expected)) = manager else { panic!("{manager:?}") };
            assert!(matches!(expected, ClientError::InvalidServerName { .. }), "{expected}");
            assert_eq!((client, remote), (Err(expected.clone()), Err(expected)));
        }
        let (client, manager) = (spawn(owned.server("s", &[])), start([owned.server("s", &[])]));
        client.initialize().await.expect("initialized");
        client.list_tools().await.expect("listed");
        names(&manager).await;
        let unknown = client.call_tool("ecko", &json!({})).await.map(drop);
        assert_eq!(manager.call_tool(("s", "ecko"), &json!({})).await.map(drop), unknown.clone().map_err(Into::into));
        assert!(matches!(unknown, Err(ClientError::UnknownTool { nearest: Some(_), .. })), "{unknown:?}");
        assert!(!owned.journal().contains("tools/call"));
        client.close().await;
        manager.close().await;
    });
}

#[test]
fn texts_for_programs_name_no_command_of_the_daemon() {
    let owned = ServerFixture::new();
    let front = crate::support::http::Front::start(&owned.place, "r", "", Default::default());
    front.intercept(|_| Some(crate::support::http::Response::status(401)));
    run(async {
        let lazy = Settings { start: Start::Lazy, ..Settings::default() };
        let manager = start([owned.demo("s"), owned.demo("lazy").settings(lazy)]);
        names(&manager).await;
        manager.toggle("s", Toggle::Disable).await.expect("there is such a server");
        let login = manager.connect(ServerConfig::remote("r", front.url())).await.expect_err("it needs a login");
        let changes = manager.set_servers([owned.demo("s"), ServerConfig::remote("r", front.url())]).await;
        let denied = manager.call_tool(("s", "echo"), &json!({})).await.expect_err("it is disabled");
        let resource = ResourceTool::Read.call(&manager, &json!({"server": "s", "uri": "demo://guide"})).await;
        let report = serde_json::to_string(&manager.servers()).expect("JSON");
        manager.close().await;
        let closed = manager.restart("s").await.expect_err("closed");
        for text in [login.to_string(), format!("{changes:?}"), denied.to_string(), format!("{resource:?}"), report] {
            assert!(!text.contains("`mcpd "), "{text}");
        }
        assert_eq!(closed.to_string(), "the manager of all servers is closed");
    });
}
