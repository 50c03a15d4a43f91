//! Faces: an agent that connects to one server uses unprefixed names, under the policy of its profile, on the same instance.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Era, FACE, Place, Server, Setup, Shim, arguments, code, result, until};

fn files() -> Server {
    Server::named("files").flags("--bare --tool read --tool write").line("deny = ['write']")
}

/// Two servers with a tool of the same name, and a profile with one of them.
fn start() -> Daemon {
    let git = Server::named("git").flags("--bare --tool read --tool log");
    Setup::new().head("[profiles.reviewer]\nservers = ['git']\ndeny = ['git/log']").server(files()).server(git).start()
}

#[test]
fn face_has_the_own_names_of_one_server_and_calls_its_instance() {
    let daemon = start();
    for era in Era::BOTH {
        let mut face = era.agent_at_face(&daemon, "git");
        assert_eq!(face.tools(), ["read", "log"], "{era:?}");
        let answer = face.call("read", &json!({ "x": 1.5 }));
        assert_eq!(arguments(&answer)["x"], 1.5);
        assert_eq!(result(&answer)["structuredContent"]["pid"], daemon.server_pid("git"), "{era:?}");
        assert_eq!(code(&face.call("git__read", &json!({}))), -32602, "the aggregate's name is unknown in a face");
        assert_eq!(code(&face.call("files__read", &json!({}))), -32602);
    }
    assert_eq!(Agent::ready(&daemon).tools(), ["files__read", "git__read", "git__log"], "the aggregate is as before");
    let journal = daemon.journal("git").join("\n");
    assert!(!journal.contains("mcpd/server"), "the server does not receive the member:\n{journal}");
}

#[test]
fn tool_that_policy_denies_is_not_in_the_face() {
    let daemon = start();
    for era in Era::BOTH {
        let mut face = era.agent_at_face(&daemon, "files");
        assert_eq!(face.tools(), ["read"], "{era:?}");
        assert_eq!(code(&face.call("write", &json!({}))), -32602);
    }
    let mut shim = Shim::start(daemon.place(), &["--profile", "reviewer", "--server", "git"]);
    result(&shim.initialize("2025-11-25"));
    assert_eq!(shim.tools(), ["read"]);
    assert_eq!(code(&shim.call("log", &json!({}))), -32602);
}

#[test]
fn face_of_an_unknown_server_is_an_error_that_lists_the_known_ones() {
    let daemon = start();
    let refused = |answer: &Value, name: &str, known: &str| {
        let message = answer["error"]["message"].as_str().expect("a message");
        assert_eq!((code(answer), message), (-32602, &*format!("this profile has no server `{name}`; {known}")));
    };
    let known = "its servers are files, git";
    let mut legacy = Agent::connect(&daemon);
    refused(&legacy.initialize_with("2025-11-25", &json!({}), &json!({ FACE: "nope" })), "nope", known);
    // It is not introduced, so it can try again.
    result(&legacy.initialize_with("2025-11-25", &json!({}), &json!({ FACE: "git" })));
    let mut modern = Era::Modern.agent_at_face(&daemon, "nope");
    for (method, params) in [("tools/list", json!({})), ("tools/call", json!({"name": "read"}))] {
        refused(&modern.request(method, &params), "nope", known);
    }
    modern.meta.insert(FACE.to_owned(), json!(7));
    assert_eq!(code(&modern.request("tools/list", &json!({}))), -32602);
    let mut shim = Shim::start(daemon.place(), &["--profile", "reviewer", "--server", "files"]);
    refused(&shim.initialize("2025-11-25"), "files", "its servers are git");
}

#[test]
fn face_through_connect_holds_for_both_eras_and_for_the_next_daemon() {
    let mut daemon = start();
    let place = daemon.place().clone();
    let mut legacy = Shim::start(&place, &["--server", "git"]);
    result(&legacy.initialize("2025-11-25"));
    let mut modern = Shim::start(&place, &["--server", "git"]);
    modern.speak_modern(&json!({}));
    for shim in [&mut legacy, &mut modern] {
        assert_eq!(shim.tools(), ["read", "log"]);
    }
    daemon.term();
    let daemon = start_again(&place);
    for shim in [&mut legacy, &mut modern] {
        arguments(&shim.call("log", &json!({})));
        shim.discard_notifications("notifications/tools/list_changed");
    }
    until("both are back", || (faces(&daemon) == ["git", "git"]).then_some(()));
}

fn start_again(place: &std::rc::Rc<Place>) -> Daemon {
    let git = Server::named("git").flags("--bare --tool read --tool log");
    Setup::new().server(files()).server(git).start_in(place)
}

/// The faces of the connected agents, as `mcpd status` reports them.
fn faces(daemon: &Daemon) -> Vec<String> {
    let agents = daemon.status()["agents"].as_array().expect("agents").clone();
    agents.iter().filter_map(|agent| agent["server"].as_str().map(str::to_owned)).collect()
}

#[test]
fn status_shows_which_agent_is_at_which_face() {
    let daemon = start();
    let _aggregate = Agent::ready(&daemon);
    let _git = Era::Legacy.agent_at_face(&daemon, "git");
    let mut modern = Era::Modern.agent_at_face(&daemon, "files");
    // The first request introduces a modern agent.
    assert_eq!(modern.tools(), ["read"]);
    assert_eq!(faces(&daemon).len(), 2, "{:?}", faces(&daemon));
    let shown = daemon.client(&["status"]).expect_code(0).stdout;
    assert!(shown.contains("default/git") && shown.contains("default/files"), "{shown}");
}

#[test]
fn face_is_notified_of_changes_of_its_server_only() {
    let daemon = start();
    let mut git = Era::Legacy.agent_at_face(&daemon, "git");
    let mut files = Era::Legacy.agent_at_face(&daemon, "files");
    assert_eq!((git.tools().len(), files.tools().len()), (2, 1));
    daemon.client(&["disable", "git/log"]).expect_code(0);
    git.expect_notification("notifications/tools/list_changed");
    assert_eq!(git.tools(), ["read"]);
    assert_eq!(code(&git.call("log", &json!({}))), -32602);
    files.expect_quiet();
}

#[test]
fn session_instance_of_a_face_is_the_agents_own() {
    let own = Server::named("own").flags("--bare --tool echo").line("sharing = 'session'");
    let other = Server::named("other").line("sharing = 'session'");
    let daemon = Setup::with(own).server(other).start();
    let starts = |server: &str| daemon.count_starts(server);
    let before = [starts("own"), starts("other")];
    let mut one = Era::Legacy.agent_at_face(&daemon, "own");
    let mut two = Era::Legacy.agent_at_face(&daemon, "own");
    let pid = |agent: &mut Agent| result(&agent.call("echo", &json!({})))["structuredContent"]["pid"].clone();
    assert_ne!(pid(&mut one), pid(&mut two));
    assert_eq!([starts("own"), starts("other")], [before[0] + 2, before[1]], "no instance of the other server");
}

#[test]
fn names_that_the_aggregate_shortens_are_whole_in_the_face() {
    let odd = "a.tool/with é and more than fifty-three characters in its name";
    let server = Server::named("odd").flags("--bare").arg("--tool").arg(odd);
    let daemon = Setup::with(server).start();
    for era in Era::BOTH {
        let mut face = era.agent_at_face(&daemon, "odd");
        assert_eq!(face.tools(), [odd]);
        arguments(&face.call(odd, &json!({})));
    }
}

#[test]
fn removed_server_leaves_its_face_empty_until_it_is_back() {
    let place = Place::new();
    let daemon = Setup::with(files()).server(Server::named("git").flags("--bare --tool log")).start_in(&place);
    let mut face = Era::Legacy.agent_at_face(&daemon, "git");
    assert_eq!(face.tools(), ["log"]);
    Setup::with(files()).write(&place);
    daemon.client(&["reload"]).expect_code(0);
    face.expect_notification("notifications/tools/list_changed");
    assert!(face.tools().is_empty());
    assert_eq!(code(&face.call("log", &json!({}))), -32602);
    Setup::with(files()).server(Server::named("git").flags("--bare --tool log")).write(&place);
    daemon.client(&["reload"]).expect_code(0);
    face.expect_notification("notifications/tools/list_changed");
    arguments(&face.call("log", &json!({})));
}

#[test]
fn print_each_has_one_entry_for_each_server_of_the_profile() {
    let daemon = start();
    let ran = daemon.client(&["connect", "--print", "cursor", "--each"]).expect_code(0);
    let entries = ran.json()["mcpServers"].clone();
    assert_eq!(entries.as_object().expect("entries").keys().collect::<Vec<_>>(), ["files", "git"]);
    for server in ["files", "git"] {
        let args = entries[server]["args"].as_array().expect("arguments").clone();
        assert_eq!(args[args.len() - 2..], [json!("--server"), json!(server)]);
    }
    let ran = daemon.client(&["connect", "--print", "codex", "--each", "--profile", "reviewer"]).expect_code(0);
    assert!(ran.stdout.starts_with("[mcp_servers.git]\n") && !ran.stdout.contains("files"), "{ran}");
    assert!(ran.stdout.contains(r#""--profile", "reviewer", "--server", "git"]"#), "{ran}");
    let one = daemon.client(&["connect", "--print", "claude-code", "--server", "git"]).expect_code(0);
    assert!(one.stderr.contains("claude mcp add --scope user git -- "), "{one}");
    daemon.client(&["connect", "--each"]).expect_code(2);
}

#[test]
fn fifty_faces_and_the_aggregate_start_each_server_once() {
    const SERVERS: usize = 50;
    let name = |n: usize| format!("s{n}");
    let setup =
        (0..SERVERS).fold(Setup::new(), |setup, n| setup.server(Server::named(&name(n)).flags("--bare --tool t")));
    let daemon = setup.start();
    let mut faces: Vec<_> = (0..SERVERS).map(|n| Era::Legacy.agent_at_face(&daemon, &name(n))).collect();
    let mut aggregate = Agent::ready(&daemon);
    for (n, face) in faces.iter_mut().enumerate() {
        let own = result(&face.call("t", &json!({})))["structuredContent"]["pid"].clone();
        let shared = result(&aggregate.call(&format!("s{n}__t"), &json!({})))["structuredContent"]["pid"].clone();
        assert_eq!(own, shared);
        let starts = daemon.count_starts(&name(n));
        assert_eq!(starts, 1, "server {n}");
    }
}
