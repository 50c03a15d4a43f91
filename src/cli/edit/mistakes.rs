//! Mistakes of a configuration as comments above their lines. The comments are removed again before the text is used.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::ConfigError;
use crate::config::diagnostic::Diagnostic;
use crate::config::edit::file::ConfigFile;

/// The beginning of each comment.
const MARK: &str = "#mcpd! ";

/// The mistakes of one text.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    /// Lines of text, by the number of the line that they belong to. Those of other files belong to the first line.
    by_line: BTreeMap<usize, Vec<String>>,
    /// A mark that no line of the text begins with.
    mark: String,
}

impl Mistakes {
    /// The mistakes in `text` of `file`, and those of other files that are not `known`.
    pub(super) fn of(error: &ConfigError, file: &ConfigFile, known: &BTreeSet<String>, text: &str) -> Self {
        let mut mark = MARK.to_owned();
        while text.lines().any(|line| line.starts_with(&mark)) {
            mark.insert(0, '#');
        }
        let mut by_line: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for one in error.diagnostics().iter().filter(|one| is_in(one, file)) {
            let Diagnostic { message, label, help, .. } = one;
            let lines = by_line.entry(one.place().0).or_default();
            lines.push(message.clone());
            lines.extend(label.iter().cloned());
            lines.extend(help.iter().flat_map(|help| help.lines()).map(|line| format!("help: {line}")));
        }
        let elsewhere = elsewhere(error, file).filter(|text| !known.contains(text));
        let elsewhere: Vec<_> =
            elsewhere.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        if !elsewhere.is_empty() {
            by_line.entry(1).or_default().extend(elsewhere);
        }
        Self { by_line, mark }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_line.is_empty()
    }

    /// `text` with the comments.
    pub(super) fn shown_in(&self, text: &str) -> String {
        let (mut shown, mut rest) = (String::new(), self.by_line.clone());
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let comments = rest.remove(&(index + 1)).unwrap_or_default();
            comments.iter().for_each(|comment| shown += &format!("{}{comment}\n", self.mark));
            shown += line;
        }
        // Behind the last line end.
        rest.values().flatten().for_each(|comment| shown += &format!("{}{comment}\n", self.mark));
        shown
    }

    /// `text` without the comments.
    pub(super) fn removed_from(&self, text: &str) -> String {
        let is_comment = |line: &&str| !self.mark.is_empty() && line.starts_with(self.mark.trim_end());
        text.split_inclusive('\n').filter(|line| !is_comment(line)).collect()
    }
}

/// The errors of other files, as they are printed.
pub(super) fn elsewhere(error: &ConfigError, file: &ConfigFile) -> impl Iterator<Item = String> {
    let unreadable = error.unreadable().map(|(path, error)| format!("cannot read {}: {error}", path.display()));
    let others = error.diagnostics().iter().filter(|one| !is_in(one, file)).map(|one| one.render(false));
    unreadable.chain(others).collect::<Vec<_>>().into_iter()
}

fn is_in(diagnostic: &Diagnostic, file: &ConfigFile) -> bool {
    file.is_at(&diagnostic.file.path)
}
