//! One of the two agents, with the responses and notifications that it expects.

use std::collections::{HashMap, HashSet};

use fastrand::Rng;
use serde_json::{Value, json};

use super::actions::{Action, Choice, Effect, LEVELS, URIS, level, steps};
use super::updates::{SubscriptionState, Updates};
use crate::support::{Agent, request};

/// The agents, by their number. Neither name is a part of what is not marked.
const NAMES: [&str; 2] = ["alder", "birch"];

/// How much of each an agent has met.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ReceivedCounts {
    pub(super) progress: u64,
    pub(super) logs: u64,
    pub(super) cancelled: u64,
}

struct Open {
    action: &'static Action,
    choice: Choice,
    progress: u64,
    /// Its answer may have been on its way.
    cancelled: bool,
}

pub(super) struct TestAgent {
    number: usize,
    agent: Agent,
    pub(super) sent: u64,
    pub(super) received: ReceivedCounts,
    /// The marks of what a server has answered.
    pub(super) served: Vec<String>,
    /// By the id, as it is spelled.
    open: HashMap<String, Open>,
    /// The least severe level that it may be told.
    level: usize,
    /// The marks of log messages that are certainly its own, and severe enough.
    logs_due: HashSet<String>,
}

impl TestAgent {
    pub(super) fn new(number: usize, agent: Agent) -> Self {
        let (open, logs_due) = (HashMap::new(), HashSet::new());
        Self {
            number,
            agent,
            sent: 0,
            received: ReceivedCounts::default(),
            served: Vec::new(),
            open,
            level: 0,
            logs_due,
        }
    }

    /// Requests that it waits for.
    pub(super) fn unanswered(&self) -> usize {
        self.open.values().filter(|open| !open.cancelled).count()
    }

    /// Asks for this; `alone` if nothing of the other agent is unanswered.
    pub(super) fn start(&mut self, action: &'static Action, alone: bool, updates: &mut Updates, rng: &mut Rng) {
        let n = self.sent + 1;
        let mark = format!("{}-{n}", NAMES[self.number]);
        // Numbers and strings that look alike; a token that looks like the id of the next.
        let spelled = |n: u64| if n.is_multiple_of(2) { json!(n / 2) } else { json!((n / 2).to_string()) };
        let uri = *rng.choice(&URIS).expect("some");
        let choice = Choice { mark, token: spelled(n + 1), uri, random: rng.u64(..) };
        let changes = matches!(action.effect, Effect::Subscribe | Effect::Unsubscribe);
        if changes && updates.of(self.number, uri) == SubscriptionState::Perhaps {
            return;
        }
        self.sent = n;
        let (id, params) = (spelled(n), (action.params)(&choice));
        self.agent.send(&request(id.clone(), action.method, &params));
        match action.effect {
            Effect::Subscribe | Effect::Unsubscribe => updates.set(self.number, uri, SubscriptionState::Perhaps),
            Effect::Update => updates.begin(&choice.mark, uri),
            Effect::Level => self.level = self.level.min(level(&choice)),
            Effect::Log if alone && level(&choice) >= self.level => drop(self.logs_due.insert(choice.mark.clone())),
            Effect::Log | Effect::Nothing | Effect::Refused | Effect::Progress => {}
        }
        self.open.insert(id.to_string(), Open { action, choice, progress: 0, cancelled: false });
    }

    /// Gives up something, and asks how the daemon is: with that answer it has heard of it.
    pub(super) fn cancel_one(&mut self, rng: &mut Rng) {
        let may_be = |open: &Open| {
            matches!(open.action.effect, Effect::Nothing | Effect::Refused | Effect::Progress) && !open.cancelled
        };
        let mut ids: Vec<_> = self.open.iter().filter(|(_, open)| may_be(open)).map(|(id, _)| id.clone()).collect();
        ids.sort();
        let Some(id) = rng.choice(ids) else { return };
        self.open.get_mut(&id).expect("one of them").cancelled = true;
        self.received.cancelled += 1;
        let raw: Value = serde_json::from_str(&id).expect("an id");
        self.agent.cancel(&raw);
        self.agent.send(&request(format!("after {id}"), "ping", &Value::Null));
        self.sent += 1;
    }

    /// Reads until no more than so many of its requests are unanswered.
    pub(super) fn read_until(&mut self, unanswered: usize, updates: &mut Updates) {
        while self.unanswered() > unanswered {
            self.read_one(updates);
        }
    }

    /// Fails if it is told anything that it has not asked for, or was not told what it had to be.
    pub(super) fn expect_quiet(&mut self, updates: &mut Updates) {
        self.agent.send(&request("after all", "ping", &Value::Null));
        while self.read_one(updates) != "\"after all\"" {}
        assert!(self.open.is_empty(), "{} is not told of some", NAMES[self.number]);
        assert!(self.logs_due.is_empty(), "{} was not told {:?}", NAMES[self.number], self.logs_due);
    }

    /// Takes the next message in; its id.
    fn read_one(&mut self, updates: &mut Updates) -> String {
        let line = self.agent.next_line().expect("the connection stays");
        let message: Value = serde_json::from_str(&line).expect("JSON");
        let params = &message["params"];
        let others = format!("{}-", NAMES[1 - self.number]);
        match message["method"].as_str() {
            // It tells by whose deed the resource has changed.
            Some("notifications/resources/updated") => {
                let [mark, uri] = ["mark", "uri"].map(|key| params[key].as_str().expect("text"));
                updates.deliver(self.number, mark, uri);
            }
            _ if line.contains(&others) => panic!("{} was told {line}", NAMES[self.number]),
            Some("notifications/progress") => self.take_progress(params),
            Some("notifications/message") => self.take_log(params),
            Some(_) => panic!("told out of place: {line}"),
            None => self.take_answer(&message, updates),
        }
        message["id"].to_string()
    }

    fn take_progress(&mut self, params: &Value) {
        let mut open = self.open.values_mut().filter(|open| open.choice.token == params["progressToken"]);
        let open = open.find(|open| open.choice.mark == params["message"]);
        let open = open.unwrap_or_else(|| panic!("progress of nothing that is open: {params}"));
        open.progress += 1;
        assert_eq!((&params["progress"], open.action.effect == Effect::Progress), (&json!(open.progress), true));
        self.received.progress += 1;
    }

    fn take_log(&mut self, params: &Value) {
        let mark = params["data"].as_str().expect("a mark");
        let is_open = self.open.values().any(|open| open.choice.mark == mark && open.action.effect == Effect::Log);
        let level = LEVELS.iter().position(|level| params["level"] == *level).expect("a level");
        assert!(is_open && level >= self.level, "told {params}, from {} on", LEVELS[self.level]);
        self.logs_due.remove(mark);
        self.received.logs += 1;
    }

    fn take_answer(&mut self, answer: &Value, updates: &mut Updates) {
        if let Some(cancelled) = answer["id"].as_str().and_then(|id| id.strip_prefix("after ")) {
            self.open.remove(cancelled);
            return;
        }
        let open = self.open.remove(&answer["id"].to_string());
        let Open { action, choice, progress, cancelled } =
            open.unwrap_or_else(|| panic!("answered again, or unasked: {answer}"));
        assert!((action.is_answer)(&choice, answer), "{} to {} is answered {answer}", action.method, choice.mark);
        match action.effect {
            Effect::Subscribe => updates.set(self.number, choice.uri, SubscriptionState::Yes),
            Effect::Unsubscribe => updates.set(self.number, choice.uri, SubscriptionState::No),
            Effect::Update => updates.end(&choice.mark),
            Effect::Level => self.level = level(&choice),
            Effect::Progress => assert!(cancelled || progress == steps(&choice), "{}: {progress}", choice.mark),
            Effect::Log | Effect::Nothing | Effect::Refused => {}
        }
        let is_served =
            !matches!(action.effect, Effect::Refused | Effect::Subscribe | Effect::Unsubscribe | Effect::Level);
        self.served.extend(is_served.then_some(choice.mark));
    }
}
