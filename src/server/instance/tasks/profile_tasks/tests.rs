//! Tables for the tasks of modern agents at a legacy server.

use std::time::Duration;

use super::*;
use crate::jsonrpc::test_support::bytes;
use crate::server::instance::tasks::modern_tasks::TTL_WITHOUT_REPORT;

fn state(id: &str, ended: bool, ttl: Option<u64>) -> TaskState {
    let raw_id = bytes(&format!("\"{id}\""));
    TaskState { id: bytes(id), raw_id, ended, ttl: ttl.map(Duration::from_secs), object: None }
}

fn task(number: u64, state: &TaskState) -> ProfileTask {
    let key = CallKey { session: 1, serial: number };
    ProfileTask::new(state, number, key, Arc::from("p"), ClientCapabilities::default(), None)
}

fn add(tasks: &mut ProfileTasks, number: u64, ended: bool) -> bool {
    let state = state(&format!("t{number}"), ended, None);
    tasks.add(state.id.clone(), task(number, &state))
}

#[test]
fn task_belongs_to_one_profile() {
    let mut tasks = ProfileTasks::default();
    assert!(add(&mut tasks, 1, false));
    assert!(tasks.of("p", b"t1").is_some());
    assert!(tasks.of("q", b"t1").is_none() && tasks.of("p", b"t2").is_none());
    assert_eq!(tasks.created_by(CallKey { session: 1, serial: 1 }), Some(bytes("t1")));
    assert_eq!(tasks.created_by(CallKey { session: 2, serial: 1 }), None);
}

#[test]
fn open_task_keeps_its_id_and_ended_task_is_replaced() {
    let mut tasks = ProfileTasks::default();
    assert!(add(&mut tasks, 1, false) && !add(&mut tasks, 1, false));
    tasks.end(b"t1");
    assert!(add(&mut tasks, 1, false));
    for number in 2..=MAX_TASKS as u64 {
        assert!(tasks.have_capacity(0) && add(&mut tasks, number, number == 7));
    }
    assert!(tasks.have_capacity(0) && !tasks.have_capacity(1));
    assert!(add(&mut tasks, 5000, false), "one had ended");
    assert!(tasks.find(b"t7").is_none() && tasks.find(b"t5000").is_some());
    assert!(!tasks.have_capacity(0) && !add(&mut tasks, 5001, false));
}

#[test]
fn task_ends_by_its_time_to_live_or_after_a_long_silence() {
    let now = Instant::now();
    let slack = Duration::from_secs(1);
    for (ttl, expected) in
        [(None, TTL_WITHOUT_REPORT), (Some(60), Duration::from_secs(60)), (Some(1 << 40), TTL_WITHOUT_REPORT)]
    {
        let mut tasks = ProfileTasks::default();
        let state = state("t", false, ttl);
        assert!(tasks.add(state.id.clone(), task(1, &state)));
        tasks.find(b"t").expect("it was added").add_input(&bytes("7"), &bytes("m"), None);
        let end = tasks.next_end().expect("it is open");
        assert!(end <= now + expected + slack && end + slack >= now + expected, "{ttl:?}");
        assert_eq!(tasks.expire(now), Vec::<Bytes>::new());
        assert_eq!(tasks.expire(end), [bytes("7")]);
        assert!(!tasks.has_open(b"t") && tasks.find(b"t").is_some());
        let reopened = tasks.find(b"t").expect("known").note(&state, now, None);
        assert!(reopened.is_some() && tasks.has_open(b"t"), "it goes on after all");
    }
}

#[test]
fn request_is_answered_once_and_its_key_is_not_used_again() {
    let mut tasks = ProfileTasks::default();
    add(&mut tasks, 1, false);
    let task = tasks.find(b"t1").expect("it was added");
    assert_eq!(task.inputs(), None);
    task.add_input(&bytes("7"), &bytes("roots/list"), None);
    task.add_input(&bytes("\"x\""), &bytes("m"), Some(b"{\"n\":1.0}"));
    let requests = r#"{"1":{"method":"roots/list"},"2":{"method":"m","params":{"n":1.0}}}"#;
    assert_eq!(task.inputs(), Some(bytes(requests)));
    let answers = [(bytes("2"), bytes("{\"a\":1.0}")), (bytes("9"), bytes("{}")), (bytes("2"), bytes("{}"))];
    let expected = bytes("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"a\":1.0}}\n");
    assert_eq!(task.take_answered(&answers), [(bytes("\"x\""), expected)]);
    assert_eq!(task.take_answered(&answers), []);
    task.add_input(&bytes("8"), &bytes("m"), None);
    assert_eq!(task.inputs(), Some(bytes(r#"{"1":{"method":"roots/list"},"3":{"method":"m"}}"#)));
    assert!(tasks.has_request(&bytes("8")));
    tasks.withdraw(&bytes("8"));
    assert!(!tasks.has_request(&bytes("8")));
    assert_eq!(tasks.forget(b"t1"), [bytes("7")]);
    assert!(tasks.find(b"t1").is_none());
}
