//! Several servers, used by a Rust program.

use std::time::Duration;

use mcpd::config::Start;
use mcpd::manager::{Setup, Toggle};
use mcpd::policy::{ListKind, Policy, pattern};
use mcpd::{ClientError, GuardProgram, HealthOverride, Manager, ManagerError, ResourceTool, ServerConfig};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{ServerFixture, run};
use crate::support::{MCPD, WAIT_LIMIT, signal, until};

fn start(servers: impl IntoIterator<Item = ServerConfig>) -> Manager {
    let setup = Setup::default().guard(GuardProgram::Program(MCPD.into()));
    Manager::start_with(setup, servers).expect("good names")
}

async fn names(manager: &Manager) -> Vec<String> {
    manager.all_tools().await.into_iter().map(|tool| tool.name).collect()
}

fn pid(manager: &Manager, server: &str) -> Option<u32> {
    manager.servers().into_iter().find(|report| report.name == server)?.pid
}

async fn echo(manager: &Manager, server: &str) -> Result<(), ManagerError> {
    manager.call_tool(&format!("{server}__echo"), &json!({"text": "x"})).await.map(drop)
}

#[test]
fn many_servers_are_one_list_and_each_call_finds_its_own() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.server("a", &["--bare", "--tool", "x"]), owned.demo("b")]);
        let names = names(&manager).await;
        assert_eq!(names, ["a__x", "b__echo", "b__add", "b__variables", "b__delete_everything"]);
        let found = manager.find_tool("b__add").await.expect("it is listed");
        assert_eq!((&*found.server, &*found.tool), ("b", "add"));
        let definition: Value = serde_json::from_slice(&found.definition).expect("JSON");
        assert_eq!(definition["name"], "b__add");
        let sum = manager.call_tool("b__add", &json!({"a": 1, "b": 2})).await.expect("called");
        assert_eq!(sum.value().expect("JSON")["content"][0]["text"], "3");
        assert!(manager.find_tool("b__no").await.is_none());
        manager.close().await;
        owned.place.expect_no_process(WAIT_LIMIT);
    });
}

#[test]
fn overrides_of_a_configuration_apply_to_a_manager() {
    let owned = ServerFixture::new();
    let tool = "tool = { add = { name = \"sum\", arguments = { a = 40 } } }";
    let text = format!("[servers.b]\ncommand = {MCPD:?}\nargs = [\"demo-server\"]\n{tool}\n");
    let file = owned.place.write("config.toml", text);
    let loaded = mcpd::config::load(&[file], &mcpd::config::interpolate::Process).expect("valid");
    run(async {
        let manager = start(loaded.config.servers);
        let found = manager.find_tool("b__sum").await.expect("it is listed");
        assert_eq!((&*found.server, &*found.tool), ("b", "add"));
        let definition: Value = serde_json::from_slice(&found.definition).expect("JSON");
        assert!(definition["inputSchema"]["properties"]["a"].is_null(), "{definition}");
        let own = manager.find_tool(("b", "add")).await.expect("by its own name");
        assert_eq!((own.name, manager.find_tools("add").await.len()), ("b__sum".to_owned(), 1));
        for tool in ["b__sum".into(), mcpd::ToolRef::Own { server: "b", tool: "add" }] {
            let sum = manager.call_tool(tool, &json!({"b": 2})).await.expect("called");
            assert_eq!(sum.value().expect("JSON")["content"][0]["text"], "42");
            let refused = manager.call_tool(tool, &json!({"a": 1, "b": 2})).await.expect_err("fixed");
            assert!(refused.to_string().contains("`a`"), "{refused}");
        }
        assert!(manager.call_tool("b__add", &json!({"a": 1, "b": 2})).await.is_err());
        manager.close().await;
    });
}

#[test]
fn call_of_a_tool_that_its_lazy_server_has_changed_since_is_decided_by_the_new_list() {
    let owned = ServerFixture::new();
    let list = |only_reads: bool| {
        json!({"tools": [{"name": "x", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": only_reads}}]})
            .to_string()
    };
    let listing = owned.place.write("listing.json", list(true));
    run(async {
        let start = || {
            let flags = ["--bare", "--tool", "x", "--tool-list", listing.to_str().expect("text")];
            let mut server = owned.server("s", &flags);
            server.settings.start = Start::Lazy;
            server.policy = Policy::default().read_only(true);
            let setup = Setup::default().guard(GuardProgram::Program(MCPD.into())).cache(owned.place.path("cache"));
            Manager::start_with(setup, [server]).expect("good names")
        };
        let manager = start();
        manager.call_tool("s__x", &json!({})).await.expect("it only reads");
        manager.close().await;
        owned.place.write("listing.json", list(false));
        let manager = start();
        assert_eq!(names(&manager).await, ["s__x"], "as it was listed last");
        let called = manager.call_tool("s__x", &json!({})).await;
        assert!(matches!(called, Err(ManagerError::Server(ClientError::ToolDenied { .. }))), "{called:?}");
        assert_eq!(owned.journal().matches("tools/call").count(), 1);
        manager.close().await;
    });
}

#[test]
fn denied_tools_disappear_at_once_without_a_restart() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.demo("s")]);
        echo(&manager, "s").await.expect("permitted");
        let before = pid(&manager, "s");
        manager.set_denied_tools("s", &["e*"]).await.expect("denied");
        assert!(!names(&manager).await.contains(&"s__echo".to_owned()));
        let denied = echo(&manager, "s").await;
        let Err(ManagerError::Server(ClientError::ToolDenied { server, tool })) = denied else { panic!("{denied:?}") };
        assert_eq!((&*server, &*tool), ("s", "echo"));
        manager.set_denied_tools("s", &[]).await.expect("permitted");
        echo(&manager, "s").await.expect("permitted again");
        assert_eq!(pid(&manager, "s"), before);
        manager.close().await;
    });
}

#[test]
fn each_misuse_of_a_manager_returns_its_own_error() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.demo("s")]);
        let bad_name = ServerConfig::new("a__b", "true");
        for (found, expected) in [
            (manager.disconnect("no").await, "there is no server `no`"),
            (manager.toggle("no", Toggle::Enable).await, "there is no server `no`"),
            (manager.restart("no").await, "there is no server `no`"),
            (manager.override_health("no", HealthOverride::ForceHealthy).await, "there is no server `no`"),
            (manager.set_denied_tools("a__b", &[]).await, "`a__b` cannot name a server"),
            (manager.set_denied_tools("s", &["[x"]).await, "server `s`: "),
            (manager.connect(owned.demo("s")).await, "there is a server `s` already"),
            (manager.connect(bad_name.clone()).await, "`a__b` cannot name a server"),
            (manager.set_servers([owned.demo("x"), owned.demo("x")]).await.map(drop), "there is a server `x` already"),
            (Manager::start([bad_name]).map(drop), "`a__b` cannot name a server"),
            (echo(&manager, "no").await, "there is no tool `no__echo`"),
            (manager.call_tool("s__echo", &json!([1])).await.map(drop), "the arguments for server `s` are not"),
            (manager.call_tool("s__echo", &Value::Null).await.map(drop), "the arguments for server `s` are not"),
        ] {
            let message = found.expect_err(expected).to_string();
            assert!(message.starts_with(expected), "{message:?} instead of {expected:?}");
        }
        echo(&manager, "s").await.expect("nothing of that has changed anything");
        manager.close().await;
        assert_eq!(echo(&manager, "s").await, Err(ManagerError::Closed));
        assert_eq!(manager.restart("s").await, Err(ManagerError::Closed));
    });
}

#[test]
fn server_marked_down_receives_no_call_until_the_mark_is_removed() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.server("s", &[])]);
        echo(&manager, "s").await.expect("it is healthy");
        let before = pid(&manager, "s");
        manager.override_health("s", HealthOverride::ForceUnhealthy).await.expect("there is such a server");
        let refused = loop {
            // A call that was on its way before the server's task sees the mark is still answered.
            if let Err(refused) = echo(&manager, "s").await {
                break refused;
            }
        };
        assert!(refused.to_string().contains("was marked down"), "{refused}");
        let calls = owned.journal().matches("tools/call").count();
        manager.restart("s").await.expect("it is started again");
        assert!(echo(&manager, "s").await.is_err(), "the mark survives a restart");
        assert_eq!(owned.journal().matches("tools/call").count(), calls, "the refused call was not sent");
        manager.override_health("s", HealthOverride::Auto).await.expect("there is such a server");
        while echo(&manager, "s").await.is_err() {}
        assert_ne!(pid(&manager, "s"), before);
        manager.close().await;
    });
}

#[test]
fn hanging_server_is_not_replaced_while_it_is_marked_up() {
    let owned = ServerFixture::new();
    run(async {
        let checked = |name: &str| {
            let mut server = owned.server(name, &[]);
            server.settings.health_interval = Duration::from_millis(100);
            server.settings.health_timeout = Duration::from_millis(50);
            server
        };
        let manager = start([checked("s"), checked("other")]);
        for server in ["s", "other"] {
            echo(&manager, server).await.expect("it is healthy");
        }
        let pids = ["s", "other"].map(|server| pid(&manager, server).expect("it runs"));
        manager.override_health("s", HealthOverride::ForceHealthy).await.expect("there is such a server");
        pids.iter().for_each(|pid| signal(*pid, Signal::STOP));
        while pid(&manager, "other").is_none_or(|pid| pid == pids[1]) {
            tokio::task::yield_now().await;
        }
        echo(&manager, "other").await.expect("it was replaced");
        assert_eq!(pid(&manager, "s"), Some(pids[0]));
        signal(pids[0], Signal::CONT);
        echo(&manager, "s").await.expect("it was not replaced");
        manager.close().await;
    });
}

#[test]
fn server_that_cannot_connect_is_not_added() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([]);
        for server in [ServerConfig::new("s", "no-such-program"), owned.server("s", &["--init-garbage"])] {
            let refused = manager.connect(server).await;
            assert!(matches!(refused, Err(ManagerError::Server(ClientError::Unavailable { .. }))), "{refused:?}");
            assert!(manager.servers().is_empty());
        }
        manager.connect(owned.demo("s")).await.expect("connected");
        echo(&manager, "s").await.expect("its tools are known as soon as it is connected");
        manager.disconnect("s").await.expect("disconnected");
        owned.place.expect_no_process(WAIT_LIMIT);
        assert!(names(&manager).await.is_empty());
        manager.close().await;
    });
}

#[test]
fn new_set_of_servers_restarts_only_changed_ones() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.demo("same"), owned.demo("changed"), owned.demo("gone")]);
        names(&manager).await;
        let before = (pid(&manager, "same"), pid(&manager, "changed"));
        let changed = owned.demo("changed").env("X", "1");
        let set = [owned.demo("new"), changed, owned.demo("same")];
        let changes = manager.set_servers(set).await.expect("good names");
        let names = |names: &[std::sync::Arc<str>]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(&changes.added), ["new"]);
        assert_eq!(names(&changes.changed), ["changed"]);
        assert_eq!(names(&changes.removed), ["gone"]);
        let order: Vec<_> = manager.servers().into_iter().map(|report| report.name).collect();
        assert_eq!(order, ["new", "changed", "same"]);
        let given = manager.call_tool("changed__variables", &json!({})).await.expect("called").value().expect("JSON");
        assert!(given["content"][0]["text"].as_str().expect("text").split(' ').any(|name| name == "X"), "{given}");
        assert!(matches!(echo(&manager, "gone").await, Err(ManagerError::UnknownTool { .. })));
        assert_eq!(pid(&manager, "same"), before.0);
        assert_ne!(pid(&manager, "changed"), before.1);
        let again = [owned.demo("new"), owned.demo("changed").env("X", "1"), owned.demo("same")];
        let unchanged = ["new", "changed", "same"].map(std::sync::Arc::from).to_vec();
        assert_eq!(manager.set_servers(again).await, Ok(mcpd::manager::Changes { unchanged, ..Default::default() }));
        manager.close().await;
    });
}

#[test]
fn durations_and_usage_of_servers_are_plain_values() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.demo("s")]);
        echo(&manager, "s").await.expect("called");
        let durations = manager.durations();
        let echo = durations.iter().find(|one| one.target.as_deref() == Some("echo")).expect("it is counted");
        let labels = (&*echo.metric, echo.server.as_deref(), echo.method.as_deref(), echo.error.as_deref());
        assert_eq!(labels, ("mcp.client.operation.duration", Some("s"), Some("tools/call"), None));
        assert_eq!((echo.count, echo.buckets.iter().sum::<u64>(), echo.buckets.len()), (1, 1, 15));
        assert!(manager.servers()[0].usage.is_none(), "nothing is measured unless it is requested");
        let usage = loop {
            manager.measure_usage().await;
            if let Some(usage) = manager.servers()[0].usage {
                break usage;
            }
        };
        assert!(usage.processes >= 2 && usage.memory_bytes > 0, "{usage:?}");
        manager.close().await;
    });
}

#[test]
fn stopped_server_has_no_process_and_no_tools_until_it_is_enabled_again() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.demo("s")]);
        echo(&manager, "s").await.expect("enabled");
        manager.toggle("s", Toggle::Stop).await.expect("there is such a server");
        owned.place.expect_no_process(WAIT_LIMIT);
        assert!(names(&manager).await.is_empty());
        assert!(matches!(echo(&manager, "s").await, Err(ManagerError::UnknownTool { .. })));
        let report = &manager.servers()[0];
        assert_eq!((report.state.word(), report.disabled), ("disabled", true));
        manager.toggle("s", Toggle::Stop).await.expect("it may be said twice");
        manager.toggle("s", Toggle::Enable).await.expect("there is such a server");
        assert_eq!(manager.servers()[0].state.word(), "ready");
        echo(&manager, "s").await.expect("enabled");
        manager.close().await;
    });
}

#[test]
fn disabled_server_keeps_its_process_and_its_tools_are_unknown() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.demo("s")]);
        let listed = names(&manager).await;
        let before = (pid(&manager, "s"), listed);
        for toggle in [Toggle::Disable, Toggle::DisableTool("s__echo".to_owned())] {
            manager.toggle("s", toggle.clone()).await.expect("there is such a server");
            assert!(!names(&manager).await.contains(&"s__echo".to_owned()), "{toggle:?}");
            let refused = echo(&manager, "s").await.expect_err("it cannot be called");
            let is_tool = matches!(toggle, Toggle::DisableTool(_));
            assert_eq!(matches!(refused, ManagerError::Server(ClientError::ToolDenied { .. })), is_tool, "{refused}");
            assert_eq!(manager.servers()[0].disabled, !is_tool);
            manager.toggle("s", Toggle::Enable).await.expect("there is such a server");
        }
        assert_eq!(manager.servers()[0].tools_disabled, ["echo"]);
        let none = manager.toggle("s", Toggle::DisableTool("ecko".to_owned())).await.expect_err("there is none");
        assert_eq!(none.to_string(), "server `s` offers no tool `ecko`: did you mean `echo`?");
        manager.toggle("s", Toggle::EnableTool("echo".to_owned())).await.expect("there is such a tool");
        assert_eq!((pid(&manager, "s"), names(&manager).await), before);
        echo(&manager, "s").await.expect("enabled");
        manager.close().await;
    });
}

#[test]
fn debug_of_a_manager_shows_no_secret() {
    let owned = ServerFixture::new();
    run(async {
        let canary = "canary-3f1a";
        let bad = ServerConfig::new("bad", "/nowhere").args([canary]).env("TOKEN", canary);
        let server = owned.demo("s").env("TOKEN", canary);
        let manager = start([server.clone(), bad]);
        echo(&manager, "s").await.expect("it serves");
        let shown = format!("{manager:?} {server:?} {:?}", manager.servers());
        assert!(shown.contains("TOKEN") && !shown.contains(canary), "{shown}");
        manager.close().await;
    });
}

#[test]
fn server_is_restarted_by_hand_even_while_it_waits_for_its_next_attempt() {
    let owned = ServerFixture::new();
    run(async {
        let fixed = owned.place.path("fixed");
        let broken = owned.server("s", &["--exit-unless", fixed.to_str().expect("text")]);
        let manager = start([broken]);
        let attempt = || manager.servers()[0].restarts;
        // By then the delay is longer than this test may take.
        while attempt() < 6 {
            tokio::task::yield_now().await;
            manager.restart("s").await.expect("there is such a server");
        }
        std::fs::write(&fixed, "").expect("the test's own");
        manager.restart("s").await.expect("there is such a server");
        while names(&manager).await.is_empty() {
            tokio::task::yield_now().await;
        }
        echo(&manager, "s").await.expect("repaired");
        let before = pid(&manager, "s");
        manager.restart("s").await.expect("there is such a server");
        echo(&manager, "s").await.expect("a call waits for the next instance");
        assert_ne!(pid(&manager, "s"), before);
        manager.close().await;
    });
}

#[test]
fn dropped_call_of_a_manager_is_cancelled_at_the_server() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.server("s", &[])]);
        names(&manager).await;
        let arguments = json!({"ms": 600_000});
        let call = manager.call_tool("s__sleep", &arguments);
        assert!(tokio::time::timeout(std::time::Duration::from_millis(50), call).await.is_err(), "the call ended");
        echo(&manager, "s").await.expect("the server goes on");
        manager.close().await;
    });
    until("the server has heard of it", || owned.journal().contains("notifications/cancelled").then_some(()));
}

#[test]
fn dropping_the_last_clone_of_a_manager_stops_its_servers() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.server("s", &["--ignore-eof", "--ignore-term"]), owned.demo("t")]);
        names(&manager).await;
        let clone = manager.clone();
        drop(manager);
        echo(&clone, "t").await.expect("a clone is the same manager");
        drop(clone);
        while !owned.place.processes(None).is_empty() {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn manager_is_used_from_many_threads() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.demo("a"), owned.demo("b")]);
        let (done, mut sums) = tokio::sync::mpsc::channel(1);
        for (number, name) in (0..8).zip(["a__add", "b__add"].into_iter().cycle()) {
            let (manager, done) = (manager.clone(), done.clone());
            std::thread::spawn(move || {
                run(async {
                    let sum = manager
                        .call_tool(name, &json!({"a": number, "b": 1}))
                        .await
                        .expect("called")
                        .value()
                        .expect("JSON");
                    done.send((number + 1, sum["content"][0]["text"].clone())).await.expect("the test waits");
                });
            });
        }
        drop(done);
        let mut count = 0;
        while let Some((expected, sum)) = sums.recv().await {
            assert_eq!(sum, expected.to_string());
            count += 1;
        }
        assert_eq!(count, 8);
        manager.close().await;
    });
}

#[test]
fn resources_are_read_by_two_tools() {
    let owned = ServerFixture::new();
    run(async {
        let manager = start([owned.demo("d"), owned.server("without", &[])]);
        let list = ResourceTool::List.call(&manager, &json!({})).await.expect("listed").value().expect("JSON");
        let listed: Value = serde_json::from_str(list["content"][0]["text"].as_str().expect("text")).expect("JSON");
        let guide = json!({"server": "d", "uri": "demo://guide", "name": "guide", "mimeType": "text/plain"});
        assert_eq!(listed, json!([guide]));
        let arguments = json!({"server": "d", "uri": "demo://guide"});
        let read = ResourceTool::Read.call(&manager, &arguments).await.expect("read").value().expect("JSON");
        assert_eq!(read["content"][0]["type"], "resource");
        assert_eq!(read["content"][0]["resource"]["uri"], "demo://guide");
        for (tool, arguments, expected) in [
            (ResourceTool::List, json!({"server": "no"}), "there is no server `no`"),
            (ResourceTool::Read, json!({"server": "no", "uri": "x"}), "there is no server `no`"),
            (ResourceTool::Read, json!({"server": "d", "uri": "x"}), "server `d`: unknown resource (-32002)"),
            (ResourceTool::Read, json!({"server": "d"}), "`read_mcp_resource`: `server` and `uri` are required"),
            (ResourceTool::Read, json!([]), "`read_mcp_resource`: "),
        ] {
            let message = tool.call(&manager, &arguments).await.expect_err(expected).to_string();
            assert!(message.starts_with(expected), "{message:?} instead of {expected:?}");
        }
        manager.close().await;
        assert!(!owned.journal().contains("resources/"), "a server without resources was asked for them");
    });
}

#[test]
fn resource_hidden_by_policy_is_neither_listed_nor_readable() {
    let owned = ServerFixture::new();
    run(async {
        let deny = [pattern("demo://*").expect("a glob")];
        let policy = Policy::default().with(ListKind::Resources, None, &deny).expect("a policy");
        let manager = start([owned.demo("d").policy(policy)]);
        let list = ResourceTool::List.call(&manager, &json!({})).await.expect("listed").value().expect("JSON");
        assert_eq!(list["content"][0]["text"], "[]");
        let arguments = json!({"server": "d", "uri": "demo://guide"});
        let refused = ResourceTool::Read.call(&manager, &arguments).await;
        let is_denied = matches!(refused, Err(ManagerError::Server(ClientError::ResourceDenied { .. })));
        assert!(is_denied, "{refused:?}");
        manager.close().await;
    });
}
