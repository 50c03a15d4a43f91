//! The clients that mcpd knows, and the entries that connect each of them to mcpd. `config/clients` has their table.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use crate::config::clients::Dialect;
use crate::config::serialize::toml_string;

pub(crate) use crate::config::clients::{CLIENTS, Client};

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

/// A server in JSON, in the usual order of keys.
#[derive(Serialize)]
struct Entry<'a> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    command: &'a str,
    args: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: &'a BTreeMap<String, String>,
}

/// A server in the format of OpenCode.
#[derive(Serialize)]
struct OpenCodeEntry<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    command: Vec<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    environment: &'a BTreeMap<String, String>,
}

fn pretty(file: &impl Serialize) -> String {
    serde_json::to_string_pretty(file).unwrap_or_default() + "\n"
}

/// A table of TOML, for Codex.
fn codex_table(Program { name, command, args, env }: &Program) -> String {
    let args: Vec<_> = args.iter().map(|arg| toml_string(arg)).collect();
    let mut table = format!("[mcp_servers.{name}]\ncommand = {}\nargs = [{}]\n", toml_string(command), args.join(", "));
    if !env.is_empty() {
        let env: Vec<_> = env.iter().map(|(name, value)| format!("{name} = {}", toml_string(value))).collect();
        table += &format!("env = {{ {} }}\n", env.join(", "));
    }
    table
}

impl Client {
    /// The entries that run `programs`, as a whole file in the client's format, which ends with a line feed.
    pub(crate) fn entries<'a>(&self, programs: &'a [Program]) -> String {
        let (table, kind) = self.table;
        match self.dialect {
            Dialect::Codex => return programs.iter().map(codex_table).collect::<Vec<_>>().join("\n"),
            // Version 2 also has the servers in `mcp.servers`, and reads those of version 1 in `mcp`. Source:
            // opencode.ai/v1/docs/mcp-servers, "Local"; opencode.ai/docs/migrate-v1, "Use your existing configuration".
            Dialect::OpenCode => {
                let entry = |program: &'a Program| {
                    let Program { name, command, args, env } = program;
                    let command = [command].into_iter().chain(args).map(String::as_str).collect();
                    (name, OpenCodeEntry { kind: "local", command, environment: env })
                };
                return pretty(&BTreeMap::from([(table, programs.iter().map(entry).collect::<BTreeMap<_, _>>())]));
            }
            _ => {}
        }
        let entry = |program: &'a Program| {
            let Program { name, command, args, env } = program;
            (name, Entry { kind, command, args, env })
        };
        pretty(&BTreeMap::from([(table, programs.iter().map(entry).collect::<BTreeMap<_, _>>())]))
    }

    /// Whether its URLs may lead to Unix sockets.
    pub(crate) fn opens_unix_sockets(&self) -> bool {
        self.word == "vscode"
    }

    /// The entries for servers at URLs, each with its name, as a whole file in the client's format. `None` if the client launches all
    /// servers.
    pub(crate) fn url_entries(&self, servers: &[(String, String)], token: Option<&str>) -> Option<String> {
        let (table, _) = self.table;
        let authorization = token.map(|token| format!("Bearer {token}"));
        if self.dialect == Dialect::Codex {
            let header = |value: &String| format!("http_headers = {{ Authorization = {} }}\n", toml_string(value));
            let headers = authorization.as_ref().map(header).unwrap_or_default();
            let entry =
                |(name, url): &(String, String)| format!("[mcp_servers.{name}]\nurl = {}\n{headers}", toml_string(url));
            return Some(servers.iter().map(entry).collect::<Vec<_>>().join("\n"));
        }
        let (kind, key) = match self.word {
            "claude-code" | "vscode" => (Some("http"), "url"),
            "opencode" => (Some("remote"), "url"),
            "cursor" | "zed" => (None, "url"),
            "gemini" => (None, "httpUrl"),
            "windsurf" => (None, "serverUrl"),
            _ => return None,
        };
        let entry = |url: &String| {
            let mut entry = serde_json::Map::new();
            entry.extend(kind.map(|kind| ("type".to_owned(), json!(kind))));
            entry.insert(key.to_owned(), json!(url));
            entry.extend(authorization.as_ref().map(|value| ("headers".to_owned(), json!({ "Authorization": value }))));
            entry
        };
        let all: BTreeMap<_, _> = servers.iter().map(|(name, url)| (name, entry(url))).collect();
        Some(pretty(&BTreeMap::from([(table, all)])))
    }

    /// The client's own command line that adds the entry, if it has one.
    pub(crate) fn command_line(&self, Program { name, command, args, env }: &Program) -> Option<String> {
        let words = [command].into_iter().chain(args).map(|word| shell_word(word));
        let command_line = words.collect::<Vec<_>>().join(" ");
        let variables: String =
            env.iter().map(|(name, value)| format!(" --env {}", shell_word(&format!("{name}={value}")))).collect();
        match self.word {
            "claude-code" => Some(format!("claude mcp add --scope user {name}{variables} -- {command_line}")),
            "codex" => Some(format!("codex mcp add {name}{variables} -- {command_line}")),
            "vscode" => {
                let mut entry = json!({ "name": name, "command": command, "args": args });
                if !env.is_empty() {
                    entry["env"] = json!(env);
                }
                Some(format!("code --add-mcp {}", shell_word(&entry.to_string())))
            }
            _ => None,
        }
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
    use serde_json::Value;

    use super::CLIENTS;
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, spelt) in [("/usr/bin/mcpd", "/usr/bin/mcpd"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(shell_word(word), spelt);
        }
        let program = Program {
            name: "mcpd".into(),
            command: "/a b/mcpd".into(),
            args: vec!["connect".into()],
            ..Program::default()
        };
        let line = Client::named("claude-code").and_then(|client| client.command_line(&program));
        assert_eq!(line.as_deref(), Some("claude mcp add --scope user mcpd -- '/a b/mcpd' connect"));
    }

    #[test]
    fn clients_that_connect_to_urls_get_the_url_and_the_token() {
        let servers = [("mcpd".to_owned(), "http://127.0.0.1:7780/mcp".to_owned())];
        for client in &CLIENTS {
            let entries = client.url_entries(&servers, Some("t"));
            assert_eq!(entries.is_none(), client.word == "claude-desktop", "{}", client.word);
            let entries = entries.unwrap_or_default();
            let has_all = entries.contains("\"http://127.0.0.1:7780/mcp\"") && entries.contains("\"Bearer t\"");
            assert!(has_all || client.word == "claude-desktop", "{}: {entries}", client.word);
        }
        let plain = Client::named("vscode").and_then(|client| client.url_entries(&servers, None)).expect("an entry");
        assert!(plain.contains("\"type\": \"http\"") && !plain.contains("headers"), "{plain}");
    }

    #[test]
    fn every_client_gets_the_command_and_its_arguments() {
        let env = BTreeMap::from([("X".to_owned(), "a 'b".to_owned())]);
        let args = vec!["connect".to_owned(), "a\\b".to_owned()];
        let program = Program { name: "mcpd".to_owned(), command: r#"/x/"y""#.to_owned(), args, env };
        for client in &CLIENTS {
            let entry = client.entries(std::slice::from_ref(&program));
            let [command, args, env] = if client.word == "codex" {
                assert!(entry.starts_with("[mcp_servers.mcpd]\n"), "{entry}");
                [r#"command = "/x/\"y\"""#, r#"args = ["connect", "a\\b"]"#, r#"env = { X = "a 'b" }"#]
                    .map(|part| entry.contains(part))
            } else {
                let entry: Value = serde_json::from_str(&entry).expect("JSON");
                let server = entry.as_object().expect("an object").values().next().expect("one table")["mcpd"].clone();
                if client.word == "opencode" {
                    let command = server["command"] == json!([r#"/x/"y""#, "connect", "a\\b"]);
                    [server["type"] == "local", command, server["environment"] == json!({"X": "a 'b"})]
                } else {
                    let args = server["args"] == json!(["connect", "a\\b"]);
                    [server["command"] == r#"/x/"y""#, args, server["env"] == json!({"X": "a 'b"})]
                }
            };
            assert!(command && args && env && entry.ends_with("\n"), "{}: {entry}", client.word);
        }
    }
}
