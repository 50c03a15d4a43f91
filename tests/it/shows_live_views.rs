//! What a person sees on a terminal while it lasts, and that the terminal is afterwards as it was.

use crate::support::{Server, Setup, Terminal};

#[test]
fn a_long_wait_says_what_is_waited_for_and_leaves_nothing() {
    let server = Server::named("slow").flags("--init-delay 1500");
    let daemon = Setup::with(server).start();
    let Some(terminal) = Terminal::open(daemon.place(), 80, 24) else { return };
    terminal.line("m restart slow");
    let meanwhile = terminal.wait("restarting slow · ");
    assert!(!meanwhile.contains("slow: ready"), "{meanwhile}");
    let screen = terminal.wait("slow: ready");
    assert_eq!(screen, "$ m restart slow\nslow: ready\n$");
    // Nobody sees what is piped.
    let ran = daemon.client(&["restart", "slow"]).expect_code(0);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("slow: ready\n", ""));
}
