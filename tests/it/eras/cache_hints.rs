//! Cache hints of merged lists: the shortest of all parts, and private.

use serde_json::json;

use super::full;
use crate::support::{Agent, Daemon, Era, Place, Server, Setup, plain, result};

fn modern(name: &str, ttl: u64, scope: &str) -> Server {
    Server::named(name).flags(&format!("--era modern --ttl {ttl} --cache-scope {scope}"))
}

/// How long a list may be kept, and for whom.
fn cache_hints(daemon: &Daemon, method: &str) -> (u64, String) {
    let answer = Agent::modern(daemon, &json!({})).request(method, &json!({}));
    let (ttl, scope) = (&result(&answer)["ttlMs"], &result(&answer)["cacheScope"]);
    (ttl.as_u64().expect("a number"), scope.as_str().expect("text").to_owned())
}

#[test]
fn cache_hint_of_a_merged_list_is_the_strictest_of_its_servers() {
    for (servers, expected) in [
        (vec![modern("a", 60_000, "public")], 60_000),
        (vec![modern("a", 3_600_000, "public")], 60_000),
        (vec![modern("a", 60_000, "public"), modern("b", 5_000, "public")], 5_000),
        (vec![modern("a", 5_000, "private"), modern("b", 60_000, "public")], 5_000),
        (vec![modern("a", 5_000, "public"), Server::named("b")], 0),
    ] {
        let daemon = servers.into_iter().fold(Setup::new(), Setup::server).start();
        assert_eq!(
            cache_hints(&daemon, "tools/list"),
            (expected, "private".to_owned()),
            "what is shown depends on who asks"
        );
    }
}

#[test]
fn empty_list_has_a_cache_hint() {
    let daemon = Setup::new().start();
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"] {
        assert_eq!(cache_hints(&daemon, method).1, "private", "{method}");
    }
}

#[test]
fn cache_hint_of_a_resource_is_passed_unchanged() {
    let place = Place::new();
    let new = full(&place, Era::Modern).flags("--ttl 7000 --cache-scope public");
    let daemon = Setup::with(full(&place, Era::Legacy)).server(new).start_in(&place);
    let mut agent = Agent::modern(&daemon, &json!({}));
    for (server, ttl, scope) in [(Era::Legacy, 0, "private"), (Era::Modern, 7000, "public")] {
        let answer = agent.request("resources/read", &json!({"uri": server.uri()}));
        assert_eq!((&result(&answer)["ttlMs"], &result(&answer)["cacheScope"]), (&json!(ttl), &json!(scope)));
    }
}

#[test]
fn legacy_agent_receives_no_cache_hints() {
    let daemon = Setup::with(modern("a", 60_000, "public")).start();
    let mut agent = Agent::ready(&daemon);
    let answer = agent.request("tools/list", &json!({}));
    assert_eq!(
        result(&answer).as_object().map(|members| members.keys().cloned().collect::<Vec<_>>()),
        Some(vec!["tools".into()])
    );
}

#[test]
fn lists_are_equal_on_every_connection() {
    let daemon =
        Setup::with(Era::Modern.server("z")).server(Era::Legacy.server("a")).server(Era::Modern.server("m")).start();
    let list = |agent: &mut Agent| result(&agent.request("tools/list", &json!({}))).clone();
    let mut one = Agent::modern(&daemon, &json!({}));
    let first = list(&mut one);
    let names: Vec<_> =
        first["tools"].as_array().expect("a list").iter().map(|tool| tool["name"].as_str().expect("text")).collect();
    let position = |name: &str| names.iter().position(|found| *found == name).expect("it is listed");
    assert!(position("z__echo") < position("a__echo") && position("a__echo") < position("m__echo"), "as configured");
    one.call("z__echo", &json!({}));
    let mut other = Agent::modern(&daemon, &json!({"elicitation": {}, "sampling": {}}));
    let mut legacy = Agent::with_capabilities(&daemon, &json!({"roots": {}}));
    assert_eq!([list(&mut one), list(&mut other)], [first.clone(), first.clone()]);
    assert_eq!(list(&mut legacy), plain(&first));
}
