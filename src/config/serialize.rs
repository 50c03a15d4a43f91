//! Writes TOML in the style of a person: texts, keys, and the table of a server.

use super::sandbox::{NamespaceUse, Network, Sandbox};
use crate::printable::is_visible;

/// Maximum line length. Longer values are split over several lines.
const WIDTH: usize = 100;

/// A value of a server's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Setting {
    /// A text.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// A list of texts.
    List(Vec<String>),
    /// Texts by their keys, in this order.
    Table(Vec<(String, String)>),
    /// The value of `sandbox`.
    Sandbox(Sandbox),
    /// A value with a comment above its key.
    Explained(Box<Setting>, String),
}

impl Setting {
    /// The key `of` with this value, on one line.
    pub(super) fn assignment(&self, of: &str) -> String {
        line(of, self).trim_end().to_owned()
    }
}

impl From<&str> for Setting {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// `[servers.NAME]` with its keys. Every line ends with `\n`. An inline table that does not fit on a line is written as a table with a
/// header, after all other keys.
pub(super) fn server(name: &str, settings: &[(&str, Setting)]) -> String {
    let name = toml_key(name);
    let (mut lines, mut tables) = (format!("[servers.{name}]\n"), String::new());
    for (of, setting) in settings {
        let of = toml_key(of);
        let setting = match setting {
            Setting::Explained(setting, why) => {
                lines.push_str(&format!("# {why}\n"));
                setting
            }
            setting => setting,
        };
        match (setting, line(&of, setting)) {
            (_, line) if line.len() <= WIDTH => lines.push_str(&line),
            (Setting::Table(members), _) => {
                tables.push_str(&format!("\n[servers.{name}.{of}]\n{}", pairs(members, "", "\n")))
            }
            (Setting::List(items), _) => {
                let items: String = items.iter().map(|item| format!("    {},\n", toml_string(item))).collect();
                lines.push_str(&format!("{of} = [\n{items}]\n"));
            }
            (_, line) => lines.push_str(&line),
        }
    }
    lines + &tables
}

fn line(of: &str, setting: &Setting) -> String {
    let value = match setting {
        Setting::Text(value) => toml_string(value),
        Setting::Flag(value) => value.to_string(),
        Setting::Sandbox(sandbox) => sandbox_text(sandbox),
        Setting::Explained(setting, _) => return line(of, setting),
        Setting::List(items) => {
            format!("[{}]", items.iter().map(|item| toml_string(item)).collect::<Vec<_>>().join(", "))
        }
        Setting::Table(members) if members.is_empty() => "{}".to_owned(),
        Setting::Table(members) => format!("{{ {} }}", pairs(members, ", ", "")),
    };
    format!("{of} = {value}\n")
}

fn pairs(members: &[(String, String)], between: &str, after: &str) -> String {
    let each: Vec<_> =
        members.iter().map(|(name, value)| format!("{} = {}{after}", toml_key(name), toml_string(value))).collect();
    each.join(between)
}

/// A key, quoted if necessary.
pub(super) fn toml_key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if is_bare { name.to_owned() } else { toml_string(name) }
}

/// A text in quotes on one line. Invisible characters are escaped.
pub(crate) fn toml_string(value: &str) -> String {
    let mut spelt = String::from('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => spelt.extend(['\\', c]),
            '\n' => spelt.push_str("\\n"),
            '\r' => spelt.push_str("\\r"),
            '\t' => spelt.push_str("\\t"),
            c if is_visible(c) => spelt.push(c),
            c if c <= '\u{ffff}' => spelt.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => spelt.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    spelt + "\""
}

/// The value of `sandbox` as TOML: a word if it says everything, else a table.
pub(crate) fn sandbox_text(sandbox: &Sandbox) -> String {
    let plain = Sandbox::of_level(sandbox.level);
    if *sandbox == plain {
        return toml_string(sandbox.level.name());
    }
    let mut members = vec![format!("level = {}", toml_string(sandbox.level.name()))];
    for (key, paths) in [("read", &sandbox.read), ("write", &sandbox.write)] {
        if !paths.is_empty() {
            let paths: Vec<_> = paths.iter().map(|path| toml_string(&path.to_string_lossy())).collect();
            members.push(format!("{key} = [{}]", paths.join(", ")));
        }
    }
    members.extend(sandbox.unix.map(|unix| format!("unix = {unix}")));
    if sandbox.namespaces == NamespaceUse::Require {
        members.push("namespaces = \"require\"".to_owned());
    }
    if sandbox.nested_namespaces {
        members.push("nested_namespaces = true".to_owned());
    }
    match &sandbox.network {
        Network::Any => {}
        Network::Ports(ports) if ports.is_empty() => members.push("network = \"none\"".to_owned()),
        Network::Ports(ports) => members.push(format!("network = {ports:?}")),
    }
    format!("{{ {} }}", members.join(", "))
}
