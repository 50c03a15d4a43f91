//! Patterns that match nothing are reported, since such a `deny` hides nothing.

use std::rc::Rc;

use crate::reload::{replace, text};
use crate::support::{Agent, Place, Server, Setup, until};

const MATCHES_NONE: &str = "`demo__delete_*` matches none of the tools of `demo`";
const HELP: &str = "write `delete_*`: patterns match the names that the server itself uses, without `demo__`";

fn demo() -> Server {
    Server::named("demo").flags("--bare --tool read --tool delete_all")
}

fn denying(pattern: &str) -> Server {
    demo().line(format!("deny = [\"{pattern}\"]"))
}

#[test]
fn daemon_logs_once_after_its_start_which_pattern_matches_nothing() {
    let place = Place::new();
    let slow = Server::named("slow").flags("--bare --tool x --init-delay 300").line("deny = [\"slow__x\"]");
    let file = place.write("changing.toml", text(&[denying("demo__delete_*"), slow], &place));
    let daemon = Setup::new().config(file).start_in(&place);
    until("both are logged", || {
        let log = daemon.log();
        (log.contains(MATCHES_NONE) && log.contains("`slow__x` matches none")).then_some(())
    });
    // Lists that are the same again, and those of others, repeat nothing.
    daemon.client(&["restart", "demo"]).expect_code(0);
    let agent = Agent::ready(&daemon);
    let log = daemon.log();
    assert_eq!(log.matches(MATCHES_NONE).count(), 1, "{log}");
    let line = log.lines().find(|line| line.contains(MATCHES_NONE)).expect("it is there");
    assert!(line.contains("WARN") && log.contains(HELP) && log.contains("changing.toml:"), "{log}");
    drop(agent);
}

#[test]
fn daemon_checks_the_patterns_of_a_lazy_server_when_that_has_listed() {
    let daemon = Setup::with(denying("demo__delete_*").line("start = \"lazy\"")).start();
    let mut agent = Agent::ready(&daemon);
    agent.call("demo__read", &serde_json::json!({}));
    until("it is logged", || daemon.log().contains(MATCHES_NONE).then_some(()));
}

#[test]
fn reload_reports_the_pattern_that_matches_nothing_with_the_one_that_is_meant() {
    let place = Place::new();
    let file = place.write("changing.toml", text(&[demo()], &place));
    let daemon = Setup::new().config(file).start_in(&place);
    let reload = |pattern: &str| {
        replace(&Rc::clone(daemon.place()), text(&[denying(pattern)], daemon.place()));
        daemon.client(&["reload"]).expect_code(0)
    };
    let ran = reload("demo__delete_*");
    assert!(ran.stderr.contains(MATCHES_NONE) && ran.stderr.contains(HELP), "{ran}");
    assert_eq!(ran.stdout, "updated      demo (not restarted)\n", "{ran}");
    let again = daemon.client(&["reload"]).expect_code(0);
    assert!(again.stderr.contains(MATCHES_NONE) && again.stdout == "kept         demo\n", "{again}");
    let json = daemon.client(&["reload", "--json"]).expect_code(0).json();
    assert!(json["warnings"][0].as_str().is_some_and(|warning| warning.contains(MATCHES_NONE)), "{json}");
    let qualified = reload("demo/delete_*").stderr;
    assert!(qualified.contains("write `delete_*`") && qualified.contains("without `demo/`"), "{qualified}");
    let right = reload("delete_*");
    assert!(!right.stderr.contains("matches none"), "{right}");
    assert_eq!(Agent::ready(&daemon).tools(), ["demo__read"]);
}
