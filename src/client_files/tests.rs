//! What all syntaxes have in common is tested per syntax, as tables and as properties.

mod json;
mod properties;
mod toml;
mod yaml;

use super::*;

/// An entry as `mcpd link` writes it.
fn mcpd() -> Value {
    let text = |text: &str| Value::Text(text.to_owned());
    Value::Table(vec![
        ("command".to_owned(), text("mcpd")),
        ("args".to_owned(), Value::List(vec!["connect".to_owned(), "a b".to_owned()])),
        ("env".to_owned(), Value::Table(vec![("X_Y".to_owned(), text("\"1\" ü"))])),
    ])
}

fn parsed(syntax: Syntax, text: &str) -> ClientText {
    ClientText::parse(syntax, text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

impl ClientText {
    /// Whether an entry means `value`, however it is written.
    pub(crate) fn means(&self, table: &[&str], name: &str, value: &Value) -> bool {
        let members = self.tree.table(table).ok().flatten().unwrap_or_default();
        let mut entries = members.iter().filter(|(other, _)| other == name);
        entries.next().is_some_and(|(_, tree)| *tree == Tree::from(value)) && entries.next().is_none()
    }
}

/// `text` with [`mcpd`] inserted.
fn inserted(syntax: Syntax, text: &str, table: &[&str]) -> String {
    let mut file = parsed(syntax, text);
    file.insert(table, "mcpd", &mcpd()).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(file.means(table, "mcpd", &mcpd()), "{text}");
    file.text().to_owned()
}

/// `text` without an entry, which then comes back.
fn removed(syntax: Syntax, text: &str, table: &[&str], name: &str) -> String {
    let mut file = parsed(syntax, text);
    let removed = file.remove(table, name).unwrap_or_else(|error| panic!("{error}: {text}")).expect("an entry");
    let without = file.text().to_owned();
    file.restore(&removed).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(file.text(), text, "put back into {without}");
    without
}

/// Inserts and removes [`mcpd`].
fn assert_undone(syntax: Syntax, text: &str, table: &[&str]) {
    let with = inserted(syntax, text, table);
    assert_ne!(with, text);
    assert_eq!(removed(syntax, &with, table, "mcpd"), text);
}
