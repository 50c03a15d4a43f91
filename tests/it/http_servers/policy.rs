//! Policy, names, profiles and sharing apply to servers at URLs.

use serde_json::{Value, json};

use super::{start, start_with};
use crate::support::http::{Behavior, Front};
use crate::support::{Agent, Place, Server, Setup, arguments, code, result, until};

/// Case H1.
#[test]
fn denied_tool_of_a_remote_server_is_neither_listed_nor_callable_and_causes_no_request() {
    let flags = "--bare --tool read_file --tool write_file";
    let (front, daemon) = start_with(Behavior::default(), flags, |server| server.line("deny = [\"write_*\"]"));
    let mut agent = Agent::ready(&daemon);
    assert!(agent.tools().contains(&"a__read_file".to_owned()));
    assert!(!agent.tools().contains(&"a__write_file".to_owned()));
    let denied = agent.call("a__write_file", &json!({}));
    let unknown = agent.call("a__other_file", &json!({}));
    assert_eq!(denied["error"].to_string(), unknown["error"].to_string().replace("other", "write"));
    arguments(&agent.call("a__read_file", &json!({})));
    assert_eq!(front.http().count(|request| String::from_utf8_lossy(&request.body).contains("write_file")), 0);
    let row = daemon.row("a");
    assert_eq!((&row["tools_exposed"], &row["tools_denied"]), (&json!(1), &json!(1)));
}

#[test]
fn profiles_and_bare_names_hold_for_servers_by_url() {
    let place = Place::new();
    let front = Front::start(&place, "a", "--bare --tool one --tool two", Behavior::json());
    let head = "[daemon]\nnaming = \"{tool}\"\n[profiles.few]\nservers = [\"a\"]\ndeny = [\"a/two\"]";
    let other = Server::named("b").flags("--bare --tool two");
    let daemon = Setup::new().head(head).server(front.server()).server(other).start_in(&place);
    let mut all = Agent::ready(&daemon);
    assert_eq!(all.tools(), ["one", "two", "b__two"]);
    let mut few = Agent::ready_at(&place.runtime_dir().join("few.sock"));
    assert_eq!(few.tools(), ["one"]);
    assert_eq!(code(&few.call("two", &json!({}))), -32602);
    arguments(&few.call("one", &json!({})));
    assert_eq!((front.calls("one"), front.calls("two")), (1, 0));
}

fn pid(agent: &mut Agent) -> Value {
    result(&agent.call("a__echo", &json!({})))["structuredContent"]["pid"].clone()
}

#[test]
fn session_instances_have_one_http_session_per_agent() {
    for behavior in [Behavior::default(), Behavior::old()] {
        let (front, daemon) = start_with(behavior, "", |server| server.line("sharing = \"session\""));
        let [mut first, mut second] = [(); 2].map(|()| Agent::ready(&daemon));
        let pids = [pid(&mut first), pid(&mut second)];
        assert_ne!(pids[0], pids[1]);
        assert_eq!(pid(&mut first), pids[0]);
        let before = front.sessions();
        first.disconnect();
        until("its session ends", || (front.sessions() == before - 1).then_some(()));
        assert_eq!(pid(&mut second), pids[1]);
    }
}

#[test]
fn agents_share_one_session_of_a_shared_server() {
    let (front, daemon) = start(Behavior::default());
    let [mut first, mut second] = [(); 2].map(|()| Agent::ready(&daemon));
    assert_eq!(pid(&mut first), pid(&mut second));
    assert_eq!(front.sessions(), 1);
    assert_eq!(front.http().count(|request| request.rpc() == "initialize"), 1);
}
