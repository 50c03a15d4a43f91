//! The local page of `mcpd dashboard`: a separate process serves it to this user's browser on a loopback address.
//!
//! It is a read-only client of `admin.sock`, as `mcpd top` is. The daemon has no web server, and a closed page costs nothing.
//!
//! - `page_file`: the file in the runtime directory that names the process that serves the page (with a lock)
//! - `feed`: the status of the daemon, polled
//! - `history`: load, latency, memory and processor time of the last hour (pure)
//! - `board`: what all open pages show, and the differences that they get (pure)
//! - `pages`: the open pages and their event streams
//! - `peer`: the user and process of each connection, as the system reports them
//! - `http`: the listener, and the response to each request
//! - `queries`: what a page requests once: tools, changes, lines of stderr
//! - `sentences`: what `cli` writes for people
//!
//! The process ends on SIGTERM, after 10 minutes without an open page, after 30 s without a daemon, or when its file is gone.

mod board;
mod feed;
mod history;
mod http;
mod page_file;
mod pages;
mod peer;
mod queries;
mod sentences;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use self::feed::StatusFeed;
use self::http::Site;
pub(crate) use self::page_file::{PageFile, ServedPage};
use self::pages::Pages;
pub(crate) use self::sentences::{Advice, Sentences, ServerAdvice};
use crate::admin::{AdminError, CallFeedEvent, follow_calls};
use crate::random::{self, NoRandomNumbers};
use crate::server::{self, StopLevel};
use crate::signals;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::test_variable::test_variable;

/// How long the process stays without an open page.
const IDLE_LIMIT: Duration = Duration::from_secs(600);
/// How long a daemon may be away, because it is restarted.
const OUTAGE_LIMIT: Duration = Duration::from_secs(30);
/// How often pages get calls and points of plots.
const TICK: Duration = Duration::from_millis(500);

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DashboardError {
    #[error(transparent)]
    Daemon(#[from] AdminError),
    #[error("the page is served already")]
    AlreadyServed,
    #[error(transparent)]
    NoToken(#[from] NoRandomNumbers),
    #[error("cannot serve the page: {0}")]
    Io(#[from] io::Error),
}

/// Serves the page of the daemon in `directory`. `started` is called once a browser can connect.
///
/// # Errors
/// See [`DashboardError`].
pub(crate) async fn serve(
    directory: &RuntimeDir,
    sentences: Sentences,
    started: impl FnOnce(),
) -> Result<(), DashboardError> {
    // Nobody else reads the token in memory.
    server::protect_memory().map_err(io::Error::from)?;
    let socket = directory.socket(ADMIN_SOCKET);
    let mut file = PageFile::lock(directory)?.ok_or(DashboardError::AlreadyServed)?;
    let first = crate::admin::status(&socket).await?;
    let listener = http::listen().await?;
    let page = ServedPage { pid: std::process::id(), address: listener.local_addr()?, token: random::token()? };
    file.publish(&page)?;
    let mut stopping = signals::listen()?.stopping;

    let pages = Arc::new(Pages::new());
    pages.report(&first, &(sentences.advice)(&first));
    let site = Arc::new(Site::new(page, socket.clone(), sentences, Arc::clone(&pages))?);
    let accepting = tokio::spawn(http::accept(listener, site));
    started();
    let (mut reports, mut calls) = (StatusFeed::start(socket.clone(), Arc::clone(&pages)), follow_calls(socket));
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut answered = Instant::now();
    let limit = |variable, default| test_variable(variable).map_or(default, Duration::from_millis);
    let idle_limit = limit("MCPD_TEST_DASHBOARD_IDLE_MS", IDLE_LIMIT);
    let outage_limit = limit("MCPD_TEST_DASHBOARD_OUTAGE_MS", OUTAGE_LIMIT);
    loop {
        tokio::select! {
            Some(report) = reports.next() => match report {
                Ok(report) => {
                    answered = Instant::now();
                    pages.report(&report, &(sentences.advice)(&report));
                }
                Err(error) => pages.outage(&error),
            },
            Some(event) = calls.recv() => match event {
                CallFeedEvent::Call(call) => pages.call(*call),
                CallFeedEvent::Missed(count) => pages.missed(count),
                // The page keeps earlier calls.
                CallFeedEvent::Reset | CallFeedEvent::HistoryTruncated => {}
            },
            _ = ticks.tick() => {
                // Without it, another process may serve the page.
                if !file.is_in_place() {
                    break;
                }
                pages.tick();
            }
            () = sleep_until(answered + outage_limit) => break,
            () = pages.idle_for(idle_limit) => break,
            () = stopping.receiver.at_least(StopLevel::FinishRunning) => break,
        }
    }
    accepting.abort();
    file.remove();
    Ok(())
}
