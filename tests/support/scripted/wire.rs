//! Bytes out, messages in.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Any JSON-RPC message; what it is, is told by the fields it has.
#[derive(Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
}

/// Stdout and the journal. A peer that is gone is no reason to leave: stubborn servers stay.
pub(crate) struct Output {
    journal: Option<PathBuf>,
    end: &'static str,
}

impl Output {
    pub(crate) fn new(journal: Option<PathBuf>, crlf: bool) -> Self {
        Self { journal, end: if crlf { "\r\n" } else { "\n" } }
    }

    /// Writes bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
    }

    /// Writes one message and the end of its line.
    pub(crate) fn line(&mut self, message: &str) {
        self.raw(format!("{message}{}", self.end).as_bytes());
    }

    /// Writes one message with a system call for each byte.
    pub(crate) fn dribble(&mut self, message: &str) {
        for byte in message.bytes().chain(self.end.bytes()) {
            self.raw(&[byte]);
        }
    }

    pub(crate) fn notify(&mut self, method: &str, params: &str) {
        self.line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
    }

    /// Notes an event of the process's life.
    pub(crate) fn note(&mut self, event: &str) {
        self.append(format!("# {event}\n").as_bytes());
    }

    /// Notes a line received.
    pub(crate) fn received(&mut self, line: &[u8]) {
        self.append(&[line.trim_ascii_end(), b"\n"].concat());
    }

    fn append(&mut self, bytes: &[u8]) {
        let Some(path) = &self.journal else { return };
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the journal opens");
        file.write_all(bytes).expect("the journal is written");
    }
}

/// A response with a result.
pub(crate) fn response(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// A response with an error; `rest` is what comes behind the message, with its comma.
pub(crate) fn error(id: &str, code: i64, message: &str, rest: &str) -> String {
    let message = quoted(message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{rest}}}}}"#)
}

/// A string as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
