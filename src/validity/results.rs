//! Results of calls. Only one that has a null, or a member that begins with another byte than its type, is compared with the rules.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use aho_corasick::packed::{Config, MatchKind, Searcher};
use bytes::Bytes;
use memchr::memmem;
use serde::de::IgnoredAny;

use super::judge;
use super::rules::{
    CALL_RESULT, COMPLETION_RESULT, CONTENT, Elements, Member, Need, PROMPT_RESULT, READ_RESULT, Shape, Type,
};
use crate::era::Era;
use crate::jsonrpc::json_eq::json_eq;
use crate::jsonrpc::members::{elements, members, text};
use crate::jsonrpc::splice::{Change, applied, replace_members, splice};

/// Maximum number of content blocks that are compared with a structured content.
const MAX_BLOCKS: usize = 1000;
/// Largest text that is repeated as structured content, in bytes.
const MAX_STRUCTURED: usize = 1 << 20;
/// How many times the bytes of a result are read to compare them.
const MAX_COMPARED: usize = 8;

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

/// Whether a response may have something to mend, in a pass over its bytes. Most have not: they are not looked at again.
#[must_use]
pub fn may_be_malformed(kind: ResultKind, line: &[u8]) -> bool {
    static WORDS: LazyLock<Words> = LazyLock::new(Words::new);
    let lacks_structured = kind == ResultKind::StructuredCall && memmem::find(line, b"structuredContent").is_none();
    lacks_structured || WORDS.may_be_malformed(line)
}

/// The words that a malformed result contains.
struct Words {
    /// `None` on processors without vector instructions.
    searcher: Option<Searcher>,
    /// The bytes with which the member of each word begins. None if that does not decide: then the word does.
    begins: Vec<Vec<u8>>,
}

impl Words {
    fn new() -> Self {
        let mut rows = BTreeMap::new();
        for shape in [CALL_RESULT, PROMPT_RESULT, READ_RESULT, COMPLETION_RESULT] {
            add_members(shape, &mut rows);
        }
        for (kind, shape) in CONTENT {
            add_members(shape, &mut rows);
            if shape.iter().any(|member| !matches!(member.need, Need::Optional | Need::Required)) {
                rows.insert(format!("\"{kind}\""), Row { can_be_mended: true, begins: Vec::new() });
            }
        }
        rows.retain(|_, row| row.can_be_mended);
        // Blocks of text have it, so nothing can mend another one. Where it may be missing, it is null.
        rows.remove("\"text\"");
        rows.insert("null".to_owned(), Row { can_be_mended: true, begins: Vec::new() });
        let searcher = Config::new().match_kind(MatchKind::LeftmostFirst).builder().extend(rows.keys()).build();
        Self { searcher, begins: rows.into_values().map(|row| row.begins).collect() }
    }

    fn may_be_malformed(&self, line: &[u8]) -> bool {
        let Some(searcher) = &self.searcher else { return true };
        searcher.find_iter(line).any(|found| {
            let begins = &self.begins[found.pattern().as_usize()];
            // Where no colon follows, the word is a value.
            let value = line[found.end()..].trim_ascii_start().strip_prefix(b":");
            begins.is_empty()
                || value
                    .is_some_and(|value| value.trim_ascii_start().first().is_none_or(|first| !begins.contains(first)))
        })
    }
}

/// The members of one name, in any object of a result.
#[derive(Default)]
struct Row {
    /// One of them can be dropped or replaced.
    can_be_mended: bool,
    /// The bytes with which fit values begin.
    begins: Vec<u8>,
}

/// Adds the members of an object, by quoted name.
fn add_members(shape: &Shape, rows: &mut BTreeMap<String, Row>) {
    for Member { name, kind, need } in shape {
        let begins: &[u8] = match kind {
            Type::Text | Type::Uri => b"\"",
            Type::Flag => b"tf",
            Type::Record(_) | Type::Object | Type::Map(_) | Type::Structured | Type::Content => b"{",
            Type::List(_, Elements::Required) => b"[",
            _ => b"",
        };
        let row = rows.entry(format!("\"{name}\"")).or_default();
        row.can_be_mended |= *need != Need::Required;
        row.begins.extend(begins);
        if let Type::Record(inner) | Type::List(Type::Record(inner), _) = kind {
            add_members(inner, rows);
        }
    }
}

/// The response `line` as an agent of `era` accepts it. `None` if it passes as it is: it is valid, or nothing can mend it.
#[must_use]
pub fn mended_response(kind: ResultKind, line: &Bytes, era: Era) -> Option<Bytes> {
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
    let (changes, _) = judge(kind.shape(), complete, era, usize::MAX).ok()?;
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
    let own_text = text(&structured);
    let content = content.filter(|content| content[..] != *b"null");
    let blocks = content.as_ref().map_or(Some(Vec::new()), |content| elements(content, MAX_BLOCKS))?;
    // To compare is to parse both. Beyond this limit, the text may be there twice.
    let mut left = result.len().saturating_mul(MAX_COMPARED);
    let mut has_same = |block: &Bytes| {
        let Ok([Some(raw)]) = members(block, ["text"]) else { return false };
        let Some(shown) = text(&raw) else { return false };
        let trimmed = trimmed(&shown);
        if trimmed.first() != structured.first() {
            return own_text.as_ref() == Some(&shown);
        }
        left = left.saturating_sub(structured.len() + trimmed.len());
        left > 0 && json_eq(&trimmed, &structured) || own_text.as_ref() == Some(&shown)
    };
    if blocks.iter().any(&mut has_same) {
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
