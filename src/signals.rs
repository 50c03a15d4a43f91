//! Turns signals into orders to stop and to reload.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use nix::sys::signal::{SigSet, Signal, raise};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook_tokio::Signals;
use tokio::sync::Notify;

use crate::server::{StopChannel, StopLevel, StopReceiver};

/// Orders that signals give.
#[derive(Debug)]
pub struct SignalOrders {
    /// The first SIGTERM or SIGINT means [`StopLevel::FinishRunning`], a further one [`StopLevel::Kill`].
    pub stopping: StopChannel,
    /// SIGHUP: read the configuration again. Several at once cause one reload.
    ///
    /// With a terminal on stdin, stdout or stderr, SIGHUP means that the terminal is gone: [`StopLevel::FinishRunning`], however often it is
    /// received.
    pub reload: Arc<Notify>,
    /// Set by the first SIGTERM or SIGINT, also when no task runs any more.
    pub is_stopped: Arc<AtomicBool>,
}

/// Installs the handlers.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn listen() -> io::Result<SignalOrders> {
    // The last three are ignored, as their default is to end the process. A write beyond the file size limit then fails (EFBIG).
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXFSZ])?;
    let is_stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&is_stopped))?;
    }
    // The program before this one may have held signals.
    SigSet::empty().thread_set_mask()?;
    let (sender, receiver) = StopReceiver::channel();
    let reload = Arc::new(Notify::new());
    let stopping = StopChannel { sender: sender.clone(), receiver };
    let orders = SignalOrders { stopping, reload: Arc::clone(&reload), is_stopped };
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
                    StopLevel::Run => StopLevel::FinishRunning,
                    stopping if signal == SIGHUP => stopping,
                    _ => StopLevel::Kill,
                };
            });
        }
    });
    Ok(orders)
}

/// Holds signals for the program that this process executes next. It receives one to stop, too, if this one has received it.
pub fn hold(is_stopped: &AtomicBool) {
    let held = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];
    // If the system refuses, they take effect at once.
    let _ = SigSet::from_iter(held).thread_block();
    if is_stopped.load(Ordering::Relaxed) {
        let _ = raise(Signal::SIGTERM);
    }
}
