//! A tool as a program sees it: what it states of itself, read from its definition.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A tool that a server offers.
///
/// Source: MCP 2025-11-25, `server/tools`, "Tool".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    name: String,
    title: Option<String>,
    description: Option<String>,
    definition: Bytes,
}

/// A definition that is no tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct DefinitionError {
    pub(crate) reason: Arc<str>,
}

impl From<serde_json::Error> for DefinitionError {
    fn from(error: serde_json::Error) -> Self {
        Self { reason: error.to_string().into() }
    }
}

#[derive(Deserialize)]
struct Members {
    name: String,
    title: Option<String>,
    description: Option<String>,
}

impl Tool {
    /// The tool with this raw definition.
    pub(crate) fn read(definition: Bytes) -> Result<Self, DefinitionError> {
        let Members { name, title, description } = serde_json::from_slice(&definition)?;
        Ok(Self { name, title, description, definition })
    }

    /// The name to call it by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name to show to people, if it has one.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// What it does, for a model.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The JSON Schema of its arguments; `None` if it states none.
    ///
    /// # Errors
    /// If the schema is not valid JSON.
    pub fn input_schema(&self) -> Result<Option<serde_json::Value>, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Schema<'a> {
            #[serde(borrow)]
            input_schema: Option<&'a RawValue>,
        }
        let Schema { input_schema } = serde_json::from_slice(&self.definition)?;
        input_schema.map(|raw| serde_json::from_str(raw.get())).transpose()
    }

    /// The raw definition: unknown members, key order and spelling of numbers included.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.definition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_states_its_name_title_description_and_schema() {
        let raw = r#"{"name":"a","title":"A","inputSchema":{"type":"object"},"x":1.10}"#;
        let tool = Tool::read(Bytes::from_static(raw.as_bytes())).expect("a tool");
        assert_eq!((tool.name(), tool.title(), tool.description()), ("a", Some("A"), None));
        assert_eq!(tool.input_schema().expect("JSON"), Some(serde_json::json!({"type": "object"})));
        assert_eq!(tool.raw(), raw.as_bytes());
        let bare = Tool::read(Bytes::from_static(br#"{"name":"b"}"#)).expect("a tool");
        assert_eq!(bare.input_schema().expect("JSON"), None);
    }

    #[test]
    fn definition_without_a_name_is_malformed() {
        for raw in ["[]", "{", r#"{"name":7}"#, r#"{"title":"x"}"#] {
            assert!(Tool::read(Bytes::from(raw)).is_err(), "{raw}");
        }
    }
}
