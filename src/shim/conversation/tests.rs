//! Whatever happens in whatever order, each request ends once, and none is made twice.

mod modern;

use std::collections::HashMap;
use std::io::Cursor;
use std::time::Duration;

use futures_util::future::FutureExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// An agent and its daemons.
struct World {
    conversation: Conversation,
    now: Instant,
    /// What the daemon that is there has got, and not looked at.
    unread: Vec<u8>,
    /// Requests that it has and has not answered.
    open: Vec<Value>,
    /// How often daemons have seen each of the agent's requests whole.
    seen: HashMap<u64, usize>,
    /// How each of them ended, for the agent.
    ends: HashMap<u64, Vec<Value>>,
    asked: u64,
    cancelled: Vec<u64>,
    /// How often the agent was told that each of its subscriptions is in force.
    acknowledged: HashMap<String, usize>,
    /// What this daemon has acknowledged and not ended.
    listening: Vec<String>,
    /// Subscriptions of the agent that have ended.
    over: Vec<String>,
}

impl World {
    /// In which the agent is introduced.
    fn new() -> Self {
        let own = Own { cwd: None, version: "1" };
        let mut world = Self {
            conversation: Conversation::new(own, 7),
            now: Instant::now(),
            unread: Vec::new(),
            open: Vec::new(),
            seen: HashMap::new(),
            ends: HashMap::new(),
            asked: 0,
            cancelled: Vec::new(),
            acknowledged: HashMap::new(),
            listening: Vec::new(),
            over: Vec::new(),
        };
        world
            .say(&json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {"protocolVersion": "v"}}));
        world.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        world.connect();
        world.carry(usize::MAX);
        world.answer();
        assert!(!world.conversation.news.contains(&News::Back), "nothing was lost");
        world
    }

    fn say(&mut self, message: &Value) {
        self.conversation.agent_says(Piece::Line(Bytes::from(format!("{message}\n"))), self.now);
        self.hear();
    }

    fn ask(&mut self) {
        self.asked += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": self.asked, "method": "tools/call", "params": {"name": "x"}}));
    }

    fn listen(&mut self, id: u64) {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let params = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
        self.say(&json!({"jsonrpc": "2.0", "id": format!("listen {id}"), "method": "subscriptions/listen", "params": params}));
    }

    /// The daemon ends what it has acknowledged, as one does that ends itself.
    fn end_listening(&mut self) {
        for id in std::mem::take(&mut self.listening) {
            let end = json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}});
            self.conversation.daemon_says(Bytes::from(format!("{end}\n")), self.now);
        }
        self.hear();
    }

    fn cancel(&mut self, id: u64) {
        if id >= 1 && id <= self.asked && !self.ends.contains_key(&id) && !self.cancelled.contains(&id) {
            self.cancelled.push(id);
            let params = json!({ "requestId": id });
            self.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        }
    }

    fn connect(&mut self) {
        if self.conversation.stage == Stage::Away {
            (self.unread, self.open, self.listening) = (Vec::new(), Vec::new(), Vec::new());
            self.conversation.connected();
        }
    }

    /// So many bytes reach the daemon.
    fn carry(&mut self, most: usize) {
        let mut room = vec![0; most.min(self.conversation.to_daemon.bytes())];
        let length = room.len();
        let mut room = Cursor::new(&mut room[..]);
        while (room.position() as usize) < length {
            let written = self.conversation.to_daemon.write_some(&mut room).now_or_never();
            assert!(matches!(written, Some(Ok(()))), "there is room");
        }
        self.unread.extend_from_slice(room.into_inner());
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let message: Value = serde_json::from_slice(&line).expect("JSON");
            if let Some(id) = message["id"].as_u64() {
                *self.seen.entry(id).or_default() += 1;
            }
            if !message["id"].is_null() {
                self.open.push(message);
            }
        }
    }

    /// The daemon answers what it has had for longest.
    fn answer(&mut self) {
        if self.conversation.stage == Stage::Away || self.open.is_empty() {
            return;
        }
        let asked = self.open.remove(0);
        let answer = if asked["method"] == "subscriptions/listen" {
            self.listening.push(asked["id"].as_str().expect("text").to_owned());
            let params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": asked["id"]}, "notifications": {}});
            json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
        } else {
            json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"protocolVersion": "v"}})
        };
        self.conversation.daemon_says(Bytes::from(format!("{answer}\n")), self.now);
        self.hear();
    }

    /// The daemon, which is being stopped, refuses what it has had for longest; no server has seen that.
    fn refuse(&mut self) {
        if self.conversation.stage == Stage::Away {
            return;
        }
        let Some(position) = self.open.iter().position(|asked| asked["id"].is_u64()) else { return };
        let id = self.open.remove(position)["id"].as_u64().expect("a number");
        *self.seen.entry(id).or_default() -= 1;
        let data = json!({"outcome": "not_sent", "daemon": "stopping"});
        let error = json!({"code": -31005, "message": "mcpd is being stopped", "data": data});
        let refusal = json!({"jsonrpc": "2.0", "id": id, "error": error});
        self.conversation.daemon_says(Bytes::from(format!("{refusal}\n")), self.now);
        self.hear();
    }

    /// The daemon answers everything that comes.
    fn settle(&mut self) {
        self.carry(usize::MAX);
        while !self.open.is_empty() {
            self.answer();
            self.carry(usize::MAX);
        }
    }

    fn lose(&mut self) {
        if self.conversation.stage != Stage::Away {
            self.conversation.lost(self.now);
            self.hear();
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.conversation.expire(self.now, None);
        self.hear();
    }

    /// The agent reads what it is told.
    fn hear(&mut self) {
        let mut told = Vec::new();
        while !self.conversation.to_agent.is_empty() {
            assert!(matches!(self.conversation.to_agent.write_some(&mut told).now_or_never(), Some(Ok(()))));
        }
        for line in told.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let message: Value = serde_json::from_slice(line).expect("JSON");
            if let Some(id) = message["id"].as_u64() {
                self.ends.entry(id).or_default().push(message);
            } else if let Some(id) = message["id"].as_str() {
                self.over.push(id.to_owned());
            } else if let Some(id) = message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].as_str() {
                *self.acknowledged.entry(id.to_owned()).or_default() += 1;
            }
        }
    }
}

proptest! {
    #[test]
    fn each_request_ends_once_and_none_is_made_twice(steps in prop::collection::vec((0..11u8, 0..200usize), 0..120)) {
        let (mut world, mut listened) = (World::new(), 0);
        for (what, amount) in steps {
            match what {
                0 | 1 => world.ask(),
                2 => world.cancel(world.asked.saturating_sub(amount as u64 % 4)),
                3 => world.connect(),
                4 => world.carry(amount * 3),
                5 => { world.carry(usize::MAX); world.answer() }
                6 => world.lose(),
                7 => { listened += 1; world.listen(listened) }
                8 => { world.end_listening(); world.lose() }
                9 => { world.carry(usize::MAX); world.refuse() }
                _ => world.wait(Duration::from_secs(amount as u64 % 7)),
            }
        }
        world.lose();
        world.wait(Duration::from_secs(10));
        for id in 1..=world.asked {
            let ends = world.ends.get(&id).map_or(&[][..], Vec::as_slice);
            let seen = world.seen.get(&id).copied().unwrap_or_default();
            prop_assert!(seen <= 1, "{} reached daemons {} times", id, seen);
            if world.cancelled.contains(&id) {
                prop_assert!(ends.len() <= 1, "{:?}", ends);
                continue;
            }
            let [end] = ends else { return Err(TestCaseError::fail(format!("{id} ended with {ends:?}"))) };
            if end["error"]["data"]["outcome"] == "not_sent" {
                prop_assert_eq!(seen, 0, "{}", end);
            } else {
                prop_assert!(end["error"]["data"]["outcome"] == "unknown" || seen == 1, "{}", end);
            }
        }
        prop_assert!(world.conversation.owes_nothing() && world.conversation.due().is_none());
        world.connect();
        world.settle();
        for id in (1..=listened).map(|id| format!("listen {id}")) {
            let told = world.acknowledged.get(&id).copied().unwrap_or_default();
            let ends = world.over.iter().filter(|over| **over == id).count();
            let open = world.listening.iter().filter(|open| **open == id).count();
            prop_assert_eq!((told <= 1, open + ends), (true, 1), "{} {}", id, told);
            prop_assert!(open <= told);
        }
    }
}

#[test]
fn requests_that_a_stopping_daemon_refuses_and_later_ones_are_made_at_the_next_one_in_order() {
    let mut world = World::new();
    (0..3).for_each(|_| world.ask());
    world.carry(usize::MAX);
    world.open.swap(0, 2);
    (0..2).for_each(|_| world.refuse());
    world.ask();
    world.carry(usize::MAX);
    assert_eq!(world.open.len(), 1, "nothing more is sent to a daemon that is being stopped");
    world.wait(Duration::from_secs(9));
    world.refuse();
    world.wait(Duration::from_secs(9));
    world.lose();
    world.wait(Duration::from_secs(9));
    assert!(world.ends.is_empty(), "{:?}", world.ends);
    world.connect();
    world.carry(usize::MAX);
    world.answer();
    world.carry(usize::MAX);
    let made: Vec<_> = world.open.iter().filter_map(|asked| asked["id"].as_u64()).collect();
    assert_eq!(made, [1, 2, 3, 4]);
}

#[test]
fn what_an_agent_says_before_it_was_answered_is_said_in_its_order() {
    let mut conversation = Conversation::new(Own { cwd: None, version: "1" }, 7);
    for line in [
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"_meta\":{\"mcpd/connect\":\"0\"},\"protocolVersion\":\"v\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}\n",
    ] {
        conversation.agent_says(Piece::Line(Bytes::from_static(line.as_bytes())), Instant::now());
    }
    conversation.connected();
    let mut said = Vec::new();
    while !conversation.to_daemon.is_empty() {
        conversation.to_daemon.write_some(&mut said).now_or_never().expect("room").expect("room");
    }
    let said = String::from_utf8(said).expect("text");
    let methods = ["\"initialize\"", "\"notifications/initialized\"", "\"tools/list\""];
    let found: Vec<_> = said.lines().zip(methods).map(|(line, method)| line.contains(method)).collect();
    assert_eq!(found, [true; 3], "{said}");
}

#[test]
fn an_introduction_ends_though_daemons_come_and_go_at_once() {
    let now = Instant::now();
    let mut conversation = Conversation::new(Own { cwd: None, version: "1" }, 7);
    let hello = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"v\"}}\n";
    conversation.agent_says(Piece::Line(Bytes::from_static(hello)), now);
    for seconds in 0..10 {
        assert!(conversation.to_agent.is_empty() && conversation.due() == Some(now + Duration::from_secs(10)));
        conversation.connected();
        let mut written = Vec::new();
        conversation.to_daemon.write_some(&mut written).now_or_never().expect("room").expect("room");
        conversation.lost(now + Duration::from_secs(seconds));
    }
    conversation.expire(now + Duration::from_secs(10), None);
    assert!(conversation.to_agent.bytes() > 0 && conversation.owes_nothing());
}
