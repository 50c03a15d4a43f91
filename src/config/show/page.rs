//! Lines of TOML, each value with a comment that says where it comes from.

use super::super::edit::{toml_key, toml_string};
use super::super::spanned::{Place, Spanned};

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
    /// Opens a table; `place` is where it stands.
    pub(super) fn table(&mut self, name: &str, place: Option<&Place>) {
        self.close();
        name.clone_into(&mut self.table);
        let comment = place.map(|place| format!(" # {}", place.line())).unwrap_or_default();
        self.text += &format!("[{name}]{comment}\n");
    }

    /// A value that is said, or else the one that holds where none is, if any does.
    pub(super) fn value<T>(
        &mut self,
        key: &str,
        said: Option<&Spanned<T>>,
        unset: Option<&T>,
        spell: impl Fn(&T) -> String,
    ) {
        let (value, comment) = match (said, unset) {
            (Some(Spanned { value, place }), _) => (value, place.line()),
            (None, Some(unset)) => (unset, "default".to_owned()),
            (None, None) => return,
        };
        self.text += &format!("{key} = {} # {comment}\n", spell(value));
    }

    /// A list that may come from several places. One that nobody has said anything for is empty.
    pub(super) fn list<'s, T: 's>(
        &mut self,
        key: &str,
        items: impl Iterator<Item = &'s Spanned<T>>,
        spell: impl Fn(&T) -> String,
    ) {
        let items: Vec<_> = items.map(|item| (spell(&item.value), item.place.line())).collect();
        self.text += &match items.as_slice() {
            [] => format!("{key} = [] # default\n"),
            [(_, first), rest @ ..] if rest.iter().all(|(_, place)| place == first) => {
                let items: Vec<_> = items.iter().map(|(item, _)| item.as_str()).collect();
                format!("{key} = [{}] # {first}\n", items.join(", "))
            }
            items => {
                let items: String = items.iter().map(|(item, place)| format!("    {item}, # {place}\n")).collect();
                format!("{key} = [\n{items}]\n")
            }
        };
    }

    /// The same as a table of its own, if there is anything in it.
    pub(super) fn members<'s, T: 's>(
        &mut self,
        key: &str,
        members: impl Iterator<Item = (&'s str, &'s Spanned<T>)>,
        spell: impl Fn(&T) -> String,
    ) {
        let mut seen = Vec::new();
        let mut lines = String::new();
        for (name, member) in members {
            // Of two layers that say the same key the upper one comes first, and counts.
            if !seen.contains(&name) {
                seen.push(name);
                lines += &format!("{} = {} # {}\n", toml_key(name), spell(&member.value), member.place.line());
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

pub(super) fn quoted(text: &str) -> String {
    toml_string(text)
}

pub(super) fn on_or_off(truth: &bool) -> String {
    truth.to_string()
}
