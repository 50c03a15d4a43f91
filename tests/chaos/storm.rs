//! The storm: twenty agents, eight servers, and faults of both.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;
use serde_json::json;
use tokio::task::LocalSet;

use crate::agent::{Crew, live};
use crate::faults::Faults;
use crate::ledger::Ledger;
use crate::servers::{CALM, Servers};
use crate::support::{Agent, Daemon, MCPD, Place, Process, WAIT_LIMIT, arguments, signal, until};
use crate::usage::{StatusWatch, Usage, resident_mib};
use crate::{Seed, print_line};

const AGENTS: usize = 20;
/// A run without faults before the storm. After it the daemon has allocated what it needs for so many agents.
const WARMING: Duration = Duration::from_secs(1);
/// Memory that the allocator may retain after a storm, in MiB and in largest messages. It returns memory at the end
/// of the heap only beyond twice the largest mapped buffer, which is up to twice a message.
const ALLOWED_MIB: f64 = 16.0;
const ALLOWED_MESSAGES: f64 = 8.0;

pub(crate) fn run(seed: u64, time: Duration) {
    print_line(&format!("storm of {time:?}: CHAOS_SEED={seed}"));
    let _seed = Seed(seed);
    let mut rng = Rng::with_seed(seed);
    let place = Place::new();
    let mut servers = Servers::new(&place, &mut rng);
    let mut daemon = servers.start();
    let warming = crew(&daemon, &servers, Instant::now() + WARMING, true, Ledger::default());
    let ledger = lives(warming, &mut rng, async {});
    expect_ready(&daemon);
    let (before, memory_before) = (Usage::by(&mut daemon), resident_mib(&daemon));
    print_line(&format!(
        "before: {before}, {memory_before:.1} MiB; messages of at most {} KiB",
        servers.max_message >> 10
    ));

    let mut status = place.command(MCPD);
    status.args(["status", "--json", "--runtime-dir"]).arg(place.runtime_dir());
    let status = StatusWatch::start(status);
    let ledger = storm(&mut daemon, &mut servers, &mut rng, time, ledger);
    let latencies = status.stop();
    reconnect(&daemon);
    expect_ready(&daemon);
    let mut last = Agent::ready(&daemon);
    for server in Servers::names() {
        arguments(&last.call(&format!("{server}__echo"), &json!({"last": true})));
    }
    drop(last);
    let calm = daemon.row(CALM);
    assert_eq!(calm["restarts"], 0, "nothing was done to it: {calm}");
    let after = expect_as(&before, &mut daemon);
    let memory = resident_mib(&daemon);
    print_line(&format!("after: {after}, {memory:.1} MiB; {latencies}"));
    let account = ledger.close(&place);
    print_line(&format!("{account}"));
    // `kill -9` is the hardest way to stop the daemon.
    daemon.kill9();
    daemon.expect_no_family(WAIT_LIMIT);
    account.expect_all_well();
    latencies.expect_answers();
    let allowed = ALLOWED_MIB + ALLOWED_MESSAGES * servers.max_message as f64 / f64::from(1 << 20);
    assert!(
        memory < memory_before + allowed,
        "{memory_before:.1} MiB have become {memory:.1}: allowed are {allowed} more"
    );
}

fn storm(daemon: &mut Daemon, servers: &mut Servers, rng: &mut Rng, time: Duration, ledger: Ledger) -> Ledger {
    let spared = vec![daemon.server_pid(CALM), daemon.guard_pid(CALM)];
    let until = Instant::now() + time;
    let crew = crew(daemon, servers, until, false, ledger);
    let mut faults = Faults { daemon, servers, rng: rng.fork(), spared, stopped: Vec::new(), tally: BTreeMap::new() };
    let ledger = lives(crew, rng, faults.run_until(until));
    print_line(&format!("faults: {:?}", faults.tally));
    ledger
}

fn crew(daemon: &Daemon, servers: &Servers, until: Instant, no_faults: bool, ledger: Ledger) -> Rc<Crew> {
    let (socket, max_message, ledger) = (daemon.agent_socket(), servers.max_message, RefCell::new(ledger));
    Rc::new(Crew { socket, ledger, max_message, no_faults, until })
}

/// Runs the agents, and `beside` at the same time.
fn lives(crew: Rc<Crew>, rng: &mut Rng, beside: impl Future<Output = ()>) -> Ledger {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let set = LocalSet::new();
    let lives: Vec<_> = (0..AGENTS).map(|number| set.spawn_local(live(Rc::clone(&crew), number, rng.fork()))).collect();
    runtime.block_on(set.run_until(async {
        beside.await;
        for life in lives {
            life.await.expect("an agent does not panic");
        }
    }));
    drop(set);
    Rc::into_inner(crew).expect("no agent lives").ledger.into_inner()
}

/// Restarts all servers: one may have lost a child process, or hang until it is killed. A server that exited
/// often would otherwise wait half a minute for its restart.
fn reconnect(daemon: &Daemon) {
    let status = daemon.status();
    for server in status["servers"].as_array().expect("servers").iter().filter(|server| server["name"] != CALM) {
        if let Some(pid) = server["pid"].as_u64().and_then(|pid| pid.try_into().ok()) {
            signal(pid, Signal::KILL);
            until("a killed server is gone", || Process::find(pid).is_none().then_some(()));
        }
        daemon.client(&["restart", server["name"].as_str().expect("a name")]).expect_code(0);
    }
}

fn expect_ready(daemon: &Daemon) {
    daemon.wait_status("shows every server ready and nothing in flight", |status| {
        let names = status["servers"].as_array().expect("servers");
        names.len() == Servers::names().len()
            && names.iter().all(|server| server["state"] == "ready" && server["in_flight"] == 0)
            && status["agents"].as_array().is_some_and(Vec::is_empty)
    });
}

/// The daemon's usage once it equals `before`.
fn expect_as(before: &Usage, daemon: &mut Daemon) -> Usage {
    let start = Instant::now();
    loop {
        let now = Usage::by(daemon);
        if now.is_as(before) {
            return now;
        }
        assert!(start.elapsed() < WAIT_LIMIT, "not as before: {before:#?}\n{now:#?}");
        thread::park_timeout(Duration::from_millis(50));
    }
}
