//! Resources that no list has can be read once a result has named them, if policy permits them.

use std::fs;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Era, Place, Server, Setup, code, request, result};

/// What the server has, beside what it lists.
const FILES: &[&str] =
    &["x://link", "x://embedded", "x://part/1", "x://part/2", "x://secret/key", "ui://secret", "x://late"];

/// Results that name the resources above, and some that do not exist.
fn results() -> [Value; 3] {
    let link = |uri: &str| json!({"type": "resource_link", "uri": uri, "name": "n"});
    let embedded = json!({"type": "resource", "resource": {"uri": "x://embedded", "text": "t"}});
    [
        json!({"content": [link("x://link"), {"type": "text", "text": "t"}, embedded], "isError": true}),
        json!({"content": [link("x://secret/key"), link("x://pub/../secret/key"), link("x:///secret/%6bey"), link("x://late")]}),
        json!({"content": [link("x://gone"), link("ui://secret")]}),
    ]
}

fn setup(place: &Rc<Place>, era: Era, line: &str) -> Setup {
    with_flags(place, era, "", line)
}

fn with_flags(place: &Rc<Place>, era: Era, flags: &str, line: &str) -> Setup {
    let files: Value = FILES
        .iter()
        .map(|uri| ((*uri).to_owned(), json!(format!("text of {uri}"))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let folder = json!({"contents": [{"uri": "x://part/1", "text": "1"}, {"uri": "x://part/2", "text": "2"}]});
    let library =
        json!({"resources": [{"uri": "x://folder", "name": "f"}], "files": files, "reads": {"x://folder": folder}});
    let server = era
        .server("s")
        .flags(flags)
        .flags("--tool answer --library")
        .arg(place.write("library.json", library.to_string()));
    Setup::with(server.line(line))
        .server(Server::named("other").arg("--library").arg(place.write("other.json", r#"{"resources":[]}"#)))
        .head("[profiles.second]\nservers = ['s']\n[profiles.without]\nservers = ['other']")
}

fn at_profile(daemon: &Daemon, era: Era, profile: &str) -> Agent {
    let socket = daemon.place().runtime_dir().join(format!("{profile}.sock"));
    match era {
        Era::Legacy => Agent::ready_at(&socket),
        Era::Modern => {
            let mut agent = Agent::connect_to(&socket);
            agent.speak_modern(&json!({}));
            agent
        }
    }
}

fn name_all(agent: &mut Agent, tool: &str) {
    for named in results() {
        result(&agent.call(tool, &json!({ "result": named })));
    }
    result(&agent.request("resources/read", &json!({"uri": "x://folder"})));
}

/// The raw answer about a URI, with a fixed word in its place.
fn answer(agent: &mut Agent, method: &str, uri: &str) -> String {
    let params = agent.with_meta(&json!({ "uri": uri }));
    agent.send_raw(format!("{}\n", request("x", method, &params)));
    agent.next_line().expect("an answer").replace(&Value::from(uri).to_string(), "URI")
}

#[track_caller]
fn expect_unknown(agent: &mut Agent, uris: &[&str]) {
    let nonexistent = answer(agent, "resources/read", "never://was");
    assert!(nonexistent.contains("Resource not found"), "{nonexistent}");
    for uri in uris {
        assert_eq!(answer(agent, "resources/read", uri), nonexistent, "{uri}");
    }
}

#[track_caller]
fn expect_read(agent: &mut Agent, uris: &[&str]) {
    for uri in uris {
        let read = agent.request("resources/read", &json!({ "uri": uri }));
        assert_eq!(result(&read)["contents"][0]["text"], format!("text of {uri}"));
    }
}

#[test]
fn resource_that_a_result_has_named_is_read_by_the_agents_of_the_profile() {
    let (readable, gone) = (&FILES[..4], "x://gone");
    for (agent, server) in Era::pairs() {
        let place = Place::new();
        let daemon = setup(&place, server, "").start_in(&place);
        let mut namer = agent.agent(&daemon, &json!({}));
        expect_unknown(&mut namer, FILES);
        name_all(&mut namer, "s__answer");
        for mut reader in [namer, agent.agent(&daemon, &json!({})), agent.agent_at_face(&daemon, "s")] {
            expect_read(&mut reader, readable);
            expect_unknown(&mut reader, &[gone, "x://part/3"]);
            reader.disconnect();
        }
        for profile in ["second", "without"] {
            let mut other = at_profile(&daemon, agent, profile);
            expect_unknown(&mut other, FILES);
            other.disconnect();
        }
        expect_unknown(&mut agent.agent_at_face(&daemon, "other"), FILES);
        name_all(&mut at_profile(&daemon, agent, "second"), "s__answer");
        expect_read(&mut at_profile(&daemon, agent, "second"), readable);
    }
}

/// Case H2.
#[test]
fn named_resource_that_policy_denies_is_answered_like_a_nonexistent_one() {
    let denied = ["x://secret/key", "x://pub/../secret/key", "x:///secret/%6bey", "ui://secret"];
    for (agent, server) in Era::pairs() {
        let place = Place::new();
        let daemon = setup(&place, server, "resources = { deny = ['x://secret/*'] }").start_in(&place);
        let mut one = agent.agent(&daemon, &json!({}));
        name_all(&mut one, "s__answer");
        for mut reader in [one, agent.agent_at_face(&daemon, "s")] {
            expect_read(&mut reader, &["x://link", "x://late"]);
            expect_unknown(&mut reader, &denied);
            for uri in denied {
                let found = answer(&mut reader, "resources/subscribe", uri);
                assert_eq!(found, answer(&mut reader, "resources/subscribe", "never://was"), "{uri}");
            }
            reader.disconnect();
        }
        let received = daemon.journal("s").into_iter().filter(|line| line.contains("\"resources/read\""));
        assert!(!received.into_iter().any(|line| line.contains("secret")), "{:?}", daemon.journal("s"));
        setup(&place, server, "resources = { deny = ['x://late', 'x://secret/*'] }").write(&place);
        daemon.client(&["reload"]).expect_code(0);
        let mut reader = agent.agent(&daemon, &json!({}));
        expect_read(&mut reader, &["x://link"]);
        expect_unknown(&mut reader, &["x://late"]);
        reader.disconnect();
    }
}

#[test]
fn named_resource_that_is_denied_while_its_read_is_parked_is_not_read() {
    let place = Place::new();
    let gate = place.write("gate", "");
    let lines = |denied: &str| format!("start = 'lazy'\nidle_timeout = '1s'\nresources = {{ deny = ['{denied}'] }}");
    let flags = format!("--exit-unless {}", gate.display());
    let setup = |denied: &str| with_flags(&place, Era::Legacy, &flags, &lines(denied));
    let daemon = setup("x://secret/*").start_in(&place);
    let mut agent = Agent::ready(&daemon);
    name_all(&mut agent, "s__answer");
    daemon.wait_row("s", "is idle", |row| row["state"] == "idle");
    fs::remove_file(&gate).expect("it is there");
    let parked = agent.start_request("resources/read", &json!({"uri": "x://late"}));
    daemon.wait_row("s", "starts for the read", |row| row["state"] != "idle");
    setup("x://late").write(&place);
    daemon.client(&["reload"]).expect_code(0);
    let unknown = agent.answer(&parked);
    assert_eq!(code(&unknown), -32002, "{unknown}");
    fs::write(&gate, "").expect("the test's own");
    let is_read = |line: &String| line.contains("\"resources/read\"") && line.contains("x://late");
    assert!(!daemon.journal("s").iter().any(is_read));
}

#[test]
fn agent_subscribes_to_a_resource_that_a_result_has_named() {
    for (agent, server) in Era::pairs() {
        let place = Place::new();
        let daemon = setup(&place, server, "").start_in(&place);
        let mut namer = agent.agent(&daemon, &json!({}));
        name_all(&mut namer, "s__answer");
        match agent {
            Era::Legacy => drop(result(&namer.request("resources/subscribe", &json!({"uri": "x://link"}))).clone()),
            Era::Modern => {
                let (_, granted) = namer.listen(&json!({"resourceSubscriptions": ["x://link", "x://never"]}));
                assert_eq!(granted, json!({"resourceSubscriptions": ["x://link"]}));
            }
        }
        namer.disconnect();
    }
}

#[test]
fn link_is_read_at_the_server_that_has_named_it_first() {
    let place = Place::new();
    let server = |name: &str| {
        let library = json!({"resources": [], "files": {"x://link": format!("text of {name}")}});
        let file = place.write(&format!("{name}.json"), library.to_string());
        Server::named(name).flags("--tool answer --library").arg(file)
    };
    let daemon = Setup::with(server("a")).server(server("b")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    for name in ["b", "a"] {
        result(&agent.call(&format!("{name}__answer"), &json!({"result": results()[0]})));
    }
    let text = |agent: &mut Agent| {
        result(&agent.request("resources/read", &json!({"uri": "x://link"})))["contents"][0]["text"].clone()
    };
    assert_eq!(text(&mut agent), "text of b");
    assert_eq!(text(&mut Era::Legacy.agent_at_face(&daemon, "a")), "text of a");
    daemon.client(&["disable", "b"]).expect_code(0);
    assert_eq!(text(&mut agent), "text of a");
    agent.discard_notifications("notifications/tools/list_changed");
    assert_eq!(code(&agent.request("resources/read", &json!({"uri": "x://embedded"}))), -32002);
}
