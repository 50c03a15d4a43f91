//! Lines of TOML, each value with a comment that says where it comes from.

use super::super::edit::toml_key;
use super::super::spanned::{Location, Spanned};

/// What is shown so far.
#[derive(Default)]
pub(super) struct Page {
    text: String,
    /// The table that the last header opened.
    table: String,
    /// Tables below that, which come after its own values.
    below: String,
}

impl Page {
    /// Opens a table; `location` is where it stands.
    pub(super) fn table(&mut self, name: &str, location: Option<&Location>) {
        self.close();
        name.clone_into(&mut self.table);
        let comment = location.map(|location| format!(" # {}", location.line())).unwrap_or_default();
        self.text += &format!("[{name}]{comment}\n");
    }

    /// A value that a layer sets.
    pub(super) fn value<T>(&mut self, key: &str, value: Option<&Spanned<T>>, serialize: impl Fn(&T) -> String) {
        if let Some(Spanned { value, location }) = value {
            self.text += &format!("{key} = {} # {}\n", serialize(value), location.line());
        }
    }

    /// A value that no layer sets.
    pub(super) fn default_value(&mut self, key: &str, value: &str) {
        self.text += &format!("{key} = {value} # default\n");
    }

    /// A list that may come from several places. One that nobody has said anything for is empty.
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

    /// The same as a table of its own, if there is anything in it.
    pub(super) fn members<'s, T: 's>(
        &mut self,
        key: &str,
        members: impl Iterator<Item = (&'s str, &'s Spanned<T>)>,
        serialize: impl Fn(&T) -> String,
    ) {
        let mut seen = Vec::new();
        let mut lines = String::new();
        for (name, member) in members {
            // Of two layers that say the same key the upper one comes first, and counts.
            if !seen.contains(&name) {
                seen.push(name);
                lines += &format!("{} = {} # {}\n", toml_key(name), serialize(&member.value), member.location.line());
            }
        }
        if !lines.is_empty() {
            self.below += &format!("\n[{}.{key}]\n{lines}", self.table);
        }
    }

    /// A table of its own whose values are written to `inside`.
    pub(super) fn inner(&mut self, key: &str, inside: impl FnOnce(&mut Self)) {
        let mut page = Self { table: format!("{}.{key}", self.table), ..Self::default() };
        inside(&mut page);
        if !page.text.is_empty() {
            self.below += &format!("\n[{}]\n{}", page.table, page.text);
        }
    }

    /// A line that only people read.
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
