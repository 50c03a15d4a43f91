//! What an instance has left that may explain its failure, in bounded size. Pure.
//!
//! The connection collects it. The server's task masks it and adds it to the error, so that it is quoted wherever the error is.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::printable::excerpt;

/// Maximum characters of a quotation.
const MAX_QUOTE_LEN: usize = 200;
/// Bytes that are kept of a quotation until secrets are masked in it.
const MAX_KEPT: usize = 4 << 10;
/// The header that precedes each message in the framing of the Language Server Protocol.
const HEADER: &[u8] = b"content-length:";

/// What an instance has left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    skipped: Quotation,
    /// The URL at which it serves HTTP, by its stdout.
    address: Option<String>,
    unused_ids: Quotation,
    /// The error in the first response with such an id.
    unused_error: Option<String>,
    has_headers: bool,
    /// What it has begun to write on its stdout, if that seems to be a message.
    unended_message: Option<String>,
    /// The last line of its stderr, if that has no end.
    question: Option<String>,
    stdin: StdinUse,
    /// The method of the last message to it, unless that is an answered request.
    last_message: Option<String>,
    /// The handshake had ended.
    has_served: bool,
}

/// The first of several texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Quotation {
    count: u64,
    first: String,
}

/// What a server has done with its stdin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum StdinUse {
    /// It has read all of it.
    #[default]
    Read,
    PartlyRead,
    NeverRead,
    Closed,
}

/// The probable cause of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// It serves HTTP, by a line on its stdout.
    HttpServer,
    /// It sends `Content-Length` headers, which belong to another protocol.
    HeaderFraming,
    /// It answers with ids that no request had.
    UnusedIds,
    /// It does not end the line of its message.
    UnendedMessage,
    /// It writes lines that are no messages.
    SkippedLines,
    /// Its last line on stderr has no end, as if it asked a question.
    Question,
    /// It has closed its stdin or its stdout.
    StreamClosed,
    /// It does not read its stdin.
    StdinUnread,
    /// It has not answered the last message to it.
    LastMessage,
    /// Its bodies have a coding that mcpd does not decode.
    ContentCoding,
}

/// What an error leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unexplained {
    /// Why the process has ended, with an error or without one.
    End { is_success: bool },
    /// Why there is no answer to a first request.
    Silence,
    /// Why a server that has answered does so no more.
    Pause,
    /// What is wrong with an answer.
    Answer,
}

impl Evidence {
    pub(super) fn note_skipped(&mut self, line: &[u8]) {
        self.has_headers |= line.get(..HEADER.len()).is_some_and(|start| start.eq_ignore_ascii_case(HEADER));
        if self.address.is_none() {
            self.address = http_address(&kept(line));
        }
        self.skipped.add(line);
    }

    /// Notes a response with an id that no request had, and its error.
    pub(super) fn note_unused_id(&mut self, id: &[u8], error: Option<&[u8]>) {
        if self.unused_ids.count == 0 {
            self.unused_error = error.map(kept);
        }
        self.unused_ids.add(id);
    }

    /// Notes what the server has written on its stdout without a line end.
    pub(super) fn note_unended_line(&mut self, line: &[u8]) {
        match line.trim_ascii_start() {
            [] => {}
            line @ [b'{', ..] => self.unended_message = Some(kept(line)),
            line => self.note_skipped(line),
        }
    }

    /// Notes what the server has written on its stderr without a line end.
    pub(super) fn note_question(&mut self, line: String) {
        self.question = Some(line);
    }

    pub(super) fn note_stdin(&mut self, stdin: StdinUse) {
        self.stdin = stdin;
    }

    /// Notes that the handshake has ended.
    pub(super) fn note_served(&mut self) {
        self.has_served = true;
    }

    pub(super) fn note_last_message(&mut self, method: String) {
        self.last_message = Some(method);
    }

    /// The same evidence with masked texts, which are shortened and printable.
    pub(super) fn masked(mut self, mask: impl Fn(&str) -> String) -> Self {
        let of_several = [&mut self.skipped.first, &mut self.unused_ids.first].into_iter();
        let single = [
            &mut self.address,
            &mut self.unused_error,
            &mut self.unended_message,
            &mut self.question,
            &mut self.last_message,
        ];
        for text in of_several.chain(single.into_iter().flatten()) {
            *text = excerpt(&mask(text), MAX_QUOTE_LEN);
        }
        self
    }

    /// The part that may explain this, if there is any.
    pub(super) fn about(mut self, unexplained: Unexplained) -> Option<Self> {
        let is_unread = self.stdin == StdinUse::NeverRead;
        let (output, stdin, message) = match unexplained {
            // An end without an error follows from the end of stdin. One with an error seldom does.
            Unexplained::End { is_success } => (!self.has_served, is_unread && is_success, !is_unread),
            Unexplained::Silence => (true, true, false),
            Unexplained::Pause => (false, true, false),
            Unexplained::Answer => (true, false, false),
        };
        if !output {
            self =
                Self { question: self.question, stdin: self.stdin, last_message: self.last_message, ..Self::default() };
        }
        if !stdin {
            self.stdin = StdinUse::Read;
        }
        self.last_message = self.last_message.filter(|_| message);
        self.cause().is_some().then_some(self)
    }

    /// The cause that is most probable.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.clauses().next().map(|(cause, _)| cause)
    }

    /// Clauses about the server, the most probable cause first.
    fn clauses(&self) -> impl Iterator<Item = (Cause, String)> {
        let quoted = |clause: &str, text: &Option<String>| text.as_ref().map(|text| format!("{clause} `{text}`"));
        let error = quoted(", with the error", &self.unused_error).unwrap_or_default();
        let stdin = match self.stdin {
            StdinUse::Read => None,
            StdinUse::PartlyRead => Some((Cause::StdinUnread, "it does not read its stdin any more")),
            StdinUse::NeverRead => Some((Cause::StdinUnread, "it has read nothing from its stdin")),
            StdinUse::Closed => Some((Cause::StreamClosed, "it has closed its stdin")),
        };
        let headers = self
            .has_headers
            .then(|| "it sends `Content-Length` headers, but MCP has one message on each line".to_owned());
        let skipped = self.skipped.clause("a line that is no message", "lines that are no messages");
        let unused =
            self.unused_ids.clause("an answer with an id that no request had", "answers with ids that no request had");
        let http = self.address.as_ref().map(|url| {
            format!("it seems to serve HTTP: write `url = \"{url}\"` beside its `command`, or make it use stdio")
        });
        let all = [
            http.map(|clause| (Cause::HttpServer, clause)),
            headers.map(|clause| (Cause::HeaderFraming, clause)),
            unused.map(|clause| (Cause::UnusedIds, clause + &error)),
            quoted("it has not ended the line of its message", &self.unended_message)
                .map(|clause| (Cause::UnendedMessage, clause)),
            skipped.filter(|_| !self.has_headers).map(|clause| (Cause::SkippedLines, clause)),
            quoted("its last line on stderr has no end:", &self.question).map(|clause| (Cause::Question, clause)),
            stdin.map(|(cause, clause)| (cause, clause.to_owned())),
            quoted("the last message to it was", &self.last_message).map(|clause| (Cause::LastMessage, clause)),
        ];
        all.into_iter().flatten()
    }
}

/// Continues a sentence about the server.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clauses().try_for_each(|(_, clause)| write!(f, "; {clause}"))
    }
}

impl Quotation {
    fn add(&mut self, text: &[u8]) {
        if self.count == 0 {
            self.first = kept(text);
        }
        self.count += 1;
    }

    fn clause(&self, one: &str, many: &str) -> Option<String> {
        let Self { count, first } = self;
        match count {
            0 => None,
            1 => Some(format!("it sent {one}: `{first}`")),
            _ => Some(format!("it sent {count} {many}, the first `{first}`")),
        }
    }
}

/// The URL on this machine in a line such as `Listening on http://localhost:8080/mcp`.
fn http_address(line: &str) -> Option<String> {
    let start = line.find("http://").or_else(|| line.find("https://"))?;
    let end = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '`' | '<' | '>' | '(' | ')');
    let url = line[start..].split(end).next()?.trim_end_matches(['.', ',', ';', '!']);
    let mut url = Url::parse(url).ok()?;
    let is_local = match url.host()? {
        Host::Ipv4(address) => address.is_loopback() || address.is_unspecified(),
        Host::Ipv6(address) => address.is_loopback() || address.is_unspecified(),
        Host::Domain(name) => name == "localhost",
    };
    if matches!(url.host()?, Host::Ipv4(address) if address.is_unspecified()) {
        url.set_host(Some("127.0.0.1")).ok()?;
    }
    is_local.then(|| url.into())
}

fn kept(raw: &[u8]) -> String {
    String::from_utf8_lossy(&raw[..raw.len().min(MAX_KEPT)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(note: impl Fn(&mut Evidence)) -> Evidence {
        let mut evidence = Evidence::default();
        note(&mut evidence);
        evidence.masked(|text| text.replace("hunter2", "***"))
    }

    #[test]
    fn quotations_are_masked_before_they_are_cut() {
        let long = "x".repeat(MAX_QUOTE_LEN - 3) + "hunter2";
        let evidence = of(|evidence| {
            evidence.note_skipped(long.as_bytes());
            evidence.note_skipped(b"second");
            evidence.note_unused_id(b"null", Some(b"hunter2\x1b"));
            evidence.note_question("hunter2? ".to_owned());
            evidence.note_unended_line(b"{hunter2");
        });
        let text = evidence.to_string();
        assert!(!text.contains("hunt") && !text.contains('\x1b'), "{text}");
        assert!(text.contains("xxx***`") && text.contains("2 lines"), "{text}");
    }

    #[test]
    fn evidence_is_bounded() {
        let evidence = of(|evidence| (0..1000).for_each(|_| evidence.note_skipped(&[b'x'; 1 << 16])));
        assert!(evidence.to_string().len() < 2 * MAX_QUOTE_LEN, "{evidence}");
    }

    #[test]
    fn cause_depends_on_what_is_unexplained() {
        let unread = |evidence: &mut Evidence| evidence.note_stdin(StdinUse::NeverRead);
        let busy = |evidence: &mut Evidence| evidence.note_last_message("tools/call".to_owned());
        let noisy = |evidence: &mut Evidence| evidence.note_skipped(b"Usage: x");
        let (failed, finished) = (Unexplained::End { is_success: false }, Unexplained::End { is_success: true });
        let served = |evidence: &mut Evidence| {
            evidence.note_served();
            evidence.note_skipped(b"ready");
            evidence.note_stdin(StdinUse::PartlyRead);
        };
        let nothing = |_: &mut Evidence| {};
        let rows = [
            (of(unread), Unexplained::Silence, Some(Cause::StdinUnread)),
            (of(unread), finished, Some(Cause::StdinUnread)),
            (of(unread), failed, None),
            (of(busy), failed, Some(Cause::LastMessage)),
            (of(busy), Unexplained::Silence, None),
            (of(noisy), failed, Some(Cause::SkippedLines)),
            (of(noisy), Unexplained::Silence, Some(Cause::SkippedLines)),
            (of(noisy), Unexplained::Answer, Some(Cause::SkippedLines)),
            (of(served), failed, None),
            (of(served), Unexplained::Pause, Some(Cause::StdinUnread)),
            (of(served), Unexplained::Silence, Some(Cause::SkippedLines)),
            (of(nothing), Unexplained::Silence, None),
        ];
        for (evidence, unexplained, cause) in rows {
            let about = evidence.about(unexplained);
            assert_eq!(about.as_ref().and_then(Evidence::cause), cause, "{unexplained:?}: {about:?}");
        }
    }
}
