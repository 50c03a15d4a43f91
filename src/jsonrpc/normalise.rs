//! Reads a line that is nearly a message as the only message that it can be. Pure.
//!
//! [`super::parse`] reads all other lines. A line comes here if it is no message, or if [`is_suspicious`]. The rules:
//!
//! | sender | where | what | becomes |
//! | --- | --- | --- | --- |
//! | server | envelope | a `null` member; `result` only beside an error | nothing |
//! | server | `params`, `result` | `[]`, which is PHP's empty map | `{}` |
//! | server | id of a response | `"7"`, `7.0` | `7` |
//! | server | response without `jsonrpc` | an object or a coded error, and no other member | a message, if the connection tolerates it |
//! | server | the line | several whole messages and terminal sequences | each message |
//! | agent | envelope of a handshake | a `null` member | nothing |
//! | agent | id of `notifications/…` | `null` | nothing |
//!
//! A line with a duplicate member, a key in another case or a bare carriage return is ambiguous, so it stays refused.

use bytes::Bytes;

use super::Message;
use super::members::{each, members, members_of_parsed, slices, text_within};
use super::message::{ENVELOPE, parse};
use super::pending::parse_own_id;
use super::scan::Walk;
use super::splice::{Change, applied, replace_members};

/// Maximum messages of one line.
const MAX_PARTS: usize = 64;

/// Who has sent a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A daemon, whose lines are exact.
    Daemon,
    /// An agent.
    Agent,
    /// A server.
    Server,
}

/// The reading of a line. Each message is a line without its newline, which [`super::parse`] accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Normalised {
    /// These messages, at least one.
    Messages(Vec<Bytes>),
    /// A response without a version, which is added here.
    Unversioned(Bytes),
}

/// A member of the envelope with one value has another meaning.
struct Rule {
    sender: Sender,
    members: &'static [&'static str],
    value: &'static [u8],
    /// `None` if the member counts as absent.
    replacement: Option<&'static [u8]>,
    holds: fn(&Envelope<'_>) -> bool,
}

const RULES: [Rule; 5] = [
    Rule {
        sender: Sender::Server,
        members: &["jsonrpc", "id", "method", "params", "error"],
        value: b"null",
        replacement: None,
        holds: |_| true,
    },
    Rule {
        sender: Sender::Server,
        members: &["result"],
        value: b"null",
        replacement: None,
        holds: |envelope| envelope.error.is_some_and(|error| error.starts_with(b"{")),
    },
    Rule {
        sender: Sender::Server,
        members: &["params", "result"],
        value: b"[]",
        replacement: Some(b"{}"),
        holds: |_| true,
    },
    Rule {
        sender: Sender::Agent,
        members: &["params", "result", "error"],
        value: b"null",
        replacement: None,
        holds: |envelope| {
            [&b"initialize"[..], b"notifications/initialized", b"server/discover"].contains(&&envelope.method[..])
        },
    },
    Rule {
        sender: Sender::Agent,
        members: &["id"],
        value: b"null",
        replacement: None,
        holds: |envelope| envelope.method.starts_with(b"notifications/"),
    },
];

/// What the rules depend on.
struct Envelope<'a> {
    /// Empty without one.
    method: Bytes,
    error: Option<&'a [u8]>,
}

/// Whether a valid message of a server, in this line, has a part that a rule concerns.
#[must_use]
pub fn is_suspicious(message: &Message, line: &Bytes) -> bool {
    match message {
        Message::Request { params: Some(params), .. } | Message::Notification { params: Some(params), .. } => {
            params.starts_with(b"[")
        }
        // It may have `null` as params.
        Message::Request { params: None, .. } | Message::Notification { params: None, .. } => {
            matches!(members_of_parsed(line, ["params"]), Ok([Some(_)]))
        }
        Message::Response { id, response } => {
            !id.iter().all(u8::is_ascii_digit) || response.as_ref().is_ok_and(|result| result.starts_with(b"["))
        }
    }
}

/// Reads a line that is no message, or is a suspicious one. `None` if no rule concerns it, or it can mean several things.
#[must_use]
pub fn normalise(line: &Bytes, sender: Sender) -> Option<Normalised> {
    match mended(line, sender) {
        Some(mended) => Some(mended),
        None if sender == Sender::Server => separated(line).map(Normalised::Messages),
        None => None,
    }
}

/// The line after the rules for its envelope.
fn mended(line: &Bytes, sender: Sender) -> Option<Normalised> {
    let found = slices(line, &ENVELOPE).ok()?;
    let [version, id, method, _, _, error] = found;
    let envelope = Envelope { method: method.and_then(|raw| text_within(line, raw)).unwrap_or_default(), error };
    let (mut absent, mut changes) = (Vec::new(), Vec::new());
    for rule in RULES.iter().filter(|rule| rule.sender == sender && (rule.holds)(&envelope)) {
        for (name, value) in ENVELOPE.iter().zip(found).filter(|(name, _)| rule.members.contains(name)) {
            match (
                value.filter(|value| *value == rule.value || rule.value == b"[]" && is_empty_array(value)),
                rule.replacement,
            ) {
                (None, _) => {}
                (Some(_), None) => absent.push(*name),
                (Some(part), Some(raw)) => changes.push(change(line.slice_ref(part), raw)),
            }
        }
    }
    let is_of_server = sender == Sender::Server;
    if let Some(id) = id.filter(|_| is_of_server && envelope.method.is_empty())
        && let Some(own) = own_id(id).filter(|own| *own != id)
    {
        changes.push(change(line.slice_ref(id), own));
    }
    let is_unversioned = is_of_server && version.is_none_or(|version| version == b"null");
    if absent.is_empty() && changes.is_empty() && !is_unversioned {
        return None;
    }
    let inserted = if is_unversioned { r#""jsonrpc":"2.0""# } else { "" };
    changes.extend(replace_members(line, &absent, inserted).ok()?);
    let mended = Bytes::from(applied(line, &changes));
    let message = parse(&mended).ok()?;
    match is_unversioned {
        false => Some(Normalised::Messages(vec![mended])),
        true => is_plain_response(&mended, &message).then_some(Normalised::Unversioned(mended)),
    }
}

/// Whether a message is a response with an object or a coded error, and has no member that is not of the envelope.
fn is_plain_response(line: &Bytes, message: &Message) -> bool {
    let has_body = match message {
        Message::Response { response: Ok(result), .. } => result.starts_with(b"{"),
        Message::Response { response: Err(error), .. } => members(error, ["code"])
            .is_ok_and(|[code]| code.is_some_and(|code| serde_json::from_slice::<i64>(&code).is_ok())),
        _ => false,
    };
    let mut is_plain = has_body;
    let read = each(line, |key, _| is_plain &= ENVELOPE.iter().any(|name| name.as_bytes() == key));
    read.is_ok() && is_plain
}

fn change(part: Bytes, replacement: &[u8]) -> Change {
    Change { part, replacement: Bytes::copy_from_slice(replacement) }
}

/// Whether a raw value is `[]`.
#[must_use]
pub fn is_empty_array(raw: &[u8]) -> bool {
    raw.strip_prefix(b"[").and_then(|raw| raw.strip_suffix(b"]")).is_some_and(|inner| inner.trim_ascii().is_empty())
}

/// The id that mcpd has assigned and a server has written as a text or with a fraction, such as `"7"` or `7.0`.
#[must_use]
pub fn own_id(raw: &[u8]) -> Option<&[u8]> {
    let text = raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\"")).unwrap_or(raw);
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (whole, fraction) = text.split_at(digits);
    let is_whole = fraction.is_empty()
        || fraction.len() > 1 && fraction[0] == b'.' && fraction[1..].iter().all(|byte| *byte == b'0');
    parse_own_id(whole).filter(|_| is_whole).map(|_| whole)
}

/// The messages of a line that has nothing else but terminal sequences and blanks.
fn separated(line: &Bytes) -> Option<Vec<Bytes>> {
    let (mut rest, mut parts) = (&line[..], Vec::new());
    loop {
        rest = match rest.first() {
            None => break,
            Some(b' ' | b'\t') => &rest[1..],
            Some(b'{') if parts.len() < MAX_PARTS => {
                let (part, after) = rest.split_at(Walk::object(rest).len().ok()?);
                let part = line.slice_ref(part);
                parts.push(match mended(&part, Sender::Server) {
                    Some(Normalised::Messages(mut whole)) => whole.pop()?,
                    Some(Normalised::Unversioned(_)) => return None,
                    None => parse(&part).is_ok().then_some(part)?,
                });
                after
            }
            Some(_) => &rest[terminal_sequence(rest)?..],
        };
    }
    let is_cut = parts.first().is_some_and(|first| first.len() < line.len());
    is_cut.then_some(parts)
}

/// The length of the terminal sequence at the beginning of `text`. Source: ECMA-48, 5.3 to 5.6, and xterm for the end of OSC.
fn terminal_sequence(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(b"\x1b")?;
    let end = match rest.first()? {
        b'[' => {
            let parameters = rest[1..].iter().take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
            rest.get(1 + parameters).filter(|byte| matches!(byte, 0x40..=0x7e)).map(|_| 2 + parameters)?
        }
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let end = rest.iter().position(|byte| matches!(byte, 0x07 | 0x1b | b'\r'))?;
            match &rest[end..] {
                [0x07, ..] if rest[0] == b']' => end + 1,
                [0x1b, b'\\', ..] => end + 2,
                _ => return None,
            }
        }
        _ => {
            let intermediates = rest.iter().take_while(|byte| matches!(byte, 0x20..=0x2f)).count();
            rest.get(intermediates).filter(|byte| matches!(byte, 0x30..=0x7e)).map(|_| 1 + intermediates)?
        }
    };
    Some(1 + end)
}

#[cfg(test)]
mod tests;
