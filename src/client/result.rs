//! What a server returns, for a program: a tool as it states itself, and the result of a call. The raw JSON, and its content as types.
//!
//! Source: MCP 2025-11-25, `server/tools`, "Tool" and "Tool Result".

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The result of a tool call, as the server sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult(Bytes);

/// One part of the content of a [`ToolResult`]. Members that are not here, such as `annotations`, are in [`ToolResult::value`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// The decoded image.
        data: Vec<u8>,
        /// Its media type, such as `image/png`.
        mime_type: String,
    },
    /// A sound.
    Audio {
        /// The decoded sound.
        data: Vec<u8>,
        /// Its media type, such as `audio/wav`.
        mime_type: String,
    },
    /// A resource.
    Resource {
        /// Its URI.
        uri: String,
        /// Its media type.
        mime_type: Option<String>,
        /// What it contains.
        contents: ResourceContents,
    },
    /// A reference to a resource, which can be read with [`ResourceTool::Read`](crate::ResourceTool::Read).
    ResourceLink {
        /// Its URI.
        uri: String,
        /// Its name.
        name: String,
        /// The name to show to people.
        title: Option<String>,
        /// What it is, for a model.
        description: Option<String>,
        /// Its media type.
        mime_type: Option<String>,
        /// Its size in bytes.
        size: Option<u64>,
    },
    /// A part of another type, or a malformed one: its raw JSON.
    Other(Bytes),
}

/// What an embedded resource contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceContents {
    /// Text.
    Text(String),
    /// Other data, decoded.
    Blob(Vec<u8>),
}

impl ToolResult {
    pub(crate) fn from_raw(raw: Bytes) -> Self {
        Self(raw)
    }

    /// The raw JSON: number spelling, key order and unknown fields included.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.0
    }

    /// The decoded JSON.
    ///
    /// # Errors
    /// If the server has sent something that is not valid JSON.
    pub fn value(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// Whether the tool itself reports a failure (`isError`), which its content explains. A result that is not valid JSON reports none;
    /// [`Self::value`] returns its error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.value().is_ok_and(|result| result["isError"] == true)
    }

    /// The parts of the content, in order. A malformed part is [`Content::Other`], and spoils no other part.
    ///
    /// # Errors
    /// If the result is not valid JSON, or has no list of content.
    pub fn content(&self) -> Result<Vec<Content>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Result<'a> {
            #[serde(borrow)]
            content: Vec<&'a RawValue>,
        }
        let Result { content } = serde_json::from_slice(&self.0)?;
        Ok(content.into_iter().map(|part| Content::read(&self.0, part)).collect())
    }

    /// The text of all parts that are text, with a line break between two parts.
    ///
    /// # Errors
    /// As [`Self::content`].
    pub fn text(&self) -> Result<String, serde_json::Error> {
        let texts = self.content()?.into_iter().filter_map(|part| match part {
            Content::Text(text) => Some(text),
            _ => None,
        });
        Ok(texts.collect::<Vec<_>>().join("\n"))
    }

    /// The structured content (`structuredContent`), which the tool's output schema describes; `None` if there is none.
    ///
    /// # Errors
    /// If the result is not valid JSON.
    pub fn structured_content(&self) -> Result<Option<serde_json::Value>, serde_json::Error> {
        let mut result = self.value()?;
        Ok(result.get_mut("structuredContent").map(serde_json::Value::take).filter(|content| !content.is_null()))
    }
}

impl Content {
    fn read(result: &Bytes, part: &RawValue) -> Self {
        match serde_json::from_str(part.get()) {
            Ok(Part::Text { text }) => Self::Text(text),
            Ok(Part::Image { data, mime_type }) => Self::Image { data, mime_type },
            Ok(Part::Audio { data, mime_type }) => Self::Audio { data, mime_type },
            Ok(Part::Resource { resource: Resource { uri, mime_type, text: Some(text), blob: None } }) => {
                Self::Resource { uri, mime_type, contents: ResourceContents::Text(text) }
            }
            Ok(Part::Resource { resource: Resource { uri, mime_type, text: None, blob: Some(Blob(blob)) } }) => {
                Self::Resource { uri, mime_type, contents: ResourceContents::Blob(blob) }
            }
            Ok(Part::ResourceLink { uri, name, title, description, mime_type, size }) => {
                Self::ResourceLink { uri, name, title, description, mime_type, size }
            }
            Ok(Part::Resource { .. }) | Err(_) => Self::Other(result.slice_ref(part.get().as_bytes())),
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum Part {
    Text {
        text: String,
    },
    Image {
        #[serde(deserialize_with = "base64")]
        data: Vec<u8>,
        mime_type: String,
    },
    Audio {
        #[serde(deserialize_with = "base64")]
        data: Vec<u8>,
        mime_type: String,
    },
    Resource {
        resource: Resource,
    },
    ResourceLink {
        uri: String,
        name: String,
        title: Option<String>,
        description: Option<String>,
        mime_type: Option<String>,
        size: Option<u64>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<Blob>,
}

#[derive(Deserialize)]
struct Blob(#[serde(deserialize_with = "base64")] Vec<u8>);

fn base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

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

    fn content(parts: &str) -> Vec<Content> {
        let raw = format!(r#"{{"x":1,"content":[{parts}]}}"#);
        ToolResult::from_raw(raw.into()).content().expect("a list")
    }

    #[test]
    fn each_type_of_content_is_read() {
        let text = |text: &str| ResourceContents::Text(text.to_owned());
        let (uri, mime) = ("f:///a".to_owned(), Some("text/plain".to_owned()));
        for (part, expected) in [
            (r#"{"type":"text","text":"a\nb","annotations":{}}"#, Content::Text("a\nb".to_owned())),
            (
                r#"{"type":"image","data":"AQI=","mimeType":"image/png"}"#,
                Content::Image { data: vec![1, 2], mime_type: "image/png".to_owned() },
            ),
            (
                r#"{"type":"audio","data":"","mimeType":"audio/wav"}"#,
                Content::Audio { data: Vec::new(), mime_type: "audio/wav".to_owned() },
            ),
            (
                r#"{"type":"resource","resource":{"uri":"f:///a","mimeType":"text/plain","text":"t"}}"#,
                Content::Resource { uri: uri.clone(), mime_type: mime.clone(), contents: text("t") },
            ),
            (
                r#"{"type":"resource","resource":{"uri":"f:///a","blob":"AQI="}}"#,
                Content::Resource { uri: uri.clone(), mime_type: None, contents: ResourceContents::Blob(vec![1, 2]) },
            ),
            (
                r#"{"type":"resource_link","uri":"f:///a","name":"a","mimeType":"text/plain","size":7}"#,
                Content::ResourceLink {
                    uri,
                    name: "a".to_owned(),
                    title: None,
                    description: None,
                    mime_type: mime,
                    size: Some(7),
                },
            ),
        ] {
            assert_eq!(content(part), [expected], "{part}");
        }
    }

    #[test]
    fn malformed_part_and_one_of_an_unknown_type_keep_their_raw_json_and_spoil_no_other() {
        for part in [
            r#"{"type":"video","x":1.10}"#,
            r#"{"type":"text"}"#,
            r#"{"type":"image","data":"?","mimeType":"image/png"}"#,
            r#"{"type":"resource","resource":{"uri":"f:///a"}}"#,
            "7",
        ] {
            let parts = content(&format!(r#"{part},{{"type":"text","text":"t"}}"#));
            assert_eq!(parts, [Content::Other(Bytes::from(part)), Content::Text("t".to_owned())]);
        }
    }

    #[test]
    fn text_and_structured_content_are_found() {
        let raw =
            r#"{"content":[{"type":"text","text":"a"},7,{"type":"text","text":"b"}],"structuredContent":{"n":1}}"#;
        let result = ToolResult::from_raw(raw.into());
        assert_eq!(result.text().expect("JSON"), "a\nb");
        assert_eq!(result.structured_content().expect("JSON"), Some(serde_json::json!({"n": 1})));
        let bare = ToolResult::from_raw("{}".into());
        assert!(bare.content().is_err() && bare.structured_content().expect("JSON").is_none());
    }

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
