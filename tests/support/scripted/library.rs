//! Prompts, resources, templates, skills and extensions of a file. Requests for them are echoed, unless the file has the answer.
//!
//! `extensions` are the declared ones. `methods` has the result of each method of an extension; `null` echoes the request. `files` has the
//! only URIs that can be read, with their texts, besides `reads`, which has whole results. Subscriptions to URIs of `unanswered` get no response. `skills` and `unlisted_skills` have entries, `directories` the contents of each.

use std::path::Path;

use serde_json::Value;
use serde_json::value::RawValue;

use super::input_rounds::{self, Step};
use super::modern::Request;
use super::server::Server;
use super::wire::{error, response};

/// Capabilities for the contents of the file.
pub(crate) fn capabilities(file: &Path) -> Vec<String> {
    let offered = read(file);
    let has = |key: &str| offered.get(key).is_some();
    let resources = match lacks(&offered, "subscribe") {
        true => r#""resources":{"listChanged":true}"#,
        false => r#""resources":{"listChanged":true,"subscribe":true}"#,
    };
    let declared = [
        (has("prompts"), r#""prompts":{"listChanged":true}"#),
        (has("resources") || has("resourceTemplates"), resources),
        (has("completions") && !lacks(&offered, "completions"), r#""completions":{}"#),
        (has("logging"), r#""logging":{}"#),
    ];
    let all = declared.into_iter().filter(|(has, _)| *has).map(|(_, capability)| capability.to_owned());
    let as_written = |key: &str| offered.get(key).map(|value| format!(r#""{key}":{value}"#));
    all.chain(["extensions", "experimental"].into_iter().filter_map(as_written)).collect()
}

/// Whether the file says that the server lacks a capability.
fn lacks(offered: &Value, capability: &str) -> bool {
    offered[capability] == false
}

/// Answers a request, after the input rounds that the file defines for it.
pub(crate) fn serve(server: &mut Server, request: &Request, params: &Value) {
    let file = server.flags.library.as_deref();
    if request.method == "resources/subscribe" && file.is_some_and(|file| names(file, "unanswered", &params["uri"])) {
        return;
    }
    let rounds = file.filter(|_| request.is_modern()).and_then(|file| rounds(file, params));
    let line = match rounds.map_or(Step::Complete, |rounds| input_rounds::step(&rounds, params)) {
        Step::Refused(refusal) => refusal.line(request.id),
        Step::Required(result) => response(request.id, &result),
        Step::Complete if file.is_some_and(|file| lacks_uri(file, request.method, params)) => {
            error(request.id, -32602, "no such URI at this server", "")
        }
        Step::Complete => file
            .and_then(|file| {
                let of_extension = extension_answer(file, request, params, server.flags.page_size);
                of_extension.or_else(|| answer(file, request.method, request.params, server.flags.page_size))
            })
            .map_or_else(|| error(request.id, -32601, "Method not found", ""), |result| request.response(&result)),
    };
    server.output.line(&line);
}

/// Whether the file has everything of this kind but not the requested URI.
fn lacks_uri(file: &Path, method: &str, params: &Value) -> bool {
    let (offered, uri) = (read(file), &params["uri"]);
    let has_key = |key: &str| uri.as_str().is_some_and(|uri| offered[key].get(uri).is_some());
    let is_read = has_key("files") || has_key("reads");
    match method {
        "resources/read" => offered.get("files").is_some() && !is_read,
        "skills/get" => offered.get("skills").is_some() && skill(&offered, uri).is_none(),
        "resources/directory/read" => offered.get("directories").is_some() && !has_key("directories"),
        _ => false,
    }
}

fn skill<'a>(offered: &'a Value, uri: &Value) -> Option<&'a Value> {
    let all = ["skills", "unlisted_skills"].into_iter().filter_map(|key| offered[key].as_array()).flatten();
    all.into_iter().find(|entry| entry["uri"] == *uri)
}

/// The result of a method of an extension, or of a read of `files`.
fn extension_answer(file: &Path, request: &Request, params: &Value, page_size: usize) -> Option<String> {
    let offered = read(file);
    let uri = params["uri"].as_str().unwrap_or_default();
    if let Some(result) = offered["methods"].get(request.method).filter(|result| !result.is_null()) {
        return Some(result.to_string());
    }
    match request.method {
        "skills/list" => offered.get("skills").map(|skills| {
            let first: usize = params["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
            let skills: Vec<_> = skills.as_array().expect("a list").iter().map(Value::to_string).collect();
            let size = if page_size == 0 { usize::MAX } else { page_size };
            let next = first.saturating_add(size);
            let cursor = if next < skills.len() { format!(r#","nextCursor":"{next}""#) } else { String::new() };
            let page: Vec<_> = skills.into_iter().skip(first).take(size).collect();
            format!(r#"{{"skills":[{}]{cursor}}}"#, page.join(","))
        }),
        "skills/get" => skill(&offered, &params["uri"]).map(|skill| format!(r#"{{"skill":{skill}}}"#)),
        "resources/directory/read" => Some(format!(r#"{{"resources":{}}}"#, offered["directories"].get(uri)?)),
        "resources/read" if !offered["reads"][uri].is_null() => Some(offered["reads"][uri].to_string()),
        "resources/read" => {
            let text = offered["files"].get(uri)?;
            Some(format!(r#"{{"contents":[{{"uri":{},"text":{text}}}]}}"#, params["uri"]))
        }
        method => offered["methods"]
            .get(method)
            .map(|_| format!(r#"{{"zeta":1.10,"received":{}}}"#, request.params.map_or("null", RawValue::get))),
    }
}

/// The result of a method that the file supports. Lists are paged if `page_size` is set.
fn answer(file: &Path, method: &str, params: Option<&RawValue>, page: usize) -> Option<String> {
    let key = match method {
        "prompts/list" => "prompts",
        "resources/list" => "resources",
        // Like many servers, it does not know the methods of a kind that it lacks.
        "resources/templates/list" if read(file).get("resourceTemplates").is_some() => "resourceTemplates",
        "logging/setLevel" if read(file).get("logging").is_some() => return Some("{}".to_owned()),
        "resources/subscribe" if refuses(file, params) => return None,
        "resources/subscribe" | "resources/unsubscribe" if lacks(&read(file), "subscribe") => return None,
        "completion/complete" if lacks(&read(file), "completions") => return None,
        "prompts/get" | "resources/read" | "resources/subscribe" | "resources/unsubscribe" | "completion/complete" => {
            return Some(format!(r#"{{"zeta":1.10,"received":{}}}"#, params.map_or("null", RawValue::get)));
        }
        _ => return None,
    };
    let offered = std::fs::read_to_string(file).expect("the library is there");
    let lists: std::collections::BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(&offered).expect("the library is an object");
    let list = lists.get(key).map_or("[]", |list| list.get());
    if page == 0 {
        return Some(format!(r#"{{"{key}":{list}}}"#));
    }
    let items: Vec<Box<RawValue>> = serde_json::from_str(list).expect("a list");
    let params: Value = params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
    let first = params["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let next = first + page;
    let next = if next < items.len() { format!(r#","nextCursor":"{next}""#) } else { String::new() };
    let items: Vec<_> = items.iter().skip(first).take(page).map(|item| item.get()).collect();
    Some(format!(r#"{{"{key}":[{}]{next}}}"#, items.join(",")))
}

/// The input rounds (JSON) of a prompt or resource: `rounds` of the file, by name or URI.
fn rounds(file: &Path, params: &Value) -> Option<String> {
    let name = params["name"].as_str().or(params["uri"].as_str())?;
    read(file)["rounds"].get(name).map(Value::to_string)
}

/// Whether the file lists this URI under `refused`.
fn refuses(file: &Path, params: Option<&RawValue>) -> bool {
    let requested: Value = params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
    names(file, "refused", &requested["uri"])
}

/// Whether the file lists this URI under `key`.
fn names(file: &Path, key: &str, uri: &Value) -> bool {
    read(file)[key].as_array().is_some_and(|uris| uris.contains(uri))
}

fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).expect("the library is there");
    serde_json::from_str(&text).expect("the library is JSON")
}
