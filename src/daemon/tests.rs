//! What no black box can provoke: a bug of the daemon's own.

use super::*;
use crate::config::{self, CallHistory, interpolate::Process};

#[tokio::test]
async fn a_daemon_whose_manager_panics_ends_its_servers_removes_its_sockets_and_does_not_say_that_all_is_well() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join("config.toml");
    // Neither speaks MCP nor leaves at the end of its input.
    std::fs::write(&file, "[servers.a]\ncommand = \"sleep\"\nargs = [\"600\"]\n").expect("its own directory");
    let config = config::load(&[file], &Process).expect("a good configuration").config;
    let host = ServerContext::new(Guard::None);
    let directory = RuntimeDir::resolve(Some(place.path().join("run")), |_| None).expect("it was given");
    let mut lock = directory.lock().expect("nobody else's");
    let agents = AgentSockets::create(&config.profiles, &mut lock, Activated::default()).expect("free");
    let sockets = (agents, lock.listen(ADMIN_SOCKET, Reach::Owner).expect("free"));

    let limits = config.daemon.clone();
    let setup = Setup { naming: config.daemon.naming, host, strays: None, ..Setup::default() };
    let (manager, _) = Manager::spawn(setup, config.servers, config.profiles).expect("good names");
    let server = manager.view().borrow().servers[0].handle.clone();
    assert!(server.wait_for(|published| published.pid.is_some()).await, "the server runs");
    let pid = server.published().pid.expect("it runs");
    let (calls, reader, _keeping) = calls::start(CallHistory::default()).expect("a timer");
    let logs = Logs { calls, reader, log: logging::Control::default() };
    let (refused, stamps) = (watch::Sender::new(None).subscribe(), watch::Sender::new(Vec::new()).subscribe());
    let limits = (limits, TaskTokenKey::generate().expect("random numbers"));
    let (daemon, asked) =
        Daemon::new(sockets, manager.clone(), limits, logs, ((refused, stamps), StopOrder::channel()));
    // What the panic of its task does: nobody is left to obey.
    let panics = async move {
        manager.stop(Stop::Kill);
        panic!("a bug")
    };
    let mut presence = Presence::new(lock).expect("a timer");
    let ended = daemon.serve(&mut presence, (asked.queries, mpsc::channel(1).1), tokio::spawn(panics)).await;

    assert!(matches!(ended, Err(DaemonError::Panicked)), "{ended:?}");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "its server is left");
    let left = [crate::sockets::AGENT_SOCKET, ADMIN_SOCKET].map(|name| directory.socket(name).exists());
    assert_eq!(left, [false, false]);
}
