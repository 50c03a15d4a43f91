//! The names that are completed: from the running daemon, else from the configuration, else none.

use std::time::Duration;

use clap_complete::CompletionCandidate;
use tokio::time::timeout;

use super::typed::Typed;
use crate::admin::{self, AskError};
use crate::cli::text::one_line;
use crate::clients::CLIENTS;
use crate::config::interpolate::Process;
use crate::config::{self, Config, Profile};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// For the daemon to answer, while somebody waits with a finger on the key.
const PATIENCE: Duration = Duration::from_millis(300);

/// The servers.
pub(in crate::cli) fn servers() -> Vec<CompletionCandidate> {
    let running = || {
        let report = ask(&directory()?, async |socket| admin::status(&socket).await)?;
        Some(report.servers.iter().map(|server| candidate(&server.name, Some(&server.state))).collect())
    };
    let configured =
        || configured().iter().flat_map(|config| config.servers.iter().map(|one| candidate(&one.name, None))).collect();
    running().unwrap_or_else(configured)
}

/// The profiles.
pub(in crate::cli) fn profiles() -> Vec<CompletionCandidate> {
    let running = || {
        let report = ask(&directory()?, async |socket| admin::status(&socket).await)?;
        let help = |servers: &[String]| servers.join(", ");
        Some(report.profiles.iter().map(|one| candidate(&one.name, Some(&help(&one.servers)))).collect())
    };
    let configured = || match configured() {
        Some(config) => config.profiles.iter().map(|one| candidate(&one.name, None)).collect(),
        None => vec![candidate(Profile::DEFAULT, None)],
    };
    running().unwrap_or_else(configured)
}

/// The clients that mcpd knows.
pub(in crate::cli) fn clients() -> Vec<CompletionCandidate> {
    CLIENTS.iter().map(|client| candidate(client.word, Some(client.title))).collect()
}

fn candidate(name: &str, help: Option<&str>) -> CompletionCandidate {
    CompletionCandidate::new(name).help(help.map(|help| one_line(help).into()))
}

fn directory() -> Option<RuntimeDir> {
    Typed::now()?.directory()
}

/// What the daemon answers in time, if there is one.
fn ask<T>(directory: &RuntimeDir, question: impl AsyncFnOnce(std::path::PathBuf) -> Result<T, AskError>) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let asked = async { timeout(PATIENCE, question(directory.socket(ADMIN_SOCKET))).await };
    runtime.block_on(asked).ok()?.ok()
}

fn configured() -> Option<Config> {
    config::load(&[], &Process).ok().map(|loaded| loaded.config)
}
