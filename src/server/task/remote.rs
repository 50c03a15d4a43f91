//! An instance of a server that is reached by its URL: what it keeps for mcpd, which is a session if it has any.

use std::sync::Arc;

use super::ServerTask;
use super::ending::ended;
use crate::config::Remote;
use crate::oauth::Login;
use crate::server::lifecycle::Event;
use crate::server::link::Link;
use crate::server::turn::Turn;
use crate::transport::http::{Http, Parting};

impl ServerTask {
    /// Connects to the server, serves the instance that it is for mcpd, and takes leave of it. Tells what its end means.
    pub(super) async fn one_connection(&mut self, remote: &Remote, turn: Turn) -> Event {
        let (clients, max) = (self.host.clients.clone(), self.host.max_message);
        let (name, logins) = (Arc::clone(&self.config.name), self.host.logins.clone());
        let connecting = async {
            let client = clients.get(remote).await?;
            let login = logins.and_then(|logins| Login::of(&name, remote, client.clone(), &logins));
            Http::new(remote, client, login, max).await
        };
        // Logging in has more state than all that comes behind it, and is done with it soon.
        match self.while_wanted(Box::pin(connecting)).await {
            Some(Ok(http)) => self.with_link(Link::Http(Box::new(http)), None, turn).await,
            Some(Err(reason)) => ended(remote.secrets.masked(&reason)),
            None => self.stopped(),
        }
    }
}

/// What it means that nothing can be sent any more: for the calls, and for the server.
pub(super) fn parted(parting: Parting) -> (String, Event) {
    let again = |reason: String, retry_after| (reason.clone(), Event::Ended { reason, retry_after });
    match parting {
        Parting::Unreachable { reason, retry_after } => again(reason, retry_after),
        Parting::SessionEnded => again("has ended the session".to_owned(), None),
        Parting::Closed => again("has closed its stream of events".to_owned(), None),
        Parting::Unfit { what } => again(what, None),
        Parting::LoginNeeded { why } => (why.clone(), Event::LoginNeeded { reason: why }),
        Parting::Refused { why } => (why.clone(), Event::Refused { reason: why }),
    }
}
