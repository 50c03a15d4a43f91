//! An instance of a server that is reached by its URL: what it keeps for mcpd, which is a session if it has any.

use std::sync::Arc;

use super::ServerTask;
use crate::config::Remote;
use crate::oauth::Login;
use crate::server::lifecycle::Event;
use crate::server::link::Link;
use crate::server::start_permit::StartPermit;
use crate::transport::http::HttpConnection;

impl ServerTask {
    /// Connects to the server, serves the instance that it is for mcpd, and takes leave of it. Tells what its end means.
    pub(super) async fn one_connection(&mut self, remote: &Remote, permit: StartPermit) -> Event {
        let (clients, max) = (self.host.clients.clone(), self.host.max_message);
        let (name, logins) = (Arc::clone(&self.config.name), self.host.logins.clone());
        let connecting = async {
            let client = clients.get(remote).await?;
            let login = logins.and_then(|logins| Login::of(&name, remote, client.clone(), &logins));
            HttpConnection::new(remote, client, login, max).await
        };
        // Logging in has more state than all that comes behind it, and is done with it soon.
        match self.while_wanted(Box::pin(connecting)).await {
            Some(Ok(http)) => self.with_link(Link::Http(Box::new(http)), None, permit).await,
            Some(Err(error)) => Event::Ended(error.with_text(|text| remote.secrets.masked(text)).into()),
            None => self.stopped(),
        }
    }
}
