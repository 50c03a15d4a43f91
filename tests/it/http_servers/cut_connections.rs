//! Connections cut at every point, in either direction: each request ends once, and no call is sent twice.
//!
//! `CUTS_SEED` selects another seed, `CUTS_SECONDS` a longer run.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use super::beside;
use crate::support::http::{Answers, Behavior, Cut, Cutter, Direction, Front};
use crate::support::{Agent, Daemon, Place, Server, print_line, until};

/// Calls of one exchange.
const CALLS: usize = 4;
/// Steps that each second call tells of.
const STEPS: u64 = 3;

struct Fixture {
    agent: Agent,
    daemon: Daemon,
    cutter: Cutter,
    front: Front,
    /// How each call has ended, by its mark.
    ended: HashMap<String, CallEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallEnd {
    Done,
    NotSent,
    Unknown,
}

impl Fixture {
    fn new(behavior: Behavior) -> Self {
        let place = Place::new();
        let front = Front::start(&place, "a", "", behavior);
        let cutter = Cutter::before(front.http().address());
        let through = front.url().replace(&front.http().address().to_string(), &cutter.address().to_string());
        let daemon = beside(Server::at("a", &through), &place);
        let agent = Agent::ready(&daemon);
        Self { agent, daemon, cutter, front, ended: HashMap::new() }
    }

    /// Has the server introduced anew, if that is to be, and lists and calls; all of that ends.
    fn exchange(&mut self, is_introduced: bool) {
        if is_introduced {
            let _ = self.daemon.client(&["restart", "a"]);
        }
        let list = self.agent.start_request("tools/list", &json!({}));
        let mut open: HashMap<Value, (String, u64)> = HashMap::new();
        for n in 0..CALLS {
            let mark = format!("mark-{}-", self.ended.len() + n);
            let tool = if n % 2 == 0 { "a__echo" } else { "a__progress" };
            let arguments = json!({"mark": mark, "n": STEPS, "every": 1});
            let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": mark}});
            open.insert(self.agent.start_request("tools/call", &params), (mark, 0));
        }
        let mut is_listed = false;
        while !open.is_empty() || !is_listed {
            let message = self.agent.next();
            match message["method"].as_str() {
                Some("notifications/progress") => {
                    let token = message["params"]["progressToken"].as_str().expect("a mark");
                    let call =
                        open.values_mut().find(|(mark, _)| mark == token).expect("progress of a call that is open");
                    let step = message["params"]["progress"].as_u64().expect("a step");
                    assert!(step > call.1, "a step that was told before: {message}");
                    call.1 = step;
                }
                Some(_) => {}
                None if message["id"] == list => {
                    assert!(!is_listed && message["error"].is_null(), "{message}");
                    is_listed = true;
                }
                None => {
                    let (mark, _) = open.remove(&message["id"]).unwrap_or_else(|| panic!("nobody waits for {message}"));
                    self.ended.insert(mark, ended(&message));
                }
            }
        }
    }

    /// What an exchange takes that nobody cuts, in bytes each way.
    fn measure(&mut self, is_introduced: bool) -> (u64, u64) {
        let before = self.cutter.passed();
        self.exchange(is_introduced);
        let after = self.cutter.passed();
        (after.0 - before.0, after.1 - before.1)
    }

    /// Waits until calls are answered again.
    fn recover(&mut self) {
        let (front, agent) = (&self.front, &mut self.agent);
        until("calls are answered again", || {
            let id = agent.start_call("a__sleep", &json!({"ms": 0}));
            let answer = loop {
                let message = agent.next();
                if message["method"].is_null() {
                    assert_eq!(message["id"], id, "nobody waits for {message}");
                    break message;
                }
            };
            answer["error"].is_null().then_some(())
        });
        assert!(front.sessions() > 0);
    }

    /// Fails if a call was made twice, or was made or not made against what was said of it.
    fn expect_made_once(&self) {
        let journal = self.daemon.journal("a").join("\n");
        for (mark, ended) in &self.ended {
            let quoted = format!("\"mark\":\"{mark}\"");
            let made = journal.matches(&quoted).count();
            let is_right = match ended {
                CallEnd::Done => made == 1,
                CallEnd::NotSent => made == 0,
                CallEnd::Unknown => made <= 1,
            };
            assert!(is_right, "{mark} was made {made} times and ended {ended:?}");
        }
    }
}

/// How a call ended by this answer.
fn ended(answer: &Value) -> CallEnd {
    match answer["error"]["data"]["outcome"].as_str() {
        None => {
            assert!(answer["error"].is_null() && !answer["result"].is_null(), "{answer}");
            CallEnd::Done
        }
        Some("not_sent") => CallEnd::NotSent,
        Some(_) => CallEnd::Unknown,
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Cuts where chance says, for some seconds.
fn cut_everywhere(behavior: Behavior) {
    let seed = from_environment("CUTS_SEED", 1);
    print_line(&format!("CUTS_SEED={seed}"));
    let (mut rng, is_old) = (Rng::with_seed(seed), behavior.answers == Answers::Old);
    let mut fixture = Fixture::new(behavior);
    let sizes = [fixture.measure(false), fixture.measure(true)];
    let end = Instant::now() + Duration::from_secs(from_environment("CUTS_SECONDS", 5));
    let (mut rounds, mut cuts) = (0, 0);
    while rounds < 10 || Instant::now() < end {
        // To introduce it takes a process. Where each cut ends the session, an operator does not wait for the next attempt.
        let is_introduced = is_old || rng.u32(..6) == 0;
        let (to_server, from_server) = sizes[usize::from(is_introduced)];
        let cut = if rng.bool() {
            Cut { direction: Direction::ToServer, after: rng.u64(..to_server), resets: rng.bool() }
        } else {
            Cut { direction: Direction::FromServer, after: rng.u64(..from_server), resets: rng.bool() }
        };
        print_line(&format!("{rounds}: {cut:?}, introduced: {is_introduced}"));
        fixture.cutter.plan(cut);
        fixture.exchange(is_introduced);
        cuts += u32::from(!fixture.cutter.give_up());
        fixture.recover();
        rounds += 1;
    }
    fixture.expect_made_once();
    let count = |what: CallEnd| fixture.ended.values().filter(|ended| **ended == what).count();
    let [done, not_sent, unknown] = [CallEnd::Done, CallEnd::NotSent, CallEnd::Unknown].map(count);
    print_line(&format!("{rounds} rounds, {cuts} cuts; {done} calls done, {not_sent} not sent, {unknown} unknown"));
    assert!(cuts * 2 > rounds, "{cuts} cuts in {rounds} rounds show little");
    assert_eq!(fixture.daemon.row("a")["in_flight"], 0);
    fixture.agent.disconnect();
}

/// Case I4.
#[test]
fn cut_anywhere_ends_each_request_once_where_answers_are_events_that_can_be_sent_again() {
    cut_everywhere(Behavior { retry: Some(10), ..Behavior::default() });
}

/// Case I4.
#[test]
fn cut_anywhere_ends_each_request_once_where_answers_are_json() {
    cut_everywhere(Behavior { retry: Some(10), ..Behavior::json() });
}

/// Case I4.
#[test]
fn cut_anywhere_ends_each_request_once_where_all_comes_on_one_stream() {
    cut_everywhere(Behavior::old());
}
