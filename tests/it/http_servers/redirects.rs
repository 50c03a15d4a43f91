//! Redirects are followed within the origin only.

use serde_json::json;
use url::Url;

use super::{beside, expect_well};
use crate::support::http::{Behavior, Front, HttpServer, Response};
use crate::support::{Agent, Place, Server, arguments, code, until};

const SECRET: &str = "headers = { Authorization = \"Bearer s3cret\", X-Key = \"s3cret\" }";

#[test]
fn redirect_within_the_origin_is_followed_with_method_and_body() {
    for status in [301, 302, 307, 308] {
        let place = Place::new();
        let front = Front::start(&place, "a", "", Behavior::default());
        front.intercept(move |request| {
            (request.path == "/old").then(|| Response::status(status).header("location", "/mcp"))
        });
        let daemon = beside(Server::at("a", &front.http().url("/old")).line(SECRET), &place);
        let mut agent = Agent::ready(&daemon);
        assert_eq!(arguments(&agent.call("a__echo", &json!({"n": status}))), &json!({"n": status}));
        expect_well(&mut agent);
        for request in front.http().requests() {
            assert_eq!(request.header("authorization"), Some("Bearer s3cret"), "{}", request.head());
        }
    }
}

/// Case I10.
#[test]
fn redirect_to_another_origin_is_refused_and_causes_no_request_there() {
    let elsewhere = HttpServer::start(|_| Response::unexpected());
    let (same_host, other_name) = (elsewhere.url("/mcp"), elsewhere.url("/mcp").replace("127.0.0.1", "localhost"));
    for location in
        [same_host.clone(), other_name, same_host.replace("http:", ""), same_host.replace("http:", "https:")]
    {
        let place = Place::new();
        let http = HttpServer::start({
            let location = location.clone();
            move |_| Response::status(307).header("location", &location)
        });
        let daemon = beside(Server::at("a", &http.url("/mcp")).line(SECRET), &place);
        let row = daemon.wait_row("a", "says why", |row| row["reason"].is_string());
        assert!(!row.to_string().contains("s3cret") && !daemon.log().contains("s3cret"), "{row}");
        let target = Url::parse(&http.url("/")).and_then(|base| base.join(&location)).expect("a URL");
        let target = target.origin().ascii_serialization();
        let expected = format!("redirects to another origin: {target}; if it is trusted, write it in `url`");
        assert!(row["reason"].to_string().contains(&expected), "{location}: {row}");
        assert_eq!(row["code"], "redirect");
        arguments(&Agent::ready(&daemon).call("good__echo", &json!({})));
    }
    assert_eq!(elsewhere.accepted(), 0);
}

/// Case I10.
#[test]
fn redirects_that_lead_nowhere_end() {
    let place = Place::new();
    let http = HttpServer::start(|request| Response::status(308).header("location", &request.path));
    let daemon = beside(Server::at("a", &http.url("/mcp")), &place);
    daemon.wait_row("a", "says why", |row| row["reason"].is_string());
    let first = http.count(|_| true);
    assert!(first < 100, "{first} requests");
    until("it is tried again, ever more slowly", || (http.count(|_| true) > first).then_some(()));
}

/// Case I10.
#[test]
fn call_that_is_redirected_elsewhere_fails_alone() {
    let place = Place::new();
    let elsewhere = HttpServer::start(|_| Response::unexpected());
    let front = Front::start(&place, "a", "", Behavior::json());
    let daemon = beside(front.server().line(SECRET), &place);
    let mut agent = Agent::ready(&daemon);
    let location = elsewhere.url("/mcp");
    front.answer_tool("echo", move |_| Response::status(307).header("location", &location));
    let answer = agent.call("a__echo", &json!({}));
    assert!(answer["error"]["message"].to_string().contains("origin"), "{answer}");
    assert_eq!(elsewhere.accepted(), 0);
    expect_well(&mut agent);
}

/// Case I10.
#[test]
fn redirect_of_the_sse_stream_alone_receives_no_messages() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior::json());
    front.intercept(|request| match (&*request.method, &*request.path) {
        ("GET", "/mcp") => Some(Response::status(302).header("location", "/docs")),
        ("GET", "/docs") => Some(Response::body("text/html", "<p>How to use this")),
        _ => None,
    });
    let daemon = beside(front.server(), &place);
    let mut agent = Agent::ready(&daemon);
    front.http().wait_request("the page is there instead", |request| request.path == "/docs");
    expect_well(&mut agent);
    assert_eq!(front.http().count(|request| request.method == "POST" && request.path != "/mcp"), 0);
}

/// Case I10.
#[test]
fn page_that_a_call_is_sent_to_for_a_while_is_not_where_the_server_is() {
    let place = Place::new();
    let front = Front::start(&place, "a", "", Behavior::json());
    let daemon = beside(front.server(), &place);
    let mut agent = Agent::ready(&daemon);
    front.intercept(|request| match &*request.path {
        "/closed" => Some(Response::body("text/html", "<p>Closed until noon")),
        _ => (request.rpc() == "tools/call").then(|| Response::status(302).header("location", "/closed")),
    });
    code(&agent.call("a__echo", &json!({})));
    front.stop_intercepting();
    expect_well(&mut agent);
    assert_eq!(front.http().count(|request| request.path == "/closed"), 1);
}
