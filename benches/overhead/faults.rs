//! Cost of one peer's fault for others, and time to recovery.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Effort;
use crate::connection::{Connection, Request};
use crate::cores;
use crate::echo::STREAMED;
use crate::middle::{Middle, pause};
use crate::procfs;
use crate::sides::await_tools;
use crate::stats::{median, quantile};
use crate::table::{Marker, Table};

/// The active tools of the echo server.
const TOOLS: usize = 6;
/// Two servers: one for the measured calls, one with the fault.
const SERVERS: usize = 2;
/// Calls in flight when the server dies.
const PENDING: usize = 50;

/// Activity of another agent at another server during the measured calls.
#[derive(Clone, Copy)]
enum Other {
    Rests,
    /// Calls a tool that misbehaves.
    Calls(&'static str),
    /// Sends the largest messages, one after another.
    Streams,
    /// Sends messages with a value in every second byte, without waiting for the answers.
    StreamsDense,
    /// Two agents send a message that never ends, each byte by a system call of its own.
    SendSingleBytes,
    /// An operator of mcpd reads its metrics again and again.
    ReadsMetrics,
}

/// The size of a dense message, in bytes.
const DENSE: usize = 19 * (1 << 20) / 10;

const FAULTS: [(&str, Other, f64, Marker); 8] = [
    ("nothing, p99", Other::Rests, 0.99, Marker::None),
    ("a server that floods, p99", Other::Calls("flood"), 0.99, Marker::RatioAtMost(1.5)),
    ("a server that reads no more, p99", Other::Calls("hang"), 0.99, Marker::RatioAtMost(1.5)),
    ("messages of 16 MiB, p99", Other::Streams, 0.99, Marker::AtMost(5000.0)),
    ("nothing, p50", Other::Rests, 0.5, Marker::None),
    ("dense messages of 1.9 MiB, p50", Other::StreamsDense, 0.5, Marker::RatioAtMost(2.0)),
    ("two agents that send single bytes, p50", Other::SendSingleBytes, 0.5, Marker::RatioAtMost(2.0)),
    ("metrics that are read without pause, p50", Other::ReadsMetrics, 0.5, Marker::RatioAtMost(2.0)),
];

pub(crate) fn measure(effort: &Effort, table: &mut Table) -> io::Result<()> {
    for (what, other, at, marker) in FAULTS {
        let mut rounds = [const { Vec::new() }; 3];
        for _ in 0..effort.lives {
            rounds[1].push(quantile(beside(other, Middle::relay(TOOLS, cores::MIDDLE)?, ["", ""], effort)?, at));
            let mcpd = Middle::mcpd(SERVERS, TOOLS, cores::MIDDLE)?;
            rounds[2].push(quantile(beside(other, mcpd, ["echo__", "echo-1__"], effort)?, at));
        }
        table.compare(&format!("small call beside {what}"), "µs", &rounds, marker);
    }
    let mut deaths = Vec::new();
    let mut restarts = Vec::new();
    for _ in 0..effort.lives {
        deaths.push(unanswered()?);
        restarts.push(restart()?);
    }
    table.single("server's death to the answers of 50 calls", "ms", median(deaths), Marker::AtMost(100.0));
    table.single("server's death to its successor's first answer", "ms", median(restarts), Marker::AtMost(250.0));
    Ok(())
}

/// Time of one agent's small calls during the other's activity, in µs. Each agent uses another server.
fn beside(other: Other, mut middle: Middle, [own, others]: [&str; 2], effort: &Effort) -> io::Result<Vec<f64>> {
    let (mut agent, mut neighbour) = (middle.connect()?, middle.connect()?);
    let small = |prefix| Request::call(&format!("{prefix}echo"), "hello");
    await_answer(&mut agent, &small(own))?;
    await_answer(&mut neighbour, &small(others))?;
    let busy = match other {
        Other::Rests => thread::spawn(move || drop(neighbour)),
        Other::Calls(tool) => {
            neighbour.send(&Request::call(&format!("{others}{tool}"), "hello"))?;
            thread::spawn(move || while neighbour.read_line().is_ok() {})
        }
        Other::Streams => {
            let large = Request::call(&format!("{others}swallow"), &"x".repeat(STREAMED));
            thread::spawn(move || while neighbour.call(&large).is_ok() {})
        }
        Other::StreamsDense => {
            let ones = "1,".repeat(DENSE / 2);
            let params = format!(r#"{{"name":"{others}swallow","arguments":{{"ones":[{ones}1]}}}}"#);
            let (dense, mut answers) = (Request::new("tools/call", &params), neighbour.take_answers());
            thread::spawn(move || {
                let reading = thread::spawn(move || io::copy(&mut answers, &mut io::sink()));
                while neighbour.send(&dense).is_ok() {}
                drop(reading.join());
            })
        }
        Other::ReadsMetrics => {
            let admin = middle.admin_socket();
            thread::spawn(move || admin.into_iter().for_each(|admin| while read_metrics(&admin).is_ok() {}))
        }
        Other::SendSingleBytes => {
            let mut second = middle.connect()?;
            let write = |agent: &mut Connection| while agent.write_raw(b"x").is_ok() {};
            thread::spawn(move || {
                let other = thread::spawn(move || write(&mut second));
                write(&mut neighbour);
                drop(other.join());
            })
        }
    };
    let request = small(own);
    let times: Vec<_> = (0..effort.calls).map(|_| agent.call(&request)).collect::<io::Result<_>>()?;
    drop((agent, middle));
    busy.join().map_err(|_| io::Error::other("the other agent's thread panicked"))?;
    Ok(times.iter().map(|time| time.as_secs_f64() * 1e6).collect())
}

/// Reads all metrics once.
fn read_metrics(admin: &Path) -> io::Result<()> {
    let mut stream = BufReader::new(UnixStream::connect(admin)?);
    let version = env!("CARGO_PKG_VERSION");
    let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"metrics","params":{{"version":"{version}"}}}}"#);
    stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
    for line in stream.lines() {
        if line?.contains(r#""result":"#) {
            return Ok(());
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// Time from the death of a server to the last response to its calls.
fn unanswered() -> io::Result<f64> {
    let mut daemon = Middle::mcpd(1, TOOLS, cores::MIDDLE)?;
    let mut agent = daemon.connect()?;
    await_tools(&mut agent, 1)?;
    for _ in 0..PENDING {
        agent.send(&Request::call("echo__hang", "hello"))?;
    }
    // The daemon reads messages in order, so it has read the calls by now.
    daemon.connect()?.call(&Request::new("ping", "{}"))?;
    let start = kill_server(&daemon)?;
    for _ in 0..PENDING {
        agent.read_line()?;
    }
    let duration = start.elapsed();
    daemon.stop()?;
    Ok(duration.as_secs_f64() * 1e3)
}

/// Time from the death of a server to the first response of the next instance.
fn restart() -> io::Result<f64> {
    let mut daemon = Middle::mcpd(1, TOOLS, cores::MIDDLE)?;
    let mut agent = daemon.connect()?;
    await_tools(&mut agent, 1)?;
    let start = kill_server(&daemon)?;
    await_answer(&mut agent, &Request::call("echo__echo", "hello"))?;
    let duration = start.elapsed();
    daemon.stop()?;
    Ok(duration.as_secs_f64() * 1e3)
}

/// Repeats the request until it gets a result.
pub(crate) fn await_answer(agent: &mut Connection, request: &Request) -> io::Result<()> {
    let start = Instant::now();
    while !agent.succeeds(request)? {
        if start.elapsed() > Duration::from_secs(20) {
            return Err(io::Error::other("a server does not answer"));
        }
        pause();
    }
    Ok(())
}

/// Kills the daemon's only server and returns the time.
fn kill_server(daemon: &Middle) -> io::Result<Instant> {
    let servers = procfs::descendants(daemon.pid())?;
    let server = servers.into_iter().find(|&pid| procfs::name(pid).is_ok_and(|name| !name.starts_with("mcpd-")));
    let server = server.and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let start = Instant::now();
    kill_process(server.ok_or_else(|| io::Error::other("there is no server"))?, Signal::KILL)?;
    Ok(start)
}
