//! Signals become orders. Knows nothing of who obeys them.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use futures_util::StreamExt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook_tokio::Signals;
use tokio::sync::{Notify, watch};

use crate::server::{Stop, StopOrder};

/// What signals ask for.
#[derive(Debug)]
pub struct Asked {
    /// The first SIGTERM or SIGINT means [`Stop::Drain`], a further one [`Stop::Kill`].
    pub stop: StopOrder,
    /// Has everything that waits for `stop` end without a signal.
    pub stopper: watch::Sender<Stop>,
    /// SIGHUP: read the configuration again. Several that come at once are one.
    ///
    /// With a terminal on stdin, stdout or stderr SIGHUP says instead that this terminal has gone, which means
    /// [`Stop::Drain`] once, however often it is said.
    pub reload: Arc<Notify>,
}

/// Listens from now on.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn listen() -> io::Result<Asked> {
    // The last three would end the daemon. A write beyond the limit on file sizes fails instead of that.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXFSZ])?;
    let (sender, stop) = StopOrder::channel();
    let reload = Arc::new(Notify::new());
    let asked = Asked { stop, stopper: sender.clone(), reload: Arc::clone(&reload) };
    let on_terminal = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
    tokio::spawn(async move {
        while let Some(signal) = signals.next().await {
            if [SIGUSR1, SIGUSR2, SIGXFSZ].contains(&signal) {
                continue;
            }
            if signal == SIGHUP && !on_terminal {
                reload.notify_one();
                continue;
            }
            tracing::info!(signal, "stopping");
            sender.send_modify(|stop| {
                *stop = match *stop {
                    Stop::Run => Stop::Drain,
                    stopping if signal == SIGHUP => stopping,
                    _ => Stop::Kill,
                };
            });
        }
    });
    Ok(asked)
}
