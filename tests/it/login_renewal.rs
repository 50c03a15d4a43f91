//! The daemon renews tokens once and in time. A server that requires a person is not contacted.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::login::fixture::LoginFixture;
use crate::support::http::{Request, Response};
use crate::support::{Agent, Daemon, Place, Server, Setup, arguments, code, result, until};

/// What the test's server is asked with a token, in order.
fn shown_tokens(fixture: &LoginFixture) -> Vec<String> {
    let token = |request: &Request| Some(request.header("authorization")?.strip_prefix("Bearer ")?.to_owned());
    fixture.front.http().requests().iter().filter(|request| request.path == "/mcp").filter_map(token).collect()
}

fn saved_token(fixture: &LoginFixture) -> String {
    fixture.saved_login()["grant"]["access_token"].as_str().expect("text").to_owned()
}

/// Calls the server's tool, which answers.
#[track_caller]
fn expect_call(agent: &mut Agent) {
    let answer = agent.call("tracker__echo", &json!({"text": "x"}));
    assert!(answer["error"].is_null() && !result(&answer).is_null(), "{answer}");
}

/// The server has seen nothing of the call, and whoever made it is told why, and what to run.
#[track_caller]
fn expect_login_required(answer: &Value, why: &str) {
    let (error, message) = (&answer["error"], answer["error"]["message"].as_str().unwrap_or_default());
    assert_eq!((&error["code"], &error["data"]["outcome"]), (&json!(-31004), &json!("not_sent")), "{answer}");
    let names_reason = message.starts_with("server `tracker` needs a login: ") && message.contains(why);
    assert!(names_reason && message.ends_with("; run `mcpd login tracker`"), "{answer}");
}

#[track_caller]
fn wait_needs_login(daemon: &Daemon, reason: &str) -> Value {
    daemon.wait_row("tracker", "needs a login", |row| {
        row["state"] == "needs_login" && row["reason"].as_str().is_some_and(|why| why.contains(reason))
    })
}

#[test]
fn server_that_requires_a_login_receives_no_request_until_the_login() {
    let fixture = LoginFixture::new();
    let daemon = fixture.serve();
    wait_needs_login(&daemon, "");
    let token_requests = fixture.front.http().requests().len();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), Vec::<String>::new());
    daemon.client(&["status"]).expect_code(1);
    let listed = fixture.run(&["login", "--json"]).json();
    assert_eq!(listed["logins"][0]["login"], "needed", "{listed}");
    assert_eq!(fixture.front.http().requests().len(), token_requests, "nobody asks again");
    let ran = fixture.log_in().expect_code(0);
    assert!(ran.stdout.ends_with("tracker: logged in\ntracker: ready\n"), "{ran}");
    agent.expect_notification("notifications/tools/list_changed");
    expect_call(&mut agent);
    assert!(shown_tokens(&fixture).iter().all(|token| *token == saved_token(&fixture)));
    agent.disconnect();
}

#[test]
fn token_is_renewed_before_it_expires_without_failing_calls() {
    let fixture = LoginFixture::new();
    fixture.authorization.habits(|habits| habits.expires_in = Some(5));
    fixture.log_in().expect_code(0);
    let first = saved_token(&fixture);
    let daemon = fixture.serve();
    let mut agent = Agent::ready(&daemon);
    expect_call(&mut agent);
    assert!(shown_tokens(&fixture).contains(&first));
    until("it is renewed", || (fixture.authorization.request_count("refresh_token") > 0).then_some(()));
    until("the new one is kept", || (saved_token(&fixture) != first).then_some(()));
    until("calls go on with it", || {
        expect_call(&mut agent);
        shown_tokens(&fixture).last().filter(|token| **token != first).cloned()
    });
    assert_eq!(daemon.row("tracker")["restarts"], 0);
    agent.disconnect();
}

#[test]
fn token_that_is_refused_is_renewed_and_the_call_is_made_once() {
    let fixture = LoginFixture::new();
    fixture.log_in().expect_code(0);
    let daemon = fixture.serve();
    let mut agent = Agent::ready(&daemon);
    for renewals in 1..=2 {
        // Each refresh token is good once: this holds only if the next one is kept.
        fixture.authorization.take_tokens_back();
        expect_call(&mut agent);
        assert_eq!(fixture.authorization.request_count("refresh_token"), renewals);
        assert_eq!(fixture.saved_login()["grant"]["refresh_token"], fixture.authorization.refresh_tokens()[0]);
    }
    let calls = daemon.count_journal("tracker", "tools/call");
    assert_eq!(calls, 2);
    agent.disconnect();
}

/// Case I11.
#[test]
fn expired_login_is_reported_and_not_retried_in_a_loop() {
    let fixture = LoginFixture::new();
    fixture.log_in().expect_code(0);
    let daemon = fixture.serve();
    let mut agent = Agent::ready(&daemon);
    fixture.authorization.habits(|habits| {
        habits.refuses_to_renew = Some((400, r#"{"error":"invalid_grant","error_description":"revoked\u001b[2J"}"#));
    });
    fixture.authorization.take_tokens_back();
    expect_login_required(
        &agent.call("tracker__echo", &json!({"text": "x"})),
        "does not renew the login: it answers invalid_grant",
    );
    wait_needs_login(&daemon, "does not renew the login: it answers invalid_grant (revoked\\u{1b}[2J)");
    let counts = || (fixture.authorization.request_count("refresh_token"), fixture.front.http().requests().len());
    let before = counts();
    for _ in 0..5 {
        assert_eq!(code(&agent.call("tracker__echo", &json!({"text": "x"}))), -31004);
    }
    assert_eq!(counts(), before);
    assert_eq!(before.0, 1);
    let saved = fixture.saved_login();
    assert!(saved["grant"]["refresh_token"].is_null() && saved["grant"]["access_token"] == "", "{saved}");

    fixture.authorization.habits(|habits| habits.refuses_to_renew = None);
    fixture.log_in().expect_code(0);
    until("calls are answered again", || {
        agent.call("tracker__echo", &json!({"text": "x"}))["error"].is_null().then_some(())
    });
    agent.disconnect();
}

#[test]
fn unavailable_authorization_server_fails_a_call_and_keeps_the_login() {
    let fixture = LoginFixture::new();
    fixture.log_in().expect_code(0);
    let daemon = fixture.serve();
    let mut agent = Agent::ready(&daemon);
    fixture.authorization.habits(|habits| habits.refuses_to_renew = Some((503, "<html>")));
    fixture.authorization.take_tokens_back();
    let answer = agent.call("tracker__echo", &json!({"text": "x"}));
    assert_eq!(answer["error"]["data"]["outcome"], "not_sent", "{answer}");
    fixture.authorization.habits(|habits| habits.refuses_to_renew = None);
    until("calls are answered again", || {
        agent.call("tracker__echo", &json!({"text": "x"}))["error"].is_null().then_some(())
    });
    agent.disconnect();
}

/// Case I20.
#[test]
fn lost_answer_to_a_renewal_is_requested_once_more_and_named_if_that_fails() {
    for stays_good in [true, false] {
        let fixture = LoginFixture::new();
        fixture.log_in().expect_code(0);
        let daemon = fixture.serve();
        let mut agent = Agent::ready(&daemon);
        fixture.authorization.habits(|habits| habits.loses_renewal = Some(stays_good));
        fixture.authorization.take_tokens_back();
        if stays_good {
            expect_call(&mut agent);
        } else {
            let lost = ", after its answer to an earlier request was lost (";
            expect_login_required(&agent.call("tracker__echo", &json!({"text": "x"})), lost);
            wait_needs_login(&daemon, lost);
        }
        assert_eq!(fixture.authorization.request_count("refresh_token"), 2);
        agent.disconnect();
    }
}

#[test]
fn several_instances_renew_a_token_once() {
    let fixture = LoginFixture::new();
    Setup::with(fixture.front.server().line("sharing = \"session\"")).write(&fixture.place);
    fixture.log_in().expect_code(0);
    let daemon = fixture.serve();
    let mut agents: Vec<_> = (0..4).map(|_| Agent::ready(&daemon)).collect();
    agents.iter_mut().for_each(expect_call);
    fixture.authorization.take_tokens_back();
    let calls: Vec<_> =
        agents.iter_mut().map(|agent| agent.start_call("tracker__echo", &json!({"text": "x"}))).collect();
    for (agent, call) in agents.iter_mut().zip(&calls) {
        let answer = agent.answer(call);
        assert!(answer["error"].is_null(), "{answer}");
    }
    assert_eq!(fixture.authorization.request_count("refresh_token"), 1);
    agents.into_iter().for_each(Agent::disconnect);
}

#[test]
fn several_daemons_renew_a_token_once() {
    let fixture = LoginFixture::new();
    fixture.log_in().expect_code(0);
    let first = fixture.serve();
    let second = fixture.serve_in(&Place::new());
    let sockets = [first.agent_socket(), second.agent_socket()];
    let mut agents = sockets.map(|socket| Agent::ready_at(&socket));
    agents.iter_mut().for_each(expect_call);
    fixture.authorization.take_tokens_back();
    // While one of them renews it the other finds that it has to be renewed.
    fixture.authorization.hold_tokens(true);
    let calls = agents.each_mut().map(|agent| agent.start_call("tracker__echo", &json!({"text": "x"})));
    let refused = |request: &Request| request.rpc() == "tools/call";
    until("both calls are refused", || (fixture.front.http().count(refused) == 4).then_some(()));
    fixture.authorization.http().wait_request("one renews", |request| {
        request.path == "/token" && request.form()["grant_type"] == "refresh_token"
    });
    fixture.authorization.hold_tokens(false);
    for (agent, call) in agents.iter_mut().zip(&calls) {
        let answer = agent.answer(call);
        assert!(answer["error"].is_null(), "{answer}");
    }
    assert_eq!(fixture.authorization.request_count("refresh_token"), 1);
    assert_eq!(fixture.saved_login()["grant"]["refresh_token"], fixture.authorization.refresh_tokens()[0]);
    agents.into_iter().for_each(Agent::disconnect);
}

#[test]
fn daemon_that_is_stopped_while_a_token_is_renewed_keeps_the_new_one() {
    let fixture = LoginFixture::new();
    fixture.log_in().expect_code(0);
    let first = saved_token(&fixture);
    let mut daemon = fixture.serve();
    let mut agent = Agent::ready(&daemon);
    expect_call(&mut agent);
    fixture.authorization.take_tokens_back();
    fixture.authorization.hold_tokens(true);
    let call = agent.start_call("tracker__echo", &json!({"text": "x"}));
    fixture.authorization.http().wait_request("it renews", |request| {
        request.path == "/token" && request.form()["grant_type"] == "refresh_token"
    });
    daemon.signal(Signal::TERM);
    until("no server is left", || daemon.log().contains("stopped server=tracker").then_some(()));
    fixture.authorization.hold_tokens(false);
    assert!(daemon.wait_exit().success(), "{}", daemon.log());
    assert_ne!(saved_token(&fixture), first);
    assert_eq!(fixture.saved_login()["grant"]["refresh_token"], fixture.authorization.refresh_tokens()[0]);
    assert!(!agent.answer(&call)["error"].is_null());
}

#[test]
fn unfinished_renewal_delays_a_stop_only_for_a_limited_time() {
    let fixture = LoginFixture::new();
    fixture.log_in().expect_code(0);
    let mut daemon = fixture.serve();
    let mut agent = Agent::ready(&daemon);
    fixture.authorization.take_tokens_back();
    fixture.authorization.hold_tokens(true);
    let call = agent.start_call("tracker__echo", &json!({"text": "x"}));
    fixture.authorization.http().wait_request("it renews", |request| {
        request.path == "/token" && request.form()["grant_type"] == "refresh_token"
    });
    assert!(daemon.term().success(), "{}", daemon.log());
    assert!(daemon.log().contains("a login was being renewed"), "{}", daemon.log());
    fixture.authorization.hold_tokens(false);
    assert!(!agent.answer(&call)["error"].is_null());
}

#[test]
fn missing_scope_is_requested_at_the_next_login() {
    let fixture = LoginFixture::new();
    fixture.authorization.habits(|habits| habits.scope = Some("read"));
    fixture.log_in().expect_code(0);
    let daemon = fixture.serve();
    let mut agent = Agent::ready(&daemon);
    let guard = fixture.authorization.guard(&fixture.front.url());
    fixture.front.intercept(move |request| {
        let wants_more = "Bearer error=\"insufficient_scope\", scope=\"write\"";
        let answer = guard(request);
        let is_it = answer.is_none() && request.rpc() == "tools/call" && request.json()["params"]["name"] == "echo";
        if is_it { Some(Response::status(403).header("www-authenticate", wants_more)) } else { answer }
    });
    let answer = agent.call("tracker__echo", &json!({"text": "x"}));
    expect_login_required(&answer, "requires scopes that its login does not have (`write`)");
    // What it is allowed is not touched by that.
    arguments(&agent.call("tracker__sleep", &json!({"ms": 0})));
    fixture.front.intercept(fixture.authorization.guard(&fixture.front.url()));
    let ran = fixture.log_in().expect_code(0);
    assert!(ran.stdout.contains("tracker: logged in, for read, write\ntracker: ready\n"), "{ran}");
    agent.disconnect();
}

#[test]
fn logout_requires_a_new_login() {
    let fixture = LoginFixture::new();
    fixture.log_in().expect_code(0);
    let daemon = fixture.serve();
    daemon.wait_row("tracker", "is ready", |row| row["state"] == "ready");
    let ran = fixture.run(&["logout", "tracker"]).expect_code(0);
    assert!(ran.stdout.starts_with("tracker: logged out\ntracker: needs_login"), "{ran}");
    wait_needs_login(&daemon, "");
    assert!(fixture.authorization.refresh_tokens().is_empty());
}

#[test]
fn login_for_one_url_is_not_shown_to_another() {
    let fixture = LoginFixture::new();
    fixture.log_in().expect_code(0);
    let other = crate::support::http::Front::start(&fixture.place, "other", "", crate::support::http::Behavior::json());
    other.intercept(fixture.authorization.guard(&other.url()));
    Setup::with(Server::at("tracker", &other.url())).write(&fixture.place);
    let daemon = fixture.serve();
    wait_needs_login(&daemon, "nobody has logged in");
    assert!(other.http().requests().iter().all(|request| request.header("authorization").is_none()));
    drop(daemon);
}

#[test]
fn credentials_appear_in_no_log_and_no_status() {
    let fixture = LoginFixture::new();
    fixture.authorization.habits(|habits| habits.methods = vec!["client_secret_basic"]);
    fixture.log_in().expect_code(0);
    let setup = Setup::new().config(fixture.place.path("config.toml")).option("--log=trace");
    let daemon = setup.start_in(&fixture.place);
    let mut agent = Agent::ready(&daemon);
    let mut secrets = vec!["registered secret".to_owned()];
    let mut note = || {
        let saved = fixture.saved_login();
        secrets
            .extend(["access_token", "refresh_token"].map(|name| saved["grant"][name].as_str().expect("text").into()));
    };
    note();
    fixture.authorization.take_tokens_back();
    expect_call(&mut agent);
    note();
    let shown = [&["status", "--json"][..], &["doctor", "--json"], &["logs", "--json"], &["calls", "--json"]];
    let shown = shown.map(|args| daemon.client(args).to_string());
    let log = fs::read_to_string(fixture.place.path("daemon.log")).expect("text");
    assert!(log.contains("TRACE"), "{log}");
    for secret in &secrets {
        let places = shown.iter().chain([&log]).filter(|text| text.contains(&**secret)).count();
        assert_eq!(places, 0, "{secret}: {log}");
    }
    agent.disconnect();
}

#[test]
fn server_without_oauth_that_refuses_access_is_retried_and_needs_no_login() {
    let fixture = LoginFixture::new();
    Setup::with(fixture.front.server().line("oauth = false")).write(&fixture.place);
    let daemon = fixture.serve();
    let row = daemon.wait_row("tracker", "waits", |row| row["state"] == "backoff");
    assert_eq!(row["code"], "http_unauthorized", "{row}");
    let ran = fixture.run(&["login", "tracker"]).expect_code(2);
    assert_eq!(ran.stderr, "mcpd: tracker: needs no login: its `oauth` is `false`\n");
    assert!(!fixture.file().exists());
}
