//! Agents that call all the time, while the daemon is restarted with another program again and again. No call is lost or made twice, and
//! no answer is wrong about that.
//!
//! `MCPD_RESTARTS=200 MCPD_RESTART_AGENTS=50 cargo test --test it daemon_restart::storm -- --nocapture` is the long run. It prints for how
//! long restarts delayed the calls of agents.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{MCPD, Place, Server, Setup, Shim, WAIT_LIMIT, initialize, print_line, run, until};

fn from_environment(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What all agents share.
struct Storm<'a> {
    place: &'a Place,
    is_over: AtomicBool,
    /// The number of the last restart.
    restart: AtomicU64,
    /// Calls that have ended since.
    calls: Vec<AtomicU64>,
}

/// The attempts of an agent, or of all.
#[derive(Default)]
struct Ledger {
    /// Whether each attempt has to be in the journal of the server.
    attempts: HashMap<String, bool>,
    /// The longest delay of a call, for each restart and agent.
    pauses: HashMap<(u64, usize), Duration>,
}

/// A connection of an agent: raw, or to `mcpd connect`.
struct Connection {
    stream: BufReader<UnixStream>,
    shim: Option<Child>,
}

impl Connection {
    fn raw(place: &Place) -> Self {
        Self::of(until("the socket accepts", || UnixStream::connect(place.runtime_dir().join("mcp.sock")).ok()), None)
    }

    fn shim(place: &Place) -> Self {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let input = theirs.try_clone().expect("a descriptor");
        let mut command = Shim::command(place);
        let child = command.stdin(OwnedFd::from(input)).stdout(OwnedFd::from(theirs)).stderr(Stdio::null()).spawn();
        Self::of(ours, Some(child.expect("mcpd starts")))
    }

    fn of(stream: UnixStream, shim: Option<Child>) -> Self {
        stream.set_read_timeout(Some(WAIT_LIMIT)).expect("not zero");
        Self { stream: BufReader::new(stream), shim }
    }

    fn send(&mut self, message: &str) -> bool {
        self.stream.get_mut().write_all(format!("{message}\n").as_bytes()).is_ok()
    }

    /// The answer to the request `id`; `None` at the end of the stream.
    fn answer(&mut self, id: &Value) -> Option<Value> {
        loop {
            let mut line = String::new();
            match self.stream.read_line(&mut line) {
                Ok(1..) => {}
                Ok(0) => return None,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer to {id}: {error}"),
            }
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["id"] == *id && message["method"].is_null() {
                return Some(message);
            }
        }
    }

    /// Whether the handshake has succeeded. A daemon that is about to restart refuses it.
    fn introduce(&mut self) -> bool {
        let hello = initialize("2025-11-25");
        let is_accepted =
            self.send(&hello.to_string()) && self.answer(&hello["id"]).is_some_and(|answer| answer["error"].is_null());
        is_accepted && self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(shim) = &mut self.shim {
            let _ = self.stream.get_ref().shutdown(std::net::Shutdown::Both);
            let _ = shim.wait();
        }
    }
}

impl Storm<'_> {
    /// Calls until the storm is over.
    fn agent(&self, number: usize) -> Ledger {
        let is_raw = number.is_multiple_of(2);
        let (mut connection, mut ledger) = (None, Ledger::default());
        for call in 0_u64.. {
            if self.is_over.load(Ordering::SeqCst) {
                break;
            }
            let ms = if call.is_multiple_of(5) { 20 + call % 60 } else { 2 };
            let began = Instant::now();
            for attempt in 0.. {
                let key = format!("{number}-{call}-{attempt}.");
                let is_made = self.call(&mut connection, is_raw, &key, ms);
                ledger.attempts.insert(key, is_made);
                if is_made {
                    break;
                }
            }
            let pause = began.elapsed().saturating_sub(Duration::from_millis(ms));
            let longest = ledger.pauses.entry((self.restart.load(Ordering::SeqCst), number)).or_default();
            *longest = pause.max(*longest);
            self.calls[number].fetch_add(1, Ordering::SeqCst);
        }
        ledger
    }

    /// Whether the call was answered with its result.
    fn call(&self, connection: &mut Option<Connection>, is_raw: bool, key: &str, ms: u64) -> bool {
        let used = connection.get_or_insert_with(|| self.connect(is_raw));
        let params = json!({"name": "a__sleep", "arguments": {"key": key, "ms": ms}});
        let request = json!({"jsonrpc": "2.0", "id": key, "method": "tools/call", "params": params});
        let is_sent = used.send(&request.to_string());
        let answer = used.answer(&json!(key)).filter(|_| is_sent);
        match &answer {
            Some(answer) if answer["error"].is_null() => return true,
            Some(Value::Object(answer)) => {
                let error = &answer["error"];
                let is_refused = error["data"]["outcome"] == "not_sent" && error["code"] == -31005;
                assert!(is_raw && is_refused, "{answer:?}");
                // The connection ends once the calls of others have ended.
                assert!(used.answer(&json!("none")).is_none());
            }
            _ => assert!(is_raw && !is_sent, "a request was read and not answered"),
        }
        *connection = None;
        false
    }

    fn connect(&self, is_raw: bool) -> Connection {
        loop {
            let mut new = if is_raw { Connection::raw(self.place) } else { Connection::shim(self.place) };
            if new.introduce() {
                return new;
            }
            assert!(is_raw, "`mcpd connect` waits for the new program");
        }
    }

    /// Waits until every agent has made two more calls: the first of them may have begun before.
    fn wait_for_calls(&self) {
        let before: Vec<_> = self.calls.iter().map(|calls| calls.load(Ordering::SeqCst)).collect();
        until("every agent calls", || {
            let has_called = |(calls, before): (&AtomicU64, &u64)| calls.load(Ordering::SeqCst) >= before + 2;
            self.calls.iter().zip(&before).all(has_called).then_some(())
        });
    }
}

/// Case E15.
#[test]
fn restarts_under_agents_lose_and_double_no_call() {
    let (restarts, agents) = (from_environment("MCPD_RESTARTS", 3), from_environment("MCPD_RESTART_AGENTS", 6));
    let place = crate::support::Place::new();
    place.copy_of_mcpd();
    fs::hard_link(place.path("mcpd"), place.path("one")).expect("the same disk");
    run(place.command("cp").arg(MCPD).arg(place.path("two"))).expect_code(0);
    let daemon = Setup::with(Server::named("a")).program(place.path("mcpd")).start_in(&place);
    let storm = Storm {
        place: &place,
        is_over: AtomicBool::new(false),
        restart: AtomicU64::new(0),
        calls: (0..agents).map(|_| AtomicU64::new(0)).collect(),
    };
    let mut ledger = Ledger::default();
    thread::scope(|scope| {
        let storm = &storm;
        let threads: Vec<_> = (0..agents).map(|number| scope.spawn(move || storm.agent(number))).collect();
        for restart in 1..=restarts {
            storm.wait_for_calls();
            storm.restart.store(restart as u64, Ordering::SeqCst);
            let next = place.path(if restart % 2 == 0 { "one" } else { "two" });
            let installed = fs::hard_link(next, place.path("new"));
            installed.and_then(|()| fs::rename(place.path("new"), place.path("mcpd"))).expect("the same disk");
            place.client(&["restart", "--if-replaced"]).expect_code(0);
            assert!(!threads.iter().any(|thread| thread.is_finished()), "an agent has failed");
        }
        storm.wait_for_calls();
        storm.is_over.store(true, Ordering::SeqCst);
        for thread in threads {
            let Ledger { attempts, pauses } = thread.join().expect("it does not panic");
            ledger.attempts.extend(attempts);
            ledger.pauses.extend(pauses);
        }
    });
    let mut made: HashMap<String, usize> = HashMap::new();
    for line in daemon.journal("a") {
        if let Some((_, rest)) = line.split_once("\"key\":\"") {
            *made.entry(rest.split('"').next().expect("a key").to_owned()).or_default() += 1;
        }
    }
    for (key, is_made) in &ledger.attempts {
        assert_eq!(made.get(key).copied().unwrap_or_default(), usize::from(*is_made), "call {key}");
    }
    assert_eq!(made.len(), ledger.attempts.values().filter(|is_made| **is_made).count(), "calls that nobody made");
    let mut pauses: Vec<_> =
        ledger.pauses.iter().filter(|((restart, _), _)| *restart > 0).map(|(_, pause)| *pause).collect();
    pauses.sort_unstable();
    let at = |part: usize| pauses[(pauses.len() - 1) * part / 100];
    print_line(&format!(
        "{restarts} restarts, {agents} agents, {} calls made, {} attempts refused; pauses: p50 {:?}, p99 {:?}, longest {:?}",
        made.len(),
        ledger.attempts.len() - made.len(),
        at(50),
        at(99),
        at(100)
    ));
}
