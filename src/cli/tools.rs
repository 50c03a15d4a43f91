//! `mcpd tools`.

use std::io;
use std::process::ExitCode;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use super::agent::Agent;
use super::look::Look;
use super::profile::Door;
use super::text::printable;
use super::{FAILED, fail, say};
use crate::sockets::RuntimeDir;

#[derive(Deserialize)]
struct List {
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
pub(super) struct Tool {
    pub(super) name: String,
    #[serde(default)]
    description: String,
}

pub(super) async fn run(directory: &RuntimeDir, door: &Door, json: bool) -> ExitCode {
    let mut agent = match Agent::of(directory, door, "mcpd tools").await {
        Ok(agent) => agent,
        Err(refused) => return refused,
    };
    match list(&mut agent).await {
        // As the daemon sent it: key order and number spelling included.
        Ok(raw) if json => say([&raw, &b"\n"[..]].concat()),
        Ok(raw) => serde_json::from_slice(&raw).map_or_else(|error| fail(FAILED, error), |list| say(render(&list))),
        Err(error) => fail(FAILED, error),
    }
}

/// The names of all tools that the agent sees.
pub(super) async fn names(agent: &mut Agent) -> io::Result<Vec<String>> {
    let list: List = serde_json::from_slice(&list(agent).await?)?;
    Ok(list.tools.into_iter().map(|tool| tool.name).collect())
}

async fn list(agent: &mut Agent) -> io::Result<Bytes> {
    agent.request("tools/list", &json!({})).await?.map_err(|error| io::Error::other(error.to_string()))
}

fn render(list: &List) -> String {
    const LONGEST: usize = 80;
    let summary = |tool: &Tool| {
        let line = printable(tool.description.lines().next().unwrap_or_default());
        if line.chars().count() <= LONGEST { line } else { line.chars().take(LONGEST - 1).chain(['…']).collect() }
    };
    if list.tools.is_empty() {
        return "no tools: `mcpd status` shows why\n".to_owned();
    }
    Look::of_stdout().table(["TOOL", "WHAT IT DOES"], list.tools.iter().map(|tool| [tool.name.clone(), summary(tool)]))
}
