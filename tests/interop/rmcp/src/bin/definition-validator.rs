//! Reads {method, result} from each line of stdin, and prints why rmcp rejects it, or null.

use std::io::{BufRead, stdin};

use rmcp::model::{
    CallToolResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
};
use serde_json::{Value, from_value};

fn rejection(message: &Value) -> Option<String> {
    let result = message["result"].clone();
    let parsed = match message["method"].as_str()? {
        "tools/list" => from_value::<ListToolsResult>(result).map(drop),
        "prompts/list" => from_value::<ListPromptsResult>(result).map(drop),
        "resources/list" => from_value::<ListResourcesResult>(result).map(drop),
        "resources/templates/list" => from_value::<ListResourceTemplatesResult>(result).map(drop),
        _ => from_value::<CallToolResult>(result).map(drop),
    };
    parsed.err().map(|error| error.to_string())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for line in stdin().lock().lines() {
        println!("{}", Value::from(rejection(&serde_json::from_str(&line?)?)));
    }
    Ok(())
}
