//! mcpd declares what it serves: no method of an declared capability is unknown. A face declares what its server does.

use std::rc::Rc;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, Era, FACE, Place, Server, Setup, code, connect_as, initialize_params, quoted, resident_kib, result,
    skipped, until,
};

const TASKS: &str = "io.modelcontextprotocol/tasks";
const SKILLS: &str = "io.modelcontextprotocol/skills";

/// A server of this era with a library of these members, beside a prompt, a resource and a template.
fn library(place: &Rc<Place>, era: Era, name: &str, more: &Value) -> Server {
    let mut library = json!({
        "prompts": [{"name": "greet"}],
        "resources": [{"uri": format!("{name}://1"), "name": "one"}],
        "resourceTemplates": [{"uriTemplate": format!("{name}://{{id}}"), "name": "any"}],
    });
    let members = library.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    let file = place.write(&format!("{name}.json"), library.to_string());
    era.server(name).arg("--library").arg(file)
}

fn full(place: &Rc<Place>, era: Era, name: &str) -> Server {
    library(place, era, name, &json!({"completions": true, "logging": true})).flags("--tasks")
}

/// A server with skills, an extension that several servers have, and one that no other server has.
fn extended(place: &Rc<Place>, era: Era, name: &str) -> Server {
    let skill = json!({"uri": format!("skill://{name}/SKILL.md"), "name": name, "description": "d"});
    let extensions = json!({SKILLS: {}, "io.example/common": {}, format!("io.example/{name}"): {}});
    let methods = json!({
        "common/run": null, "common/list": {"items": []},
        format!("{name}/run"): null, format!("io.example/{name}"): null,
    });
    library(place, era, name, &json!({"extensions": extensions, "methods": methods, "skills": [skill]}))
}

/// A server that has none of the capabilities that not every server has.
fn poor(place: &Rc<Place>, era: Era, name: &str) -> Server {
    library(place, era, name, &json!({"completions": false, "subscribe": false}))
}

/// An agent of this era at the face of `server`, or in the view of all, and what is declared to it.
fn introduced(era: Era, daemon: &Daemon, server: Option<&str>) -> (Agent, Value) {
    let meta = server.map_or_else(|| json!({}), |server| json!({"mcpd/server": server}));
    let (mut agent, answer) = match era {
        Era::Legacy => {
            let mut agent = Agent::connect(daemon);
            let answer = agent.initialize_with("2025-11-25", &json!({}), &meta);
            (agent, answer)
        }
        Era::Modern => {
            let mut agent = Agent::modern(daemon, &json!({"extensions": {TASKS: {}}}));
            agent.meta.extend(meta.as_object().expect("an object").clone());
            let answer = agent.request("server/discover", &json!({}));
            (agent, answer)
        }
    };
    agent.discard_notifications("notifications/tools/list_changed");
    let declared = result(&answer).clone();
    (agent, declared)
}

fn face(era: Era, daemon: &Daemon, server: &str) -> Value {
    introduced(era, daemon, Some(server)).1
}

fn list(agent: &mut Agent, method: &str, kind: &str, key: &str) -> Vec<Value> {
    let answer = agent.request(method, &json!({}));
    result(&answer)[kind].as_array().expect("a list").iter().map(|item| item[key].clone()).collect()
}

/// Requests of an declared capability, for everything that the agent has listed.
fn requests(agent: &mut Agent, era: Era, name: &str, capability: &Value) -> Vec<(&'static str, Value)> {
    let ids = |methods: &[&'static str]| methods.iter().map(|method| (*method, json!({"taskId": "x"}))).collect();
    match name {
        "tools" => {
            let tools = list(agent, "tools/list", "tools", "name");
            let tools = tools.iter().filter(|tool| tool.as_str().is_some_and(|tool| tool.ends_with("echo")));
            tools.map(|tool| ("tools/call", json!({"name": tool, "arguments": {}}))).collect()
        }
        "prompts" => {
            let prompts = list(agent, "prompts/list", "prompts", "name");
            prompts.iter().map(|name| ("prompts/get", json!({"name": name}))).collect()
        }
        "resources" => {
            list(agent, "resources/templates/list", "resourceTemplates", "uriTemplate");
            let uris = list(agent, "resources/list", "resources", "uri");
            let mut methods = vec!["resources/read"];
            if capability["subscribe"] == true && era == Era::Legacy {
                methods.extend(["resources/subscribe", "resources/unsubscribe"]);
            }
            let of = |uri: &Value| methods.iter().map(|method| (*method, json!({"uri": uri}))).collect::<Vec<_>>();
            uris.iter().flat_map(of).collect()
        }
        "completions" => {
            let prompts = list(agent, "prompts/list", "prompts", "name").into_iter();
            let prompts = prompts.map(|name| json!({"type": "ref/prompt", "name": name}));
            let templates = list(agent, "resources/templates/list", "resourceTemplates", "uriTemplate").into_iter();
            let references = prompts.chain(templates.map(|uri| json!({"type": "ref/resource", "uri": uri})));
            let complete = |one| ("completion/complete", json!({"ref": one, "argument": {"name": "a", "value": ""}}));
            references.map(complete).collect()
        }
        "logging" if era == Era::Legacy => vec![("logging/setLevel", json!({"level": "error"}))],
        "logging" => Vec::new(),
        "tasks" => {
            let mut all: Vec<_> = ids(&["tasks/get", "tasks/result"]);
            all.extend(capability["list"].is_object().then(|| ("tasks/list", json!({}))));
            all.extend(capability["cancel"].is_object().then(|| ("tasks/cancel", json!({"taskId": "x"}))));
            all
        }
        "extensions" => capability.as_object().expect("an object").keys().flat_map(|id| methods(agent, id)).collect(),
        other => panic!("say which methods the capability `{other}` has"),
    }
}

/// Requests of an declared extension.
fn methods(agent: &mut Agent, extension: &str) -> Vec<(&'static str, Value)> {
    match extension {
        TASKS => ["tasks/get", "tasks/update", "tasks/cancel"].map(|method| (method, json!({"taskId": "x"}))).into(),
        SKILLS => {
            let skills = list(agent, "skills/list", "skills", "uri");
            skills.iter().map(|uri| ("skills/get", json!({"uri": uri}))).collect()
        }
        "io.example/common" => vec![("common/run", json!({})), ("common/list", json!({}))],
        "io.example/old-extended" => vec![("old-extended/run", json!({})), ("io.example/old-extended", json!({}))],
        "io.example/new-extended" => vec![("new-extended/run", json!({})), ("io.example/new-extended", json!({}))],
        "io.example/old-common" => vec![("old-common/run", json!({}))],
        "io.example/new-common" => vec![("new-common/run", json!({}))],
        other => panic!("say which methods the extension `{other}` has"),
    }
}

#[test]
fn no_method_of_a_declared_capability_is_unknown() {
    let place = Place::new();
    let servers = [
        full(&place, Era::Legacy, "old"),
        full(&place, Era::Modern, "new"),
        poor(&place, Era::Legacy, "old-poor"),
        poor(&place, Era::Modern, "new-poor"),
        extended(&place, Era::Legacy, "old-extended"),
        extended(&place, Era::Modern, "new-extended"),
        extended(&place, Era::Legacy, "old-common"),
        extended(&place, Era::Modern, "new-common"),
        Server::named("plain"),
        Server::named("own").line("sharing = 'session'"),
    ];
    let daemon = servers.into_iter().fold(Setup::new(), Setup::server).start_in(&place);
    let faces =
        ["old", "new", "old-poor", "new-poor", "old-extended", "new-extended", "old-common", "plain", "own"].map(Some);
    for (era, server) in
        Era::BOTH.into_iter().flat_map(|era| faces.into_iter().chain([None]).map(move |one| (era, one)))
    {
        let (mut agent, declared) = introduced(era, &daemon, server);
        let mut called = 0;
        for (name, capability) in declared["capabilities"].as_object().expect("an object") {
            for (method, params) in requests(&mut agent, era, name, capability) {
                let answer = agent.request(method, &params);
                assert_ne!(answer["error"]["code"], -32601, "{era:?} {server:?} {name} {method} {params}: {answer}");
                called += 1;
            }
        }
        assert!(called > 0, "{era:?} {server:?}");
        agent.disconnect();
    }
}

#[test]
fn capability_that_no_server_has_is_not_declared() {
    let place = Place::new();
    let daemon =
        Setup::with(poor(&place, Era::Legacy, "old")).server(poor(&place, Era::Modern, "new")).start_in(&place);
    let changes = json!({"listChanged": true});
    for era in Era::BOTH {
        let (_, declared) = introduced(era, &daemon, None);
        let expected = json!({"tools": changes, "prompts": changes, "resources": changes});
        assert_eq!(declared["capabilities"], expected, "{era:?}");
        assert_eq!(face(era, &daemon, "old")["capabilities"], expected, "{era:?}");
    }
}

#[test]
fn server_that_is_not_known_yet_may_have_every_capability() {
    let place = Place::new();
    let late = poor(&place, Era::Legacy, "late").arg("--exit-unless").arg(place.path("gate"));
    let daemon = Setup::with(late).spawn_in(&place);
    daemon.wait_row("late", "has failed", |row| !row["last_error"].is_null());
    let (mut agent, declared) = introduced(Era::Legacy, &daemon, None);
    let capabilities = declared["capabilities"].as_object().expect("an object");
    assert_eq!(
        capabilities.keys().collect::<Vec<_>>(),
        ["completions", "logging", "prompts", "resources", "tasks", "tools"]
    );
    assert_eq!(capabilities["resources"]["subscribe"], true);
    place.write("gate", "");
    daemon.client(&["restart", "late"]).expect_code(0);
    let reference = json!({"type": "ref/prompt", "name": "late__greet"});
    let complete = json!({"ref": reference, "argument": {"name": "a", "value": ""}});
    let answer = agent.request("completion/complete", &complete);
    agent.discard_notifications("notifications/tools/list_changed");
    assert_eq!(result(&answer), &json!({"completion": {"values": []}}), "it completes nothing");
    let answer = agent.request("resources/subscribe", &json!({"uri": "late://1"}));
    assert_eq!(code(&answer), -32602, "{answer}");
}

#[test]
fn face_has_the_name_instructions_and_capabilities_of_its_server() {
    let place = Place::new();
    let server = |era, name: &str| {
        let text = format!(" {name} \n");
        full(&place, era, name).flags("--server-name").arg(format!("name of {name}")).arg("--instructions").arg(text)
    };
    let own = server(Era::Legacy, "own").line("sharing = 'session'");
    let setup = Setup::with(server(Era::Legacy, "old")).server(server(Era::Modern, "new")).server(own);
    let daemon = setup.start_in(&place);
    let list_changed = json!({"listChanged": true});
    let common = json!({
        "prompts": list_changed, "resources": {"listChanged": true, "subscribe": true},
        "completions": {}, "logging": {}, "tools": list_changed,
    });
    for (era, name) in Era::BOTH.into_iter().flat_map(|era| ["old", "new", "own"].map(|name| (era, name))) {
        let found = face(era, &daemon, name);
        let mut expected = common.clone();
        match era {
            Era::Legacy if name != "new" => {
                expected["tasks"] = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
            }
            Era::Modern if name == "new" => expected["extensions"] = json!({TASKS: {}}),
            // Tasks do not cross eras.
            Era::Legacy | Era::Modern => {}
        }
        assert_eq!(found["capabilities"], expected, "{era:?} {name}");
        assert_eq!(found["instructions"], format!(" {name} \n"));
        let info = match era {
            Era::Legacy => &found["serverInfo"],
            Era::Modern => &found["_meta"]["io.modelcontextprotocol/serverInfo"],
        };
        assert_eq!(info["name"], format!("name of {name}"), "{era:?} {found}");
        assert_eq!(info["_meta"]["mcpd/daemon"]["name"], "mcpd", "{era:?} {found}");
    }
}

#[test]
fn policy_that_hides_a_kind_hides_its_capability_in_a_face() {
    let place = Place::new();
    let daemon = Setup::with(full(&place, Era::Legacy, "s").line("expose = ['prompts']")).start_in(&place);
    let found = face(Era::Legacy, &daemon, "s");
    let names: Vec<_> = found["capabilities"].as_object().expect("an object").keys().collect();
    assert_eq!(names, ["completions", "logging", "prompts"]);
}

#[test]
fn experimental_capabilities_are_declared_only_where_their_methods_reach_the_server() {
    let place = Place::new();
    let more = json!({"experimental": {"vendor.x": {"a": 1.5}}});
    let ruled = library(&place, Era::Legacy, "ruled", &more).line("deny = ['sleep']");
    let daemon = Setup::with(library(&place, Era::Legacy, "open", &more)).server(ruled).start_in(&place);
    let experimental =
        |server: Option<&str>| introduced(Era::Legacy, &daemon, server).1["capabilities"]["experimental"].clone();
    assert_eq!(experimental(Some("open")), more["experimental"]);
    assert_eq!((experimental(Some("ruled")), experimental(None)), (Value::Null, Value::Null));
    assert_eq!(face(Era::Modern, &daemon, "open")["capabilities"]["experimental"], Value::Null);
    let (mut agent, _) = introduced(Era::Legacy, &daemon, Some("open"));
    agent.request("vendor.x/run", &json!({}));
    assert!(daemon.journal("open").iter().any(|line| line.contains("vendor.x/run")));
}

#[test]
fn face_waits_for_the_handshake_of_its_server() {
    let place = Place::new();
    let own = gated(&place, "own").line("sharing = 'session'");
    let daemon = Setup::with(gated(&place, "a")).server(own).spawn_in(&place);
    daemon.wait_status("it answers", |_| true);
    let waiting: Vec<_> = ["a", "own"].into_iter().flat_map(|server| Era::BOTH.map(|era| (era, server))).collect();
    let waiting: Vec<_> = waiting
        .into_iter()
        .map(|(era, server)| {
            let (mut agent, id);
            match era {
                Era::Legacy => {
                    agent = Agent::connect(&daemon);
                    id = start_initialize(&mut agent, server);
                    result(&agent.request("ping", &json!({})));
                }
                Era::Modern => {
                    agent = Agent::modern(&daemon, &json!({}));
                    agent.meta.insert("mcpd/server".to_owned(), server.into());
                    id = agent.start_request("server/discover", &json!({}));
                }
            }
            (era, agent, id)
        })
        .collect();
    place.write("gate", "");
    for (era, mut agent, id) in waiting {
        let found = result(&agent.answer(&id)).clone();
        let name = match era {
            Era::Legacy => &found["serverInfo"]["name"],
            Era::Modern => &found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        };
        assert_eq!(name, "real", "{era:?} {found}");
        agent.disconnect();
    }
}

#[test]
fn face_of_a_server_that_cannot_start_has_its_configured_name() {
    let daemon = Setup::with(Server::run_by("a", "/nonexistent/command")).start();
    for era in Era::BOTH {
        let found = face(era, &daemon, "a");
        let info = match era {
            Era::Legacy => &found["serverInfo"],
            Era::Modern => &found["_meta"]["io.modelcontextprotocol/serverInfo"],
        };
        assert_eq!((&info["name"], &info["version"]), (&json!("a"), &json!("unknown")), "{era:?}");
        assert!(found["capabilities"]["tools"].is_object(), "{found}");
    }
}

#[test]
fn face_is_known_from_memory_before_its_server_runs() {
    let place = Place::new();
    let setup = || {
        let server = poor(&place, Era::Legacy, "s").flags("--server-name real --instructions text --exit-unless");
        Setup::with(server.arg(place.path("gate")))
    };
    place.write("gate", "");
    let mut daemon = setup().start_in(&place);
    let before = face(Era::Legacy, &daemon, "s");
    let cache = place.path("home").join(".cache/mcpd/tools");
    until("the lists are stored", || (std::fs::read_dir(&cache).ok()?.count() > 0).then_some(()));
    daemon.term();
    drop(daemon);
    std::fs::remove_file(place.path("gate")).expect("it is there");
    let daemon = setup().spawn_in(&place);
    daemon.wait_row("s", "has failed", |row| !row["last_error"].is_null());
    assert_eq!(face(Era::Legacy, &daemon, "s"), before, "{}", quoted(&cache));
}

/// A server with this name of its own that starts once the file `gate` exists.
fn gated(place: &Rc<Place>, name: &str) -> Server {
    Server::named(name).flags("--server-name real --exit-unless").arg(place.path("gate"))
}

fn start_initialize(agent: &mut Agent, server: &str) -> Value {
    agent.start_request("initialize", &face_params(server))
}

fn face_params(server: &str) -> Value {
    let mut params = initialize_params("2025-11-25", &json!({}));
    params["_meta"] = json!({ FACE: server });
    params
}

/// Case C18.
#[test]
fn waiting_initialize_is_answered_once_even_if_it_is_cancelled_or_repeated() {
    let place = Place::new();
    let daemon = Setup::with(gated(&place, "a")).spawn_in(&place);
    let mut agent = Agent::connect(&daemon);
    let first = start_initialize(&mut agent, "a");
    agent.cancel(&first);
    let second = start_initialize(&mut agent, "a");
    let refusal = agent.answer(&second);
    assert_eq!(code(&refusal), -32600);
    assert_eq!(refusal["error"]["message"], "`initialize` is unanswered: its server is starting");
    place.write("gate", "");
    assert_eq!(result(&agent.answer(&first))["serverInfo"]["name"], "real");
    let third = start_initialize(&mut agent, "a");
    assert_eq!(agent.answer(&third)["error"]["message"], "already initialized");
    agent.expect_quiet();
}

/// Case C18.
#[test]
fn initialize_that_a_quota_refuses_can_be_repeated() {
    const GUEST: u32 = 54_321;
    const FITTING: usize = 60;
    if !rustix::process::geteuid().is_root() {
        return skipped("only root can connect as somebody else");
    }
    let place = Place::new();
    let setup = Setup::with(gated(&place, "a")).server(Server::named("s"));
    let head = format!("[daemon]\nmax_message = \"64KiB\"\n[profiles.p]\nallow_uids = [{GUEST}]");
    let daemon = setup.head(&head).spawn_in(&place);
    let socket = daemon.profile_socket("p");
    let guest = || Agent::from_stream(until("the socket accepts", || connect_as(GUEST, &socket).ok()));
    let mut busy = guest();
    busy.initialize("2025-11-25");
    until("it lists", || busy.tools().contains(&"s__sleep".to_owned()).then_some(()));
    let text = "x".repeat(4200);
    for _ in 0..FITTING {
        busy.start_call("s__sleep", &json!({"ms": 600_000, "text": text}));
        // Each in a system call of its own, so that they fit.
        result(&busy.request("ping", &json!({})));
    }
    let mut agent = guest();
    agent.send(&json!({"jsonrpc": "2.0", "id": text, "method": "initialize", "params": face_params("a")}));
    let refusal = agent.answer(&text.into());
    assert!(
        refusal["error"]["message"].as_str().is_some_and(|message| message.contains("256KiB of unfinished messages")),
        "{refusal}"
    );
    let repeated = start_initialize(&mut agent, "a");
    place.write("gate", "");
    assert_eq!(result(&agent.answer(&repeated))["serverInfo"]["name"], "real");
    busy.disconnect();
    agent.disconnect();
}

/// Case C18.
#[test]
fn waiting_initialize_and_discover_are_refused_when_the_daemon_stops() {
    let place = Place::new();
    let mut daemon = Setup::with(Server::named("a").flags("--init-never")).spawn_in(&place);
    let mut legacy = Agent::connect(&daemon);
    let initialize = start_initialize(&mut legacy, "a");
    result(&legacy.request("ping", &json!({})));
    let mut modern = Era::Modern.agent_at_face(&daemon, "a");
    let discover = modern.start_request("server/discover", &json!({}));
    daemon.wait_status("both wait", |status| status["agents"].as_array().is_some_and(|agents| agents.len() == 2));
    modern.meta.remove("mcpd/server");
    result(&modern.request("server/discover", &json!({})));
    daemon.signal(Signal::TERM);
    for (agent, id) in [(&mut legacy, initialize), (&mut modern, discover)] {
        let refusal = agent.answer(&id);
        assert_eq!(refusal["error"]["message"], "mcpd is being stopped", "{refusal}");
    }
    daemon.wait_exit();
}

/// Case C18.
#[test]
fn cancelled_discovers_at_a_starting_server_leave_no_memory_in_use() {
    let daemon = Setup::with(Server::named("a").flags("--init-never")).spawn();
    let mut agent = Era::Modern.agent_at_face(&daemon, "a");
    let flood = |agent: &mut Agent, count: usize| {
        for _ in 0..count {
            let id = agent.start_request("server/discover", &json!({}));
            agent.cancel(&id);
        }
        let face = agent.meta.remove("mcpd/server").expect("it has one");
        result(&agent.request("server/discover", &json!({})));
        agent.meta.insert("mcpd/server".to_owned(), face);
    };
    flood(&mut agent, 1000);
    let before = resident_kib(daemon.pid());
    flood(&mut agent, 20_000);
    let grown = resident_kib(daemon.pid()).saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB");
    agent.disconnect();
}

#[test]
fn method_that_is_announced_before_the_server_is_known_is_not_unknown_in_its_face() {
    let place = Place::new();
    let daemon = Setup::with(poor(&place, Era::Legacy, "late")).start_in(&place);
    daemon.client(&["disable", "late"]).expect_code(0);
    let (mut agent, declared) = introduced(Era::Legacy, &daemon, Some("late"));
    let capabilities = &declared["capabilities"];
    assert!(capabilities["completions"].is_object() && capabilities["resources"]["subscribe"] == true, "{declared}");
    daemon.client(&["enable", "late"]).expect_code(0);
    until("it is listed", || (list(&mut agent, "prompts/list", "prompts", "name") == ["greet"]).then_some(()));
    let reference = json!({"type": "ref/prompt", "name": "greet"});
    let complete = json!({"ref": reference, "argument": {"name": "a", "value": ""}});
    assert_eq!(result(&agent.request("completion/complete", &complete)), &json!({"completion": {"values": []}}));
    assert_eq!(code(&agent.request("resources/subscribe", &json!({"uri": "late://1"}))), -32602);
    agent.disconnect();
}

#[test]
fn method_of_a_capability_that_the_server_has_not_declared_is_unknown_in_its_face() {
    let place = Place::new();
    let servers = Era::BOTH.map(|era| (era, if era == Era::Legacy { "old" } else { "new" }));
    let setup = servers.into_iter().fold(Setup::new(), |setup, (era, name)| {
        setup.server(era.server(&format!("{name}-plain"))).server(poor(&place, era, &format!("{name}-poor")))
    });
    let hiding = full(&place, Era::Legacy, "old-hiding").line("expose = ['prompts']");
    let daemon = setup.server(hiding).start_in(&place);
    let plain = ["prompts", "resources", "subscribe", "completions", "logging", "tasks"];
    for (server, lacking) in [
        ("old-plain", &plain[..]),
        ("new-plain", &plain),
        ("old-poor", &["subscribe", "completions", "logging", "tasks"]),
        ("new-poor", &["subscribe", "completions", "logging", "tasks"]),
        ("old-hiding", &["tools", "resources", "subscribe", "tasks"]),
    ] {
        for era in Era::BOTH {
            for is_introduced in [true, false] {
                let mut agent = match (era, is_introduced) {
                    (Era::Modern, false) => era.agent_at_face(&daemon, server),
                    (Era::Legacy, false) => continue,
                    (_, true) => introduced(era, &daemon, Some(server)).0,
                };
                for (capability, method, params) in methods_of_capabilities(era) {
                    let answer = agent.request(method, &params);
                    let is_unknown = answer["error"]["code"] == -32601;
                    assert_eq!(is_unknown, lacking.contains(&capability), "{era:?} {server} {method}: {answer}");
                }
                agent.disconnect();
            }
        }
        let received = daemon.journal(server).into_iter().filter(|line| line.contains("\"uri\":\"x:1\""));
        assert_eq!(received.count(), 0, "{server}");
    }
}

/// A request of each method that needs a capability, after the short name of the capability.
fn methods_of_capabilities(era: Era) -> Vec<(&'static str, &'static str, Value)> {
    let (none, named, uri, task) = (json!({}), json!({"name": "x"}), json!({"uri": "x:1"}), json!({"taskId": "x"}));
    let reference = json!({"type": "ref/prompt", "name": "x"});
    let mut all = vec![
        ("tools", "tools/list", none.clone()),
        ("tools", "tools/call", named.clone()),
        ("prompts", "prompts/list", none.clone()),
        ("prompts", "prompts/get", named),
        ("resources", "resources/list", none.clone()),
        ("resources", "resources/templates/list", none.clone()),
        ("resources", "resources/read", uri.clone()),
        ("completions", "completion/complete", json!({"ref": reference, "argument": {"name": "a", "value": ""}})),
        ("tasks", "tasks/get", task.clone()),
        ("tasks", "tasks/cancel", task.clone()),
    ];
    if era == Era::Legacy {
        all.extend([
            ("subscribe", "resources/subscribe", uri.clone()),
            ("subscribe", "resources/unsubscribe", uri),
            ("logging", "logging/setLevel", json!({"level": "info"})),
            ("tasks", "tasks/list", none),
            ("tasks", "tasks/result", task),
        ]);
    }
    all
}

#[test]
fn face_of_a_server_that_is_disabled_or_hidden_is_that_of_an_unknown_one() {
    let place = Place::new();
    let known = |name: &str| full(&place, Era::Legacy, name).flags("--server-name real --instructions secret");
    let denied = Server::named("denied").flags("--server-name real --instructions secret").line("deny = ['*']");
    let setup = Setup::with(known("off")).server(known("hidden").line("expose = []")).server(denied);
    let daemon = setup.start_in(&place);
    assert_eq!(face(Era::Legacy, &daemon, "off")["serverInfo"]["name"], "real");
    daemon.client(&["disable", "off"]).expect_code(0);
    for (era, name) in Era::BOTH.into_iter().flat_map(|era| ["off", "hidden", "denied"].map(|name| (era, name))) {
        let found = face(era, &daemon, name);
        let info = match era {
            Era::Legacy => &found["serverInfo"],
            Era::Modern => &found["_meta"]["io.modelcontextprotocol/serverInfo"],
        };
        assert_eq!((&info["name"], &info["version"]), (&json!(name), &json!("unknown")), "{era:?} {found}");
        assert!(found["instructions"].is_null(), "{era:?} {found}");
        let capabilities = &found["capabilities"];
        assert!(capabilities["completions"].is_object() && capabilities["tools"].is_object(), "{era:?} {found}");
    }
}

#[test]
fn identity_that_depends_on_the_directory_of_an_agent_is_given_to_that_agent_only() {
    let server = Server::named("own").flags("--server-name real --instructions secret").line("sharing = 'workspace'");
    let daemon = Setup::with(server.env("WHERE", "${agent:cwd}")).start();
    let expect_unknown = || {
        let mut agent = Era::Modern.agent_at_face(&daemon, "own");
        let at_face = agent.start_request("server/discover", &json!({}));
        agent.meta.remove("mcpd/server");
        agent.start_request("server/discover", &json!({}));
        let first = agent.next();
        assert_eq!(first["id"], at_face, "it does not wait for a server that nothing starts");
        assert_eq!(result(&first)["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "own");
        assert!(result(&first)["instructions"].is_null(), "{first}");
        agent.disconnect();
    };
    expect_unknown();
    let (agent, found) = introduced(Era::Legacy, &daemon, Some("own"));
    assert_eq!((&found["serverInfo"]["name"], &found["instructions"]), (&json!("real"), &json!("secret")));
    expect_unknown();
    agent.disconnect();
}

#[test]
fn face_waits_for_the_replacement_of_its_server() {
    let place = Place::new();
    let daemon = Setup::with(Server::named("a").flags("--init-never")).spawn_in(&place);
    let mut agent = Agent::connect(&daemon);
    let initialize = start_initialize(&mut agent, "a");
    result(&agent.request("ping", &json!({})));
    Setup::with(Server::named("a").flags("--server-name real")).write(&place);
    daemon.client(&["reload"]).expect_code(0);
    assert_eq!(result(&agent.answer(&initialize))["serverInfo"]["name"], "real");
    agent.disconnect();
}

#[test]
fn odd_name_and_capabilities_of_a_server_are_mended_in_its_face_unless_they_shall_pass() {
    let odd = |name: &str| {
        let spellings = [r#""version":"1.0"=>"version":1"#, r#"{"listChanged":true}=>[]"#];
        let server = Server::named(name).flags("--server-name real --bare --tool echo");
        spellings.iter().fold(server, |server, spelling| server.arg("--spell").arg(spelling))
    };
    let daemon = Setup::with(odd("mended")).server(odd("passed").line("malformed = 'pass'")).start();
    for (name, version, tools) in [("mended", json!("unknown"), json!({})), ("passed", json!(1), json!([]))] {
        daemon.wait_row(name, "has listed its tools", |row| row["tools_exposed"] == 1);
        let found = face(Era::Legacy, &daemon, name);
        let info = &found["serverInfo"];
        assert_eq!((&info["name"], &info["version"]), (&json!("real"), &version), "{found}");
        assert_eq!(found["capabilities"]["tools"], tools, "{found}");
    }
}
