//! A panic of the manager's task, which no black-box test can cause.

use super::*;
use crate::config::{self, interpolate::Process};
use crate::masking::KnownSecrets;
use crate::server::StopChannel;
use crate::tap::Tap;

#[tokio::test]
async fn panic_of_the_manager_ends_servers_removes_sockets_and_is_returned_as_an_error() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join("config.toml");
    // Neither speaks MCP nor leaves at the end of its input.
    std::fs::write(&file, "[servers.a]\ncommand = \"sleep\"\nargs = [\"600\"]\n").expect("its own directory");
    let config = config::load(&[file], &Process).expect("a good configuration").config;
    let host = ServerContext::new(GuardProgram::None);
    let directory = RuntimeDir::resolve(Some(place.path().join("run")), |_| None).expect("it was given");
    let mut lock = directory.lock().expect("nobody else's");
    let agents = AgentSockets::create(&config.profiles, &mut lock, PassedSockets::default()).expect("free");
    let operator_listener = lock.listen(ADMIN_SOCKET, SocketMode::Owner).expect("free");

    let setup = Setup { naming: config.daemon.naming, host, ..Setup::default() };
    let (manager, _) = Manager::spawn(setup, config.servers, config.profiles).expect("good names");
    let server = manager.view().borrow().servers[0].handle.clone();
    assert!(server.wait_for(|published| published.pid.is_some()).await, "the server runs");
    let pid = server.published().pid.expect("it runs");
    let calls = History::new(None);
    let (operators, requests) =
        Operators::new(operator_listener, manager.clone(), calls.clone(), Tap::default(), KnownSecrets::default());
    let (stopping, key) = (StopChannel::new(), TaskTokenKey::generate().expect("random numbers"));
    let lifecycle = Lifecycle::new(stopping, Duration::ZERO, ProgramFile::of_this_process().expect("its own file"));
    let daemon = Daemon {
        started: Instant::now(),
        first_list_wait: config.daemon.first_list_wait,
        manager: manager.clone(),
        profiles: manager.profiles(),
        agents: Some(agents),
        sessions: Sessions::new(config.daemon, calls, key, Arc::default(), &lifecycle, Tap::default()),
        operators,
        admission: Admission::default(),
        lifecycle,
        log: logging::Control::default(),
        config: ConfigState::new(Vec::new(), Vec::new()),
        idle_exit: IdleExit::new(DaemonLifetime::UntilStopped, watch::channel(None).1).expect("a timer"),
    };
    // Like a manager whose task panics: its servers are stopped, and no task takes orders any more.
    let panics = async move {
        manager.stop(StopLevel::Kill);
        panic!("a bug")
    };
    let mut upkeep = SocketUpkeep::new(lock).expect("a timer");
    let ended = daemon.serve(&mut upkeep, requests.queries, mpsc::channel(1).1, tokio::spawn(panics)).await;

    assert!(matches!(ended, Err(DaemonError::Panicked)), "{ended:?}");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "its server is left");
    let sockets_exist = [crate::sockets::AGENT_SOCKET, ADMIN_SOCKET].map(|name| directory.socket(name).exists());
    assert_eq!(sockets_exist, [false, false]);
}
