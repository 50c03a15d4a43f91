//! The agents of the storm: one connection after another, each with its pace, era and way to disconnect.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{sleep, sleep_until, timeout};

use crate::agent_era::AgentEra;
use crate::call::ToolCall;
use crate::ledger::{Fate, Ledger};
use crate::servers::CALM;

/// Time limit for a response: longer than mcpd may park a call and wait for its response together.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// State that all agents share.
pub(crate) struct Crew {
    pub(crate) socket: PathBuf,
    pub(crate) ledger: RefCell<Ledger>,
    pub(crate) max_message: usize,
    /// No agent dies, cancels or requests a fault.
    pub(crate) no_faults: bool,
    pub(crate) until: Instant,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Leaving {
    /// When every call is answered.
    InOrder,
    /// Stops writing and reads to the end.
    HalfClosed,
    /// Writes half a line, stops writing and reads to the end.
    HalfLineHalfClosed,
    /// At once, with unanswered calls.
    Dying,
    /// At once, in the middle of a line.
    DyingMidLine,
}

struct Open {
    token: String,
    sent_at: Instant,
    cancelled: bool,
    /// Its time counts as the latency of the calm server.
    measured: bool,
}

struct Connection {
    crew: Rc<Crew>,
    number: usize,
    rng: Rng,
    agent_era: AgentEra,
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
    /// Bytes that the daemon has not accepted yet.
    unsent: Vec<u8>,
    next_id: u64,
    /// By the raw id.
    open: HashMap<String, Open>,
    /// The agent has paused reading. It may be disconnected, and its latencies do not count.
    neglectful: bool,
}

/// Runs until the storm is over.
pub(crate) async fn live(crew: Rc<Crew>, number: usize, mut rng: Rng) {
    while Instant::now() < crew.until {
        let Ok(stream) = UnixStream::connect(&crew.socket).await else {
            return crew.ledger.borrow_mut().complain("the daemon does not accept agents".to_owned());
        };
        let (read, write) = stream.into_split();
        let connection = Connection {
            crew: Rc::clone(&crew),
            number,
            rng: rng.fork(),
            agent_era: AgentEra::choose(&mut rng),
            lines: BufReader::new(read).lines(),
            write,
            unsent: Vec::new(),
            next_id: 0,
            open: HashMap::new(),
            neglectful: false,
        };
        connection.live_once().await;
    }
}

impl Connection {
    async fn live_once(mut self) {
        for line in self.agent_era.opening(&mut self.rng) {
            self.queue_line(&line);
        }
        let until = (Instant::now() + Duration::from_millis(self.rng.u64(100..5000))).min(self.crew.until);
        let pace = Duration::from_millis(self.rng.choice([10, 30, 60, 120]).expect("some"));
        let mut alive = true;
        while alive && Instant::now() < until {
            self.do_something();
            let time = pace.mul_f64(self.rng.f64() * 2.0);
            alive = match self.rng.u32(..60) {
                0 if !self.crew.no_faults => self.neglect().await,
                _ => self.go_on(time).await,
            };
        }
        if alive {
            self.leave().await;
        } else if !self.neglectful {
            self.complain("was cut off, though it has read everything");
        }
        let mut ledger = self.crew.ledger.borrow_mut();
        self.open.values().for_each(|open| ledger.mark_cancelled(&open.token));
    }

    fn do_something(&mut self) {
        match self.rng.u32(..100) {
            _ if self.open.len() >= 40 => {}
            0..4 if !self.crew.no_faults => self.cancel(),
            4..6 if !self.crew.no_faults => self.queue_line("{\"jsonrpc\":\"2.0\",\"id\":\"half\",\"meth"),
            6 => {
                let line = self.agent_era.list(&mut self.rng);
                self.queue_line(&line);
            }
            // More calls than a connection may have in flight.
            7 if !self.crew.no_faults && self.rng.u32(..4) == 0 => (0..280).for_each(|_| self.call()),
            8..20 => (0..self.rng.u32(2..12)).for_each(|_| self.call()),
            20..22 if !self.crew.no_faults => self.call_much_of_one(),
            22 if !self.crew.no_faults => self.send_oversized(),
            _ => self.call(),
        }
    }

    fn call(&mut self) {
        let call = ToolCall::choose(&mut self.rng, self.crew.no_faults, self.crew.max_message);
        self.start_call(&call);
    }

    /// More bytes than a server that does not read can accept, so some calls are never sent.
    fn call_much_of_one(&mut self) {
        let call = ToolCall::large(&mut self.rng);
        (0..12).for_each(|_| self.start_call(&call));
    }

    fn start_call(&mut self, call: &ToolCall) {
        let token = self.crew.ledger.borrow_mut().open(self.number, call.server, Fate::Waiting);
        let id = self.fresh_id();
        // Measured only if no other call of this agent can delay it.
        let measured = call.server == CALM && call.tool == "echo" && self.open.is_empty() && self.unsent.is_empty();
        let era = self.agent_era.era(&mut self.rng);
        self.queue_line(&call.line(era, &id, &token));
        self.wait_for(id, token, measured);
    }

    /// A call over the message cap.
    fn send_oversized(&mut self) {
        let token = self.crew.ledger.borrow_mut().open(self.number, "plain", Fate::Waiting);
        let id = self.fresh_id();
        let filler = "x".repeat(self.crew.max_message + 1);
        self.queue_line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"plain__echo","arguments":{{"token":"{token}","f":"{filler}"}}}}}}"#
        ));
        self.wait_for(id, token, false);
    }

    /// Numbers and strings with equal digits.
    fn fresh_id(&mut self) -> String {
        self.next_id += 1;
        let number = self.next_id / 2;
        if self.next_id.is_multiple_of(2) { number.to_string() } else { format!("\"{number}\"") }
    }

    fn wait_for(&mut self, id: String, token: String, measured: bool) {
        self.open.insert(id, Open { token, sent_at: Instant::now(), cancelled: false, measured });
    }

    /// The response may be in transit already.
    fn cancel(&mut self) {
        let chosen = self.rng.choice(self.open.iter_mut());
        let Some((id, open)) = chosen else { return };
        open.cancelled = true;
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"r"}}}}"#
        );
        self.crew.ledger.borrow_mut().mark_cancelled(&open.token);
        self.queue_line(&line);
    }

    fn queue_line(&mut self, line: &str) {
        self.unsent.extend_from_slice(line.as_bytes());
        self.unsent.push(b'\n');
    }

    /// Reads and writes for this time; `false` once the daemon has closed the connection.
    async fn go_on(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        self.go_on_while(until, |_| true).await
    }

    async fn go_on_while(&mut self, until: Instant, condition: impl Fn(&Self) -> bool) -> bool {
        while condition(self) {
            tokio::select! {
                line = self.lines.next_line() => match line {
                    Ok(Some(line)) => self.take(&line),
                    _ => return false,
                },
                written = self.write.write(&self.unsent), if !self.unsent.is_empty() => match written {
                    Ok(written) => drop(self.unsent.drain(..written)),
                    Err(_) => return false,
                },
                () = sleep_until(until.into()) => return true,
            }
        }
        true
    }

    /// Sends many calls and reads nothing for a while.
    async fn neglect(&mut self) -> bool {
        self.neglectful = true;
        for _ in 0..self.rng.u32(1..30) {
            self.call();
        }
        let time = Duration::from_millis(self.rng.u64(100..2500));
        let _ = timeout(time, async {
            while !self.unsent.is_empty() {
                let Ok(written) = self.write.write(&self.unsent).await else { break };
                self.unsent.drain(..written);
            }
            sleep(time).await;
        })
        .await;
        true
    }

    async fn leave(&mut self) {
        let ways =
            [Leaving::HalfClosed, Leaving::HalfLineHalfClosed, Leaving::Dying, Leaving::Dying, Leaving::DyingMidLine];
        let in_order = self.crew.no_faults || self.rng.bool();
        let way = if in_order { Leaving::InOrder } else { *self.rng.choice(ways.as_slice()).expect("some") };
        let by = Instant::now() + WAIT_LIMIT;
        let answered = |connection: &Self| connection.open.values().any(|open| !open.cancelled);
        match way {
            Leaving::Dying => {}
            Leaving::InOrder => {
                let ended = !self.go_on_while(by, answered).await;
                if ended && !self.neglectful {
                    self.complain("was cut off, though it has read everything");
                }
                self.expect_answers(ended);
            }
            Leaving::HalfClosed | Leaving::HalfLineHalfClosed | Leaving::DyingMidLine => {
                let half = (way != Leaving::HalfClosed).then(|| self.half_a_line());
                let alive = self.go_on_while(by, |connection| !connection.unsent.is_empty()).await;
                if let (Some(half), true) = (half, alive) {
                    let _ = timeout(WAIT_LIMIT, self.write.write_all(&half)).await;
                }
                if way != Leaving::DyingMidLine && alive {
                    let _ = self.write.shutdown().await;
                    let ended = !self.go_on_while(by, |_| true).await;
                    if !ended {
                        self.complain("was not hung up on after it had said that it says no more");
                    }
                    self.expect_answers(ended);
                }
            }
        }
    }

    /// Open calls are lost, unless the daemon had a reason to disconnect this agent.
    fn expect_answers(&mut self, ended: bool) {
        if !(ended && self.neglectful) {
            // The ledger still counts them as waiting.
            let lost: Vec<_> = self.open.extract_if(|_, open| !open.cancelled).map(|(_, open)| open.token).collect();
            if !lost.is_empty() {
                self.complain(&format!("waits in vain for {lost:?}"));
            }
        }
    }

    fn half_a_line(&mut self) -> Vec<u8> {
        let call = ToolCall::choose(&mut self.rng, true, self.crew.max_message);
        let token = self.crew.ledger.borrow_mut().open(self.number, call.server, Fate::Half);
        let line = call.line(self.agent_era.era(&mut self.rng), &self.fresh_id(), &token);
        let end = self.rng.usize(1..=line.len());
        line.as_bytes()[..end].to_vec()
    }

    fn take(&mut self, line: &str) {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return self.complain("was told no JSON") };
        if message["method"].is_string() {
            return self.notified(&message);
        }
        let id = message["id"].to_string();
        if ["\"hello\"", "\"list\"", "\"listen\"", "null"].contains(&&*id) {
            return;
        }
        let Some(open) = self.open.remove(&id) else {
            return self.complain(&format!("was answered what it does not wait for: {}", excerpt(line)));
        };
        let mut ledger = self.crew.ledger.borrow_mut();
        if open.measured && !self.neglectful {
            ledger.calm.push(open.sent_at.elapsed());
        }
        ledger.settle(&open.token, &message);
    }

    fn notified(&mut self, message: &Value) {
        match message["method"].as_str() {
            Some(method) if self.agent_era.may_receive(method, message) => {}
            Some("notifications/progress")
                if self.open.contains_key(&message["params"]["progressToken"].to_string()) => {}
            _ => self.complain(&format!("was told out of place: {message}")),
        }
    }

    fn complain(&self, what: &str) {
        self.crew.ledger.borrow_mut().complain(format!("agent {} {what}", self.number));
    }
}

fn excerpt(line: &str) -> String {
    line.chars().take(300).collect()
}
