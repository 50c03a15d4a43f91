//! Results of calls. A result that fits is not read twice: only one with a suspect part is compared with the rules.

use bytes::Bytes;
use memchr::memmem;
use serde::de::IgnoredAny;

use super::judge;
use super::rules::{CALL_RESULT, COMPLETION_RESULT, PROMPT_RESULT, READ_RESULT, Shape};
use crate::era::Era;
use crate::jsonrpc::entries::elements;
use crate::jsonrpc::json_eq::json_eq;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::object_edit::replace_members;
use crate::jsonrpc::splice::{Change, applied, splice};

/// Parts of a line that may have to be mended. PHP writes an empty map as a list.
const SUSPECT: [&[u8]; 4] = [b"null", b"structuredContent", br#""_meta":["#, br#""_meta": ["#];
/// Maximum number of content blocks that are compared with a structured content.
const MAX_BLOCKS: usize = 1000;
/// Largest text that is repeated as structured content, in bytes.
const MAX_STRUCTURED: usize = 1 << 20;

/// What a result is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultKind {
    /// `tools/call`, or the task of one.
    Call,
    /// `tools/call` of a tool with an output schema. Clients reject its results without structured content.
    StructuredCall,
    /// `prompts/get`.
    Prompt,
    /// `resources/read`.
    Read,
    /// `completion/complete`.
    Completion,
}

impl ResultKind {
    fn shape(self) -> &'static Shape {
        match self {
            Self::Call | Self::StructuredCall => CALL_RESULT,
            Self::Prompt => PROMPT_RESULT,
            Self::Read => READ_RESULT,
            Self::Completion => COMPLETION_RESULT,
        }
    }
}

/// The response `line` as an agent of `era` accepts it. `None` if it passes as it is: it is valid, or nothing can mend it.
#[must_use]
pub fn mended_response(kind: ResultKind, line: &Bytes, era: Era) -> Option<Bytes> {
    if kind != ResultKind::StructuredCall && !SUSPECT.iter().any(|part| memmem::find(line, part).is_some()) {
        return None;
    }
    let whole = line.slice(..line.len().saturating_sub(1));
    let [Some(result)] = members(&whole, ["result"]).ok()? else { return None };
    // A task, or a request for input, has a form of its own.
    let [result_type, task] = members(&result, ["resultType", "task"]).ok()?;
    if task.is_some() || result_type.is_some_and(|kind| !matches!(&kind[..], b"null" | b"\"complete\"")) {
        return None;
    }
    let is_call = matches!(kind, ResultKind::Call | ResultKind::StructuredCall);
    let completed = if kind == ResultKind::StructuredCall { with_structured(&result) } else { None };
    let completed = completed.or_else(|| if is_call && era == Era::Legacy { with_text(&result) } else { None });
    let complete = completed.as_ref().unwrap_or(&result);
    let (changes, _) = judge(kind.shape(), complete, era).ok()?;
    if changes.is_empty() && completed.is_none() {
        return None;
    }
    let replacement = Bytes::from(applied(complete, &changes));
    Some(splice(&whole, &mut [Change { part: result, replacement }.edit()]))
}

/// The result with the object that one of its texts is as its structured content. `None` if it has one, is an error, or the texts are no
/// object or several.
///
/// Source: MCP 2025-11-25, `server/tools`, "Structured Content": a tool that returns one also returns its JSON in a text.
fn with_structured(result: &Bytes) -> Option<Bytes> {
    let [content, structured, is_error] = members(result, ["content", "structuredContent", "isError"]).ok()?;
    if structured.is_some_and(|value| value[..] != *b"null") || is_error.is_some_and(|value| value[..] == *b"true") {
        return None;
    }
    let blocks = elements(&content?, MAX_BLOCKS)?;
    let mut objects = blocks.iter().filter_map(object_in);
    let (object, None) = (objects.next()?, objects.next()) else { return None };
    let changes = replace_members(result, &["structuredContent"], &format!(r#""structuredContent":{object}"#)).ok()?;
    Some(applied(result, &changes).into())
}

/// The JSON object that is the whole text of a content block, on one line.
fn object_in(block: &Bytes) -> Option<String> {
    let [text_member] = members(block, ["text"]).ok()?;
    let shown = trimmed(&text(&text_member?)?);
    if !shown.starts_with(b"{") || shown.len() > MAX_STRUCTURED {
        return None;
    }
    let object = std::str::from_utf8(&shown).ok()?;
    serde_json::from_str::<IgnoredAny>(object).ok()?;
    // A line break within JSON is white space.
    Some(object.replace(['\n', '\r'], " "))
}

/// The result with a text of its structured content that is no object, unless a text has the same value.
fn with_text(result: &Bytes) -> Option<Bytes> {
    let [content, structured] = members(result, ["content", "structuredContent"]).ok()?;
    let structured = structured.filter(|value| !value.starts_with(b"{") && value[..] != *b"null")?;
    let content = content.filter(|content| content[..] != *b"null");
    let blocks = content.as_ref().map_or(Some(Vec::new()), |content| elements(content, MAX_BLOCKS))?;
    let has_same = |block: &Bytes| {
        let Ok([Some(raw)]) = members(block, ["text"]) else { return false };
        let is_same =
            |shown: &Bytes| json_eq(&trimmed(shown), &structured) || text(&structured).as_ref() == Some(shown);
        text(&raw).is_some_and(|shown| is_same(&shown))
    };
    if blocks.iter().any(has_same) {
        return None;
    }
    let quoted = serde_json::to_string(std::str::from_utf8(&structured).ok()?).ok()?;
    let block = format!(r#"{{"type":"text","text":{quoted}}}"#);
    Some(match content {
        None => {
            let changes = replace_members(result, &["content"], &format!(r#""content":[{block}]"#)).ok()?;
            applied(result, &changes).into()
        }
        Some(content) => {
            let comma = if blocks.is_empty() { "" } else { "," };
            let part = content.slice(content.len() - 1..);
            let replacement = format!("{comma}{block}]").into();
            applied(result, &[Change { part, replacement }]).into()
        }
    })
}

fn trimmed(text: &Bytes) -> Bytes {
    text.slice_ref(text.trim_ascii())
}
