//! Many concurrent agents behind `mcpd connect`.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use super::start;
use crate::support::{Agent, Daemon, Place, Server, Setup, Shim, until};

const AGENTS: usize = 50;
/// Calls of each that are unanswered at any time.
const WINDOW: usize = 4;

/// How a request may end while daemons come and go.
const ENDS: [(i64, &str); 2] = [(-31005, "unknown"), (-31004, "not_sent")];

/// Calls without pause until told to stop; reports each call that was done.
fn call_without_pause(mut agent: Agent, stop: &AtomicBool, done: &mpsc::Sender<Instant>) {
    while !stop.load(Ordering::Relaxed) {
        let mut unanswered: Vec<Value> = (0..WINDOW).map(|n| agent.start_call("a__echo", &json!({ "n": n }))).collect();
        while !unanswered.is_empty() {
            let answer = agent.next();
            let position = unanswered.iter().position(|id| *id == answer["id"]);
            unanswered.remove(position.unwrap_or_else(|| panic!("nothing that was asked, or asked twice: {answer}")));
            let error = &answer["error"];
            if error.is_null() {
                let _ = done.send(Instant::now());
            } else {
                let end = (error["code"].as_i64().expect("a code"), error["data"]["outcome"].as_str().unwrap_or(""));
                assert!(ENDS.contains(&end), "{answer}");
            }
        }
    }
}

/// Case E11.
#[test]
fn fifty_agents_that_call_without_pause_outlive_restarts_and_are_served_again_in_two_seconds() {
    let place = Place::new();
    let mut daemon = start(&place);
    let mut shims: Vec<_> = (0..AGENTS).map(|_| Shim::ready(&place)).collect();
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let agents: Vec<_> = shims
        .iter_mut()
        .map(|shim| {
            let (agent, stop, (done, news)) = (shim.take_agent(), Arc::clone(&stop), mpsc::channel());
            let thread = thread::spawn(move || call_without_pause(agent, &stop, &done));
            (thread, news)
        })
        .collect();
    let all_served_since = |since: Instant| {
        served.store(0, Ordering::Relaxed);
        until("every agent is served", || {
            for (_, news) in &agents[served.load(Ordering::Relaxed)..] {
                news.try_iter().find(|at| *at >= since)?;
                served.fetch_add(1, Ordering::Relaxed);
            }
            Some(())
        });
    };
    all_served_since(Instant::now());
    for stop in [|daemon: &mut Daemon| assert!(daemon.term().success()), Daemon::kill9] {
        stop(&mut daemon);
        drop(daemon);
        daemon = Setup::with(Server::named("a")).spawn_in(&place);
        until("the socket accepts", || UnixStream::connect(daemon.agent_socket()).ok());
        all_served_since(Instant::now());
    }
    stop.store(true, Ordering::Relaxed);
    for (thread, _) in agents {
        thread.join().expect("every request of every agent has ended once");
    }
    drop(shims);
}
