//! What a manager is started with, beside its servers.

use std::time::Duration;

use super::strays::Strays;
use crate::config::DaemonConfig;
use crate::naming::Naming;
use crate::server::{Guard, ServerContext};

/// What a manager is started with, beside its servers.
#[derive(Debug)]
pub struct Setup {
    /// How tools are named.
    pub naming: Naming,
    /// What servers are run with.
    pub host: ServerContext,
    /// How long the first lists wait for servers of which nothing is known.
    pub first_list_wait: Duration,
    /// Whether what a killed guard leaves is looked for.
    pub strays: Option<Strays>,
}

/// With names of the form `server__tool`, messages of at most 16 MiB, and [`Guard::available`].
impl Default for Setup {
    fn default() -> Self {
        let first_list_wait = DaemonConfig::default().first_list_wait;
        Self { naming: Naming::default(), host: ServerContext::new(Guard::available()), first_list_wait, strays: None }
    }
}
