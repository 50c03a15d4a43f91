//! What a page requests once: the tools of a profile, definitions that are not approved, and the last lines of a server's stderr.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::sentences::Sentences;
use crate::admin::report::{ChangeReport, LineReport, ToolReport, ToolsSummary};
use crate::admin::{self, AdminError, AdminEvent, FeedItem, LogsRequest, ToolsRequest};
use crate::pins::canonical::canonical;

/// Lines of stderr.
const LINES: usize = 200;
/// Maximum bytes of one text of a definition.
const MAX_DIFFERENCE: usize = 64 << 10;

/// A tool, with what hides it in words.
#[derive(Serialize)]
struct ShownTool {
    #[serde(flatten)]
    report: ToolReport,
    why_hidden: Option<String>,
    defects_text: Option<String>,
}

/// The tools of all servers, as agents of `profile` see them.
pub(super) async fn tools(socket: &Path, profile: &str, sentences: Sentences) -> Result<Value, AdminError> {
    let request = ToolsRequest { profile: Some(profile.to_owned()), name: None };
    let mut feed = admin::tools(socket, request).await?;
    let (mut tools, mut summary) = (Vec::new(), ToolsSummary::default());
    while let Some(item) = feed.next().await? {
        match item {
            FeedItem::Event(AdminEvent::Tool(report)) => {
                let (why_hidden, defects_text) = ((sentences.hidden)(&report), (sentences.defects)(&report));
                tools.push(ShownTool { report: *report, why_hidden, defects_text });
            }
            FeedItem::Event(_) => {}
            FeedItem::Summary(sent) => {
                summary = sent;
                break;
            }
        }
    }
    Ok(json!({"tools": tools, "summary": summary}))
}

/// What is not approved, of all servers.
pub(super) async fn changes(socket: &Path, sentences: Sentences) -> Result<Value, AdminError> {
    let (mut changes, summary) = admin::changes(socket, None).await?;
    // A comparison may take seconds.
    let compared = spawn_blocking(move || {
        for change in &mut changes {
            change.current = String::from_utf8_lossy(&canonical(change.current.as_bytes())).into_owned();
        }
        let one = |change: &ChangeReport| {
            let text = (sentences.difference)(change);
            let end =
                (0..=MAX_DIFFERENCE.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
            let shown = &text[..end];
            json!({
                "server": change.server, "kind": change.kind, "name": change.name, "digest": change.digest, "new": change.new, "withheld": change.withheld,
                "since": change.since, "difference": shown, "is_cut": shown.len() < text.len(),
            })
        };
        changes.iter().map(one).collect::<Vec<_>>()
    });
    Ok(json!({"changes": compared.await.unwrap_or_default(), "servers": summary.servers}))
}

/// The last lines of stderr of one server.
pub(super) async fn lines(socket: &Path, server: &str) -> Result<Value, AdminError> {
    let request = LogsRequest { last: LINES, servers: vec![server.to_owned()], ..LogsRequest::default() };
    let mut feed = admin::logs(socket, request, false).await?;
    let mut lines: Vec<LineReport> = Vec::new();
    while let Some(FeedItem::Event(event)) = feed.next().await? {
        if let AdminEvent::Line(line) = event {
            lines.push(*line);
        }
    }
    Ok(json!({"lines": lines}))
}
