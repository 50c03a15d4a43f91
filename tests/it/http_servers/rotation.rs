//! Secrets in headers that change while their server is in use.

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{beside, expect_error, expect_well};
use crate::support::http::{Behavior, Front, Lock, Request, Response};
use crate::support::{Agent, Daemon, Place, Server, Setup, result, until};

/// A server that accepts one token, which a file has.
struct Rotating {
    place: Rc<Place>,
    front: Front,
    file: PathBuf,
    accepted: Arc<Lock<String>>,
}

impl Rotating {
    fn new() -> Self {
        let place = Place::new();
        let front = Front::start(&place, "a", "", Behavior::json());
        let accepted = Arc::new(Lock::new("s3cret-1".to_owned()));
        front.intercept({
            let accepted = Arc::clone(&accepted);
            move |request| {
                let token = request.header("authorization").unwrap_or_default().to_owned();
                let is_accepted = token == format!("Bearer {}", accepted.lock());
                let refusal = json!({"error": format!("{token} is not accepted")});
                (!is_accepted).then(|| Response::json(&refusal).with_status(401))
            }
        });
        let file = place.write("token", "s3cret-1\n");
        Self { place, front, file, accepted }
    }

    fn server(&self) -> Server {
        let header = format!("headers = {{ Authorization = \"Bearer ${{file:{}}}\" }}", self.file.display());
        self.front.server().line(&header)
    }

    fn serve(&self) -> Daemon {
        beside(self.server(), &self.place)
    }

    fn write(&self, text: &str) {
        fs::write(&self.file, text).expect("it is ours");
    }

    /// From now on only this token is accepted.
    fn accept(&self, token: &str) {
        token.clone_into(&mut self.accepted.lock());
    }

    fn refused_calls(&self) -> usize {
        let accepted = format!("Bearer {}", self.accepted.lock());
        let is_refused = |request: &Request| request.header("authorization") != Some(&*accepted);
        self.front.http().count(|request| request.rpc() == "tools/call" && is_refused(request))
    }
}

/// Neither the old secrets nor the new ones are printed.
#[track_caller]
fn expect_masked(daemon: &Daemon) {
    let shown = [daemon.log(), daemon.client(&["status"]).stdout, daemon.client(&["status", "--json"]).stdout];
    assert!(shown.iter().all(|text| !text.contains("s3cret")), "{shown:?}");
}

/// Case I21.
#[test]
fn secret_is_read_again_after_a_401_and_the_call_is_made_once() {
    let rotating = Rotating::new();
    let daemon = rotating.serve();
    let mut agent = Agent::ready(&daemon);
    expect_well(&mut agent);
    for (text, token) in [("s3cret-2\n", "s3cret-2"), ("s3cret-3\r\n", "s3cret-3"), ("s3cret-4", "s3cret-4")] {
        rotating.write(text);
        rotating.accept(token);
        let before = daemon.count_journal("a", "tools/call");
        let calls: Vec<_> = (0..4).map(|n| agent.start_call("a__echo", &json!({ "n": n }))).collect();
        calls.iter().for_each(|call| drop(result(&agent.answer(call)).clone()));
        let made = daemon.count_journal("a", "tools/call") - before;
        assert_eq!(made, calls.len());
        let refused = rotating.front.http().requests();
        let last = refused.iter().rfind(|request| request.rpc() == "tools/call").map(Request::head);
        assert!(last.is_some_and(|head| head.contains(token)));
    }
    assert_eq!((daemon.row("a")["restarts"].clone(), rotating.front.sessions()), (json!(0), 1));
    // The value in use is the one that a reload compares.
    daemon.client(&["reload"]).expect_code(0);
    expect_well(&mut agent);
    assert_eq!(rotating.front.sessions(), 1);
    expect_masked(&daemon);
}

/// Case I21.
#[test]
fn secret_that_has_not_changed_is_not_tried_again() {
    let rotating = Rotating::new();
    let daemon = rotating.serve();
    let mut agent = Agent::ready(&daemon);
    expect_well(&mut agent);
    rotating.accept("s3cret-2");
    let refused = |agent: &mut Agent| -> Value { agent.call("a__echo", &json!({})) };
    for text in ["s3cret-1\n", "", "two\nlines\n"] {
        rotating.write(text);
        let before = rotating.refused_calls();
        let answer = refused(&mut agent);
        expect_error(&answer, -31004, "not_sent");
        assert!(!answer.to_string().contains("s3cret"), "{answer}");
        assert!(rotating.refused_calls() <= before + 1);
    }
    rotating.write("s3cret-2\n");
    until("the next start has read it", || agent.call("a__sleep", &json!({"ms": 0}))["error"].is_null().then_some(()));
    expect_masked(&daemon);
}

/// Case I21.
#[test]
fn restart_and_watch_read_the_secret_again() {
    let shows = |rotating: &Rotating, token: &str| {
        let token = format!("Bearer {token}");
        let is_it = |request: &Request| request.header("authorization") == Some(&*token);
        rotating.front.http().count(|request| request.rpc() == "initialize" && is_it(request)) > 0
    };
    let rotating = Rotating::new();
    let daemon = rotating.serve();
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    rotating.write("s3cret-2\n");
    rotating.accept("s3cret-2");
    daemon.client(&["restart", "a"]).expect_code(0);
    assert!(shows(&rotating, "s3cret-2") && rotating.refused_calls() == 0);
    drop(daemon);

    let rotating = Rotating::new();
    let setup = Setup::with(rotating.server()).head("[daemon]\nwatch = true");
    let daemon = setup.start_in(&rotating.place);
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    rotating.accept("s3cret-2");
    rotating.write("s3cret-2\n");
    until("the file is read", || shows(&rotating, "s3cret-2").then_some(()));
    expect_masked(&daemon);
}
