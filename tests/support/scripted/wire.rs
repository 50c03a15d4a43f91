//! Bytes out, messages in.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Any JSON-RPC message. Its members tell its kind.
#[derive(Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
}

/// Stdout and the journal. Write errors are ignored, since some servers must outlive their peer.
pub(crate) struct Output {
    journal: Option<PathBuf>,
    end: &'static str,
    /// Texts and their replacements.
    spellings: Vec<(String, String)>,
}

impl Output {
    pub(crate) fn new(journal: Option<PathBuf>, crlf: bool, spellings: &[String]) -> Self {
        let spellings = spellings.iter().filter_map(|one| one.split_once("=>"));
        let spellings = spellings.map(|(from, to)| (from.to_owned(), to.to_owned())).collect();
        Self { journal, end: if crlf { "\r\n" } else { "\n" }, spellings }
    }

    /// Writes raw bytes.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
    }

    /// Writes one message and the end of its line.
    pub(crate) fn line(&mut self, message: &str) {
        let spelled = self.spellings.iter().fold(message.to_owned(), |line, (from, to)| {
            let id = id_in(&line);
            line.replace(&from.replace("$ID", &id), &to.replace("$ID", &id))
        });
        self.raw(format!("{spelled}{}", self.end).as_bytes());
    }

    /// Writes one message byte by byte, with a system call each.
    pub(crate) fn dribble(&mut self, message: &str) {
        for byte in message.bytes().chain(self.end.bytes()) {
            self.raw(&[byte]);
        }
    }

    pub(crate) fn notify(&mut self, method: &str, params: &str) {
        self.line(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
    }

    /// Writes an event of the process to the journal.
    pub(crate) fn note(&mut self, event: &str) {
        self.append(format!("# {event}\n").as_bytes());
    }

    /// Writes a received line to the journal.
    pub(crate) fn received(&mut self, line: &[u8]) {
        self.append(&[line.trim_ascii_end(), b"\n"].concat());
    }

    fn append(&mut self, bytes: &[u8]) {
        let Some(path) = &self.journal else { return };
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the journal opens");
        file.write_all(bytes).expect("the journal is written");
    }
}

/// The digits of the first id in a message; `$ID` without one.
fn id_in(message: &str) -> String {
    let after = message.split_once("\"id\":").map(|(_, after)| after).unwrap_or_default();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    if digits.is_empty() { "$ID".to_owned() } else { digits }
}

/// A response with a result.
pub(crate) fn response(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// An error response. `rest` follows the message, with a leading comma.
pub(crate) fn error(id: &str, code: i64, message: &str, rest: &str) -> String {
    let message = quoted(message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{rest}}}}}"#)
}

/// A string as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
