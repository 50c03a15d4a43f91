//! One agent: its requests, its open calls, and its expected messages.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::model::{Kind, ListedItem, SERVERS};
use crate::support::{Agent, code, result};

/// A call that does not end by itself.
pub(super) struct Hold {
    id: Value,
    pub(super) server: usize,
}

pub(super) struct Seat {
    agent: Agent,
    pub(super) profile: usize,
    pub(super) holds: Vec<Hold>,
    /// What it has listed last, once it was as expected.
    has: Option<[Vec<ListedItem>; 4]>,
}

impl Seat {
    pub(super) fn new(agent: Agent, profile: usize) -> Self {
        let mut seat = Self { agent, profile, holds: Vec::new(), has: None };
        seat.list();
        seat
    }

    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.agent.call(tool, arguments)
    }

    pub(super) fn hold(&mut self, tool: &str, server: usize, mark: &str) {
        let id = self.agent.start_call(tool, &json!({"ms": 600_000, "mark": mark}));
        self.holds.push(Hold { id, server });
    }

    /// Gives up the oldest call that it holds.
    pub(super) fn cancel(&mut self) {
        if !self.holds.is_empty() {
            let params = json!({"requestId": self.holds.remove(0).id});
            self.agent.notify("notifications/cancelled", &params);
        }
    }

    pub(super) fn leave(self) {
        self.agent.disconnect();
    }

    /// Its profile was removed, and it waits for nothing.
    pub(super) fn expect_end(mut self) {
        self.agent.expect_end();
    }

    /// The server has died: all that it holds there ends so, and nothing else.
    pub(super) fn expect_died(&mut self, server: usize) {
        for hold in self.holds.extract_if(.., |hold| hold.server == server) {
            let answer = self.agent.answer(&hold.id);
            assert_eq!((code(&answer), &answer["error"]["data"]["outcome"]), (-31001, &json!("unknown")), "{answer}");
        }
    }

    /// Answers to all of these, asked at once.
    pub(super) fn ask_all(&mut self, requests: &[(&str, Value)]) -> Vec<Value> {
        let ids: Vec<_> = requests.iter().map(|(method, params)| self.agent.start_request(method, params)).collect();
        ids.iter().map(|id| self.agent.answer(id)).collect()
    }

    /// What is listed now.
    pub(super) fn list(&mut self) -> [Vec<ListedItem>; 4] {
        let answers = self.ask_all(&Kind::ALL.map(|kind| (kind.words()[0], json!({}))));
        let mut answers = answers.iter();
        Kind::ALL.map(|kind| {
            let [_, member, key, _] = kind.words();
            let items = result(answers.next().expect("one for each"))[member].as_array().expect("a list");
            let by = |item: &Value| SERVERS.iter().position(|name| item["by"] == *name).expect("one of them");
            let version = |item: &Value| item["version"].as_u64().expect("a number") as u32;
            items.iter().map(|item| (text(&item[key]), by(item), version(item))).collect()
        })
    }

    /// It lists what the model says, and was told of just those lists that are not what it had; of others only if lists from memory
    /// may have been shown in between.
    pub(super) fn expect_lists(&mut self, expected: [Vec<ListedItem>; 4], shows_remembered: bool) {
        let announced = self.announced();
        let seen = self.list();
        assert_eq!(seen, expected, "lists are not as another agent has them");
        if let Some(had) = &self.has {
            let changed = Kind::ALL.iter().zip(had.iter().zip(&expected)).filter(|(_, (had, has))| had != has);
            let changed: BTreeSet<_> = changed.map(|(kind, _)| kind.words()[3].to_owned()).collect();
            let is_as_expected = if shows_remembered { announced.is_superset(&changed) } else { announced == changed };
            assert!(is_as_expected, "told {announced:?}, changed {changed:?}; had {had:?}, has {expected:?}");
        }
        self.has = Some(expected);
    }

    /// What it was told and was no answer: of changed lists, and nothing else. What the daemon says, it says in order.
    fn announced(&mut self) -> BTreeSet<String> {
        let mut announced = BTreeSet::new();
        let pong = self.agent.start_request("ping", &json!({}));
        loop {
            let message = self.agent.next();
            if message["id"] == pong {
                return announced;
            }
            let method = message["method"].as_str().unwrap_or_else(|| panic!("ended unasked: {message}"));
            assert!(Kind::ALL.iter().any(|kind| kind.words()[3] == method), "told {message}");
            announced.insert(method.to_owned());
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}
