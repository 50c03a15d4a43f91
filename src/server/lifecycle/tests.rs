//! State transitions, as tables and properties.

use http::StatusCode;
use proptest::prelude::*;

use super::*;
use crate::backoff::RestartDelays;
use crate::server::error::ServerError;
use crate::server::health::UnansweredCounts;
use crate::server::start_error::{Exit, StartError};
use crate::transport::http::Disconnect;

const STEADY: Duration = Duration::from_secs(10);

fn lifecycle() -> Lifecycle {
    Lifecycle::new(Ok(()), Some(RestartDelays::default()), STEADY)
}

fn ended() -> Event {
    Event::Ended(exited())
}

fn exited() -> ServerError {
    ServerError::Exited(Exit { code: Some(1), ..Exit::default() })
}

fn busy(retry_after: Option<Duration>) -> ServerError {
    ServerError::Disconnected(Disconnect::Status {
        status: StatusCode::SERVICE_UNAVAILABLE,
        retry_after,
        message: None,
    })
}

fn ended_for(retry_after: Option<Duration>) -> Event {
    Event::Ended(if retry_after.is_some() { busy(retry_after) } else { exited() })
}

fn not_found() -> ServerError {
    ServerError::Start(StartError::CommandNotFound { command: "x".to_owned(), path: None })
}

fn token_refused() -> ServerError {
    ServerError::Disconnected(Disconnect::LoginNeeded { why: "the token was refused".to_owned() })
}

fn login_needed() -> Event {
    Event::Ended(token_refused())
}

fn ill() -> Event {
    Event::Unhealthy(ServerError::Unanswered(UnansweredCounts { pings: 3, calls: 0 }))
}

fn started() -> Event {
    Event::Start { startable: Ok(()) }
}

fn after(events: impl IntoIterator<Item = Event>) -> Lifecycle {
    let (mut lifecycle, now) = (lifecycle(), Instant::now());
    events.into_iter().for_each(|event| lifecycle.on(event, now, 0.0));
    lifecycle
}

fn delay(ends: u32, retry_after: Option<Duration>) -> Duration {
    let now = Instant::now();
    let mut lifecycle = lifecycle();
    for _ in 1..ends {
        lifecycle.on(ended(), now, 0.0);
        lifecycle.on(Event::Due, now, 0.0);
    }
    lifecycle.on(ended_for(retry_after), now, 0.0);
    let State::Backoff { until, .. } = lifecycle.state() else { panic!("{lifecycle:?}") };
    *until - now
}

#[test]
fn the_delay_doubles_to_its_cap() {
    let delays: Vec<_> =
        [1, 2, 3, 8, 9, 40, 400].map(|ends| delay(ends, None)).iter().map(Duration::as_millis).collect();
    assert_eq!(delays, [200, 400, 800, 25_600, 30_000, 30_000, 30_000]);
}

#[test]
fn the_longest_delay_is_randomized_too() {
    let delay = |random: f64| {
        let (now, mut lifecycle) = (Instant::now(), lifecycle());
        for _ in 0..40 {
            lifecycle.on(Event::Due, now, 0.0);
            lifecycle.on(ended(), now, random);
        }
        let State::Backoff { until, .. } = lifecycle.state() else { panic!("{lifecycle:?}") };
        (*until - now).as_millis()
    };
    assert_eq!([0.0, 0.5, 1.0].map(delay), [30_000, 22_500, 15_000]);
}

#[test]
fn retry_after_of_a_server_is_respected_up_to_a_limit() {
    for (ends, requested_ms, expected_ms) in [
        (1, 0, 200),
        (1, 100, 200),
        (1, 3_000, 3_000),
        (400, 3_000, 30_000),
        (400, 60_000, 60_000),
        (1, 300_000, 300_000),
        (1, 86_400_000, 300_000),
    ] {
        let delay = delay(ends, Some(Duration::from_millis(requested_ms)));
        assert_eq!(delay, Duration::from_millis(expected_ms), "{requested_ms} ms requested after {ends} ends");
    }
}

#[test]
fn call_starts_the_next_attempt_after_a_pause_but_not_before_the_server_permits_it() {
    let unsupported = || ServerError::UnsupportedVersion { versions: "1".to_owned() };
    for (ends, reason, first_ms, until_ms) in [
        (1, exited(), Some(200), 200),
        (5, exited(), Some(2_000), 3_200),
        (40, exited(), Some(2_000), 30_000),
        (40, busy(Some(Duration::from_secs(1))), Some(2_000), 30_000),
        (1, busy(Some(Duration::from_secs(300))), Some(300_000), 300_000),
        (1, not_found(), None, 200),
        (40, not_found(), None, 300_000),
        (1, unsupported(), Some(200), 200),
        (2, unsupported(), None, 400),
        (40, unsupported(), None, 300_000),
    ] {
        let (now, mut lifecycle) = (Instant::now(), lifecycle());
        for _ in 1..ends {
            lifecycle.on(Event::Ended(reason.clone()), now, 0.0);
            lifecycle.on(Event::Due, now, 0.0);
        }
        lifecycle.on(Event::Ended(reason.clone()), now, 0.0);
        let state = lifecycle.state();
        assert!(matches!(state, State::Backoff { until, .. } if (*until - now).as_millis() == until_ms), "{state:?}");
        let starts_at = |ms| state.starts_for_call(now + Duration::from_millis(ms));
        match first_ms {
            Some(ms) => assert!(!starts_at(ms - 1) && starts_at(ms), "{reason} {state:?}"),
            None => assert!(state.is_permanent() && !starts_at(600_000), "{reason} {state:?}"),
        }
    }
}

#[test]
fn server_that_has_finished_is_stopped_and_not_retried() {
    let finished = || Event::Finished(ServerError::Exited(Exit { code: Some(0), ..Exit::default() }));
    for before in [vec![Event::Started], vec![Event::Started, ill()], vec![Event::Started, Event::Stop]] {
        let mut lifecycle = after(before.into_iter().chain([finished()]));
        assert_eq!(*lifecycle.state(), State::Stopped);
        lifecycle.on(started(), Instant::now(), 0.0);
        assert_eq!(*lifecycle.state(), State::Starting);
    }
    let mut lifecycle = Lifecycle::new(Ok(()), None, STEADY);
    [Event::Started, finished()].into_iter().for_each(|event| lifecycle.on(event, Instant::now(), 0.0));
    assert_eq!(lifecycle.state().name(), StateName::Failed);
}

#[test]
fn a_steady_run_resets_the_delay() {
    let start = Instant::now();
    for (up_for, expected) in [(STEADY, 1), (STEADY - Duration::from_millis(1), 2)] {
        let mut lifecycle = lifecycle();
        for event in [ended(), Event::Due, Event::Started] {
            lifecycle.on(event, start, 0.0);
        }
        lifecycle.on(ended(), start + up_for, 0.0);
        assert!(matches!(lifecycle.state(), State::Backoff { attempt, .. } if *attempt == expected), "{lifecycle:?}");
    }
}

#[test]
fn lost_reaper_is_no_failure_of_the_server() {
    let lost = || Event::Ended(REAPER_LOST);
    for up in [vec![Event::Started], vec![Event::Started, ill()]] {
        let lifecycle = after([ended(), Event::Due].into_iter().chain(up).chain([lost()]));
        assert_eq!((lifecycle.state(), lifecycle.backoff.attempts()), (&State::Starting, 1));
    }
    // No endless loop, where a reaper cannot run.
    let (now, mut lifecycle) = (Instant::now(), lifecycle());
    for _ in 0..40 {
        lifecycle.on(lost(), now, 0.0);
        assert!(
            matches!(lifecycle.state(), State::Backoff { until, .. } if *until == now + RestartDelays::default().first)
        );
        lifecycle.on(Event::Due, now, 0.0);
    }
    let mut lifecycle = Lifecycle::new(Ok(()), None, STEADY);
    [Event::Started, lost()].into_iter().for_each(|event| lifecycle.on(event, now, 0.0));
    assert_eq!(lifecycle.state().name(), StateName::Failed);
}

#[test]
fn server_that_cannot_be_started_stays_failed() {
    let mut lifecycle = Lifecycle::new(
        Err(ServerError::UnusableValue("`TOKEN` is not set".to_owned())),
        Some(RestartDelays::default()),
        STEADY,
    );
    for event in [Event::Started, ended(), Event::Due] {
        lifecycle.on(event, Instant::now(), 0.0);
    }
    assert_eq!(lifecycle.state().name(), StateName::Failed);
}

#[test]
fn server_without_restarts_fails_when_it_ends() {
    let mut lifecycle = Lifecycle::new(Ok(()), None, STEADY);
    for event in [Event::Started, ended(), Event::Due] {
        lifecycle.on(event, Instant::now(), 0.0);
    }
    assert_eq!(*lifecycle.state(), State::Failed { reason: exited() });
}

#[test]
fn server_that_needs_a_login_waits_for_a_person_from_any_state() {
    for before in [vec![], vec![Event::Started], vec![Event::Started, ill()]] {
        let mut lifecycle = after(before.into_iter().chain([login_needed()]));
        for event in [Event::Due, ended(), Event::Started, Event::Healthy, ill(), started()] {
            lifecycle.on(event, Instant::now(), 0.0);
        }
        assert_eq!(*lifecycle.state(), State::NeedsLogin { reason: token_refused() });
        lifecycle.on(Event::Stop, Instant::now(), 0.0);
        assert_eq!(*lifecycle.state(), State::Stopped);
        lifecycle.on(started(), Instant::now(), 0.0);
        assert_eq!(*lifecycle.state(), State::Starting);
    }
}

#[test]
fn command_that_cannot_be_executed_is_retried_and_not_waited_for() {
    let missing = || Event::Ended(not_found());
    let until = |state: &State| match state {
        State::Backoff { until, reason, .. } if *reason == not_found() => Some(*until),
        _ => None,
    };
    let lifecycle = after([missing()]);
    let due = until(lifecycle.state()).expect("it is retried");
    assert!(!lifecycle.state().may_be_ready_by(due + Duration::from_secs(60)));
    assert!(after([ended()]).state().may_be_ready_by(Instant::now() + Duration::from_secs(60)));
    assert_eq!(*after([missing(), Event::Due]).state(), State::Starting);
    let now = after([missing(), Event::Due, ended()]);
    assert!(matches!(now.state(), State::Backoff { attempt: 2, reason, .. } if *reason == exited()), "{now:?}");
    let mut stopping = after([Event::Stop]);
    stopping.on(missing(), Instant::now(), 0.0);
    assert_eq!(*stopping.state(), State::Stopped);
}

#[test]
fn attempt_that_may_have_prompted_a_person_is_repeated_late_or_for_a_call() {
    let prompted = || Event::Ended(ServerError::UnusableValue("`op` exited with code 1".to_owned()));
    let lifecycle = after([prompted()]);
    let State::Backoff { until, callable_at, .. } = lifecycle.state() else { panic!("{lifecycle:?}") };
    assert_eq!(*until - *callable_at, PROMPT_DELAY - CALL_PAUSE);
    assert!(lifecycle.state().starts_for_call(*callable_at) && !lifecycle.state().is_permanent());
}

#[test]
fn stopped_server_needs_no_login() {
    assert_eq!(*after([Event::Started, Event::Stop, login_needed()]).state(), State::Stopped);
}

/// `seconds`: the `Retry-After` of an end.
fn event(kind: u8, seconds: u64) -> Event {
    match kind {
        0 => Event::Started,
        1 => ended(),
        2 => ended_for(Some(Duration::from_secs(seconds))),
        3 => Event::Due,
        4 => login_needed(),
        5 => ill(),
        6 => Event::Healthy,
        7 => Event::Ended(not_found()),
        _ => Event::Stop,
    }
}

proptest! {
    #[test]
    fn any_order_of_events_keeps_the_invariants(
        kinds in prop::collection::vec((0..9u8, 0..20u64, 0..1000u64), 0..60),
        random in 0.0..1.0f64,
    ) {
        let (mut now, mut lifecycle, mut stopped) = (Instant::now(), lifecycle(), false);
        for (kind, passed, retry_after_secs) in kinds {
            now += Duration::from_secs(passed);
            let before = lifecycle.state().clone();
            let event = event(kind, retry_after_secs);
            stopped |= event == Event::Stop;
            let retry_after = match &event {
                Event::Ended(error) => error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER),
                _ => Duration::ZERO,
            };
            lifecycle.on(event, now, random);
            if let State::Backoff { until, .. } = lifecycle.state()
                && !matches!(before, State::Backoff { .. })
            {
                let delay = until.saturating_duration_since(now);
                let max = if lifecycle.state().is_permanent() { MAX_PERMANENT_DELAY } else { RestartDelays::default().max };
                prop_assert!((retry_after..=max.max(retry_after)).contains(&delay), "{delay:?}");
                let starts = |after| lifecycle.state().starts_for_call(now + after);
                prop_assert!(starts(delay) != lifecycle.state().is_permanent());
                prop_assert!(retry_after.is_zero() || !starts(retry_after - Duration::from_nanos(1)));
            }
            if matches!(before, State::NeedsLogin { .. }) {
                prop_assert!(stopped || *lifecycle.state() == before);
            }
            prop_assert_eq!(stopped, matches!(lifecycle.state(), State::Stopping | State::Stopped));
        }
    }
}

#[test]
fn state_names_are_serialized_as_their_words() {
    for name in [StateName::Ready, StateName::NeedsLogin, StateName::Disabled, StateName::Removed] {
        assert_eq!(serde_json::to_value(name).expect("a string"), name.word());
    }
    let newer: StateName = serde_json::from_str("\"of a newer daemon\"").expect("any string");
    assert_eq!(newer, StateName::Unknown);
}
