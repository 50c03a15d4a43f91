//! Of which trace a call is a part, as its agent says. Pure.
//!
//! Source: MCP 2026-07-28, `basic`, "OpenTelemetry trace context"; W3C Trace Context, "traceparent Header". Agents of older
//! versions say it alike.

use bytes::Bytes;
use memchr::memmem;

use crate::jsonrpc::members::{members, text};

/// The key of `_meta`.
const KEY: &str = "traceparent";
/// The length of a value of version 00; one of a later version may go on behind a dash.
const LENGTH: usize = 55;

/// The span that an agent makes a call in.
#[derive(Debug, PartialEq)]
pub(super) struct Parent(Bytes);

impl Parent {
    /// What is said in `_meta` of the request `line`; nothing, if it is not said in its form.
    pub(super) fn of(line: &Bytes) -> Option<Self> {
        // Few say it, and who does spells it so.
        memmem::find(line, KEY.as_bytes())?;
        let [params] = members(line, ["params"]).ok()?;
        let [meta] = members(&params?, ["_meta"]).ok()?;
        let [said] = members(&meta?, [KEY]).ok()?;
        let said = text(&said?)?;
        is_well_formed(&said).then_some(Self(said))
    }

    /// 32 hexadecimal digits.
    pub(super) fn trace_id(&self) -> &str {
        self.part(3..35)
    }

    /// 16 hexadecimal digits.
    pub(super) fn span_id(&self) -> &str {
        self.part(36..52)
    }

    fn part(&self, range: std::ops::Range<usize>) -> &str {
        str::from_utf8(&self.0[range]).unwrap_or_default()
    }
}

fn is_well_formed(said: &[u8]) -> bool {
    let Some((said, rest)) = said.split_at_checked(LENGTH) else { return false };
    let mut parts = said.split(|byte| *byte == b'-');
    let is_hex = |part: &[u8]| part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let lengths = [2, 32, 16, 2];
    let is_known = match &said[..2] {
        b"00" => rest.is_empty(),
        b"ff" => false,
        _ => rest.first().is_none_or(|byte| *byte == b'-'),
    };
    let are_parts = lengths.iter().all(|length| parts.next().is_some_and(|part| part.len() == *length && is_hex(part)));
    // Zeros are no id.
    let is_id = |part: &[u8]| part.iter().any(|byte| *byte != b'0');
    is_known && are_parts && is_id(&said[3..35]) && is_id(&said[36..52])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "00f067aa0ba902b7";

    fn parent(meta: &str) -> Option<(String, String)> {
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a","_meta":{meta}}}}}"#);
        Parent::of(&Bytes::from(line)).map(|parent| (parent.trace_id().to_owned(), parent.span_id().to_owned()))
    }

    #[test]
    fn the_trace_and_the_span_of_the_agent_are_those_that_it_names() {
        for (version, end) in [("00", "-01"), ("00", "-00"), ("01", "-01"), ("cc", "-01-more")] {
            let said = format!(r#"{{"traceparent":"{version}-{TRACE}-{SPAN}{end}"}}"#);
            assert_eq!(parent(&said), Some((TRACE.to_owned(), SPAN.to_owned())), "{said}");
        }
    }

    #[test]
    fn what_has_another_form_names_none() {
        let (no_trace, no_span) = ("0".repeat(32), "0".repeat(16));
        for said in [
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("01-{TRACE}-{SPAN}-01more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{no_trace}-{SPAN}-01"),
            format!("00-{TRACE}-{no_span}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}{SPAN}--01"),
            format!("00-{TRACE}-{SPAN}"),
            String::new(),
        ] {
            assert_eq!(parent(&format!(r#"{{"traceparent":"{said}"}}"#)), None, "{said}");
        }
        for meta in [r#"{"traceparent":7}"#, r#"{"traceparent":null}"#, r#"["traceparent"]"#, "{}"] {
            assert_eq!(parent(meta), None, "{meta}");
        }
    }
}
