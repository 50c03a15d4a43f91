//! The real binary, started, asked and stopped.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use super::config::Setup;
use super::output::print_line;
use super::place::{Place, SCRIPTED};
use super::processes::{Process, signal};
use super::run::{Ran, wait_exit};
use super::wait::{WAIT_LIMIT, poll, until};

/// A running daemon. Dropping it stops it and fails the test if it left a process, a socket or a panic behind.
pub(crate) struct Daemon {
    /// `None` once the test has seen it end.
    child: Option<Child>,
    pid: u32,
    /// Every process seen below it so far.
    family: Vec<Process>,
    place: Rc<Place>,
}

impl Daemon {
    pub(crate) fn spawn(place: Rc<Place>, setup: &Setup) -> Self {
        let mut command = setup.command(&place);
        let log = File::create(place.path("daemon.log")).expect("the test's own directory is writable");
        let stdout = log.try_clone().expect("a file descriptor");
        let child = command.stdin(Stdio::null()).stdout(stdout).stderr(log).spawn().expect("mcpd starts");
        Self { pid: child.id(), child: Some(child), family: Vec::new(), place }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn place(&self) -> &Rc<Place> {
        &self.place
    }

    pub(crate) fn agent_socket(&self) -> PathBuf {
        self.place.runtime_dir().join("mcp.sock")
    }

    /// The socket of a profile.
    pub(crate) fn profile_socket(&self, profile: &str) -> PathBuf {
        self.place.runtime_dir().join(format!("{profile}.sock"))
    }

    /// Its stdout and stderr.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.place.path("daemon.log")).unwrap_or_default()).into_owned()
    }

    /// Fails unless its servers were started in parallel: the total took less time than the sum of the single starts.
    #[track_caller]
    pub(crate) fn expect_side_by_side(&self) {
        let log = self.log();
        let times = |state: &str| -> BTreeMap<&str, f64> {
            let lines = log.lines().rev().filter_map(|line| line.split_once(&format!("Z  INFO {state} server=")));
            lines.map(|(time, server)| (server, seconds_of_day(time))).collect()
        };
        let (starts, ends) = (times("starting"), times("ready"));
        let took = |from: f64, to: f64| (to - from).rem_euclid(24.0 * 60.0 * 60.0);
        let added: f64 = starts.iter().map(|(server, start)| took(*start, ends[server])).sum();
        let first = starts.values().copied().reduce(f64::min).expect("servers");
        let together = ends.values().map(|end| took(first, *end)).fold(0.0, f64::max);
        assert!(together < added, "{together} s together, {added} s added up: {log}");
    }

    /// Runs `mcpd` as a client of this daemon.
    pub(crate) fn client(&self, args: &[&str]) -> Ran {
        self.place.client(args)
    }

    /// All processes below it, recorded for the check at the end.
    pub(crate) fn family(&mut self) -> Vec<Process> {
        let alive = self.place.processes(Some(self.pid));
        let alive: Vec<_> = alive.into_iter().filter(|process| process.pid != self.pid).collect();
        self.family.extend(alive.iter().filter(|process| !self.family.contains(process)).cloned().collect::<Vec<_>>());
        alive
    }

    pub(crate) fn signal(&mut self, signal_: Signal) {
        self.family();
        signal(self.pid, signal_);
    }

    /// Sends SIGTERM and waits for its end.
    pub(crate) fn term(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_exit()
    }

    /// Ends it with a signal. Fails unless it exits with 0 and leaves only its lock file.
    #[track_caller]
    pub(crate) fn stop_in_order(&mut self, signal: Signal) {
        self.signal(signal);
        let status = self.wait_exit();
        assert!(status.success(), "the daemon ended with {status}:\n{}", self.log());
        assert_eq!(self.runtime_files(), ["lock"], "only the lock file stays");
        self.expect_no_family(WAIT_LIMIT);
    }

    /// Kills it and waits for its end.
    pub(crate) fn kill9(&mut self) {
        self.signal(Signal::KILL);
        self.wait_exit();
    }

    pub(crate) fn wait_exit(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it has not been seen to end");
        wait_exit(&mut child)
    }

    /// Waits until every process below it has ended.
    #[track_caller]
    pub(crate) fn expect_no_family(&self, limit: Duration) {
        let left = || -> Vec<_> { self.family.iter().filter(|process| process.is_alive()).collect() };
        poll(limit, || left().is_empty().then_some(()));
        assert!(left().is_empty(), "processes outlive their daemon: {:#?}", left());
        self.place.expect_no_process(limit);
    }

    /// The contents of the runtime directory.
    pub(crate) fn runtime_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.place.runtime_dir()).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if thread::panicking() {
            if let Some(mut child) = self.child.take() {
                signal(self.pid, Signal::TERM);
                poll(Duration::from_secs(8), || child.try_wait().ok().flatten());
                let _ = child.kill().and_then(|()| child.wait());
            }
            print_line(&format!("--- the daemon's log\n{}---", self.log()));
            return;
        }
        if self.child.is_some() {
            self.stop_in_order(Signal::TERM);
        }
        assert!(!self.log().contains("panicked at"), "{}", self.log());
        self.expect_no_family(WAIT_LIMIT);
    }
}

/// Seconds of the day of a time such as `2026-11-23T13:36:41.925200`.
fn seconds_of_day(time: &str) -> f64 {
    let (_, time) = time.split_once('T').expect("a time");
    time.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().expect("a number"))
}

/// What an operator connection receives whose process ends before the daemon accepts it. `ended` runs in between, with its process id.
pub(crate) fn answer_to_ended_operator(daemon: &Daemon, ended: impl FnOnce(u32)) -> String {
    // Suspended, so that it accepts the connection only when the process that made it is gone.
    signal(daemon.pid(), Signal::STOP);
    let answered = daemon.place().path("answered");
    let mut operator = daemon.place().command(SCRIPTED);
    operator.arg("--hand-over").arg(daemon.place().runtime_dir().join("admin.sock"));
    let answer = File::create(&answered).expect("the test's own directory is writable");
    let operator = operator.stdin(Stdio::null()).stdout(answer).stderr(Stdio::null()).spawn();
    let mut operator = operator.expect("it starts");
    let handed_over = wait_exit(&mut operator).success();
    ended(operator.id());
    signal(daemon.pid(), Signal::CONT);
    assert!(handed_over);
    until("the connection is closed", || {
        let all = daemon.place().processes(None);
        (!all.iter().any(|process| process.command.starts_with("cat"))).then_some(())
    });
    fs::read_to_string(&answered).expect("text")
}
