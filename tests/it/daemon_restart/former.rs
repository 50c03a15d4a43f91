//! A former release beside this one. `MCPD_FORMER` is its program; `tests/interop/former.sh` builds it. Without it, this is skipped.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::json;

use super::Restart;
use crate::support::{Daemon, Gate, MCPD, Place, Server, Setup, Shim, arguments, result, skipped};

fn former() -> Option<PathBuf> {
    let program = std::env::var_os("MCPD_FORMER").map(PathBuf::from);
    if program.is_none() {
        skipped("MCPD_FORMER names no program of a former release");
    }
    program
}

fn start(place: &Rc<Place>, program: &Path) -> Daemon {
    Setup::with(Server::named("a")).program(program.to_owned()).start_in(place)
}

#[test]
fn connect_of_a_former_release_works_with_this_daemon_and_its_restarts() {
    let Some(former) = former() else { return };
    let place = Place::new();
    let daemon = start(&place, Path::new(MCPD));
    let mut shim = Shim::run_by(&former, &place);
    arguments(&shim.call("a__echo", &json!({})));
    let gate = Gate::new(&place);
    let call = shim.start_call("a__sleep", &gate.arguments());
    daemon.wait_journal("a", "gate");
    let restart = Restart::begin(&daemon);
    let later = shim.start_call("a__echo", &json!({"later": 1}));
    gate.open();
    result(&shim.answer(&call));
    arguments(&shim.answer(&later));
    restart.wait().expect_code(0);
    drop(daemon);
    let call = shim.start_call("a__echo", &json!({"at": "the former daemon"}));
    let daemon = start(&place, &former);
    arguments(&shim.answer(&call));
    shim.expect_quiet();
    drop(daemon);
}

#[test]
fn connect_of_this_release_works_with_a_former_daemon_and_the_next_one() {
    let Some(former) = former() else { return };
    let place = Place::new();
    let daemon = start(&place, &former);
    let mut shim = Shim::ready(&place);
    arguments(&shim.call("a__echo", &json!({})));
    let refused = daemon.client(&["restart"]).expect_code(1);
    assert!(refused.stderr.contains("run `mcpd stop`, then `mcpd start`"), "{refused}");
    drop(daemon);
    let call = shim.start_call("a__echo", &json!({"at": "this daemon"}));
    let daemon = start(&place, Path::new(MCPD));
    arguments(&shim.answer(&call));
    shim.expect_quiet();
    drop(daemon);
}
