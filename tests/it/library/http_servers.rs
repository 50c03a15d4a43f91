//! Servers at URLs, used by a Rust program.

use mcpd::manager::Setup;
use mcpd::{Client, ClientError, ClientState, GuardProgram, Manager, ServerConfig};
use serde_json::json;

use super::{ServerFixture, run};
use crate::support::http::{Behavior, Front, Response};
use crate::support::{MCPD, Place};

#[test]
fn program_connects_calls_and_disconnects() {
    let place = Place::new();
    let front = Front::start(&place, "s", "", Behavior::default());
    run(async {
        let client = Client::connect("s", front.url()).expect("a good name");
        client.initialize().await.expect("initialized");
        assert!(client.list_tools().await.expect("listed").iter().any(|tool| tool.name() == "echo"));
        client.ping().await.expect("a pong");
        let result = client.call_tool("echo", &json!({"a": 1})).await.expect("echoed");
        assert_eq!(
            result.value().expect("JSON")["structuredContent"]["params"]["arguments"],
            json!({"a": 1}),
            "{}",
            result.value().expect("JSON")
        );
        client.close().await;
    });
    assert_eq!((front.sessions(), front.http().count(|request| request.method == "DELETE")), (0, 1));
}

#[test]
fn client_authenticates_with_a_header_and_receives_the_reason_of_a_refusal() {
    let place = Place::new();
    let front = Front::start(&place, "s", "", Behavior::default());
    front.intercept(|request| (request.header("x-key") != Some("k")).then(|| Response::status(403)));
    run(async {
        let client = Client::connect("s", front.url()).expect("a good name");
        let refused = client.initialize().await;
        let Err(ClientError::Unavailable { reason, .. }) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("HTTP 403"), "{reason}");
        assert_eq!(client.state(), ClientState::Failed);
        let server = ServerConfig::remote("s", front.url()).header("X-Key", "k");
        let client = Client::spawn_with(server, GuardProgram::None).expect("a good name");
        client.initialize().await.expect("let in");
        client.close().await;
    });
}

#[test]
fn manager_has_servers_of_both_kinds() {
    let owned = ServerFixture::new();
    let front = Front::start(&owned.place, "away", "--bare --tool y", Behavior::json());
    run(async {
        let setup = Setup::default().guard(GuardProgram::Program(MCPD.into()));
        let servers = [owned.server("here", &["--bare", "--tool", "x"]), ServerConfig::remote("away", front.url())];
        let manager = Manager::start_with(setup, servers).expect("good names");
        let names: Vec<_> = manager.all_tools().await.into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["here__x", "away__y"]);
        manager.call_tool("away__y", &json!({})).await.expect("called");
        manager.disconnect("away").await.expect("left");
        assert_eq!(front.sessions(), 0);
        manager.close().await;
    });
}
