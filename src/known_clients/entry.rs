//! Formats the entry that connects a client to mcpd.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::Client;
use crate::config::edit::toml_string;

/// The name of the entry.
const NAME: &str = "mcpd";

/// The program that a client runs as its server.
#[derive(Debug, Default)]
pub(crate) struct Program {
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
fn codex_table(Program { command, args, env }: &Program) -> String {
    let args: Vec<_> = args.iter().map(|arg| toml_string(arg)).collect();
    let mut table = format!("[mcp_servers.{NAME}]\ncommand = {}\nargs = [{}]\n", toml_string(command), args.join(", "));
    if !env.is_empty() {
        let env: Vec<_> = env.iter().map(|(name, value)| format!("{name} = {}", toml_string(value))).collect();
        table += &format!("env = {{ {} }}\n", env.join(", "));
    }
    table
}

impl Client {
    /// The entry that runs `program`, as a whole file in the client's format, which ends with a line feed.
    pub(crate) fn entry(&self, program: &Program) -> String {
        let Program { command, args, env } = program;
        let (table, kind) = match self.word {
            "codex" => return codex_table(program),
            // Version 2 also has the servers in `mcp.servers`, and reads those of version 1 in `mcp`. Source:
            // opencode.ai/v1/docs/mcp-servers, "Local"; opencode.ai/docs/migrate-v1, "Use your existing configuration".
            "opencode" => {
                let command = [command].into_iter().chain(args).map(String::as_str).collect();
                let entry = OpenCodeEntry { kind: "local", command, environment: env };
                return pretty(&BTreeMap::from([("mcp", BTreeMap::from([(NAME, entry)]))]));
            }
            "vscode" => ("servers", Some("stdio")),
            "zed" => ("context_servers", None),
            "claude-code" => ("mcpServers", Some("stdio")),
            _ => ("mcpServers", None),
        };
        let file = BTreeMap::from([(table, BTreeMap::from([(NAME, Entry { kind, command, args, env })]))]);
        pretty(&file)
    }

    /// The client's own command line that adds the entry, if it has one.
    pub(crate) fn command_line(&self, Program { command, args, env }: &Program) -> Option<String> {
        let words = [command].into_iter().chain(args).map(|word| shell_word(word));
        let command_line = words.collect::<Vec<_>>().join(" ");
        let variables: String =
            env.iter().map(|(name, value)| format!(" --env {}", shell_word(&format!("{name}={value}")))).collect();
        match self.word {
            "claude-code" => Some(format!("claude mcp add --scope user {NAME}{variables} -- {command_line}")),
            "codex" => Some(format!("codex mcp add {NAME}{variables} -- {command_line}")),
            "vscode" => {
                let mut entry = json!({ "name": NAME, "command": command, "args": args });
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

    use super::*;
    use crate::known_clients::CLIENTS;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, spelt) in [("/usr/bin/mcpd", "/usr/bin/mcpd"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(shell_word(word), spelt);
        }
        let program = Program { command: "/a b/mcpd".into(), args: vec!["connect".into()], ..Program::default() };
        let line = Client::named("claude-code").and_then(|client| client.command_line(&program));
        assert_eq!(line.as_deref(), Some("claude mcp add --scope user mcpd -- '/a b/mcpd' connect"));
    }

    #[test]
    fn every_client_gets_the_command_and_its_arguments() {
        let env = BTreeMap::from([("X".to_owned(), "a 'b".to_owned())]);
        let args = vec!["connect".to_owned(), "a\\b".to_owned()];
        let program = Program { command: r#"/x/"y""#.to_owned(), args, env };
        for client in &CLIENTS {
            let entry = client.entry(&program);
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
