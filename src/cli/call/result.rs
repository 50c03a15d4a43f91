//! The result of a call as a person reads it: text on stdout, everything else beside it or in files.

use std::path::Path;
use std::process::ExitCode;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::media::{Media, save};
use crate::cli::outcome::print_json;
use crate::cli::text::{lines, one_line};
use crate::cli::{FAILED, fail, print};

/// What of a result is shown (MCP 2025-11-25, `server/tools`, "Tool Result").
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    #[serde(default)]
    content: Vec<Value>,
    structured_content: Option<Box<RawValue>>,
    #[serde(default)]
    is_error: bool,
}

/// Shows the result of `tool`, and saves what of it is no text at `output`.
pub(super) fn show(result: &Bytes, tool: &str, json: bool, output: Option<&Path>) -> ExitCode {
    let outcome: Outcome = match serde_json::from_slice(result) {
        Ok(outcome) => outcome,
        Err(error) => return fail(FAILED, format!("the result is not one of a tool: {error}")),
    };
    let (media, unread): (Vec<_>, Vec<_>) = outcome.content.iter().filter_map(Media::of).partition(Result::is_ok);
    let media: Vec<_> = media.into_iter().flatten().collect();
    let saved = kept(&media, tool, output, json);
    unread.into_iter().filter_map(Result::err).for_each(|error| print_note!("mcpd: {error}"));
    let text = text(&outcome);
    let printed = match json {
        true => print_json(result),
        false if outcome.is_error => return fail(FAILED, text.unwrap_or_else(|| "the tool failed".to_owned())),
        false => text.map_or(ExitCode::SUCCESS, |text| print(text + "\n")),
    };
    if outcome.is_error || !saved { ExitCode::from(FAILED) } else { printed }
}

/// Saves what is no text, or says that there is some; whether nothing went wrong.
fn kept(media: &[Media], tool: &str, output: Option<&Path>, json: bool) -> bool {
    let Some(output) = output else {
        let unsaved = media.iter().filter(|_| !json);
        unsaved.for_each(|one| print_note!("mcpd: not shown: {}; `-o FILE` saves it", one.words()));
        return true;
    };
    if media.is_empty() {
        print_note!("mcpd: nothing is saved: there is nothing but text");
    }
    match save(media, output, tool) {
        Ok(paths) => {
            paths
                .iter()
                .zip(media)
                .for_each(|(path, one)| print_note!("mcpd: saved {} ({})", path.display(), one.words()));
            true
        }
        Err(error) => {
            print_note!("mcpd: {}: {error}", output.display());
            false
        }
    }
}

/// All that can be read; `None` if that is nothing, and there is something else.
fn text(outcome: &Outcome) -> Option<String> {
    let parts: Vec<_> = outcome.content.iter().filter_map(part).collect();
    match &outcome.structured_content {
        Some(structured) if parts.is_empty() => Some(lines(structured.get())),
        _ if parts.is_empty() && !outcome.content.is_empty() => None,
        _ => Some(parts.join("\n")),
    }
}

fn part(content: &Value) -> Option<String> {
    let resource = &content["resource"];
    match content["type"].as_str().unwrap_or_default() {
        "resource_link" => {
            let word = |key: &str| content[key].as_str().map(one_line);
            let title = word("title").or_else(|| word("name")).map(|name| format!(" ({name})")).unwrap_or_default();
            Some(format!("{}{title}", word("uri").unwrap_or_default()))
        }
        "resource" if resource["text"].is_string() => resource["text"].as_str().map(lines),
        "image" | "audio" | "resource" => None,
        other => {
            let unknown = || format!("[{}; --json shows it]", one_line(other));
            Some(content["text"].as_str().map_or_else(unknown, lines))
        }
    }
}
