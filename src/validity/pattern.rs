//! Whether a regular expression is one of ECMAScript with the flag `u`, as Ajv requires. Python and Go have forms that are not.

use std::iter::Peekable;
use std::str::Chars;

/// Escapes with a fixed meaning: classes, boundaries, control characters and syntax characters.
const ESCAPES: &str = "dDsSwWbBfnrtv0123456789^$\\.*+?()[]{}|/";

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    depth: usize,
}

/// Whether it compiles. Names of properties and groups are not checked.
pub(super) fn is_ecmascript(pattern: &str) -> bool {
    let mut parser = Parser { rest: pattern.chars().peekable(), depth: 0 };
    parser.disjunction().is_some() && parser.depth == 0
}

impl Parser<'_> {
    fn disjunction(&mut self) -> Option<()> {
        // Whether a quantifier may follow.
        let mut has_atom = false;
        while let Some(next) = self.rest.next() {
            has_atom = match next {
                '(' => {
                    self.depth += 1;
                    self.group()?;
                    false
                }
                ')' => {
                    self.depth = self.depth.checked_sub(1)?;
                    true
                }
                '[' => {
                    self.class()?;
                    true
                }
                '\\' => {
                    self.escape(false)?;
                    true
                }
                '*' | '+' | '?' if has_atom => {
                    self.rest.next_if_eq(&'?');
                    false
                }
                '{' if has_atom => {
                    self.count()?;
                    self.rest.next_if_eq(&'?');
                    false
                }
                '*' | '+' | '?' | '{' | '}' | ']' => return None,
                '|' | '^' => false,
                _ => true,
            };
        }
        Some(())
    }

    /// What may follow the parenthesis of a group.
    fn group(&mut self) -> Option<()> {
        if self.rest.next_if_eq(&'?').is_none() {
            return Some(());
        }
        match self.rest.next()? {
            ':' | '=' | '!' => Some(()),
            '<' if self.rest.next_if(|next| matches!(next, '=' | '!')).is_some() => Some(()),
            '<' => self.until('>'),
            _ => None,
        }
    }

    fn count(&mut self) -> Option<()> {
        let mut text = String::new();
        loop {
            match self.rest.next()? {
                '}' => break,
                next => text.push(next),
            }
        }
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (least, most) = text.split_once(',').unwrap_or((&text, ""));
        (is_number(least) && (most.is_empty() || is_number(most))).then_some(())
    }

    fn class(&mut self) -> Option<()> {
        self.rest.next_if_eq(&'^');
        // The last character, unless it is the end of a range or a class such as `\d`.
        let mut is_after_set = false;
        loop {
            let is_set = match self.rest.next()? {
                ']' => return Some(()),
                '\\' => self.escape(true)?,
                '-' if is_after_set && self.rest.peek() != Some(&']') => return None,
                _ => false,
            };
            is_after_set = is_set;
        }
    }

    /// Returns whether the escape means a set of characters.
    fn escape(&mut self, in_class: bool) -> Option<bool> {
        match self.rest.next()? {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Some(true),
            'p' | 'P' => {
                self.rest.next_if_eq(&'{')?;
                self.until('}').map(|()| true)
            }
            '-' if in_class => Some(false),
            'k' if !in_class => {
                self.rest.next_if_eq(&'<')?;
                self.until('>').map(|()| false)
            }
            'c' => self.rest.next_if(char::is_ascii_alphabetic).map(|_| false),
            'x' => self.digits(2),
            'u' if self.rest.next_if_eq(&'{').is_some() => self.until('}').map(|()| false),
            'u' => self.digits(4),
            next => ESCAPES.contains(next).then_some(false),
        }
    }

    fn digits(&mut self, count: usize) -> Option<bool> {
        (0..count).try_for_each(|_| self.rest.next_if(char::is_ascii_hexdigit).map(|_| ())).map(|()| false)
    }

    fn until(&mut self, end: char) -> Option<()> {
        self.rest.by_ref().find(|next| *next == end).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::is_ecmascript;

    #[test]
    fn patterns_of_other_languages_are_found() {
        for pattern in [
            "",
            "^a+$",
            "(a|b)*?",
            "[^a-z\\d_]{2,3}",
            "(?:x)(?=y)(?!z)(?<=a)(?<!b)(?<n>c)\\k<n>",
            "\\p{L}\\u{1F600}\\u0041\\x41",
            "[\\w-]",
            "[\\-]",
            "\\/",
            "a{2,}?",
            "()",
            "a|",
            "^(\\d{4})-(\\d{2})$",
        ] {
            assert!(is_ecmascript(pattern), "{pattern}");
        }
        for pattern in [
            "(", ")", "[", "*", "a**", "a++", "{", "}", "]", "(?i)x", "(?P<n>x)", "\\Z", "\\A", "\\-", "[\\w-x]", "x{",
            "x{a}", "\\p", "\\x4", "(?#c)", "\\",
        ] {
            assert!(!is_ecmascript(pattern), "{pattern}");
        }
    }
}
