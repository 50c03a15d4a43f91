//! The signals that end a trial: SIGINT, SIGTERM and SIGHUP. While no trial runs, they have their default effect.

use std::io;
use std::sync::OnceLock;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tokio::sync::watch;

/// The last signal that was received while this trial ran.
static LAST: OnceLock<watch::Sender<Option<i32>>> = OnceLock::new();

/// Receives the signals as long as it lives.
#[derive(Debug, Clone)]
pub(super) struct Interruption(watch::Receiver<Option<i32>>);

impl Interruption {
    pub(super) fn listen() -> io::Result<Self> {
        if LAST.get().is_none() {
            let signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
            if LAST.set(watch::Sender::new(None)).is_ok() {
                // Not a task: a prompt may occupy the thread of the runtime afterwards.
                thread::Builder::new().name("signals".to_owned()).spawn(move || pass_on(signals))?;
            }
        }
        let sender = LAST.get_or_init(|| watch::Sender::new(None));
        if sender.receiver_count() == 0 {
            sender.send_replace(None);
        }
        Ok(Self(sender.subscribe()))
    }

    /// Waits for a signal, or returns at once if there was one. Cancel-safe.
    pub(super) async fn signal(&mut self) -> i32 {
        match self.0.wait_for(Option::is_some).await.map(|signal| *signal) {
            Ok(Some(signal)) => signal,
            _ => std::future::pending().await,
        }
    }
}

fn pass_on(mut signals: Signals) {
    for signal in &mut signals {
        match LAST.get().filter(|sender| sender.receiver_count() > 0) {
            Some(sender) => drop(sender.send(Some(signal))),
            None => drop(emulate_default_handler(signal)),
        }
    }
}
