//! Policy and lists are checked again before a parked call is written. A call that is hidden by then gets the error for an unknown name.

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::reload::{change, text};
use crate::support::{Agent, Daemon, Era, Place, Server, Setup, arguments, code, result, signal, until};

const LIBRARY: &str = r#"{"completions":true,"prompts":[{"name":"danger"}],"resources":[{"uri":"x://danger","name":"one"}],
    "resourceTemplates":[{"uriTemplate":"y://{id}","name":"any"}]}"#;

/// A lazy server whose lists are known and that starts only once the test lets it.
struct ParkedCalls {
    daemon: Daemon,
    place: Rc<Place>,
    gate: PathBuf,
}

fn gated(gate: &PathBuf, lines: &[&str]) -> Server {
    let server = Server::named("s").flags("--bare --tool danger --tool other --exit-unless").arg(gate);
    lines.iter().fold(server.line("start = \"lazy\"").line("idle_timeout = \"1s\""), |server, line| server.line(*line))
}

impl ParkedCalls {
    fn new(head: &str, lines: &[&str]) -> Self {
        Self::with(head, |gate, _| gated(gate, lines).library(LIBRARY))
    }

    fn with(head: &str, server: impl Fn(&PathBuf, &Place) -> Server) -> Self {
        let place = Place::new();
        let gate = place.write("gate", "");
        let servers = [server(&gate, &place)];
        let setup = || Setup::new().config(place.write("changing.toml", format!("{head}\n{}", text(&servers, &place))));
        let mut first = setup().start_in(&place);
        first.wait_row("s", "has listed and is idle", |row| row["state"] == "idle");
        first.term();
        drop(first);
        fs::remove_file(&gate).expect("it is there");
        let daemon = setup().start_in(&place);
        Self { daemon, place, gate }
    }

    /// Waits until the server's task has taken in this number of calls.
    fn wait_parked(&self, calls: u64) {
        self.daemon.wait_row("s", "has parked the call", |row| row["calls"] == calls);
    }

    fn open(&self) {
        fs::write(&self.gate, "").expect("the test's own");
    }

    fn expect_nothing_written(&self) {
        let journal = self.daemon.journal("s");
        let seen: Vec<_> = journal.iter().filter(|line| line.contains("danger")).collect();
        assert!(seen.is_empty(), "{seen:?}");
    }
}

fn ask(agent: &mut Agent, [tool, prompt, uri]: [&str; 3]) -> [Value; 4] {
    let complete = json!({"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": "a", "value": ""}});
    [
        agent.start_call(tool, &json!({})),
        agent.start_request("prompts/get", &json!({"name": prompt})),
        agent.start_request("resources/read", &json!({"uri": uri})),
        agent.start_request("completion/complete", &complete),
    ]
}

const NAMES: [&str; 3] = ["s__danger", "s__danger", "x://danger"];
const NEVER: [&str; 3] = ["s__never00", "s__never00", "x://never0"];
/// The same in the face of the server.
const OWN_NAMES: [&str; 3] = ["danger", "danger", "x://danger"];
const OWN_NEVER: [&str; 3] = ["never0", "never0", "x://never0"];

/// Fails unless calls that wait are answered as unknown after `change`, and the server sees none of them.
fn expect_unknown(parked: &mut ParkedCalls, change: impl FnOnce(&mut ParkedCalls)) {
    let aggregate = Agent::ready(&parked.daemon);
    let faces = Era::BOTH.map(|era| (era.agent_at_face(&parked.daemon, "s"), OWN_NAMES, OWN_NEVER));
    let mut agents: Vec<_> = [(aggregate, NAMES, NEVER)].into_iter().chain(faces).collect();
    let pending: Vec<_> = agents.iter_mut().map(|(agent, names, _)| ask(agent, *names)).collect();
    parked.wait_parked(12);
    change(parked);
    parked.open();
    for ((mut agent, _, never), pending) in agents.into_iter().zip(pending) {
        // A face of a server that is gone refuses modern requests, also for names that it had.
        let is_gone = |answer: &Value| answer["error"]["message"].to_string().contains("has no server");
        let never = ask(&mut agent, never);
        let [answers, unknown] = [pending, never].map(|ids| ids.map(|id| agent.answer(&id)));
        let text =
            |answer: &Value| answer["error"].to_string().replace("never00", "danger").replace("never0", "danger");
        if !unknown.iter().all(is_gone) {
            assert_eq!(answers.each_ref().map(text), unknown.each_ref().map(text));
        }
        assert!(answers.iter().all(|answer| !answer["error"].is_null()), "{answers:?}");
        agent.disconnect();
    }
    parked.expect_nothing_written();
}

#[test]
fn parked_calls_are_released_when_nothing_has_changed() {
    let parked = ParkedCalls::new("", &[]);
    let mut agent = Agent::ready(&parked.daemon);
    let pending = ask(&mut agent, NAMES);
    parked.wait_parked(4);
    parked.open();
    let [call, prompt, resource, _] = pending.map(|id| agent.answer(&id));
    arguments(&call);
    result(&prompt);
    result(&resource);
}

/// Case H13.
#[test]
fn server_disabled_while_calls_are_parked_hides_its_tools() {
    for option in [&["disable", "s"][..], &["disable", "--stop", "s"]] {
        let mut parked = ParkedCalls::new("", &[]);
        expect_unknown(&mut parked, |parked| drop(parked.daemon.client(option).expect_code(0)));
    }
}

#[test]
fn tool_disabled_while_its_call_is_parked_is_not_called() {
    let parked = ParkedCalls::new("", &[]);
    let mut agent = Agent::ready(&parked.daemon);
    let (danger, other) = (agent.start_call("s__danger", &json!({})), agent.start_call("s__other", &json!({})));
    parked.wait_parked(2);
    parked.daemon.client(&["disable", "s/danger"]).expect_code(0);
    parked.open();
    arguments(&agent.answer(&other));
    assert_eq!(agent.answer(&danger)["error"], json!({"code": -32602, "message": "Unknown tool: s__danger"}));
    parked.expect_nothing_written();
    agent.disconnect();
}

/// Case H13.
#[test]
fn names_denied_by_a_reload_while_calls_are_parked_are_not_called() {
    let deny = "deny = ['danger']\nprompts = { deny = ['danger'] }\nresources = { deny = ['x://danger'] }";
    let mut parked = ParkedCalls::new("", &[]);
    expect_unknown(&mut parked, |parked| {
        let file = parked.place.path("changing.toml");
        let before = fs::read_to_string(file).expect("it is there");
        change(&mut parked.daemon, before + deny, "reloaded: ");
    });
}

#[test]
fn profile_that_denies_more_by_a_reload_hides_parked_calls() {
    let profile = "[profiles.default]\n";
    let mut parked = ParkedCalls::new(profile, &[]);
    expect_unknown(&mut parked, |parked| {
        let file = parked.place.path("changing.toml");
        let before = fs::read_to_string(file).expect("it is there");
        let narrower = before.replace(profile, "[profiles.default]\nservers = []\n");
        change(&mut parked.daemon, narrower, "reloaded: ");
    });
}

#[test]
fn profile_removed_while_calls_are_parked_hides_its_tools() {
    let profile = "[profiles.reviewer]\nservers = ['s']\n";
    let mut parked = ParkedCalls::new(profile, &[]);
    let mut agent = Agent::ready_at(&parked.place.runtime_dir().join("reviewer.sock"));
    let pending = ask(&mut agent, NAMES);
    parked.wait_parked(4);
    let file = parked.place.path("changing.toml");
    let before = fs::read_to_string(file).expect("it is there");
    change(&mut parked.daemon, before.replace(profile, ""), "reloaded: ");
    parked.open();
    for answer in pending.map(|id| agent.answer(&id)) {
        let code = code(&answer);
        assert!(code == -32602 || code == -32002, "{answer}");
    }
    agent.expect_end();
    parked.expect_nothing_written();
}

#[test]
fn server_removed_while_calls_are_parked_hides_its_tools() {
    let mut parked = ParkedCalls::new("", &[]);
    expect_unknown(&mut parked, |parked| change(&mut parked.daemon, "", "reloaded: "));
}

/// Case H13.
#[test]
fn parked_call_is_judged_by_the_list_of_the_server_that_has_started() {
    const READS: &str = r#"{"tools":[{"name":"danger","inputSchema":{},"annotations":{"readOnlyHint":true}}]}"#;
    for after in [
        r#"{"tools":[{"name":"danger","inputSchema":{}}]}"#,
        r#"{"tools":[]}"#,
        r#"{"tools":[{"name":"danger","inputSchema":{},"annotations":{"readOnlyHint":true}},{"name":"danger","inputSchema":{}}]}"#,
    ] {
        let parked = ParkedCalls::with("[profiles.default.tools]\nread_only = true", |gate, place| {
            gated(gate, &[]).arg("--tool-list").arg(place.write("listing", READS))
        });
        let mut agent = Agent::ready(&parked.daemon);
        agent.tools();
        let danger = agent.start_call("s__danger", &json!({}));
        parked.wait_parked(1);
        parked.place.write("listing", after);
        parked.open();
        let error = agent.answer(&danger)["error"].clone();
        assert_eq!(error, json!({"code": -32602, "message": "Unknown tool: s__danger"}), "{after}");
        parked.expect_nothing_written();
        agent.disconnect();
    }
}

#[test]
fn tool_that_a_server_registers_late_is_called_once_it_is_listed() {
    let parked = ParkedCalls::with("", |gate, _| gated(gate, &[]).flags("--late-tools 200"));
    let mut agent = Agent::ready(&parked.daemon);
    let late = agent.start_call("s__late", &json!({}));
    parked.wait_parked(1);
    parked.open();
    arguments(&agent.answer(&late));
    agent.disconnect();
}

/// Case H13.
#[test]
fn tool_denied_while_its_server_does_not_read_is_not_called() {
    let daemon = Server::named("s").flags("--bare --tool danger --tool echo").start();
    let mut agent = Agent::ready(&daemon);
    agent.tools();
    let pid = daemon.server_pid("s");
    signal(pid, Signal::STOP);
    // Larger than any pipe: the server has a part of it, and nothing of what comes behind it.
    let large = agent.start_call("s__echo", &json!({"text": "x".repeat(4 << 20)}));
    let danger = agent.start_call("s__danger", &json!({}));
    daemon.wait_row("s", "has both calls", |row| row["in_flight"] == 2);
    daemon.client(&["disable", "s/danger"]).expect_code(0);
    signal(pid, Signal::CONT);
    let error = agent.answer(&danger)["error"].clone();
    assert_eq!(error, json!({"code": -32602, "message": "Unknown tool: s__danger"}));
    arguments(&agent.answer(&large));
    let journal = daemon.journal("s");
    assert!(!journal.iter().any(|line| line.contains("tools/call") && line.contains("danger")));
    agent.disconnect();
}

#[test]
fn denied_resource_is_not_subscribed_to_again_when_its_server_restarts() {
    let library = r#"{"resources":[{"uri":"x://danger","name":"one"},{"uri":"x://other","name":"two"}]}"#;
    let place = Place::new();
    let servers = [Server::named("s").library(library)];
    let config = text(&servers, &place);
    let mut daemon = Setup::new().config(place.write("changing.toml", &config)).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    for uri in ["x://danger", "x://other"] {
        result(&agent.request("resources/subscribe", &json!({ "uri": uri })));
    }
    let subscribes = |daemon: &Daemon, uri: &str| {
        let journal = daemon.journal("s");
        let is_it = |line: &&String| line.contains("resources/subscribe") && line.contains(uri);
        journal.iter().filter(is_it).count()
    };
    change(&mut daemon, format!("{config}\nresources = {{ deny = [\"x://danger\"] }}"), "reloaded: ");
    daemon.wait_journal("s", "resources/unsubscribe");
    daemon.client(&["restart", "s"]).expect_code(0);
    until("the other one is subscribed to again", || (subscribes(&daemon, "x://other") == 2).then_some(()));
    assert_eq!(subscribes(&daemon, "x://danger"), 1);
    change(&mut daemon, &config, "reloaded: ");
    until("it is subscribed to again", || (subscribes(&daemon, "x://danger") == 2).then_some(()));
    agent.disconnect();
}
