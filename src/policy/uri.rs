//! The readings of a URI: what the parsers of servers may take it for.
//!
//! Parsers disagree. RFC 3986, WHATWG (Node, browsers) and Python's `urllib` decode, resolve and cut in different orders, and
//! servers combine them. The readings of a URI are everything that the steps of those parsers make of it, in any order, until
//! nothing new appears. Policy has to permit every reading.
//!
//! Each reading is in normal form: scheme and host in lower case, `file:/` and `file://localhost/` written as `file:///`.

mod mask;
mod steps;

use std::cell::OnceCell;

use self::mask::{mask_pattern, mask_template};
use self::steps::{LENIENT, NORMALIZING, Step, Text};

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

#[cfg(test)]
mod tests;
