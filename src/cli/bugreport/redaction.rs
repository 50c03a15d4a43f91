//! Removes what must not leave the machine from a text: secrets of the configuration, what looks like a secret, and the name of the home
//! directory.

use std::borrow::Cow;

use crate::config::Config;
use crate::config::interpolate::{Process, Sources};
use crate::config::secret::is_secret_value;
use crate::tap::mask::Mask;

/// A shorter home directory, such as `/`, is no name.
const SHORTEST_HOME: usize = 3;

pub(super) struct Redaction {
    mask: Mask,
    home: Option<String>,
}

impl Redaction {
    /// For a daemon with this configuration. Without one, secrets are found by their names and forms.
    pub(super) fn new(config: Option<&Config>) -> Self {
        let launches =
            config.iter().flat_map(|config| &config.servers).filter_map(|server| server.launch.as_ref().ok());
        let home = Process.home().map(|home| home.to_string_lossy().trim_end_matches('/').to_owned());
        Self {
            mask: Mask::new(launches.flat_map(|launch| launch.secret_values())),
            home: home.filter(|home| home.len() >= SHORTEST_HOME),
        }
    }

    pub(super) fn apply(&self, text: String) -> String {
        // By line, since each may be JSON.
        let lines = text
            .split_inclusive('\n')
            .map(|line| without_secret_words(&self.mask.apply(line.to_owned()).text).into_owned());
        let text: String = lines.collect();
        match &self.home {
            Some(home) => text.replace(home, "~"),
            None => text,
        }
    }
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
            ("nothing: here = 12\n\n".to_owned(), "nothing: here = 12\n\n".to_owned()),
        ] {
            assert_eq!(redaction.apply(text.clone()), expected, "{text}");
        }
    }
}
