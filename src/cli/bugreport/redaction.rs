//! Removes what must not leave the machine from a text: secrets of the configuration, what looks like a secret, and the name of the home
//! directory.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::config::Config;
use crate::config::interpolate::{Process, Sources};
use crate::config::secret::{is_secret, is_secret_name, is_secret_value};
use crate::masking::mask::{Mask, strings};

/// A shorter home directory, such as `/`, is no name.
const SHORTEST_HOME: usize = 3;

pub(super) struct Redaction {
    mask: Mask,
    home: Option<String>,
}

impl Redaction {
    /// With this configuration, which may be newer than the daemon's. Without one, secrets are found by their names and forms.
    pub(super) fn new(config: Option<&Config>) -> Self {
        let home = Process.home().map(|home| home.to_string_lossy().trim_end_matches('/').to_owned());
        Self {
            mask: Mask::new(config.map(Config::secret_values).unwrap_or_default()),
            home: home.filter(|home| home.len() >= SHORTEST_HOME),
        }
    }

    pub(super) fn apply(&self, text: String) -> String {
        let text = self.mask.apply(&text).text;
        let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
        let text: String = if is_json(&text) {
            without_secret_strings(&text)
        } else {
            // By line, since each may be JSON.
            let lines = text.split_inclusive('\n');
            lines.map(|line| if is_json(line) { without_secret_strings(line) } else { without_named(line) }).collect()
        };
        match &self.home {
            Some(home) => text.replace(home, "~"),
            None => text,
        }
    }
}

/// A text of JSON, whose strings are read as lines.
fn without_secret_strings(json: &str) -> String {
    let (mut shown, mut done) = (String::new(), 0);
    for string in strings(json.as_bytes()) {
        shown += &json[done..string.start];
        shown += &json[string.clone()].split_inclusive("\\n").map(without_named).collect::<String>();
        done = string.end;
    }
    shown + &json[done..]
}

/// A line without what follows the name of a secret, such as in `Authorization: Bearer X` or `password: two words`, and without words that look
/// like secrets by their form.
fn without_named(line: &str) -> String {
    let is_name_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let line_end = line.trim_end_matches("\\n").trim_end().len();
    let (text, end) = line.split_at(line_end);
    for (at, _) in text.match_indices(':') {
        let before = text[..at].trim_end_matches(['"', '\'', '\\', ' ']);
        let name = &before[before.rfind(|c| !is_name_part(c)).map_or(0, |end| end + 1)..];
        let value = &text[at + 1..];
        let gap = value.len() - value.trim_start_matches([' ', '"', '\'', '\\']).len();
        if gap > 0 && is_secret_name(name) && is_secret(name, &value[gap..]) {
            return format!("{}…{end}", without_secret_words(&text[..at + 1 + gap]));
        }
    }
    without_secret_words(line).into_owned()
}

/// `text` without words that look like secrets by their form.
fn without_secret_words(text: &str) -> Cow<'_, str> {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';' | '(' | ')' | '<' | '>');
    let bare = |word: &str| word.trim_end_matches(is_end).len();
    if !text.split(is_end).any(is_secret_value) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for word in text.split_inclusive(is_end) {
        let (word, end) = word.split_at(bare(word));
        shown += if is_secret_value(word) { "…" } else { word };
        shown += end;
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Launch, Program, ServerConfig};

    #[test]
    fn known_and_likely_secrets_and_the_home_directory_are_replaced() {
        let mut server = ServerConfig::new("s", "x");
        let env =
            [("API_KEY", "known-secret"), ("PLAIN", "plain")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        server.launch = Ok(Launch::Program(Program { env: env.into(), ..Program::default() }));
        let config = Config { servers: vec![server], ..Config::default() };
        let redaction = Redaction { home: Some("/home/ann".to_owned()), ..Redaction::new(Some(&config)) };
        let token = format!("ghp_{}", "aB3".repeat(12));
        for (text, expected) in [
            ("it is known-secret, plain\n/home/ann/x\n".to_owned(), "it is …, plain\n~/x\n".to_owned()),
            (format!("{{\"text\":\"see {token}.\"}}\n"), "{\"text\":\"see …\"}\n".to_owned()),
            ("https://me:pa55w0rd@example.org/x y".to_owned(), "… y".to_owned()),
            ("{\"password\":\"correct horse\",\"n\":1}".to_owned(), "{\"password\":\"…\",\"n\":1}".to_owned()),
            (
                "authorization: Bearer of two-words\npassword: correct horse\n".to_owned(),
                "authorization: …\npassword: …\n".to_owned(),
            ),
            ("x {'Authorization': 'Basic abc def'}".to_owned(), "x {'Authorization': '…".to_owned()),
            (
                "{\"text\":\"a\\npassword: correct horse\\nb\",\"n\":1}\n".to_owned(),
                "{\"text\":\"a\\npassword: …\\nb\",\"n\":1}\n".to_owned(),
            ),
            ("token: none\n".to_owned(), "token: none\n".to_owned()),
            ("nothing: here = 12\n\n".to_owned(), "nothing: here = 12\n\n".to_owned()),
        ] {
            assert_eq!(redaction.apply(text.clone()), expected, "{text}");
        }
    }
}
