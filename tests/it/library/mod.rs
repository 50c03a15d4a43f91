//! The library: servers owned by the test process.

mod client;
mod http_servers;
mod manager;
mod promises;

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use mcpd::{GuardProgram, ServerConfig};

use crate::support::{MCPD, Place, SCRIPTED, TAG, WAIT_LIMIT};

/// Servers in a place of their own, whose end checks that no process is left.
struct ServerFixture {
    place: Rc<Place>,
}

impl ServerFixture {
    fn new() -> Self {
        Self { place: Place::new() }
    }

    /// A scripted server that keeps a journal.
    fn server(&self, name: &str, flags: &[&str]) -> ServerConfig {
        let journal = self.place.path("journal");
        let server = ServerConfig::new(name, SCRIPTED).args(["--journal", journal.to_str().expect("text")]);
        server.args(flags.to_vec()).env(TAG, self.place.tag())
    }

    /// A server that offers resources.
    fn demo(&self, name: &str) -> ServerConfig {
        ServerConfig::new(name, MCPD).args(["demo-server"]).env(TAG, self.place.tag())
    }

    /// Waits until the server has received this.
    async fn journal_has(&self, text: &str) {
        while !self.journal().contains(text) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn journal(&self) -> String {
        std::fs::read_to_string(self.place.path("journal")).unwrap_or_default()
    }
}

impl Drop for ServerFixture {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.place.expect_no_process(WAIT_LIMIT);
        }
    }
}

fn guards() -> [GuardProgram; 2] {
    [GuardProgram::Program(MCPD.into()), GuardProgram::None]
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(WAIT_LIMIT, future).await.expect("in time") })
}
