//! Servers that fork without pause, while the processes above them are killed in every order.
//!
//! A look at `/proc` misses most processes of a chain, since each is there for some milliseconds. So each process of a storm has a named pipe
//! open: a read finds its end when none is left.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::Signal;

use crate::print_line;
use crate::support::{Place, Process, SCRIPTED, Server, Setup, poll, quoted, signal, system_has_namespaces, until};

/// Time limit for every process to end.
const LIMIT: Duration = Duration::from_secs(60);
/// The time that is promised. A run that takes longer is counted, and fails at [`LIMIT`].
const PROMISED: Duration = Duration::from_secs(10);
/// Time after which a storm ends by itself, in seconds. Much longer than a run, so that no storm seems to have been killed.
const STORM: u64 = 150;

/// A chain: each process forks the next one and exits. Its arguments: number of programs to execute, and uptime at which it ends. Each
/// program forks eight times without another.
const CHAIN: &str = r#"
trap '' HUP INT TERM
read up rest < /proc/uptime
[ "$1" -gt 0 ] && [ "${up%.*}" -lt "$2" ] || exit
next() {
    if [ "$1" = 0 ]; then
        [ $(($2 % 7)) = 0 ] && exec setsid sh "$0" "$2" "$3"
        exec sh "$0" "$2" "$3"
    fi
    next $(($1 - 1)) "$2" "$3" &
}
next 8 $(($1 - 1)) "$2"
"#;
/// Programs that a chain executes at most.
const PROGRAMS: u32 = 30_000;
const CHAINS: &str = "1 2 3 4";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Guard,
    Reaper,
    Daemon,
}

use Part::{Daemon, Guard, Reaper};

/// What is killed, at once and in this order. A daemon that is not killed gets SIGTERM then.
const ORDERS: [&[Part]; 16] = [
    &[],
    &[Guard],
    &[Reaper],
    &[Guard, Reaper],
    &[Reaper, Guard],
    &[Daemon],
    &[Guard, Daemon],
    &[Daemon, Guard],
    &[Reaper, Daemon],
    &[Daemon, Reaper],
    &[Guard, Reaper, Daemon],
    &[Guard, Daemon, Reaper],
    &[Reaper, Guard, Daemon],
    &[Reaper, Daemon, Guard],
    &[Daemon, Guard, Reaper],
    &[Daemon, Reaper, Guard],
];

#[derive(Clone, Copy)]
struct Case {
    has_namespaces: bool,
    order: &'static [Part],
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fence = if self.has_namespaces { "with namespaces" } else { "without a sandbox" };
        write!(f, "{fence}, killed {:?}", self.order)
    }
}

/// What was observed of one run.
struct Run {
    case: usize,
    /// From the last kill until nothing was left.
    took: Duration,
    /// Processes of the machine that could run at the time of the kills.
    runnable: u32,
}

/// How much is run.
pub(crate) struct Size {
    /// Storms for each order of kills.
    pub(crate) storms: u64,
    /// Storms below one daemon. All of their guards are killed.
    pub(crate) below_daemon: u64,
    /// Daemons at once.
    pub(crate) at_once: u64,
    /// Only storms in namespaces.
    pub(crate) only_fenced: bool,
}

pub(crate) fn run(&Size { storms, below_daemon, at_once, only_fenced }: &Size) {
    let case = |has_namespaces| ORDERS.map(|order| Case { has_namespaces, order });
    // Without namespaces, one of the three has to be alive.
    let mut cases: Vec<_> = case(false).into_iter().filter(|case| case.order.len() < 3 && !only_fenced).collect();
    if system_has_namespaces() {
        cases.extend(case(true));
    }
    let daemons = storms.div_ceil(below_daemon);
    let jobs = cases.len() * usize::try_from(daemons).expect("a small number");
    print_line(&format!(
        "for each of {} orders of kills: {daemons} daemons with {below_daemon} storms of forks, {at_once} at once",
        cases.len()
    ));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return done;
            }
            let (took, runnable) = end_storms(cases[job % cases.len()], below_daemon);
            done.push(Run { case: job % cases.len(), took, runnable });
        }
    };
    let all: Vec<Run> = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no run has failed")).collect()
    });
    for (number, case) in cases.iter().enumerate() {
        let of_case = || all.iter().filter(|run| run.case == number);
        let slowest = of_case().map(|run| run.took).max().unwrap_or_default();
        let late = of_case().filter(|run| run.took > PROMISED).count();
        let runs = of_case().count();
        print_line(&format!(
            "{case}: {runs} daemons, nothing left after {slowest:?} at most; {late} over {PROMISED:?}"
        ));
    }
    let runnable: Vec<_> = all.iter().map(|run| run.runnable).collect();
    let mean = runnable.iter().sum::<u32>() / u32::try_from(runnable.len()).expect("not so many");
    print_line(&format!("{mean} processes could run at the time of a kill, {:?} at most", runnable.iter().max()));
}

/// Runs storms below one daemon, kills what the case says, and waits until nothing is left.
fn end_storms(case: Case, storms: u64) -> (Duration, u32) {
    let place = Place::new();
    let chain = place.write("chain", CHAIN);
    let pipe = StormPipe::new(&place);
    let end = uptime() + STORM;
    let script = format!(
        "exec 3>{}; for chain in {CHAINS}; do sh {} {PROGRAMS} {end} </dev/null >/dev/null 2>&1 & done; exec {SCRIPTED}",
        pipe.path.display(),
        chain.display()
    );
    let sandbox = if case.has_namespaces {
        let read = [&chain, Path::new(SCRIPTED).parent().expect("a directory")].map(quoted).join(", ");
        let write = quoted(&pipe.path);
        format!("{{ level = \"files\", namespaces = \"require\", write = [{write}], read = [{read}] }}")
    } else {
        "\"none\"".to_owned()
    };
    let names: Vec<_> = (0..storms).map(|number| format!("storm{number}")).collect();
    let add = |setup: Setup, name: &String| {
        setup.server(Server::run_by(name, "sh").arg("-c").arg(&script).line(format!("sandbox = {sandbox}")))
    };
    let mut daemon = names.iter().fold(Setup::new(), add).start_in(&place);
    until("the storm runs", || pipe.has_processes().then_some(()));
    let guards: Vec<_> = names.iter().map(|name| daemon.guard_pid(name)).collect();
    let family = daemon.family();
    let reaper = family.iter().find(|process| process.command.starts_with("mcpd-reaper")).expect("a reaper").pid;
    let runnable = runnable();
    for part in case.order {
        match part {
            Guard => guards.iter().for_each(|guard| signal(*guard, Signal::KILL)),
            Reaper => signal(reaper, Signal::KILL),
            Daemon => signal(daemon.pid(), Signal::KILL),
        }
    }
    let killed = Instant::now();
    let supervisors: Vec<_> = family.into_iter().filter(|process| process.command.starts_with("mcpd-")).collect();
    let is_left = || pipe.has_processes() || supervisors.iter().any(Process::is_alive);
    if case.order.contains(&Daemon) {
        daemon.wait_exit();
    } else {
        signal(daemon.pid(), Signal::TERM);
        let status = daemon.wait_exit();
        assert!(status.success(), "{case}: {status}\n{}", daemon.log());
        assert!(!is_left(), "{case}: the daemon has exited before {:#?}", place.processes(None));
    }
    let ended = poll(LIMIT, || (!is_left()).then_some(()));
    let took = killed.elapsed();
    assert!(ended.is_some(), "{case}: {took:?} later there is {:#?}", place.processes(None));
    (took, runnable)
}

/// A named pipe that all processes of a storm have open.
struct StormPipe {
    path: PathBuf,
    reading: File,
}

impl StormPipe {
    fn new(place: &Place) -> Self {
        let path = place.path("storm.pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a fresh name");
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let reading = File::options().read(true).custom_flags(nonblocking).open(&path).expect("the test's own");
        Self { path, reading }
    }

    /// Nobody writes to the pipe, so a read either would wait, or finds its end.
    fn has_processes(&self) -> bool {
        rustix::io::read(&self.reading, &mut [0]) != Ok(0)
    }
}

/// Seconds since the start of the system.
fn uptime() -> u64 {
    let text = fs::read_to_string("/proc/uptime").expect("/proc is mounted");
    text.split_once('.').and_then(|(seconds, _)| seconds.parse().ok()).expect("a number")
}

/// Processes of the machine that can run now (proc_loadavg(5)).
fn runnable() -> u32 {
    let text = fs::read_to_string("/proc/loadavg").expect("/proc is mounted");
    text.split_whitespace().nth(3).and_then(|field| field.split_once('/')?.0.parse().ok()).expect("a number")
}
