//! Shared parts of the servers.

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams, InputRequest};
use serde_json::json;

/// The input request for a name.
pub fn who() -> Result<InputRequest, ErrorData> {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let form = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Who are you?".to_owned(),
        requested_schema: serde_json::from_value(schema)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?,
    };
    Ok(InputRequest::Elicitation(ElicitRequest::new(form)))
}

pub fn text_result(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}
