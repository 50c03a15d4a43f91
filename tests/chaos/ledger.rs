//! The outcome of every call. Each call has a unique token: servers journal received calls with their tokens,
//! and return the token with the response.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::servers::{CALM, Servers};
use crate::support::Place;

/// Maximum number of complaints that are printed.
const SHOWN: usize = 30;

/// The end of a call as its agent saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// Not ended.
    Waiting,
    /// The server responded, from this process if the response has a pid.
    Answered(Option<u64>),
    /// An error of mcpd that says or implies that no server received the call.
    NotSent(i64),
    /// An error of mcpd with outcome `unknown`.
    Unknown(i64),
    /// The agent cancelled it or died.
    Cancelled,
    /// The agent died in the middle of its line.
    Half,
}

struct Entry {
    server: &'static str,
    fate: Fate,
}

/// The account of one storm.
#[derive(Default)]
pub(crate) struct Ledger {
    entries: HashMap<String, Entry>,
    complaints: Vec<String>,
    /// Latencies of the calm server.
    pub(crate) calm: Vec<Duration>,
}

impl Ledger {
    /// A new call's token.
    pub(crate) fn open(&mut self, agent: usize, server: &'static str, fate: Fate) -> String {
        let token = format!("t{agent}-{}", self.entries.len());
        self.entries.insert(token.clone(), Entry { server, fate });
        token
    }

    pub(crate) fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
    }

    /// The agent no longer waits.
    pub(crate) fn mark_cancelled(&mut self, token: &str) {
        if let Some(entry) = self.entries.get_mut(token) {
            entry.fate = Fate::Cancelled;
        }
    }

    /// Records the response to a call.
    pub(crate) fn settle(&mut self, token: &str, answer: &Value) {
        let Some(entry) = self.entries.get_mut(token) else { return self.complain(format!("no such call: {answer}")) };
        match read(token, entry.server, answer) {
            Ok(fate) => entry.fate = fate,
            Err(what) => {
                let text: String = answer.to_string().chars().take(400).collect();
                let complaint = format!("{token} at {}: {what}: {text}", entry.server);
                self.complain(complaint);
            }
        }
    }

    /// Compares the responses of agents with the journals of servers.
    pub(crate) fn close(mut self, place: &Place) -> Account {
        let mut received: HashMap<String, Vec<&str>> = HashMap::new();
        let mut processes: HashMap<u64, HashSet<&str>> = HashMap::new();
        for server in Servers::names() {
            let journal = fs::read(place.path(&format!("{server}.journal"))).unwrap_or_default();
            let journal = String::from_utf8_lossy(&journal);
            for token in behind(&journal, r#""token":""#, '"') {
                received.entry(token.to_owned()).or_default().push(server);
            }
            for pid in behind(&journal, "# start ", '\n').filter_map(|pid| pid.parse().ok()) {
                processes.entry(pid).or_default().insert(server);
            }
        }
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        let mut complaints = std::mem::take(&mut self.complaints);
        for (token, Entry { server, fate }) in &self.entries {
            let receivers = received.remove(token).unwrap_or_default();
            *ends.entry(word(*fate, !receivers.is_empty())).or_default() += 1;
            let wrong = match (*fate, receivers.len()) {
                _ if receivers.iter().any(|other| other != server) => Some("misrouted"),
                (_, 2..) => Some("made twice"),
                (Fate::Waiting, _) => Some("lost"),
                (Fate::Answered(_), 0) => Some("answered by nobody"),
                (Fate::NotSent(_) | Fate::Half, 1) => Some("was sent"),
                (Fate::Answered(Some(pid)), _) if !processes.get(&pid).is_some_and(|of| of.contains(server)) => {
                    Some("answered by another server")
                }
                (Fate::NotSent(code) | Fate::Unknown(code), _) if *server == CALM && code != OVERLOADED => {
                    Some("failed, though nothing was done to its server")
                }
                _ => None,
            };
            complaints.extend(
                wrong.map(|wrong| format!("{token} at {server}: {wrong}: {fate:?}, received by {receivers:?}")),
            );
        }
        complaints.extend(received.keys().map(|token| format!("{token}: a server received what nobody sent")));
        self.calm.sort_unstable();
        Account { calls: self.entries.len(), ends, complaints, calm: self.calm }
    }
}

/// Too many open calls of the agent or at the server.
const OVERLOADED: i64 = -31003;

/// The fate that a response implies, or the mistake in it.
fn read(token: &str, server: &str, answer: &Value) -> Result<Fate, &'static str> {
    let (result, error) = (&answer["result"], &answer["error"]);
    if answer["jsonrpc"] != "2.0" || result.is_null() == error.is_null() {
        return Err("no well-formed response");
    }
    if error.is_null() {
        let content = &result["structuredContent"];
        let own = content["params"]["arguments"]["token"] == token;
        return if own { Ok(Fate::Answered(content["pid"].as_u64())) } else { Err("misrouted") };
    }
    let code = error["code"].as_i64().ok_or("an error without a code")?;
    let data = &error["data"];
    match (code, data["outcome"].as_str()) {
        (-5, None) if error["message"] == token => Ok(Fate::Answered(None)),
        (-5, None) => Err("misrouted"),
        (-32602, None) if error["message"].as_str().is_some_and(|text| text.starts_with("Unknown tool: ")) => {
            Ok(Fate::NotSent(code))
        }
        (-32603, Some("unknown")) => Ok(Fate::Unknown(code)),
        (-31006..=-31001, Some(_)) if !data["server"].is_null() && data["server"] != server => Err("another server's"),
        (-31006..=-31001, Some("not_sent")) => Ok(Fate::NotSent(code)),
        (-31006..=-31001, Some("unknown")) => Ok(Fate::Unknown(code)),
        _ => Err("an error that says too little"),
    }
}

/// Every text between `start` and the next `end`. Killed processes may leave half lines, so this does not read line by line.
fn behind<'t>(text: &'t str, start: &'t str, end: char) -> impl Iterator<Item = &'t str> {
    text.split(start).skip(1).filter_map(move |rest| Some(rest.split_once(end)?.0))
}

fn word(fate: Fate, receivers: bool) -> String {
    match fate {
        Fate::Waiting => "lost".to_owned(),
        Fate::Answered(_) => "answered".to_owned(),
        Fate::NotSent(code) => format!("{code} not sent"),
        Fate::Unknown(code) if receivers => format!("{code} unknown, received"),
        Fate::Unknown(code) => format!("{code} unknown, not received"),
        Fate::Cancelled => "given up".to_owned(),
        Fate::Half => "half a line".to_owned(),
    }
}

/// The summary of a storm.
pub(crate) struct Account {
    calls: usize,
    ends: BTreeMap<String, usize>,
    complaints: Vec<String>,
    calm: Vec<Duration>,
}

impl Account {
    /// Fails unless every call ended exactly once at the right server, and enough calls succeeded.
    pub(crate) fn expect_all_well(&self) {
        let shown = self.complaints.iter().take(SHOWN).map(|complaint| format!("\n  {complaint}")).collect::<String>();
        assert!(self.complaints.is_empty(), "{} complaints of {} calls:{shown}", self.complaints.len(), self.calls);
        let answered = self.ends.get("answered").copied().unwrap_or_default();
        assert!(answered * 2 > self.calls, "a storm in which most calls fail shows little: {self}");
        let slowest = self.calm.last().copied().unwrap_or_default();
        assert!(slowest < Duration::from_secs(60), "a server to which nothing was done took {slowest:?}");
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls", self.calls)?;
        for (end, count) in &self.ends {
            write!(f, "; {count} {end}")?;
        }
        let at = |share: f64| self.calm.get((self.calm.len() as f64 * share) as usize).copied().unwrap_or_default();
        let last = self.calm.last().copied().unwrap_or_default();
        write!(f, "\nchaos: the calm server answered in {:?} (p50), {:?} (p99), {last:?} at most", at(0.5), at(0.99))
    }
}
