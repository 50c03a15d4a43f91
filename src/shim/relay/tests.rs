//! Each request ends once and is executed at most once, in every order of events.

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
    relay: Relay,
    now: Instant,
    /// Bytes that the current daemon has received and not parsed.
    unread: Vec<u8>,
    /// Its unanswered requests.
    open: Vec<Value>,
    /// How often daemons received each of the agent's requests completely.
    seen: HashMap<u64, usize>,
    /// The responses to each request.
    ends: HashMap<u64, Vec<Value>>,
    request_count: u64,
    cancelled: Vec<u64>,
    /// How often the agent was written that each of its subscriptions is in force.
    acknowledged: HashMap<String, usize>,
    /// Subscriptions that this daemon has acknowledged and not ended.
    listening: Vec<String>,
    /// Subscriptions of the agent that have ended.
    over: Vec<String>,
}

impl World {
    /// A world with an initialized agent.
    fn new() -> Self {
        let own = ShimInfo { cwd: None, version: "1", server: None };
        let mut world = Self {
            relay: Relay::new(own, 7),
            now: Instant::now(),
            unread: Vec::new(),
            open: Vec::new(),
            seen: HashMap::new(),
            ends: HashMap::new(),
            request_count: 0,
            cancelled: Vec::new(),
            acknowledged: HashMap::new(),
            listening: Vec::new(),
            over: Vec::new(),
        };
        world.send(
            &json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {"protocolVersion": "v"}}),
        );
        world.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        world.connect();
        world.carry(usize::MAX);
        world.answer();
        assert!(!world.relay.events.contains(&RelayEvent::DaemonBack), "nothing was lost");
        world
    }

    fn send(&mut self, message: &Value) {
        self.relay.receive_from_agent(Piece::Line(Bytes::from(format!("{message}\n"))), self.now);
        self.read();
    }

    fn ask(&mut self) {
        self.request_count += 1;
        self.send(
            &json!({"jsonrpc": "2.0", "id": self.request_count, "method": "tools/call", "params": {"name": "x"}}),
        );
    }

    fn listen(&mut self, id: u64) {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let params = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
        self.send(&json!({"jsonrpc": "2.0", "id": format!("listen {id}"), "method": "subscriptions/listen", "params": params}));
    }

    /// The daemon ends its acknowledged subscriptions, as a stopping daemon does.
    fn end_listening(&mut self) {
        for id in std::mem::take(&mut self.listening) {
            let end = json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}});
            self.relay.receive_from_daemon(Bytes::from(format!("{end}\n")), self.now);
        }
        self.read();
    }

    fn cancel(&mut self, id: u64) {
        if id >= 1 && id <= self.request_count && !self.ends.contains_key(&id) && !self.cancelled.contains(&id) {
            self.cancelled.push(id);
            let params = json!({ "requestId": id });
            self.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        }
    }

    fn connect(&mut self) {
        if self.relay.state == RelayState::Disconnected {
            (self.unread, self.open, self.listening) = (Vec::new(), Vec::new(), Vec::new());
            self.relay.connected();
        }
    }

    /// Delivers this many bytes to the daemon.
    fn carry(&mut self, most: usize) {
        let mut room = vec![0; most.min(self.relay.to_daemon.bytes())];
        let length = room.len();
        let mut room = Cursor::new(&mut room[..]);
        while (room.position() as usize) < length {
            let written = self.relay.to_daemon.write_some(&mut room).now_or_never();
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

    /// The daemon answers its oldest request.
    fn answer(&mut self) {
        if self.relay.state == RelayState::Disconnected || self.open.is_empty() {
            return;
        }
        let request = self.open.remove(0);
        let answer = if request["method"] == "subscriptions/listen" {
            self.listening.push(request["id"].as_str().expect("text").to_owned());
            let params =
                json!({"_meta": {"io.modelcontextprotocol/subscriptionId": request["id"]}, "notifications": {}});
            json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
        } else {
            json!({"jsonrpc": "2.0", "id": request["id"], "result": {"protocolVersion": "v"}})
        };
        self.relay.receive_from_daemon(Bytes::from(format!("{answer}\n")), self.now);
        self.read();
    }

    /// The stopping daemon refuses its oldest request, which no server has seen.
    fn refuse(&mut self) {
        if self.relay.state == RelayState::Disconnected {
            return;
        }
        let Some(position) = self.open.iter().position(|request| request["id"].is_u64()) else { return };
        let id = self.open.remove(position)["id"].as_u64().expect("a number");
        *self.seen.entry(id).or_default() -= 1;
        let data = json!({"outcome": "not_sent", "daemon": "stopping"});
        let error = json!({"code": -31005, "message": "mcpd is being stopped", "data": data});
        let refusal = json!({"jsonrpc": "2.0", "id": id, "error": error});
        self.relay.receive_from_daemon(Bytes::from(format!("{refusal}\n")), self.now);
        self.read();
    }

    /// The daemon answers all requests.
    fn settle(&mut self) {
        self.carry(usize::MAX);
        while !self.open.is_empty() {
            self.answer();
            self.carry(usize::MAX);
        }
    }

    fn lose(&mut self) {
        if self.relay.state != RelayState::Disconnected {
            self.relay.lost(self.now);
            self.read();
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.relay.expire(self.now, None);
        self.read();
    }

    /// The agent reads what it is written.
    fn read(&mut self) {
        let mut written = Vec::new();
        while !self.relay.to_agent.is_empty() {
            assert!(matches!(self.relay.to_agent.write_some(&mut written).now_or_never(), Some(Ok(()))));
        }
        for line in written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
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
    fn each_request_ends_once_and_none_is_executed_twice(steps in prop::collection::vec((0..11u8, 0..200usize), 0..120)) {
        let (mut world, mut listened) = (World::new(), 0);
        for (what, amount) in steps {
            match what {
                0 | 1 => world.ask(),
                2 => world.cancel(world.request_count.saturating_sub(amount as u64 % 4)),
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
        for id in 1..=world.request_count {
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
        prop_assert!(world.relay.is_idle() && world.relay.next_deadline().is_none());
        world.connect();
        world.settle();
        for id in (1..=listened).map(|id| format!("listen {id}")) {
            let acknowledged = world.acknowledged.get(&id).copied().unwrap_or_default();
            let ends = world.over.iter().filter(|over| **over == id).count();
            let open = world.listening.iter().filter(|open| **open == id).count();
            prop_assert_eq!((acknowledged <= 1, open + ends), (true, 1), "{} {}", id, acknowledged);
            prop_assert!(open <= acknowledged);
        }
    }
}

#[test]
fn requests_refused_by_a_stopping_daemon_go_to_the_next_one_in_order() {
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
    let made: Vec<_> = world.open.iter().filter_map(|request| request["id"].as_u64()).collect();
    assert_eq!(made, [1, 2, 3, 4]);
}

#[test]
fn lines_before_the_initialize_response_keep_their_order() {
    let mut relay = Relay::new(ShimInfo { cwd: None, version: "1", server: None }, 7);
    for line in [
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"_meta\":{\"mcpd/connect\":\"0\"},\"protocolVersion\":\"v\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}\n",
    ] {
        relay.receive_from_agent(Piece::Line(Bytes::from_static(line.as_bytes())), Instant::now());
    }
    relay.connected();
    let mut written = Vec::new();
    while !relay.to_daemon.is_empty() {
        relay.to_daemon.write_some(&mut written).now_or_never().expect("room").expect("room");
    }
    let written = String::from_utf8(written).expect("text");
    let methods = ["\"initialize\"", "\"notifications/initialized\"", "\"tools/list\""];
    let found: Vec<_> = written.lines().zip(methods).map(|(line, method)| line.contains(method)).collect();
    assert_eq!(found, [true; 3], "{written}");
}

#[test]
fn initialize_expires_though_daemons_come_and_go() {
    let now = Instant::now();
    let mut relay = Relay::new(ShimInfo { cwd: None, version: "1", server: None }, 7);
    let hello = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"v\"}}\n";
    relay.receive_from_agent(Piece::Line(Bytes::from_static(hello)), now);
    for seconds in 0..10 {
        assert!(relay.to_agent.is_empty() && relay.next_deadline() == Some(now + Duration::from_secs(10)));
        relay.connected();
        let mut written = Vec::new();
        relay.to_daemon.write_some(&mut written).now_or_never().expect("room").expect("room");
        relay.lost(now + Duration::from_secs(seconds));
    }
    relay.expire(now + Duration::from_secs(10), None);
    assert!(relay.to_agent.bytes() > 0 && relay.is_idle());
}
