//! The tool list of the scripted server.

use serde_json::Value;

use super::server::Server;
use super::wire::quoted;

/// One page of the list.
pub(crate) fn page(server: &mut Server, params: &Value) -> String {
    if let Some(file) = &server.flags.tool_list {
        return std::fs::read_to_string(file).expect("the listing is there").trim().to_owned();
    }
    let cursor = params["cursor"].as_str();
    if server.flags.endless_cursor || server.flags.repeat_cursor {
        let number = server.fresh();
        let next = if server.flags.repeat_cursor { 0 } else { number };
        return format!(r#"{{"tools":[{}],"nextCursor":"{next}"}}"#, definition(&format!("page_{number}")));
    }
    let first = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let size = if server.flags.page_size == 0 { usize::MAX } else { server.flags.page_size };
    let tools = server.tools.iter().skip(first).take(size);
    let tools: Vec<_> = tools.map(|name| definition_of(server, name)).collect();
    let next = first.saturating_add(size);
    let cursor = if next < server.tools.len() { format!(r#","nextCursor":"{next}""#) } else { String::new() };
    format!(r#"{{"tools":[{}]{cursor}}}"#, tools.join(","))
}

fn definition_of(server: &Server, name: &str) -> String {
    let definition = definition(name);
    let is_task_only = server.flags.task_only.iter().any(|tool| tool == name);
    if is_task_only {
        definition.replace(r#"{"taskSupport":"optional"}"#, r#"{"taskSupport":"required"}"#)
    } else {
        definition
    }
}

/// A tool definition with everything that a careless relay alters: numbers, key order, vendor members.
fn definition(name: &str) -> String {
    let name = quoted(name);
    format!(
        r#"{{"zeta":1.10,"name":{name},"inputSchema":{{"type":"object","properties":{{"b":{{}},"a":{{}}}}}},"x-vendor":12345678901234567890123,"execution":{{"taskSupport":"optional"}},"description":"caf\u00e9 \/ é"}}"#
    )
}
