//! Latency of the owner's calls while many connections of other agents want the daemon's time.
//!
//! The flood comes from a guest of a profile, and the measured agent uses the default profile of the same daemon. Its
//! calls during the flood are compared with its calls at rest. The flood itself takes time of the client's core, so a ratio above 1 does
//! not all come from mcpd. A third measurement shows what a flood costs that nothing slows down: it connects to a sink beside mcpd, on the
//! core of mcpd, which accepts, reads and closes without a pause.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use tokio::sync::Semaphore;

use crate::connection::{Connection, Era, Request};
use crate::cores;
use crate::faults::await_answer;
use crate::middle::{Middle, pause};
use crate::stats::quantile;
use crate::table::{Marker, Table};

/// The active tools of the echo server.
const TOOLS: usize = 6;

/// What the connections of a flood do.
#[derive(Clone, Copy)]
enum Flood {
    /// Far more connections than the profile may have.
    Connects,
    /// Many connections send lines that never end, and are closed.
    SendsHalfLines,
    /// Connections are refused without pause.
    IsRefused,
}

/// Connections of a flood.
const CONNECTIONS: usize = 4096;
const HALF_LINES: usize = 100;
/// The size of a half line, in bytes. Together they exceed the quota.
const HALF_LINE: usize = 2 << 20;
/// The user whose agents flood mcpd, with the quotas of a guest.
const GUEST: u32 = 54_321;
const GUEST_CONNECTIONS: usize = 64;

/// Few, since a flood that has to wait takes seconds.
const ROUNDS: usize = 5;
/// The least time of one measurement, in which a flood makes its effect felt.
const MIN_TIME: Duration = Duration::from_millis(500);

const FLOODS: [(&str, Flood); 3] = [
    ("4096 connections", Flood::Connects),
    ("100 incomplete lines", Flood::SendsHalfLines),
    ("continuous refused connections", Flood::IsRefused),
];

/// The hidden argument that makes this program the sink; the socket's path follows it.
pub(crate) const SINK_MODE: &str = "sink";

pub(crate) fn measure() -> io::Result<Table> {
    let mut table = Table::new(["at rest", "flood at a sink", "flood at mcpd"], 0);
    for (what, flood) in FLOODS {
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            for (all, one) in times.iter_mut().zip(during(flood)?) {
                all.push(one);
            }
        }
        for (rank, at, marker) in [("p50", 0.5, Marker::None), ("p99", 0.99, Marker::RatioAtMost(2.0))] {
            let rounds = times.each_ref().map(|all| all.iter().map(|one| quantile(one.iter().copied(), at)).collect());
            table.compare(&format!("small call beside {what}, {rank}"), "µs", &rounds, marker);
        }
    }
    Ok(table)
}

/// Times of an agent's small calls, in µs: at rest, during a flood at a sink, and during a flood at mcpd.
fn during(flood: Flood) -> io::Result<[Vec<f64>; 3]> {
    let command = std::env::current_exe()?;
    let (command, mode) = (command.display(), Era::Legacy.mode());
    let config = format!(
        "[profiles.flood]\nallow_uids = [{GUEST}]\n[servers.echo]\ncommand = '{command}'\nargs = ['{mode}', '{TOOLS}']\n"
    );
    let mut middle = Middle::mcpd_with(&config, cores::MIDDLE)?;
    let mut sink = Middle::sink(cores::MIDDLE)?;
    drop(sink.connect_when_listening()?);
    let mut agent = middle.connect()?;
    let request = Request::call("echo__echo", "hello");
    await_answer(&mut agent, &request)?;
    let at_rest = calls(&mut agent, &request, || true)?;
    let targets = [(sink.socket().to_owned(), None), (middle.profile_socket("flood"), Some(GUEST))];
    let [at_sink, at_mcpd] = targets.map(|(socket, uid)| {
        let (stop, is_complete) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let flood = scope.spawn(|| send_flood(flood, &socket, uid, &stop, &is_complete));
            let times = calls(&mut agent, &request, || is_complete.load(Ordering::Relaxed) || flood.is_finished());
            stop.store(true, Ordering::Relaxed);
            flood.join().map_err(|_| io::Error::other("the flood's thread panicked"))??;
            times
        })
    });
    let times = [at_rest, at_sink?, at_mcpd?];
    middle.stop()?;
    Ok(times)
}

/// Makes calls for at least [`MIN_TIME`], until `is_over`.
fn calls(agent: &mut Connection, request: &Request, is_over: impl Fn() -> bool) -> io::Result<Vec<f64>> {
    let (mut times, start) = (Vec::new(), Instant::now());
    while start.elapsed() < MIN_TIME || !is_over() {
        times.push(agent.call(request)?.as_secs_f64() * 1e6);
    }
    Ok(times)
}

/// Connects a flood until `stop`, as the user `uid`. `is_complete`: each of its connections was made once.
fn send_flood(
    flood: Flood,
    socket: &Path,
    uid: Option<u32>,
    stop: &AtomicBool,
    is_complete: &AtomicBool,
) -> io::Result<()> {
    // Only root may enter the directory of the socket.
    let opened = rustix::fs::open(socket, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let socket = PathBuf::from(format!("/proc/thread-self/fd/{}", opened.as_raw_fd()));
    if let Some(uid) = uid.map(Uid::from_raw) {
        set_thread_res_uid(uid, uid, uid)?;
    }
    let is_over = || stop.load(Ordering::Relaxed);
    let mut connected = Vec::new();
    match flood {
        Flood::Connects => {
            for _ in 0..CONNECTIONS {
                let connection = UnixStream::connect(&socket)?;
                // The others are refused.
                if connected.len() < GUEST_CONNECTIONS {
                    connected.push(connection);
                }
            }
            is_complete.store(true, Ordering::Relaxed);
            while !is_over() {
                pause();
            }
        }
        Flood::SendsHalfLines => {
            let half = vec![b'x'; HALF_LINE];
            while !is_over() {
                connected.clear();
                for _ in 0..HALF_LINES {
                    let mut connection = UnixStream::connect(&socket)?;
                    // It may be refused or closed.
                    drop(connection.write_all(&half));
                    connected.push(connection);
                }
                is_complete.store(true, Ordering::Relaxed);
            }
        }
        Flood::IsRefused => {
            for _ in 0..GUEST_CONNECTIONS {
                connected.push(UnixStream::connect(&socket)?);
            }
            is_complete.store(true, Ordering::Relaxed);
            while !is_over() {
                drop(UnixStream::connect(&socket)?);
            }
        }
    }
    Ok(())
}

/// Accepts connections and discards what they send, until it is killed. Closes those beyond the flood's quota at once.
pub(crate) fn sink(socket: &str) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::UnixListener::bind(socket)?;
        let connected = Arc::new(Semaphore::new(GUEST_CONNECTIONS));
        loop {
            let (mut connection, _) = listener.accept().await?;
            if let Ok(permit) = Arc::clone(&connected).try_acquire_owned() {
                tokio::spawn(async move {
                    let _permit = permit;
                    tokio::io::copy(&mut connection, &mut tokio::io::sink()).await
                });
            }
        }
    })
}
