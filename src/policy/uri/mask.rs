//! Replaces the wildcards of patterns and the expressions of templates by placeholders, so that no step changes them.

use super::steps::{PLACEHOLDERS, Text, is_placeholder};

/// A text with placeholders, and the part that each placeholder replaces.
pub(super) struct Mask {
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

    pub(super) fn text(&self) -> Text<'_> {
        Text::masked(&self.text)
    }

    /// Puts the parts back into the result of a step.
    pub(super) fn unmask(&self, text: &str) -> String {
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
pub(super) fn mask_pattern(glob: &str) -> Option<Mask> {
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
pub(super) fn mask_template(template: &str) -> Option<Mask> {
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
