//! An instance of a server at a URL: a connection, with a session if the server has sessions.

use std::sync::Arc;

use super::{ServerTask, secrets};
use crate::config::Remote;
use crate::oauth::Login;
use crate::server::lifecycle::Event;
use crate::server::link::Link;
use crate::server::start_permit::StartPermit;
use crate::transport::http::HttpConnection;

impl ServerTask {
    /// Connects to the server, serves the instance, and ends it. Returns the event for the lifecycle.
    pub(super) async fn one_connection(&mut self, remote: &Remote, permit: StartPermit) -> Event {
        let (clients, max) = (self.context.clients.clone(), self.message_limit().bytes());
        let (name, logins) = (Arc::clone(&self.config.name), self.context.logins.clone());
        let read_again = secrets::reread(&self.context, &remote.rotating);
        let connecting = async {
            let client = clients.get(remote).await?;
            let login = logins.and_then(|logins| Login::of(&name, remote, client.clone(), &logins));
            HttpConnection::new(remote, client, login, read_again, max).await
        };
        // Boxed, as the future of the login is large and short-lived.
        match self.unless_stopped(Box::pin(connecting)).await {
            Some(Ok(http)) => self.with_link(Link::Http(Box::new(http)), None, permit).await,
            Some(Err(error)) => Event::Ended(error.with_text(|text| remote.secrets.masked(text)).into()),
            None => self.apply_stop(),
        }
    }
}
