//! Handles the events of a connection.

use http::StatusCode;

use super::super::endpoint::EndpointUpdate;
use super::super::event_queue::{Ownership, Source, TransportEvent};
use super::super::sse_get::SseGet;
use super::super::state::State;
use super::super::{Disconnect, RequestError};
use super::{HttpConnection, SSE_GET};
use crate::jsonrpc::pending::parse_own_id;
use crate::transport::Arrival;

/// Rejected credentials in a row before the connection to a modern server is over: a single call may be refused for its own reasons. In a
/// session, a ping decides.
const MAX_UNAUTHORIZED: u32 = 3;

impl HttpConnection {
    /// Handles an event. Returns what the server's task must know.
    pub(super) fn take(&mut self, source: Source, event: TransportEvent) -> Option<Result<Arrival, Disconnect>> {
        match event {
            TransportEvent::Message(incoming, ownership) => {
                let within = self.open.get(source).and_then(|open| open.request);
                if let Some((id, response)) = incoming.response() {
                    self.answered(source, response.is_ok(), parse_own_id(id).filter(|id| within != Some(*id)));
                }
                let source_request = within.filter(|_| ownership == Ownership::OfRequest);
                return Some(Ok(Arrival::Incoming { incoming, source_request }));
            }
            TransportEvent::Session(session) => {
                // A server that was restarted may answer in a new session, and name it.
                let is_renamed = self.queue.endpoint().has_session() && !self.state.is_modern();
                if self.state.is_opened_by(source) || is_renamed {
                    self.queue.change(|endpoint| endpoint.set_session(&session));
                }
            }
            TransportEvent::EndpointUpdate(EndpointUpdate { token, url, headers }) => {
                self.queue.change(|endpoint| endpoint.set_headers(&headers));
                url.into_iter().for_each(|url| self.queue.change(|endpoint| endpoint.set_url(url)));
                if let Some(token) = token {
                    self.schedule_renewal(token.refresh_at());
                    self.queue.change(|endpoint| endpoint.set_token(token));
                }
            }
            TransportEvent::StreamReady => {
                if let State::AwaitingStream { initialized: Some(initialized) } = self.state {
                    self.state = State::Initializing { initialized, source: None };
                    return Some(Ok(Arrival::MayWrite));
                }
            }
            TransportEvent::Endpoint(url) => {
                if let State::AwaitingEndpoint { line, request } = std::mem::replace(&mut self.state, State::OpenSse) {
                    self.queue.change(|endpoint| endpoint.set_url(url));
                    self.exchange(line, request);
                }
            }
            TransportEvent::Completed => {
                self.unauthorized = 0;
                let done = self.open.end(source)?;
                self.initialized_accepted(source);
                // The body may not have been a response, for example a batch. If it was one, this
                // only reports free capacity.
                let answered = done.request.filter(|_| !self.is_http_sse());
                let failed =
                    |request| Arrival::RequestFailed { request, error: RequestError::NoResponse { media_type: None } };
                return Some(Ok(answered.map_or(Arrival::MayWrite, failed)));
            }
            TransportEvent::RequestFailed(error) => return self.failed(source, error),
            TransportEvent::CancellationExpired => {
                let open = self.open.end(source)?;
                open.abort.abort();
                let error = RequestError::Interrupted { reason: "sent no response".to_owned().into() };
                return open.request.map(|request| Ok(Arrival::RequestFailed { request, error }));
            }
            TransportEvent::SessionInDoubt => return Some(Ok(Arrival::SessionInDoubt)),
            TransportEvent::Disconnected(disconnect) => self.disconnect = Some(disconnect),
        }
        None
    }

    /// The connection is open once `initialize` is answered. A request that was answered on another stream no longer
    /// needs its own.
    fn answered(&mut self, source: Source, has_result: bool, elsewhere: Option<u64>) {
        if self.state.is_opened_by(source) {
            self.state = if has_result { State::AwaitingStream { initialized: None } } else { State::New };
        }
        let exchange = elsewhere.and_then(|request| self.open.of(request)).map(|(source, _)| source);
        if let Some(open) = exchange.and_then(|source| self.open.end(source)) {
            open.abort.abort();
        }
    }

    /// The server has accepted or refused `notifications/initialized`.
    fn initialized_accepted(&mut self, source: Source) {
        if matches!(self.state, State::Initializing { source: Some(initializing), .. } if initializing == source) {
            self.state = State::Open;
        }
    }

    pub(super) fn sse_get(&self) -> SseGet {
        SseGet { sender: self.queue.sender(SSE_GET), max: self.max }
    }

    /// Why the connection is over after this error.
    fn disconnect_by(&self, error: &RequestError) -> Disconnect {
        match error {
            // The next attempt reads the secrets again.
            RequestError::Status { status: status @ StatusCode::UNAUTHORIZED, retry_after, message }
                if self.queue.endpoint().has_renewed_secrets() =>
            {
                Disconnect::Status { status: *status, retry_after: *retry_after, message: message.clone() }
            }
            error => error.disconnect_at_first(),
        }
    }

    fn failed(&mut self, source: Source, error: RequestError) -> Option<Result<Arrival, Disconnect>> {
        let open = self.open.end(source)?;
        match &self.state {
            // The era may be the reason.
            State::Opening { source: opening, .. }
                if *opening == source && (self.has_modern || !self.open.is_empty()) =>
            {
                self.state = State::Probing;
            }
            // The next request has that version.
            State::Opening { source: opening, .. } if *opening == source && error.permits_second_initialize() => {
                self.state = State::New;
            }
            State::Opening { source: opening, line } if *opening == source => {
                if !error.may_be_http_sse() {
                    let disconnect = self.disconnect_by(&error);
                    self.disconnect.get_or_insert(disconnect);
                    return None;
                }
                self.state = State::AwaitingEndpoint { line: line.clone(), request: open.request };
                let sse_get = self.sse_get();
                self.run(sse_get.run_http_sse(error.disconnect()));
                return None;
            }
            State::Initializing { .. } => self.initialized_accepted(source),
            _ => {}
        }
        self.unauthorized = if error.is_unauthorized() && self.state.is_modern() { self.unauthorized + 1 } else { 0 };
        // No other exchange shows that the server is reachable or accepts the credentials.
        let is_away = matches!(error, RequestError::NotSent { .. }) && self.open.is_empty();
        if is_away || self.unauthorized >= MAX_UNAUTHORIZED {
            let disconnect = self.disconnect_by(&error);
            self.disconnect.get_or_insert(disconnect);
        }
        Some(Ok(open.request.map_or(Arrival::MayWrite, |request| Arrival::RequestFailed { request, error })))
    }
}
