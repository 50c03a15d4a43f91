//! Logins by OAuth client credentials, without a person.

use std::fs;

use serde_json::{Value, json};

use crate::login::fixture::LoginFixture;
use crate::support::http::Authorization;
use crate::support::{Agent, Daemon, Setup, result, until};

/// That mcpd may show the secret to whom a server names, though nobody looks.
const BY_ITSELF: &str = ", grant = \"client_credentials\"";

/// Of an authorization server that lets in programs only, and has nothing that is for persons.
fn for_programs() -> Value {
    json!({
        "grant_types_supported": ["client_credentials"],
        "authorization_endpoint": null,
        "response_types_supported": null,
        "code_challenge_methods_supported": null,
        "registration_endpoint": null,
    })
}

/// The server wants a program of this secret, and mcpd is configured as one, with `more`.
fn fixture_of(secret: &str, more: &str) -> LoginFixture {
    let fixture = LoginFixture::new();
    configure(&fixture, secret, more);
    fixture.authorization.knows("machine", "machine's secret", "client_secret_basic");
    fixture.authorization.habits(|habits| {
        habits.methods = vec!["client_secret_basic"];
        habits.metadata = for_programs();
    });
    fixture
}

fn configure(fixture: &LoginFixture, secret: &str, more: &str) {
    let terms = format!("oauth = {{ client_id = \"machine\", client_secret = \"{secret}\"{more} }}");
    Setup::with(fixture.front.server().line(terms)).write(&fixture.place);
}

fn fixture() -> LoginFixture {
    fixture_of("machine's secret", BY_ITSELF)
}

#[track_caller]
fn expect_call(agent: &mut Agent) {
    let answer = agent.call("tracker__echo", &json!({"text": "x"}));
    assert!(answer["error"].is_null() && !result(&answer).is_null(), "{answer}");
}

fn request_count(fixture: &LoginFixture) -> usize {
    fixture.authorization.request_count("client_credentials")
}

#[track_caller]
fn wait_needs_login(daemon: &Daemon, reason: &str) {
    daemon.wait_row("tracker", "needs a login", |row| {
        row["state"] == "needs_login" && row["reason"].as_str().is_some_and(|why| why.contains(reason))
    });
}

#[test]
fn server_with_client_credentials_is_ready_without_anybody() {
    for method in ["client_secret_basic", "client_secret_post"] {
        let fixture = fixture();
        fixture.authorization.knows("machine", "machine's secret", method);
        fixture.authorization.habits(|habits| {
            habits.methods = vec![method];
            habits.scope = Some("read");
        });
        let daemon = fixture.serve();
        assert_eq!(daemon.row("tracker")["state"], "ready");
        let mut agent = Agent::ready(&daemon);
        expect_call(&mut agent);
        agent.disconnect();
        let http = fixture.authorization.http();
        let form = http.wait_request("it asks", |request| request.path == "/token").form();
        assert_eq!((&*form["resource"], &*form["scope"]), (&*fixture.front.url(), "read"));
        drop(daemon);
        // What was given is good for the next daemon, too.
        let daemon = fixture.serve();
        assert_eq!((&daemon.row("tracker")["state"], request_count(&fixture)), (&"ready".into(), 1));
        let saved_login = fs::read_to_string(fixture.file()).expect("kept");
        assert!(!saved_login.contains("machine's secret"), "it is configured, not kept: {saved_login}");
        let stands = fixture.run(&["login", "--json"]).expect_code(0).json()["logins"][0].clone();
        let expected = json!(["good", "client_credentials", true, ["read"]]);
        assert_eq!(json!([stands["login"], stands["grant"], stands["renews"], stands["scopes"]]), expected);
    }
}

#[test]
fn configuration_chooses_between_client_credentials_and_a_person() {
    let both = json!({"grant_types_supported": ["authorization_code", "client_credentials"]});
    for (more, state) in [
        ("", "needs_login"),
        (", grant = \"authorization_code\"", "needs_login"),
        (", grant = \"client_credentials\"", "ready"),
    ] {
        let fixture = fixture_of("machine's secret", more);
        fixture.authorization.habits(|habits| habits.metadata = both.clone());
        let daemon = fixture.serve();
        assert_eq!(daemon.row("tracker")["state"], state, "{more}");
        assert_eq!(request_count(&fixture), usize::from(state == "ready"), "{more}");
    }
}

#[test]
fn client_secret_is_sent_to_no_discovered_server_before_approval() {
    let fixture = fixture_of("machine's secret", "");
    let daemon = fixture.serve();
    wait_needs_login(&daemon, "grant = \"client_credentials\"");
    assert_eq!(request_count(&fixture), 0);
    fixture.run(&["login", "tracker"]).expect_code(0);
    daemon.wait_row("tracker", "is ready", |row| row["state"] == "ready");
    assert_eq!(request_count(&fixture), 1);
}

#[test]
fn token_is_renewed_before_it_expires_and_when_it_is_refused() {
    let fixture = fixture();
    fixture.authorization.habits(|habits| habits.expires_in = Some(5));
    let daemon = fixture.serve();
    let mut agent = Agent::ready(&daemon);
    expect_call(&mut agent);
    until("there is another one", || (request_count(&fixture) > 1).then_some(()));
    // That one lasts, until it is taken back.
    fixture.authorization.habits(|habits| habits.expires_in = Some(3600));
    until("there is one that lasts", || {
        let saved_login = fixture.saved_login();
        let life = |name: &str| saved_login["grant"][name].as_u64().expect("a number");
        (life("expires_at") - life("obtained_at") == 3600).then_some(())
    });
    until("calls go on with it", || {
        expect_call(&mut agent);
        let last = fixture.front.http().requests().pop()?.header("authorization")?.to_owned();
        last.ends_with(fixture.saved_login()["grant"]["access_token"].as_str()?).then_some(())
    });
    let calls = || daemon.count_journal("tracker", "tools/call");
    let before = (request_count(&fixture), calls());
    fixture.authorization.take_tokens_back();
    expect_call(&mut agent);
    assert_eq!((request_count(&fixture), calls()), (before.0 + 1, before.1 + 1));
    // The test's server gives refresh tokens to anybody, which nobody wants here.
    assert_eq!(fixture.authorization.request_count("refresh_token"), 0);
    assert!(fixture.saved_login()["grant"]["refresh_token"].is_null());
    assert_eq!(daemon.row("tracker")["restarts"], 0);
    agent.disconnect();
}

/// Case I11.
#[test]
fn credentials_that_are_refused_are_shown_once_and_taken_when_they_are_right() {
    let fixture = fixture_of("wrong secret", BY_ITSELF);
    let daemon = fixture.serve();
    wait_needs_login(&daemon, "sends no token for the client credentials: it answers invalid_client");
    let requests = || (request_count(&fixture), fixture.front.http().requests().len());
    let before = requests();
    assert_eq!(before.0, 1);
    let mut agent = Agent::ready(&daemon);
    for _ in 0..5 {
        let error = agent.call("tracker__echo", &json!({}))["error"].clone();
        assert_eq!((&error["code"], &error["data"]["server"]), (&json!(-31004), &json!("tracker")));
    }
    assert_eq!(requests(), before);
    let ran = fixture.run(&["login", "tracker"]).expect_code(1);
    assert!(ran.stderr.contains("it answers invalid_client") && !ran.to_string().contains("wrong secret"), "{ran}");
    assert!(!daemon.client(&["status"]).to_string().contains("wrong secret"));

    configure(&fixture, "machine's secret", BY_ITSELF);
    daemon.client(&["reload"]).expect_code(0);
    daemon.wait_row("tracker", "is ready", |row| row["state"] == "ready");
    agent.disconnect();
}

/// Case I11.
#[test]
fn credentials_that_are_taken_back_end_a_login_until_a_person_looks() {
    let fixture = fixture();
    let daemon = fixture.serve();
    let mut agent = Agent::ready(&daemon);
    expect_call(&mut agent);
    fixture.authorization.knows("machine", "another secret", "client_secret_basic");
    fixture.authorization.take_tokens_back();
    let refused = agent.call("tracker__echo", &json!({"text": "x"}));
    assert_eq!(refused["error"]["data"]["outcome"], "not_sent", "{refused}");
    wait_needs_login(&daemon, "it answers invalid_client");
    let before = request_count(&fixture);
    for _ in 0..5 {
        assert_eq!(agent.call("tracker__echo", &json!({}))["error"]["code"], -31004);
    }
    assert_eq!(request_count(&fixture), before);
    let stands = fixture.run(&["login", "--json"]).json()["logins"][0].clone();
    assert_eq!(stands["login"], "over", "{stands}");
    // Nothing has to be changed here if they are taken again.
    fixture.authorization.knows("machine", "machine's secret", "client_secret_basic");
    daemon.client(&["restart", "tracker"]).expect_code(0);
    expect_call(&mut agent);
    agent.disconnect();
}

#[test]
fn unavailable_authorization_server_is_retried_without_a_person() {
    let fixture = fixture();
    fixture.authorization.habits(|habits| habits.refuses_to_renew = Some((503, "<html>")));
    let daemon = fixture.serve();
    daemon.wait_row("tracker", "is tried again", |row| row["state"] == "backoff");
    fixture.authorization.habits(|habits| habits.refuses_to_renew = None);
    daemon.wait_row("tracker", "is ready", |row| row["state"] == "ready");
}

#[test]
fn login_with_client_credentials_opens_no_page() {
    let fixture = fixture();
    let ran = fixture.run(&["login", "tracker"]).expect_code(0);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("tracker: logged in by its client credentials\n", ""));
    let daemon = fixture.serve();
    assert_eq!((&daemon.row("tracker")["state"], request_count(&fixture)), (&"ready".into(), 1));
    let ran = fixture.run(&["login", "tracker"]).expect_code(0);
    assert_eq!(ran.stdout, "tracker: logged in by its client credentials\ntracker: ready\n");
}

#[test]
fn logout_reports_that_client_credentials_log_in_again() {
    let fixture = fixture();
    let daemon = fixture.serve();
    let first = fixture.saved_login()["grant"]["access_token"].clone();
    let ran = fixture.run(&["logout", "tracker"]).expect_code(0);
    let expected = "tracker: logged out, until its client credentials let mcpd in again\ntracker: ready\n";
    assert_eq!((&*ran.stdout, &*ran.stderr), (expected, ""));
    let revoked = fixture.authorization.http().wait_request("it is revoked", |request| request.path == "/revoke");
    assert_eq!(revoked.form()["token"], first.as_str().expect("text"));
    assert_ne!(fixture.saved_login()["grant"]["access_token"], first);
    drop(daemon);
    assert_eq!(fixture.run(&["logout", "tracker"]).expect_code(0).stderr, "");
    assert!(!fixture.file().exists());
}

#[test]
fn scopes_of_client_credentials_follow_the_rules_of_any_login() {
    let fixture = fixture_of("machine's secret", ", scopes = [\"mine\"], grant = \"client_credentials\"");
    fixture.authorization.habits(|habits| {
        habits.scope = Some("theirs");
        habits.metadata["scopes_supported"] = json!(["offline_access"]);
    });
    fixture.run(&["login", "tracker"]).expect_code(0);
    assert_eq!(fixture.saved_login()["grant"]["scopes"], json!(["mine"]));
    configure(&fixture, "machine's secret", BY_ITSELF);
    fixture.run(&["logout", "tracker"]).expect_code(0);
    let daemon = fixture.serve();
    assert_eq!(daemon.row("tracker")["state"], "ready");
    assert_eq!(fixture.saved_login()["grant"]["scopes"], json!(["theirs"]));
}

#[test]
fn login_of_another_kind_or_name_than_is_configured_does_not_count() {
    let fixture = LoginFixture::new();
    fixture.authorization.knows("machine", "machine's secret", "client_secret_basic");
    fixture.authorization.knows("other", "other's secret", "client_secret_basic");
    fixture.log_in().expect_code(0);
    fixture.authorization.habits(|habits| habits.methods = vec!["client_secret_basic"]);
    configure(&fixture, "machine's secret", BY_ITSELF);
    let known_as = || fixture.saved_login()["grant"]["registration"]["id"].clone();
    drop(fixture.serve());
    assert_eq!(known_as(), "machine");
    let text = "oauth = { client_id = \"other\", client_secret = \"other's secret\", grant = \"client_credentials\" }";
    Setup::with(fixture.front.server().line(text)).write(&fixture.place);
    drop(fixture.serve());
    assert_eq!(known_as(), "other");
    // A person's login from now on.
    Setup::with(fixture.front.server()).write(&fixture.place);
    wait_needs_login(&fixture.serve(), "nobody has logged in");
}

#[test]
fn client_secret_is_sent_to_no_other_authorization_server_before_approval() {
    let fixture = fixture();
    let daemon = fixture.serve();
    assert_eq!(daemon.row("tracker")["state"], "ready");
    let other = Authorization::start();
    other.knows("machine", "machine's secret", "client_secret_basic");
    other.habits(|habits| {
        habits.methods = vec!["client_secret_basic"];
        habits.metadata = for_programs();
    });
    fixture.front.intercept(other.guard(&fixture.front.url()));
    let mut agent = Agent::ready(&daemon);
    let refused = agent.call("tracker__echo", &json!({"text": "x"}));
    assert_eq!(refused["error"]["data"]["outcome"], "not_sent", "{refused}");
    wait_needs_login(&daemon, "its authorization server changed from");
    assert_eq!(other.request_count("client_credentials"), 0);
    let ran = fixture.run(&["login", "tracker"]).expect_code(0);
    assert!(ran.stdout.ends_with("tracker: ready\n"), "{ran}");
    expect_call(&mut agent);
    agent.disconnect();
}
