//! Errors, warnings and values of a configuration with their locations, and how errors are printed.
//!
//! In a text that does not parse, the ends of secrets are unknown. Only the keys of its lines are printed.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level as Severity, Origin, Renderer, Snippet, Title};

use super::secret::is_secret_value;
use super::tree::{ParseTree, Problem};
use crate::printable::{lines, one_line};

/// Maximum length of a printed line.
const MAX_LINE_LEN: usize = 64 << 10;

/// Maximum characters of a printed message. mcpd's longest messages list every key of a server.
const MAX_MESSAGE_LEN: usize = 800;

/// The severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The configuration is invalid.
    Error,
    /// A part is ignored. The rest applies.
    Warning,
}

/// The source of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// A file, which has lines.
    File,
    /// An environment variable.
    Variable,
}

/// A file that was read, or a variable. `Debug` prints only its path, because the text may contain secrets.
pub struct SourceFile {
    /// The path as it was named, or the name of the variable.
    pub path: PathBuf,
    /// The whole text, without a byte order mark.
    pub text: String,
    /// Whether it is a file or a variable.
    pub medium: Medium,
    /// Spans of likely secrets, which are never printed.
    pub(super) hidden: Vec<Range<usize>>,
    /// Whether it does not parse. Then only keys are printed.
    pub(super) broken: bool,
}

impl fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceFile").field(&self.path).finish()
    }
}

/// One error or warning about one place.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    /// Error or warning.
    pub level: Level,
    /// The message, in one line.
    pub message: String,
    /// A label, printed beside the carets.
    pub label: Option<String>,
    /// What to write instead.
    pub help: Option<String>,
    /// The file or variable.
    pub file: Arc<SourceFile>,
    /// The span in the text.
    pub span: Range<usize>,
    /// The only probable correction.
    pub(crate) correction: Option<Correction>,
}

/// A change that corrects what a diagnostic reports.
#[derive(Debug, Clone)]
pub(crate) enum Correction {
    Edit(Edit),
    /// Only the owner of this file may read it.
    MakePrivate(PathBuf),
}

/// A replacement of a part of a file.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    /// The file as it was read.
    pub(crate) file: Arc<SourceFile>,
    /// The span in its text.
    pub(crate) span: Range<usize>,
    /// The new text.
    pub(crate) text: String,
}

impl Edit {
    /// `text`, a later text of the file that is the same up to the end of the span, with the replacement.
    pub(crate) fn apply(&self, text: &str) -> String {
        format!("{}{}{}", &text[..self.span.start], self.text, &text[self.span.end..])
    }
}

impl SourceFile {
    /// A file with this `text`. The spans in `hidden` are never printed.
    pub(super) fn new(path: &Path, text: &str, hidden: Vec<Range<usize>>) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), medium: Medium::File, hidden, broken: false }
    }

    /// A file with this `text` and its parse tree.
    pub(super) fn parsed(path: &Path, text: &str, parsed: &ParseTree) -> Self {
        let hidden = parsed.root.as_ref().map(|root| root.secrets(text)).unwrap_or_default();
        let broken = parsed.root.is_none() || !parsed.problems.is_empty();
        Self { broken, ..Self::new(path, text, hidden) }
    }

    /// Line and column of a byte offset, from 1. Columns count characters.
    #[must_use]
    pub fn place(&self, at: usize) -> (usize, usize) {
        let before = &self.text[..self.boundary(at)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = 1 + before.bytes().filter(|&byte| byte == b'\n').count();
        (line, 1 + before[line_start..].chars().count())
    }

    /// `FILE:LINE:COLUMN`, or the name of the variable.
    pub(super) fn address(&self, at: usize) -> String {
        match self.medium {
            Medium::File => format!("{}:{}", self.line_address(at), self.place(at).1),
            Medium::Variable => self.shown_path(),
        }
    }

    /// `FILE:LINE`, or the name of the variable.
    pub(super) fn line_address(&self, at: usize) -> String {
        match self.medium {
            Medium::File => format!("{}:{}", self.shown_path(), self.place(at).0),
            Medium::Variable => self.shown_path(),
        }
    }

    /// Whether the text at this span is never printed.
    pub(super) fn hides(&self, span: &Range<usize>) -> bool {
        self.hidden.contains(span)
    }

    fn boundary(&self, at: usize) -> usize {
        (0..=at.min(self.text.len())).rev().find(|&index| self.text.is_char_boundary(index)).unwrap_or(0)
    }

    /// The path on one line: a file name can contain any character.
    fn shown_path(&self) -> String {
        one_line(&self.path.to_string_lossy())
    }

    /// The bytes of the line around `at`, without its line ending.
    fn line(&self, at: usize) -> Range<usize> {
        let start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let end = self.text[at..].find('\n').map_or(self.text.len(), |newline| at + newline);
        let cut = usize::from(end > at && self.text[at..end].ends_with('\r'));
        start..end - cut
    }

    /// A line with masked secrets. It has the same length, so that spans stay valid.
    fn masked_line(&self, line: &Range<usize>) -> Cow<'_, str> {
        let mut shown = Cow::Borrowed(&self.text[line.clone()]);
        let broken = self.broken.then(|| line.start + printable_start(&self.text, line)..line.end);
        for hidden in self.hidden.iter().chain(&broken) {
            let (from, to) = (hidden.start.max(line.start), hidden.end.min(line.end));
            if from < to {
                let range = from - line.start..to - line.start;
                let masked: String = shown.get(range.clone()).unwrap_or_default().chars().map(mask).collect();
                shown.to_mut().replace_range(range, &masked);
            }
        }
        shown
    }
}

impl Diagnostic {
    pub(super) fn new(level: Level, file: &Arc<SourceFile>, problem: Problem) -> Self {
        let Problem { span, message, label, help, correction } = problem;
        let edit = |text| Correction::Edit(Edit { file: Arc::clone(file), span: span.clone(), text });
        let correction = correction.map(edit);
        let help = help.map(shortened);
        Self { level, message: shortened(message), label, help, file: Arc::clone(file), span, correction }
    }

    /// Adds the only probable correction.
    pub(crate) fn corrected(self, correction: Option<Correction>) -> Self {
        Self { correction, ..self }
    }

    /// Line and column, from 1. Columns count characters.
    #[must_use]
    pub fn place(&self) -> (usize, usize) {
        self.file.place(self.span.start)
    }

    /// `FILE:LINE:COLUMN`, or the name of the variable.
    pub(crate) fn address(&self) -> String {
        self.file.address(self.span.start)
    }

    /// The complete diagnostic: message, `FILE:LINE:COLUMN`, line and help, without a final newline.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let start = self.file.boundary(self.span.start);
        let line = self.file.line(start);
        let mut group = match self.file.medium {
            Medium::File if line.len() <= MAX_LINE_LEN => self.with_line(start, &line),
            Medium::File => self.without_line(),
            Medium::Variable => self.title().element(Origin::path(self.file.shown_path())),
        };
        if let Some(help) = &self.help {
            group = group.element(Severity::HELP.message(lines(help)));
        }
        renderer.render(&[group])
    }

    fn title(&self) -> Title<'_> {
        match self.level {
            Level::Error => Severity::ERROR.primary_title(one_line(&self.message)),
            Level::Warning => Severity::WARNING.primary_title(one_line(&self.message)),
        }
    }

    /// Prints only the first line of a span.
    fn with_line(&self, start: usize, line: &Range<usize>) -> Group<'_> {
        let end = self.file.boundary(self.span.end).clamp(start, line.end.max(start));
        // Escapes change the length of the text, so compute the span after escaping.
        let masked = self.file.masked_line(line);
        let part = |range: Range<usize>| lines(masked.get(range).unwrap_or_default());
        let before = part(0..start - line.start);
        let marked = part(start - line.start..end - line.start);
        let after = part(end - line.start..masked.len());
        let mut annotation = AnnotationKind::Primary.span(before.len()..before.len() + marked.len());
        if let Some(label) = &self.label {
            annotation = annotation.label(one_line(label));
        }
        let snippet = Snippet::source(before + &marked + &after)
            .path(self.file.shown_path())
            .line_start(self.file.place(start).0)
            .annotation(annotation);
        self.title().element(snippet)
    }

    fn without_line(&self) -> Group<'_> {
        let (line, column) = self.place();
        let origin = Origin::path(self.file.shown_path()).line(line).char_column(column);
        self.title().element(origin)
    }
}

/// The mask of a character. It has the same number of bytes, so that columns stay valid.
fn mask(c: char) -> char {
    match c.len_utf8() {
        1 => '*',
        2 => '·',
        3 => '•',
        _ => '🞄',
    }
}

/// Shortens a message, which may contain a key as long as the file.
fn shortened(text: String) -> String {
    match text.char_indices().nth(MAX_MESSAGE_LEN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// A value and its location. An unset key has none and uses the built-in default.
#[derive(Debug, Clone)]
pub(super) struct Spanned<T> {
    pub(super) value: T,
    pub(super) location: Location,
}

/// A part of a file, or a variable.
#[derive(Debug, Clone)]
pub(super) struct Location {
    pub(super) file: Arc<SourceFile>,
    pub(super) span: Range<usize>,
}

impl Location {
    /// A problem at this location.
    pub(super) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.span.clone(), message)
    }

    /// An error at this location, from a [`Location::problem`].
    pub(super) fn error(&self, problem: Problem) -> Diagnostic {
        Diagnostic::new(Level::Error, &self.file, problem)
    }

    /// The location without the column.
    pub(super) fn line(&self) -> String {
        self.file.line_address(self.span.start)
    }
}

/// `FILE:LINE:COLUMN`, or the name of a variable.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file.address(self.span.start))
    }
}

/// The value, or `unset` if there is none.
pub(super) fn or_default<T: Clone>(value: Option<&Spanned<T>>, unset: T) -> T {
    value.map_or(unset, |value| value.value.clone())
}

/// The values without their locations.
pub(super) fn values<T: Clone>(all: &[Spanned<T>]) -> Vec<T> {
    all.iter().map(|spanned| spanned.value.clone()).collect()
}

/// Maximum length of a printed key.
const MAX_KEY_LEN: usize = 64;
/// The beginnings of table headers.
const TABLES: [&str; 5] = ["daemon", "defaults", "mcp_servers", "profiles", "servers"];

/// The number of bytes at the start of a line that can be printed: a key with its `=` or `:` and the brackets and quotes after it, or
/// a table header.
pub(super) fn printable_start(text: &str, line: &Range<usize>) -> usize {
    // A multi-line string contains no keys.
    if ["\"\"\"", "'''"].iter().any(|quotes| text[..line.start].matches(quotes).count() % 2 == 1) {
        return 0;
    }
    let whole = &text[line.clone()];
    let rest = whole.trim_start_matches([' ', '\t', '{', ',', '[']);
    let length = if whole.trim_start().starts_with('[') { header_start(rest) } else { key_start(rest) };
    whole.len() - rest.len() + length
}

/// A key for messages.
pub(super) fn named_key(key: &str) -> String {
    if is_plain(key) { format!("`{key}`") } else { "a key".to_owned() }
}

fn header_start(text: &str) -> usize {
    let end = text.find(|c| !is_plain_char(c)).unwrap_or(text.len());
    let (name, behind) = text.split_at(end);
    if !TABLES.contains(&name.split('.').next().unwrap_or_default()) || !name.split('.').all(is_plain) {
        return 0;
    }
    end + behind.len() - behind.trim_start_matches(']').len()
}

fn key_start(text: &str) -> usize {
    let (key, behind) = match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').unwrap_or_default(),
        None => text.split_at(text.find(|c| !is_plain_char(c)).unwrap_or(text.len())),
    };
    let value = behind.trim_start().strip_prefix(['=', ':']).filter(|_| is_plain(key));
    // Brackets and quotes that begin a value are not part of a secret.
    value.map_or(0, |value| text.len() - value.trim_start_matches([' ', '\t', '[', '{', '"', '\'']).len())
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.len() <= MAX_KEY_LEN && key.chars().all(is_plain_char) && !is_secret_value(key)
}

fn is_plain_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}
