//! Prints the result of a call: text to stdout, notes to stderr, media to files.

use std::io::{IsTerminal, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::media::{Media, save};
use crate::cli::outcome::{print_json, print_styled_note, server_text};
use crate::cli::text::one_line;
use crate::cli::{FAILED, fail, print};

/// The printed part of a result (MCP 2025-11-25, `server/tools`, "Tool Result").
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult {
    #[serde(default)]
    content: Vec<Value>,
    structured_content: Option<Box<RawValue>>,
    #[serde(default)]
    is_error: bool,
}

/// Prints the result of `tool`, and saves its media to `output`.
pub(super) fn show(result: &Bytes, tool: &str, json: bool, output: Option<&Path>) -> ExitCode {
    let parsed: ToolResult = match serde_json::from_slice(result) {
        Ok(parsed) => parsed,
        Err(error) => return fail(FAILED, format!("invalid tool result: {error}")),
    };
    let (media, errors): (Vec<_>, Vec<_>) = parsed.content.iter().filter_map(Media::decode).partition(Result::is_ok);
    let media: Vec<_> = media.into_iter().flatten().collect();
    let is_saved = save_media(&media, tool, output, json);
    errors.into_iter().filter_map(Result::err).for_each(|error| print_note!("mcpd: {error}"));
    let printed = match json {
        true => print_json(result),
        false if parsed.is_error => {
            let text = text(&parsed, &stderr()).unwrap_or_else(|| "the tool failed".to_owned());
            print_styled_note(&format!("mcpd: {text}\n"));
            ExitCode::from(FAILED)
        }
        false => text(&parsed, &stdout()).map_or(ExitCode::SUCCESS, |text| print(text + "\n")),
    };
    if parsed.is_error || !is_saved { ExitCode::from(FAILED) } else { printed }
}

/// Saves media, or notes that it is not shown. `false` if saving failed.
fn save_media(media: &[Media], tool: &str, output: Option<&Path>, json: bool) -> bool {
    let Some(output) = output else {
        let unsaved = media.iter().filter(|_| !json);
        unsaved.for_each(|one| print_note!("mcpd: not shown: {}; `-o FILE` saves it", one.summary()));
        return true;
    };
    if media.is_empty() {
        print_note!("mcpd: nothing is saved: the result has only text");
    }
    match save(media, output, tool) {
        Ok(paths) => {
            paths
                .iter()
                .zip(media)
                .for_each(|(path, one)| print_note!("mcpd: saved {} ({})", path.display(), one.summary()));
            true
        }
        Err(error) => {
            print_note!("mcpd: {}: {error}", output.display());
            false
        }
    }
}

/// The text of a result for `stream`; `None` if it has only media.
fn text(parsed: &ToolResult, stream: &impl IsTerminal) -> Option<String> {
    let lines = |text: &str| server_text(text, stream).into_owned();
    let parts: Vec<_> = parsed.content.iter().filter_map(|content| content_text(content, lines)).collect();
    match &parsed.structured_content {
        Some(structured) if parts.is_empty() => Some(lines(structured.get())),
        _ if parts.is_empty() && !parsed.content.is_empty() => None,
        _ => Some(parts.join("\n")),
    }
}

fn content_text(content: &Value, lines: impl Fn(&str) -> String) -> Option<String> {
    let resource = &content["resource"];
    match content["type"].as_str().unwrap_or_default() {
        "resource_link" => {
            let member = |key: &str| content[key].as_str().map(one_line);
            let title = member("title").or_else(|| member("name")).map(|name| format!(" ({name})")).unwrap_or_default();
            Some(format!("{}{title}", member("uri").unwrap_or_default()))
        }
        "resource" if resource["text"].is_string() => resource["text"].as_str().map(lines),
        "image" | "audio" | "resource" => None,
        other => {
            let unknown = || format!("[{}; `--json` prints it]", one_line(other));
            Some(content["text"].as_str().map_or_else(unknown, lines))
        }
    }
}
