//! Launchers that still download a server get more time than the handshake limit.

use std::rc::Rc;

use serde_json::json;

use crate::support::{Agent, Daemon, Place, SCRIPTED, Server, Setup, arguments, until};

/// A launcher that does `step` ten times a second, notes each in `steps`, and becomes the server once `permit` is there.
fn launcher(place: &Place, step: &str) -> Server {
    let path = |name: &str| place.path(name).display().to_string();
    let (permit, steps) = (path("permit"), path("steps"));
    let script = format!(
        "until [ -e {permit} ]; do {step}; echo >> {steps}; sleep 0.1; done; exec {SCRIPTED} --bare --tool echo"
    );
    Server::run_by("a", "/bin/sh").arg("-c").arg(script).line("handshake_timeout = \"4s\"")
}

/// Waits until the launcher has gone on for longer than a handshake may take.
fn wait_steps(place: &Place, count: usize) {
    until("the launcher goes on", || {
        let steps = std::fs::read(place.path("steps")).unwrap_or_default().len();
        (steps >= count).then_some(())
    });
}

#[track_caller]
fn expect_one_start(daemon: &Daemon, place: &Rc<Place>) {
    // At ten a second at most.
    wait_steps(place, 90);
    place.write("permit", "");
    let row = daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    assert_eq!((&row["restarts"], &row["silent_starts"]), (&json!(0), &json!(0)), "{row}\n{}", daemon.log());
    arguments(&Agent::ready(daemon).call("a__echo", &json!({})));
}

/// Case A5.
#[test]
fn launcher_that_reports_progress_on_stderr_is_waited_for() {
    let place = Place::new();
    // Without line ends, as progress bars are drawn.
    let daemon = Setup::with(launcher(&place, r"printf '\r#' >&2")).spawn_in(&place);
    expect_one_start(&daemon, &place);
}

/// Case A5.
#[test]
fn launcher_whose_files_grow_is_waited_for() {
    let place = Place::new();
    let file = place.path("download").display().to_string();
    let daemon = Setup::with(launcher(&place, &format!("printf %050000d 0 >> {file}"))).spawn_in(&place);
    expect_one_start(&daemon, &place);
}

/// Case A5.
#[test]
fn launcher_that_falls_silent_is_ended_and_started_again() {
    let place = Place::new();
    let script = format!("echo started >&2; echo >> {}; exec sleep 300", place.path("steps").display());
    let server = Server::run_by("a", "/bin/sh").arg("-c").arg(script).line("handshake_timeout = \"200ms\"");
    let daemon = Setup::with(server).spawn_in(&place);
    wait_steps(&place, 3);
    let row = daemon.wait_row("a", "says why", |row| row["last_error"].is_string());
    assert!(row["last_error"].to_string().contains("did not answer `initialize`"), "{row}");
}

/// Case J2.
#[test]
fn slow_start_does_not_count_as_an_unanswered_probe() {
    let place = Place::new();
    let server = launcher(&place, "printf . >&2").line("sharing = \"pool\"");
    let daemon = Setup::with(server).spawn_in(&place);
    expect_one_start(&daemon, &place);
    let found = daemon.client(&["doctor", "a"]);
    assert!(!found.stdout.contains("server/discover"), "{found}");
}
