//! Writes lines of TOML, each value with its location as a comment.

use super::super::diagnostic::{Location, Spanned};
use super::super::serialize::toml_key;

/// The output so far.
#[derive(Default)]
pub(super) struct Page {
    text: String,
    /// The current table.
    table: String,
    /// Subtables, which follow after the values of the current table.
    below: String,
}

impl Page {
    /// Opens the table at `location`.
    pub(super) fn table(&mut self, name: &str, location: Option<&Location>) {
        self.close();
        name.clone_into(&mut self.table);
        let comment = location.map(|location| format!(" # {}", location.line())).unwrap_or_default();
        self.text += &format!("[{name}]{comment}\n");
    }

    /// Writes a value that a layer sets.
    pub(super) fn value<T>(&mut self, key: &str, value: Option<&Spanned<T>>, serialize: impl Fn(&T) -> String) {
        if let Some(Spanned { value, location }) = value {
            self.text += &format!("{key} = {} # {}\n", serialize(value), location.line());
        }
    }

    /// Writes a default.
    pub(super) fn default_value(&mut self, key: &str, value: &str) {
        self.text += &format!("{key} = {value} # default\n");
    }

    /// Writes a list whose items can come from several locations. An unset list is empty.
    pub(super) fn list<'s, T: 's>(
        &mut self,
        key: &str,
        items: impl Iterator<Item = &'s Spanned<T>>,
        serialize: impl Fn(&T) -> String,
    ) {
        let items: Vec<_> = items.map(|item| (serialize(&item.value), item.location.line())).collect();
        self.text += &match items.as_slice() {
            [] => format!("{key} = [] # default\n"),
            [(_, first), rest @ ..] if rest.iter().all(|(_, location)| location == first) => {
                let items: Vec<_> = items.iter().map(|(item, _)| item.as_str()).collect();
                format!("{key} = [{}] # {first}\n", items.join(", "))
            }
            items => {
                let items: String =
                    items.iter().map(|(item, location)| format!("    {item}, # {location}\n")).collect();
                format!("{key} = [\n{items}]\n")
            }
        };
    }

    /// Writes values as a subtable, unless it is empty.
    pub(super) fn members<'s, T: 's>(
        &mut self,
        key: &str,
        members: impl Iterator<Item = (&'s str, &'s Spanned<T>)>,
        serialize: impl Fn(&T) -> String,
    ) {
        let mut seen = Vec::new();
        let mut lines = String::new();
        for (name, member) in members {
            // If two layers set a key, the upper one comes first and applies.
            if !seen.contains(&name) {
                seen.push(name);
                lines += &format!("{} = {} # {}\n", toml_key(name), serialize(&member.value), member.location.line());
            }
        }
        if !lines.is_empty() {
            self.below += &format!("\n[{}.{key}]\n{lines}", self.table);
        }
    }

    /// Writes a subtable. `inside` gets its values.
    pub(super) fn inner(&mut self, key: &str, inside: impl FnOnce(&mut Self)) {
        let mut page = Self { table: format!("{}.{key}", self.table), ..Self::default() };
        inside(&mut page);
        if !page.text.is_empty() {
            self.below += &format!("\n[{}]\n{}", page.table, page.text);
        }
    }

    /// Writes a comment line.
    pub(super) fn comment(&mut self, text: &str) {
        self.text += &format!("# {text}\n");
    }

    pub(super) fn finish(mut self) -> String {
        self.close();
        self.text.truncate(self.text.trim_end().len());
        self.text + "\n"
    }

    fn close(&mut self) {
        if !self.table.is_empty() {
            self.text += &std::mem::take(&mut self.below);
            self.text.push('\n');
        }
    }
}
