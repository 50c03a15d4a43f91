//! The clients that mcpd knows, and the entries that connect each of them to mcpd. `config/clients` has their table.

use std::collections::BTreeMap;

use serde_json::json;

use crate::client_files::{ClientText, Value};
use crate::config::clients::{Member, Part};

pub(crate) use crate::config::clients::{CLIENTS, Client};

/// Largest file of a client that is read. Claude Code keeps its history in the same file as its servers.
pub(crate) const MAX_FILE: u64 = 32 << 20;

/// The program that a client runs as its server.
#[derive(Debug, Default, Clone)]
pub(crate) struct Program {
    /// The name of the entry.
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    /// Variables that the client would not pass on itself.
    pub(crate) env: BTreeMap<String, String>,
}

/// The server at a URL to which a client connects.
#[derive(Clone)]
pub(crate) struct Remote {
    /// The name of the entry.
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) token: Option<String>,
}

fn texts<'a>(words: impl IntoIterator<Item = &'a String>) -> Value {
    Value::List(words.into_iter().cloned().collect())
}

fn table<'a>(members: impl IntoIterator<Item = (&'a String, &'a String)>) -> Option<Value> {
    let member = |(name, value): (&String, &String)| (name.clone(), Value::Text(value.clone()));
    let members: Vec<_> = members.into_iter().map(member).collect();
    (!members.is_empty()).then_some(Value::Table(members))
}

impl Program {
    fn part(&self, part: Part) -> Option<Value> {
        Some(match part {
            Part::Name => Value::Text(self.name.clone()),
            Part::Command => Value::Text(self.command.clone()),
            Part::Args => texts(&self.args),
            Part::CommandLine => texts([&self.command].into_iter().chain(&self.args)),
            Part::Env => return table(&self.env),
            _ => return None,
        })
    }
}

impl Remote {
    fn part(&self, part: Part) -> Option<Value> {
        match part {
            Part::Name => Some(Value::Text(self.name.clone())),
            Part::Url => Some(Value::Text(self.url.clone())),
            Part::Headers => table(Some((&"Authorization".to_owned(), &format!("Bearer {}", self.token.as_ref()?)))),
            _ => None,
        }
    }
}

/// The entry with these members, whose variable parts are the values of `part`.
fn entry(members: &[Member], part: impl Fn(Part) -> Option<Value>) -> Value {
    let value = |of: Part| match of {
        Part::Text(text) => Some(Value::Text(text.to_owned())),
        Part::Flag(truth) => Some(Value::Flag(truth)),
        Part::List(items) => Some(Value::List(items.iter().map(|&item| item.to_owned()).collect())),
        _ => part(of),
    };
    Value::Table(members.iter().filter_map(|(key, part)| Some(((*key).to_owned(), value(*part)?))).collect())
}

impl Client {
    /// The entry that runs `program`.
    pub(crate) fn entry(&self, program: &Program) -> Value {
        entry(self.dialect.program, |part| program.part(part))
    }

    /// The entry that connects to a URL. `None` if the client launches all of its servers.
    pub(crate) fn url_entry(&self, remote: &Remote) -> Option<Value> {
        Some(entry(self.dialect.remote?, |part| remote.part(part)))
    }

    /// The entries that run `programs`, as a whole file in the client's format, which ends with a line feed.
    pub(crate) fn entries(&self, programs: &[Program]) -> String {
        self.file(programs.iter().map(|program| (&*program.name, self.entry(program))))
    }

    /// The entries for servers at URLs, as a whole file in the client's format. `None` if the client launches all of its servers.
    pub(crate) fn url_entries(&self, remotes: &[Remote]) -> Option<String> {
        let entries: Option<Vec<_>> =
            remotes.iter().map(|remote| Some((&*remote.name, self.url_entry(remote)?))).collect();
        entries.map(|entries| self.file(entries))
    }

    /// A file with these entries alone.
    fn file<'a>(&self, entries: impl IntoIterator<Item = (&'a str, Value)>) -> String {
        let Ok(mut file) = ClientText::parse(self.syntax(), "") else { return String::new() };
        for (name, entry) in entries {
            if let Err(error) = file.insert(self.servers_table(), name, &entry) {
                tracing::error!(client = self.word, name, %error, "an entry cannot be written");
            }
        }
        file.text().to_owned()
    }

    /// The client's own command line that adds the entry, if it has one.
    pub(crate) fn command_line(&self, Program { name, command, args, env }: &Program) -> Option<String> {
        let adder = self.adder?;
        let words: Vec<String> = if adder.takes_json {
            let mut entry = json!({ "name": name, "command": command, "args": args });
            if !env.is_empty() {
                entry["env"] = json!(env);
            }
            vec![entry.to_string()]
        } else {
            let variables = env.iter().flat_map(|(name, value)| ["--env".to_owned(), format!("{name}={value}")]);
            let entry = [name.clone()].into_iter().chain(variables).chain(["--".to_owned(), command.clone()]);
            entry.chain(args.iter().cloned()).collect()
        };
        let all = adder.words.iter().copied().chain(words.iter().map(String::as_str));
        Some(all.map(shell_word).collect::<Vec<_>>().join(" "))
    }
}

/// Quotes a word for a POSIX shell.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_files::Syntax;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, spelt) in [("/usr/bin/mcpd", "/usr/bin/mcpd"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(shell_word(word), spelt);
        }
    }

    /// A program whose words need quotes in each language.
    fn program() -> Program {
        let env = BTreeMap::from([("X".to_owned(), "a 'b".to_owned())]);
        let args = vec!["connect".to_owned(), "a\\b: #".to_owned()];
        Program { name: "mcpd".to_owned(), command: r#"/x/"y""#.to_owned(), args, env }
    }

    #[test]
    fn command_lines_of_clients_add_the_program() {
        let plain = Program { args: vec!["connect".into()], command: "/a b/mcpd".into(), ..program() };
        for (word, expected) in [
            ("claude-code", r"claude mcp add --scope user mcpd --env 'X=a '\''b' -- '/a b/mcpd' connect"),
            ("codex", r"codex mcp add mcpd --env 'X=a '\''b' -- '/a b/mcpd' connect"),
            ("copilot", r"copilot mcp add mcpd --env 'X=a '\''b' -- '/a b/mcpd' connect"),
            (
                "vscode",
                r#"code --add-mcp '{"args":["connect"],"command":"/a b/mcpd","env":{"X":"a '\''b"},"name":"mcpd"}'"#,
            ),
        ] {
            let line = Client::named(word).and_then(|client| client.command_line(&plain));
            assert_eq!(line.as_deref(), Some(expected));
        }
        assert_eq!(CLIENTS.iter().filter_map(|client| client.command_line(&plain)).count(), 4);
    }

    #[test]
    fn every_client_gets_the_command_and_its_arguments() {
        for (words, entry) in [
            (
                &["claude-code", "vscode"][..],
                r#"{"type": "stdio", "command": "/x/\"y\"", "args": ["connect", "a\\b: #"], "env": {"X": "a 'b"}}"#,
            ),
            (
                &["claude-desktop", "cline", "codex", "cursor", "gemini", "windsurf"],
                r#"{"command": "/x/\"y\"", "args": ["connect", "a\\b: #"], "env": {"X": "a 'b"}}"#,
            ),
            (
                &["copilot"],
                r#"{"type": "local", "command": "/x/\"y\"", "args": ["connect", "a\\b: #"], "env": {"X": "a 'b"}, "tools": ["*"]}"#,
            ),
            (
                &["zed"],
                r#"{"source": "custom", "command": "/x/\"y\"", "args": ["connect", "a\\b: #"], "env": {"X": "a 'b"}}"#,
            ),
            (
                &["opencode"],
                r#"{"type": "local", "command": ["/x/\"y\"", "connect", "a\\b: #"], "environment": {"X": "a 'b"}}"#,
            ),
        ] {
            for client in words.iter().filter_map(|word| Client::named(word)) {
                assert_eq!(shown(&client.entry(&program())), entry, "{}", client.word);
            }
        }
        let goose = Client::named("goose").expect("a client").entry(&program());
        let expected = r#"{"name": "mcpd", "description": "MCP servers that mcpd runs", "type": "stdio", "enabled": true, "cmd": "/x/\"y\"", "args": ["connect", "a\\b: #"], "envs": {"X": "a 'b"}}"#;
        assert_eq!(shown(&goose), expected);
    }

    /// The value in JSON.
    fn shown(value: &Value) -> String {
        let text = |text: &String| serde_json::to_string(text).expect("a text");
        match value {
            Value::Text(words) => text(words),
            Value::Flag(truth) => truth.to_string(),
            Value::List(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(", ")),
            Value::Table(members) => {
                let members = members.iter().map(|(key, value)| format!("{}: {}", text(key), shown(value)));
                format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
            }
        }
    }

    #[test]
    fn clients_that_connect_to_urls_get_the_url_and_the_token() {
        let remote =
            |token: Option<&str>| Remote { name: "m".into(), url: "u".into(), token: token.map(str::to_owned) };
        for (word, entry) in [
            ("claude-code", r#"{"type": "http", "url": "u", "headers": {"Authorization": "Bearer t"}}"#),
            ("cline", r#"{"type": "streamableHttp", "url": "u", "headers": {"Authorization": "Bearer t"}}"#),
            ("codex", r#"{"url": "u", "http_headers": {"Authorization": "Bearer t"}}"#),
            ("copilot", r#"{"type": "http", "url": "u", "headers": {"Authorization": "Bearer t"}, "tools": ["*"]}"#),
            ("cursor", r#"{"url": "u", "headers": {"Authorization": "Bearer t"}}"#),
            ("gemini", r#"{"httpUrl": "u", "headers": {"Authorization": "Bearer t"}}"#),
            (
                "goose",
                r#"{"name": "m", "description": "MCP servers that mcpd runs", "type": "streamable_http", "enabled": true, "uri": "u", "headers": {"Authorization": "Bearer t"}}"#,
            ),
            ("opencode", r#"{"type": "remote", "url": "u", "headers": {"Authorization": "Bearer t"}}"#),
            ("vscode", r#"{"type": "http", "url": "u", "headers": {"Authorization": "Bearer t"}}"#),
            ("windsurf", r#"{"serverUrl": "u", "headers": {"Authorization": "Bearer t"}}"#),
            ("zed", r#"{"url": "u", "headers": {"Authorization": "Bearer t"}}"#),
        ] {
            let made = Client::named(word).and_then(|client| client.url_entry(&remote(Some("t"))));
            assert_eq!(made.as_ref().map(shown).as_deref(), Some(entry), "{word}");
        }
        let plain = Client::named("vscode").and_then(|client| client.url_entry(&remote(None)));
        assert_eq!(plain.as_ref().map(shown).as_deref(), Some(r#"{"type": "http", "url": "u"}"#));
        let launching = CLIENTS.iter().filter(|client| client.url_entry(&remote(None)).is_none());
        assert_eq!(launching.map(|client| client.word).collect::<Vec<_>>(), ["claude-desktop"]);
    }

    #[test]
    fn printed_file_has_every_entry_in_the_table_of_its_client() {
        let programs = [program(), Program { name: "other".to_owned(), ..program() }];
        for client in &CLIENTS {
            let text = client.entries(&programs);
            let file = ClientText::parse(client.syntax(), &text).expect("a valid file");
            assert_eq!(file.names(client.servers_table()), ["mcpd", "other"], "{text}");
            for program in &programs {
                assert!(file.means(client.servers_table(), &program.name, &client.entry(program)), "{text}");
            }
            assert!(text.ends_with('\n') && (client.syntax() == Syntax::Json) == text.starts_with('{'), "{text}");
        }
    }
}
