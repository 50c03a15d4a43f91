//! The readings of a URI: what the parsers of servers may take it for.
//!
//! Parsers disagree. RFC 3986, WHATWG (Node, browsers) and Python's `urllib` decode, resolve and cut in different orders, and
//! servers combine them. The readings of a URI are everything that the steps of those parsers make of it, in any order, until
//! nothing new appears. Policy has to permit every reading. Wildcards of patterns and expressions of templates are replaced by
//! placeholders meanwhile, so that no step changes them.
//!
//! Each reading is in normal form: scheme and host in lower case, `file:/` and `file://localhost/` written as `file:///`.

mod steps;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use self::steps::{LENIENT, NORMALIZING, PLACEHOLDERS, Step, Text, is_placeholder};

/// Maximum length of a URI, in bytes.
const MAX_URI_LEN: usize = 8 << 10;
/// Maximum number of readings of one URI, and of bytes of all its readings. Ordinary URIs have fewer than ten.
const MAX_READINGS: usize = 64;
const MAX_BYTES: usize = 64 << 10;

/// A URI with its readings, which are computed on first use.
#[derive(Debug)]
pub(crate) struct Uri<'a> {
    text: &'a str,
    is_template: bool,
    readings: OnceCell<Option<Vec<String>>>,
}

impl<'a> Uri<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, is_template: false, readings: OnceCell::new() }
    }

    /// A URI template. Its expressions stay unchanged in every reading.
    pub(super) fn template(text: &'a str) -> Self {
        Self { is_template: true, ..Self::new(text) }
    }

    pub(super) fn is_template(&self) -> bool {
        self.is_template
    }

    /// The URI as it was sent.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Every reading, with the normal form first. `None` if parsers disagree on its characters, or there are too many readings.
    pub(super) fn readings(&self) -> Option<&[String]> {
        let read = if self.is_template { template_readings } else { readings };
        self.readings.get_or_init(|| read(self.text)).as_deref()
    }
}

fn readings(uri: &str) -> Option<Vec<String>> {
    let found = Closure::of(Text::plain(uri), &[NORMALIZING, LENIENT]);
    (!found.is_disputed && !found.is_cut).then_some(found.texts)
}

fn template_readings(template: &str) -> Option<Vec<String>> {
    let masked = mask_template(template)?;
    let found = Closure::of(masked.text(), &[NORMALIZING, LENIENT]);
    (!found.is_disputed && !found.is_cut).then(|| found.texts.iter().map(|text| masked.unmask(text)).collect())
}

/// The normalized spellings of a pattern, for matching against readings. Wildcards are left unchanged.
pub(super) fn pattern_spellings(pattern: &str) -> Vec<String> {
    let Some(masked) = mask_pattern(pattern) else { return Vec::new() };
    let found = Closure::of(masked.text(), &[NORMALIZING]);
    let mut spellings: Vec<_> = found.texts.iter().map(|text| masked.unmask(text)).collect();
    let without_slash = found.texts.iter().filter_map(|text| text.strip_suffix('/'));
    spellings
        .extend(without_slash.filter(|text| !text.ends_with(steps::is_placeholder)).map(|text| masked.unmask(text)));
    spellings
}

/// All results of applying steps to a text in any order.
struct Closure {
    texts: Vec<String>,
    /// Whether one of the texts contains characters that parsers interpret differently.
    is_disputed: bool,
    /// A limit was reached, so results may be missing.
    is_cut: bool,
}

impl Closure {
    fn of(start: Text<'_>, steps: &[&[Step]]) -> Self {
        if start.text.len() > MAX_URI_LEN {
            return Self { texts: Vec::new(), is_disputed: false, is_cut: true };
        }
        let mut found = Self { texts: vec![start.normalized()], is_disputed: false, is_cut: false };
        let (mut index, mut bytes) = (0, start.text.len());
        while let Some(text) = found.texts.get(index).cloned() {
            let text = start.with(&text);
            found.is_disputed |= text.is_disputed();
            for made in steps.iter().copied().flatten().filter_map(|step| step(&text)) {
                let made = start.with(&made).normalized();
                if found.texts.contains(&made) {
                    continue;
                }
                bytes += made.len();
                if found.texts.len() == MAX_READINGS || bytes > MAX_BYTES || found.is_disputed {
                    found.is_cut = true;
                    return found;
                }
                found.texts.push(made);
            }
            index += 1;
        }
        found
    }
}

/// A text with placeholders, and the part that each placeholder replaces.
struct Mask {
    text: String,
    parts: Vec<String>,
    /// The text is a pattern: its special characters are escaped.
    is_pattern: bool,
}

impl Mask {
    fn new(is_pattern: bool) -> Self {
        Self { text: String::new(), parts: Vec::new(), is_pattern }
    }

    /// `None` if there are too many parts.
    fn mask(&mut self, part: impl Into<String>) -> Option<()> {
        self.text.push(PLACEHOLDERS.clone().nth(self.parts.len())?);
        self.parts.push(part.into());
        Some(())
    }

    fn text(&self) -> Text<'_> {
        Text::masked(&self.text)
    }

    /// Puts the parts back into the result of a step.
    fn unmask(&self, text: &str) -> String {
        let mut whole = String::with_capacity(text.len());
        for c in text.chars() {
            let part = is_placeholder(c).then(|| self.parts.get(c as usize - *PLACEHOLDERS.start() as usize)).flatten();
            match part {
                Some(part) => whole.push_str(part),
                None => {
                    if self.is_pattern && matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | ',' | '\\') {
                        whole.push('\\');
                    }
                    whole.push(c);
                }
            }
        }
        whole
    }
}

/// Masks the wildcards, classes and alternatives of a glob. `None` if it already contains placeholder characters.
fn mask_pattern(glob: &str) -> Option<Mask> {
    if glob.contains(is_placeholder) {
        return None;
    }
    let (mut masked, mut depth, mut rest) = (Mask::new(true), 0_usize, glob);
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '\\' => {
                let escaped = rest[1..].chars().next()?;
                masked.text.push(escaped);
                1 + escaped.len_utf8()
            }
            '[' => {
                let len = class_len(rest)?;
                masked.mask(&rest[..len])?;
                len
            }
            _ => {
                depth = if c == '{' { depth + 1 } else { depth };
                match c {
                    '*' | '?' | '{' | '}' => masked.mask(c)?,
                    ',' if depth > 0 => masked.mask(c)?,
                    _ => masked.text.push(c),
                }
                depth = if c == '}' { depth.saturating_sub(1) } else { depth };
                c.len_utf8()
            }
        };
        rest = &rest[len..];
    }
    Some(masked)
}

/// The length in bytes of the character class at the start of `glob`. A `]` in first position is a member.
fn class_len(glob: &str) -> Option<usize> {
    let negated = 1 + usize::from(glob[1..].starts_with(['!', '^']));
    let first = glob[negated..].chars().next()?.len_utf8();
    Some(negated + first + glob[negated + first..].find(']')? + 1)
}

/// Masks the expressions of a URI template. `None` if it already contains placeholder characters.
fn mask_template(template: &str) -> Option<Mask> {
    if template.contains(is_placeholder) {
        return None;
    }
    let (mut masked, mut rest) = (Mask::new(false), template);
    while let Some((literal, (expression, behind))) =
        rest.split_once('{').and_then(|(literal, behind)| Some((literal, behind.split_once('}')?)))
    {
        masked.text.push_str(literal);
        masked.mask(format!("{{{expression}}}"))?;
        rest = behind;
    }
    masked.text.push_str(rest);
    Some(masked)
}
