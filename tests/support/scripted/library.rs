//! Prompts, resources and templates of a file. Requests for them are echoed.

use std::path::Path;

use serde_json::Value;
use serde_json::value::RawValue;

use super::input_rounds::{self, Step};
use super::modern::Request;
use super::server::Server;
use super::wire::{error, response};

/// Capabilities for the contents of the file.
pub(crate) fn capabilities(file: &Path) -> Vec<&'static str> {
    let offered = read(file);
    let has = |key: &str| offered.get(key).is_some();
    let mut all = Vec::new();
    if has("prompts") {
        all.push(r#""prompts":{"listChanged":true}"#);
    }
    if has("resources") || has("resourceTemplates") {
        all.push(r#""resources":{"listChanged":true,"subscribe":true}"#);
    }
    if has("completions") {
        all.push(r#""completions":{}"#);
    }
    if has("logging") {
        all.push(r#""logging":{}"#);
    }
    all
}

/// Answers a request, after the input rounds that the file defines for it.
pub(crate) fn serve(server: &mut Server, request: &Request, params: &Value) {
    let file = server.flags.library.as_deref();
    let rounds = file.filter(|_| request.is_modern()).and_then(|file| rounds(file, params));
    let line = match rounds.map_or(Step::Complete, |rounds| input_rounds::step(&rounds, params)) {
        Step::Refused(refusal) => refusal.line(request.id),
        Step::Required(result) => response(request.id, &result),
        Step::Complete => file
            .and_then(|file| answer(file, request.method, request.params, server.flags.page_size))
            .map_or_else(|| error(request.id, -32601, "Method not found", ""), |result| request.response(&result)),
    };
    server.output.line(&line);
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
    read(file)["refused"].as_array().is_some_and(|refused| refused.contains(&requested["uri"]))
}

fn read(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).expect("the library is there");
    serde_json::from_str(&text).expect("the library is JSON")
}
