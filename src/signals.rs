//! Signals become an order to stop. Knows nothing of who obeys it.

use std::io;

use crate::server::{Stop, StopOrder};
use futures_util::StreamExt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook_tokio::Signals;

/// The order that signals give: the first one of SIGTERM, SIGINT and SIGHUP means [`Stop::Stop`], a further SIGTERM or
/// SIGINT [`Stop::Kill`]. SIGHUP is no further one: a closing terminal may send several.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn stop_on_signals() -> io::Result<StopOrder> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (sender, order) = StopOrder::channel();
    tokio::spawn(async move {
        while let Some(signal) = signals.next().await {
            tracing::info!(signal, "stopping");
            sender.send_modify(|stop| {
                *stop = match *stop {
                    Stop::Run => Stop::Stop,
                    stopping if signal == SIGHUP => stopping,
                    _ => Stop::Kill,
                };
            });
        }
    });
    Ok(order)
}
