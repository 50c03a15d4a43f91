//! The method `tap`: sends the messages of agents and servers as they pass, without secrets.

use std::io;
use std::time::Duration;

use futures_util::SinkExt;
use futures_util::StreamExt;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::sleep;

use super::operator::{Access, Operator, Query, ask, event, parts, refuse, respond, unknown_server};
use super::report::Report;
use super::{AdminEvent, Answer, TapRequest, TapSummary};
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS};
use crate::masking::Masking;
use crate::tap::matcher::Matcher;
use crate::tap::report::TapReport;
use crate::tap::{Event, Filter, MAX_WATCHES, Passed, is_agent};
use crate::transport::INLINE;
use crate::transport::http::one_line;

/// Pause after each batch, so that a tap costs little while many messages pass.
const BATCH_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of agents listed in an error.
const MAX_NAMED: usize = 10;

/// Answers request `id`, then sends messages until the operator ends its input. What has passed until then is still sent. An operator that
/// stops reading loses messages, and occupies a place.
pub(super) async fn answer(operator: &mut Operator, id: u64, request: TapRequest, access: &Access) -> io::Result<()> {
    let TapRequest { peer, method } = request;
    let filter = match peer {
        None => Filter::All,
        Some(peer) => match filter(peer, access).await {
            Ok(filter) => filter,
            Err(error) => return refuse(operator, Some(id), error).await,
        },
    };
    let Some(watch) = access.tap.watch(filter) else {
        let error = format!("{MAX_WATCHES} taps are open, which is the limit: end one of them first");
        return refuse(operator, Some(id), ErrorObject::new(INVALID_PARAMS, error)).await;
    };
    respond(operator, Some(id), Answer::Tap(TapSummary {})).await?;
    let masking = access.secrets.masking().map_err(io::Error::other)?;
    let (mut reader, mut has_ended) = (Reader { matcher: Matcher::default(), masking }, false);
    loop {
        while let Some(next) = watch.next_queued() {
            let report;
            match next {
                Event::Missed(count) => operator.feed(event(AdminEvent::Missed(count))).await?,
                Event::Passed(passed) => {
                    (reader, report) = reader.read_any_size(passed, method.clone()).await?;
                    if let Some(report) = report {
                        send(operator, report).await?;
                    }
                    // Let agents' tasks run in between.
                    yield_now().await;
                }
            }
        }
        operator.flush().await?;
        if has_ended {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        tokio::select! {
            () = async { watch.wait().await; sleep(BATCH_INTERVAL).await } => {}
            // An operator that watches sends nothing more.
            _ = operator.next() => {
                watch.close();
                has_ended = true;
            }
        }
    }
}

/// The filter for a server or an agent.
async fn filter(peer: String, access: &Access) -> Result<Filter, ErrorObject> {
    let Some(unknown) = unknown_server(&access.view.borrow(), &peer) else { return Ok(Filter::Server(peer)) };
    let Report { agents, .. } = ask(&access.queries, Query::Status).await?;
    if agents.iter().any(|agent| is_agent(&peer, agent.session, agent.client.as_deref())) {
        return Ok(Filter::Agent(peer));
    }
    let name = |client: Option<&str>| client.unwrap_or("unknown").to_owned();
    let agents: Vec<_> =
        agents.iter().map(|agent| format!("{} {}", agent.session, name(agent.client.as_deref()))).collect();
    let agents = match agents.len().checked_sub(MAX_NAMED) {
        _ if agents.is_empty() => "none is connected".to_owned(),
        Some(more @ 1..) => format!("{} and {more} more", agents[..MAX_NAMED].join(", ")),
        _ => agents.join(", "),
    };
    Err(ErrorObject::new(INVALID_PARAMS, format!("{}; agents: {agents}", unknown.message)))
}

/// Sends a report, a large text in parts.
async fn send(operator: &mut Operator, mut report: TapReport) -> io::Result<()> {
    let text = std::mem::take(&mut report.text);
    let mut parts = parts(&text).map(str::to_owned);
    report.text = parts.next().unwrap_or_default();
    let rest: Vec<_> = parts.collect();
    report.parts = rest.len();
    operator.feed(event(AdminEvent::Message(Box::new(report)))).await?;
    for part in rest {
        operator.feed(event(AdminEvent::MessagePart(part))).await?;
    }
    Ok(())
}

/// Reads the messages of one tap.
#[derive(Debug)]
struct Reader {
    matcher: Matcher,
    masking: Masking,
}

impl Reader {
    /// Reads a message, a large one on another thread. `None` if it does not concern `method`. Fails if not all secrets are known.
    async fn read_any_size(
        mut self,
        passed: Box<Passed>,
        method: Option<String>,
    ) -> io::Result<(Self, Option<TapReport>)> {
        if passed.text.len() <= INLINE {
            let report = self.read(&passed, method.as_deref())?;
            return Ok((self, report));
        }
        let reading = spawn_blocking(move || {
            let report = self.read(&passed, method.as_deref())?;
            Ok((self, report))
        });
        reading.await.map_err(io::Error::other)?
    }

    /// Its other members are masked with the whole report.
    fn read(&mut self, passed: &Passed, method: Option<&str>) -> io::Result<Option<TapReport>> {
        let meaning = self.matcher.read(passed);
        if !method.is_none_or(|method| meaning.concerns(method)) {
            return Ok(None);
        }
        let mask = self.masking.current().map_err(io::Error::other)?;
        let id = meaning.id.as_deref().map(|id| mask.apply(&String::from_utf8_lossy(id)).text);
        let text = one_line(passed.text.clone());
        let text = String::from_utf8_lossy(&text);
        let masked = if passed.size > passed.text.len() { mask.apply_to_cut(&text) } else { mask.apply(&text) };
        Ok(Some(TapReport::new(passed, meaning, id, masked)))
    }
}
