//! A home directory with the files of all clients, each with a quirk of its own, and with one server that runs here.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::place::{MCPD, Place};

/// The file of a client.
pub(crate) struct ClientFile {
    /// What the command line calls the client.
    pub(crate) word: &'static str,
    /// Below the home directory.
    path: &'static str,
    text: String,
    quirk: Quirk,
}

/// What is special about a file, beside its text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quirk {
    Plain,
    /// A symbolic link to the file of this path below the home directory.
    Link(&'static str),
    ReadOnly,
}

/// Text, mode and target of everything below a directory.
pub(crate) type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// The files of all twelve clients: name, path, text and quirk. In the texts, `@plain@` is a server that runs here, `@stdio@` the same with its type,
/// and `@mcpd@` its program.
const FILES: [(&str, &str, &str, Quirk); 12] = [
    (
        "claude-code",
        ".claude.json",
        "{\n  \"numStartups\": 12,\n  \"mcpServers\": {\n    \"notes\": @stdio@\n  },\n  \"projects\": {\n    \"/nowhere\": {\n      \
         \"allowedTools\": [],\n      \"mcpServers\": { \"notes\": @stdio@ }\n    }\n  },\n  \"tipsHistory\": {}\n}",
        Quirk::Plain,
    ),
    // A byte order mark, and lines as Windows ends them.
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        "\u{feff}{\r\n  \"globalShortcut\": \"\",\r\n  \"mcpServers\": {\r\n    \"notes\": @plain@\r\n  }\r\n}\r\n",
        Quirk::Plain,
    ),
    // Tabs.
    (
        "cline",
        ".cline/data/settings/cline_mcp_settings.json",
        "{\n\t\"mcpServers\": {\n\t\t\"notes\": @plain@\n\t}\n}\n",
        Quirk::Plain,
    ),
    (
        "codex",
        ".codex/config.toml",
        "# Mine.\nmodel = \"large\" # for now\n\n[mcp_servers.notes] # of the demo\ncommand = \"@mcpd@\"\nargs = [\"demo-server\"]\n\n\
         [profiles.careful]\nmodel = 'larger'\n",
        Quirk::Plain,
    ),
    // On one line.
    ("copilot", ".copilot/mcp-config.json", r#"{"mcpServers":{"notes":@plain@}}"#, Quirk::Plain),
    (
        "cursor",
        ".cursor/mcp.json",
        "{\n    \"mcpServers\": {\n        \"notes\": @plain@\n    }\n}\n",
        Quirk::Link("dotfiles/cursor.json"),
    ),
    (
        "gemini",
        ".gemini/settings.json",
        "{\n  // As it should be.\n  \"theme\": \"Plain\",\n  \"mcpServers\": {\n    \"notes\": @plain@\n  }\n}\n",
        Quirk::ReadOnly,
    ),
    (
        "goose",
        ".config/goose/config.yaml",
        "# Mine.\nGOOSE_PROVIDER: none # yet\nextensions:\n  developer:\n    enabled: true\n    type: builtin\n    name: developer\n  # Of the demo.\n  \
         notes:\n    type: stdio\n    enabled: true\n    name: notes\n    cmd: @mcpd@\n    args:\n      - demo-server\n",
        Quirk::Plain,
    ),
    // Comments and trailing commas.
    (
        "opencode",
        ".config/opencode/opencode.jsonc",
        "{\n  \"model\": \"none/at-all\", // yet\n  \"mcp\": {\n    // Of the demo.\n    \"notes\": { \"type\": \"local\", \"command\": [\"@mcpd@\", \
         \"demo-server\"] },\n  },\n}\n",
        Quirk::Plain,
    ),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        "{\n\t// No inputs.\n\t\"inputs\": [],\n\t\"servers\": {\n\t\t\"notes\": @stdio@,\n\t}\n}\n",
        Quirk::Plain,
    ),
    // The spelling of JSON5.
    (
        "windsurf",
        ".codeium/windsurf/mcp_config.json",
        "{\n  mcpServers: {\n    notes: { command: '@mcpd@', args: ['demo-server'] },\n  },\n}\n",
        Quirk::Plain,
    ),
    (
        "zed",
        ".config/zed/settings.json",
        "// Settings of the editor.\n{\n  \"ui_font_size\": 16,\n  \"context_servers\": {\n    \"notes\": @plain@,\n  },\n  \"vim_mode\": true,\n}\n",
        Quirk::Plain,
    ),
];

/// The files of all twelve clients. Each has the server `notes`, which is the same everywhere.
pub(crate) fn client_files() -> Vec<ClientFile> {
    let json = |kind: &str| format!(r#"{{ {kind}"command": "{MCPD}", "args": ["demo-server"] }}"#);
    let (plain, stdio) = (json(""), json("\"type\": \"stdio\", "));
    let file = |(word, path, text, quirk): (_, _, &str, _)| {
        let text = text.replace("@plain@", &plain).replace("@stdio@", &stdio).replace("@mcpd@", MCPD);
        ClientFile { word, path, text, quirk }
    };
    FILES.into_iter().map(file).collect()
}

/// The file of one client.
pub(crate) fn client_file(word: &str) -> ClientFile {
    client_files().into_iter().find(|file| file.word == word).expect("a client")
}

impl ClientFile {
    pub(crate) fn at(&self, place: &Place) -> PathBuf {
        place.path("home").join(self.path)
    }

    /// Puts the file where its client has it.
    pub(crate) fn put(&self, place: &Place) -> PathBuf {
        let path = self.at(place);
        self.put_at(place, &path);
        path
    }

    fn put_at(&self, place: &Place, path: &Path) {
        let target = match self.quirk {
            Quirk::Link(target) => place.path("home").join(target),
            _ => path.to_owned(),
        };
        for path in [path, &target] {
            fs::create_dir_all(path.parent().expect("a directory")).expect("the test's own directory is writable");
        }
        fs::write(&target, &self.text).expect("the test's own directory is writable");
        let mode = if self.quirk == Quirk::ReadOnly { 0o444 } else { 0o640 };
        fs::set_permissions(&target, Permissions::from_mode(mode)).expect("it is the test's own");
        if target != path {
            symlink(&target, path).expect("a fresh directory");
        }
    }

    /// The command line of mcpd's entry in the file, with its variables.
    pub(crate) fn entry(&self, place: &Place) -> Entry {
        let text = fs::read_to_string(self.at(place)).expect("text");
        let value = match self.word {
            "codex" => {
                let file: toml_edit::DocumentMut = text.parse().expect("TOML");
                let entry = &file["mcp_servers"]["mcpd"];
                let args = entry["args"].as_array().expect("a list").iter().filter_map(toml_edit::Value::as_str);
                let env = entry.get("env").and_then(|env| env.get("XDG_RUNTIME_DIR")?.as_str());
                let env: BTreeMap<_, _> = env.map(|value| ("XDG_RUNTIME_DIR", value)).into_iter().collect();
                json!({ "command": entry["command"].as_str(), "args": args.collect::<Vec<_>>(), "env": env })
            }
            "goose" => yaml_entry(&text),
            // The rest of the file may have comments.
            _ => {
                let start = text.find("mcpd\": {").or_else(|| text.find("mcpd\":{")).expect("an entry");
                let start = start + text[start..].find('{').expect("a value");
                let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
                values.next().expect("a value").unwrap_or_else(|error| panic!("{error}: {text}"))
            }
        };
        let list = |value: &Value| -> Vec<String> {
            let words = value.as_array().map(Vec::as_slice).unwrap_or(std::slice::from_ref(value)).iter();
            words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
        };
        let command = value.get("command").or(value.get("cmd")).expect("a command");
        let words = [list(command), value.get("args").map(list).unwrap_or_default()].concat();
        let variables = ["env", "environment", "envs"].into_iter().find_map(|key| value.get(key)?.as_object().cloned());
        let variables = variables.into_iter().flatten();
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        Entry { words, variables: variables.map(|(name, value)| (name.clone(), text(&value))).collect() }
    }
}

/// mcpd's entry of a file of goose, as mcpd writes it.
fn yaml_entry(text: &str) -> Value {
    let lines = text.lines().skip_while(|line| line.trim() != "mcpd:").skip(1);
    let (mut entry, mut list): (serde_json::Map<String, Value>, Option<String>) = Default::default();
    let plain = |text: &str| Value::from(text.trim().trim_matches(['"', '\'']));
    for line in lines.take_while(|line| line.starts_with("    ") || line.trim_start().starts_with('-')) {
        let line = line.trim();
        if let (Some(item), Some(key)) = (line.strip_prefix("- "), &list) {
            if let Some(items) = entry[key].as_array_mut() {
                items.push(plain(item));
            }
        } else if let Some((key, value)) = line.split_once(':') {
            match (value.trim(), key) {
                ("", _) => {
                    entry.insert(key.to_owned(), Value::Array(Vec::new()));
                    list = Some(key.to_owned());
                }
                (value, _) if value.starts_with('[') => {
                    entry.insert(key.to_owned(), serde_json::from_str(value).expect("a list"));
                }
                (value, "XDG_RUNTIME_DIR") => {
                    entry.insert("envs".to_owned(), json!({ "XDG_RUNTIME_DIR": plain(value) }));
                }
                (value, _) => drop(entry.insert(key.to_owned(), plain(value))),
            }
        }
    }
    Value::Object(entry)
}

/// What a client runs.
pub(crate) struct Entry {
    pub(crate) words: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Entry {
    /// The command as the client runs it: with little more than `HOME` and `PATH`.
    pub(crate) fn command(&self, place: &Place) -> Command {
        let mut command = place.command(&self.words[0]);
        command.env_remove("XDG_RUNTIME_DIR").env_remove("XDG_CONFIG_HOME").current_dir("/");
        command.args(&self.words[1..]).envs(self.variables.iter().cloned());
        command
    }
}

/// `mcpd` of a user whose files are all in the home directory.
pub(crate) fn mcpd_at_home(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command(MCPD);
    command.args(args).env_remove("XDG_CONFIG_HOME");
    command
}

/// Everything below `directory`.
pub(crate) fn tree(directory: &Path) -> Tree {
    let (mut found, mut waiting) = (Tree::new(), vec![directory.to_owned()]);
    while let Some(next) = waiting.pop() {
        for path in fs::read_dir(next).expect("a directory").map(|entry| entry.expect("an entry").path()) {
            let metadata = fs::symlink_metadata(&path).expect("it is there");
            let content = match () {
                () if metadata.is_symlink() => {
                    fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
                }
                () if metadata.is_file() => fs::read(&path).expect("a file"),
                () => Vec::new(),
            };
            if metadata.is_dir() {
                waiting.push(path.clone());
            }
            found.insert(path, (metadata.permissions().mode(), content));
        }
    }
    found
}

/// Fails with the paths that differ.
#[track_caller]
pub(crate) fn expect_same(before: &Tree, after: &Tree) {
    let differing = before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path));
    let shown: Vec<_> = differing
        .map(|path| {
            let text =
                |tree: &Tree| tree.get(path).map(|(mode, bytes)| (*mode, String::from_utf8_lossy(bytes).into_owned()));
            (path, text(before), text(after))
        })
        .collect();
    assert!(shown.is_empty(), "{shown:#?}");
}
