//! Server notifications and requests on any stream reach their agent. Responses return by POST.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::{beside, expect_well, start, start_with};
use crate::support::http::{Answers, Behavior, Front, HttpServer, Lock, Response};
use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, content, notification, until};

const BEHAVIORS: [fn() -> Behavior; 3] = [Behavior::default, Behavior::json, Behavior::old];

fn capable_agent(daemon: &Daemon) -> Agent {
    Agent::with_capabilities(daemon, &json!({"sampling": {}, "elicitation": {}}))
}

fn listened_to(front: &Front) {
    until("mcpd listens", || (front.stream_listeners() == 1).then_some(()));
}

#[test]
fn list_change_is_announced_and_the_list_read_again() {
    for behavior in BEHAVIORS {
        let (front, daemon) = start(behavior());
        let mut agent = Agent::ready(&daemon);
        assert!(agent.tools().contains(&"a__umask".to_owned()));
        listened_to(&front);
        arguments(&agent.call("a__mutate_tools", &json!({"add": ["fresh"], "remove": ["umask"]})));
        agent.expect_notification("notifications/tools/list_changed");
        let tools = agent.tools();
        assert!(tools.contains(&"a__fresh".to_owned()) && !tools.contains(&"a__umask".to_owned()), "{tools:?}");
        arguments(&agent.call("a__fresh", &json!({})));
        agent.expect_quiet();
    }
}

#[test]
fn server_request_reaches_the_agent_and_its_response_is_posted() {
    for behavior in BEHAVIORS {
        let (front, daemon) = start(behavior());
        let mut agent = capable_agent(&daemon);
        listened_to(&front);
        for method in ["sampling/createMessage", "elicitation/create"] {
            let params = json!({"method": method, "params": {"messages": [], "n": 1.5}});
            let call = agent.start_call("a__send_request", &params);
            let question = agent.expect_request(method);
            assert_eq!(question["params"], params["params"]);
            agent.respond(&question, &json!({"content": method}));
            assert_eq!(content(&agent.answer(&call))["result"], json!({"content": method}));
        }
        let posted = front.http().requests();
        let answers = posted.iter().filter(|request| request.method == "POST" && request.json()["method"].is_null());
        assert_eq!(answers.filter(|request| !request.json()["result"]["content"].is_null()).count(), 2);
        expect_well(&mut agent);
    }
}

#[test]
fn requests_for_mcpd_itself_are_answered_by_mcpd() {
    for behavior in BEHAVIORS {
        let (front, daemon) = start_with(behavior(), "", |server| server.line("roots = [\"/data/notes\"]"));
        let mut agent = Agent::ready(&daemon);
        listened_to(&front);
        let mut ask = |method: &str| content(&agent.call("a__send_request", &json!({ "method": method })));
        assert_eq!(ask("ping")["result"], json!({}));
        assert_eq!(ask("roots/list")["result"]["roots"][0]["uri"], "file:///data/notes");
        assert_eq!(ask("sampling/createMessage")["error"]["code"], -32601);
        agent.expect_quiet();
    }
}

#[test]
fn messages_right_after_the_stream_opens_are_received() {
    for behavior in BEHAVIORS {
        let flags = "--ask-at-start roots/list --late-tools 0";
        let (_front, daemon) = start_with(behavior(), flags, |server| server.line("roots = [\"/data/notes\"]"));
        daemon.wait_journal("a", "file:///data/notes");
        let mut agent = Agent::ready(&daemon);
        until("the late tool is listed", || agent.tools().contains(&"a__late".to_owned()).then_some(()));
        arguments(&agent.call("a__late", &json!({})));
        // Whether it was told or had it in its first list, depends.
        agent.disconnect();
    }
}

#[test]
fn request_on_the_stream_of_a_call_reaches_the_agent_of_that_call() {
    let (front, daemon) = start(Behavior { answers: Answers::Events, ..Behavior::default() });
    let [mut one, mut other] = [(); 2].map(|()| capable_agent(&daemon));
    let busy = other.start_call("a__sleep", &json!({"ms": 600_000}));
    front.http().wait_request("the other's call", |request| request.rpc() == "tools/call");
    let call =
        one.start_call("a__send_request", &json!({"method": "elicitation/create", "params": {"message": "who?"}}));
    let question = one.expect_request("elicitation/create");
    one.respond(&question, &json!({"action": "decline"}));
    assert_eq!(content(&one.answer(&call))["result"], json!({"action": "decline"}));
    one.expect_quiet();
    other.cancel(&busy);
    other.expect_quiet();
}

#[test]
fn stream_that_never_opens_blocks_nothing() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior::json());
    let writers = Lock::new(Vec::new());
    front.intercept(move |request| {
        let (writer, response) = Response::raw_stream();
        (request.method == "GET").then(|| {
            writers.lock().push(writer);
            response
        })
    });
    let daemon = beside(front.server(), &place);
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__echo", &json!({})));
    expect_well(&mut agent);
    assert_eq!(daemon.row("a")["restarts"], 0);
}

/// However it is framed, and however much is said before it.
#[test]
fn stream_behind_a_long_head_and_comments_is_read() {
    let event = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
    for (framing, body) in [
        ("Transfer-Encoding: chunked\r\n", format!("{:x};of=events\r\n{event}\r\n", event.len())),
        ("Content-Length: 100000\r\n", event.to_owned()),
        ("", event.to_owned()),
    ] {
        let place = Place::new();
        let front = Front::start(&place, "a", "", Behavior::json());
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n";
        let policy = "x".repeat(40 << 10);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Policy: {policy}\r\n{framing}\r\n");
        let (whole, writers) = (format!("{hints}{head}{body}"), Lock::new(Vec::new()));
        front.intercept(move |request| {
            (request.method == "GET").then(|| {
                let (writer, response) = Response::raw_stream();
                writer.write(&whole);
                writers.lock().push(writer);
                response
            })
        });
        let daemon = beside(front.server(), &place);
        let mut agent = Agent::ready(&daemon);
        let lists = || front.http().count(|request| request.rpc() == "tools/list");
        until("its tools are read anew", || (lists() == 2).then_some(()));
        expect_well(&mut agent);
        assert_eq!(front.http().count(|request| request.method == "GET"), 1, "{framing}");
    }
}

/// Case I19.
#[test]
fn refused_stream_is_requested_until_it_is_offered() {
    let place = Place::new();
    let elsewhere = HttpServer::start(|_| Response::unexpected());
    let location = elsewhere.url("/login");
    type Refuse = Box<dyn Fn() -> Response + Send + Sync>;
    let refusals: [(&str, Refuse); 5] = [
        ("bad", Box::new(|| Response::status(400))),
        ("forbidden", Box::new(|| Response::status(403))),
        ("missing", Box::new(|| Response::status(404))),
        ("page", Box::new(|| Response::body("text/html", "<p>Not now"))),
        ("moved", Box::new(move || Response::status(302).header("location", &location))),
    ];
    let mut setup = Setup::new();
    let mut fronts = Vec::new();
    for (name, refuse) in refusals {
        let (front, refused) = (Front::start(&place, name, "", Behavior::default()), AtomicUsize::new(0));
        front.intercept(move |request| {
            let is_refused = request.method == "GET" && refused.fetch_add(1, Ordering::SeqCst) < 4;
            is_refused.then(&refuse)
        });
        setup = setup.server(front.server());
        fronts.push(front);
    }
    let daemon = setup.start_in(&place);
    let mut agent = Agent::ready(&daemon);
    fronts.iter().for_each(listened_to);
    for server in ["bad", "forbidden", "missing", "page", "moved"] {
        arguments(&agent.call(&format!("{server}__sleep"), &json!({"ms": 0})));
        assert_eq!(daemon.row(server)["restarts"], 0);
    }
}

#[test]
fn oversized_event_is_skipped_and_later_events_are_read() {
    for behavior in [Behavior::json(), Behavior::old()] {
        let place = Place::new();
        let front = Front::start(&place, "a", "", behavior);
        let setup = Setup::with(front.server()).server(Server::named("good"));
        let daemon = setup.head("[daemon]\nmax_message = \"256KiB\"").start_in(&place);
        let mut agent = Agent::ready(&daemon);
        agent.tools();
        listened_to(&front);
        let large = notification("notifications/message", &json!({"data": "x".repeat(300 << 10)}));
        front.notify(&large.to_string());
        arguments(&agent.call("a__mutate_tools", &json!({"add": ["fresh"]})));
        agent.expect_notification("notifications/tools/list_changed");
        expect_well(&mut agent);
        assert_eq!(daemon.row("a")["restarts"], 0);
    }
}

/// Case I5.
#[test]
fn unresumable_server_stream_is_opened_anew() {
    let (front, daemon) = start(Behavior { retry: Some(20), ..Behavior::default() });
    let mut agent = Agent::ready(&daemon);
    listened_to(&front);
    front.intercept(|request| {
        (request.method == "GET" && request.header("last-event-id").is_some()).then(|| Response::status(400))
    });
    front.cut_streams();
    front.http().wait_request("it is asked to go on", |request| request.header("last-event-id").is_some());
    listened_to(&front);
    agent.expect_quiet();
}
