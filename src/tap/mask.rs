//! Removes secrets from messages.
//!
//! A known value is replaced wherever it stands: in a string, also escaped or as a part, and as a bare value. The string value of a member
//! with a secret's name is replaced, too. All other bytes stay.

use aho_corasick::{AhoCorasick, BuildError, MatchKind};
use serde::de::IgnoredAny;

use crate::config::secret::{is_secret, is_secret_name};

/// Stands for a secret.
const MASK: &str = "…";
/// The same as JSON.
const MASK_JSON: &str = "\"…\"";
/// A member of MCP with a secret's name that is none.
const PROGRESS_TOKEN: &str = "progressToken";

/// Least length of a line of a secret that is masked by itself.
const MIN_LINE: usize = 8;

/// The known secrets.
#[derive(Debug)]
pub(crate) struct Mask(Result<AhoCorasick, BuildError>);

/// A text without secrets, and how many were in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Masked {
    pub(crate) text: String,
    pub(crate) count: usize,
}

impl Mask {
    /// Masks these values, and those of members with secrets' names.
    pub(crate) fn new(values: impl IntoIterator<Item = String>) -> Self {
        // A text in a string of JSON may itself be JSON.
        let escaped = |value: &String| {
            let quoted = serde_json::to_string(value).unwrap_or_default();
            quoted.get(1..quoted.len().saturating_sub(1)).map(str::to_owned)
        };
        let mut all: Vec<_> = values.into_iter().filter(|value| !value.is_empty()).collect();
        // A server may write a key of several lines one by one, and other texts are masked by lines.
        let lines = all.iter().filter(|value| value.contains('\n')).flat_map(|value| value.lines());
        all.extend(lines.map(str::trim).filter(|line| line.len() >= MIN_LINE).map(str::to_owned).collect::<Vec<_>>());
        all.extend(all.iter().filter_map(escaped).collect::<Vec<_>>());
        all.sort_unstable();
        all.dedup();
        Self(AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(all))
    }

    /// `text` without secrets.
    pub(crate) fn apply(&self, mut text: String) -> Masked {
        let mut masked = Masked::default();
        // A quote in other text is not the end of anything.
        if serde_json::from_str::<IgnoredAny>(&text).is_err()
            && let Some((replaced, count)) = self.replaced(&text)
        {
            (text, masked.count) = (replaced, count);
        }
        let (mut done, mut name) = (0, None);
        for Token { start, end } in tokens(&text) {
            self.copy_between(&text[done..start], &mut masked);
            done = end;
            let token = &text[start..end];
            if is_name(&text[end..]) {
                name = serde_json::from_str::<String>(token).ok();
                self.copy_string(token, &mut masked);
                continue;
            }
            let named = name.take().filter(|_| is_value(&text[..start]));
            if named.is_some_and(|name| is_secret_member(&name, token)) {
                masked.text += MASK_JSON;
                masked.count += 1;
            } else {
                self.copy_string(token, &mut masked);
            }
        }
        self.copy_between(&text[done..], &mut masked);
        masked
    }

    /// Copies a string of JSON.
    fn copy_string(&self, token: &str, to: &mut Masked) {
        let decoded = token.contains('\\').then(|| serde_json::from_str::<String>(token).ok()).flatten();
        match decoded.as_deref().map(|text| self.replaced(text)) {
            Some(Some((text, count))) => {
                to.text += &serde_json::to_string(&text).unwrap_or_else(|_| MASK_JSON.to_owned());
                to.count += count;
            }
            Some(None) => to.text += token,
            None => self.copy(token, to),
        }
    }

    /// Copies what stands between strings. A value of JSON there is masked if the whole of it is a secret.
    fn copy_between(&self, text: &str, to: &mut Masked) {
        for part in text.split_inclusive([',', ':', '[', ']', '{', '}', ' ']) {
            let value = part.trim_matches(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '+' | '.'));
            match self.replaced(value) {
                Some((masked, count)) if masked == MASK => {
                    to.text += &part.replacen(value, MASK_JSON, 1);
                    to.count += count;
                }
                _ => to.text += part,
            }
        }
    }

    fn copy(&self, text: &str, to: &mut Masked) {
        match self.replaced(text) {
            Some((text, count)) => {
                to.text += &text;
                to.count += count;
            }
            None => to.text += text,
        }
    }

    /// `text` without known values, and their number. `None` if it has none.
    fn replaced(&self, text: &str) -> Option<(String, usize)> {
        let Ok(known) = &self.0 else { return Some((MASK.to_owned(), 1)) };
        let (mut masked, mut count) = (String::new(), 0);
        known
            .try_replace_all_with(text, &mut masked, |_, _, to| {
                *to += MASK;
                count += 1;
                true
            })
            .ok()?;
        (count > 0).then_some((masked, count))
    }
}

/// A string of JSON with its quotes.
struct Token {
    start: usize,
    end: usize,
}

/// The strings of a JSON text.
fn tokens(text: &str) -> impl Iterator<Item = Token> {
    let (bytes, mut at) = (text.as_bytes(), 0);
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'"', bytes.get(at..)?)?;
        let mut end = start + 1;
        loop {
            end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
            if bytes[end] == b'"' {
                break;
            }
            end += 2;
        }
        at = end + 1;
        Some(Token { start, end: at })
    })
}

/// Whether a string before `rest` is the name of a member.
fn is_name(rest: &str) -> bool {
    rest.trim_start().starts_with(':')
}

/// Whether a string after `before` is the value of a member.
fn is_value(before: &str) -> bool {
    before.trim_end().ends_with(':')
}

fn is_secret_member(name: &str, token: &str) -> bool {
    name != PROGRESS_TOKEN
        && is_secret_name(name)
        && serde_json::from_str::<String>(token).is_ok_and(|value| is_secret(name, &value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn apply(values: &[&str], text: &str) -> (String, usize) {
        let Masked { text, count } = Mask::new(values.iter().map(|value| (*value).to_owned())).apply(text.to_owned());
        (text, count)
    }

    #[test]
    fn known_values_are_masked_wherever_they_stand() {
        let values = ["hunter2", "pass\"word\\é", "4711"];
        for (text, expected, count) in [
            (r#"{"a":"hunter2"}"#, r#"{"a":"…"}"#, 1),
            (r#"{"a":"x hunter2, hunter2."}"#, r#"{"a":"x …, …."}"#, 2),
            (r#"{"hunter2":1}"#, r#"{"…":1}"#, 1),
            (r#"{"a":"pass\"word\\é"}"#, r#"{"a":"…"}"#, 1),
            (r#"{"a":"p\u0061ss\"word\\\u00e9"}"#, r#"{"a":"…"}"#, 1),
            (r#"{"a":"{\"b\":\"pass\\\"word\\\\é\"}"}"#, r#"{"a":"{\"b\":\"…\"}"}"#, 1),
            (r#"{"a":4711, "b":47110,"c":[4711]}"#, r#"{"a":"…", "b":47110,"c":["…"]}"#, 2),
            (r#"{"id":1,"a":"\/x\u0041"}"#, r#"{"id":1,"a":"\/x\u0041"}"#, 0),
            ("no JSON: hunter2 4711", "no JSON: … …", 2),
            (r#"it is pass"word\é, he said"#, "it is …, he said", 1),
            ("open \"hunter2", "open \"…", 1),
        ] {
            assert_eq!(apply(&values, text), (expected.to_owned(), count), "{text}");
        }
    }

    #[test]
    fn members_with_names_of_secrets_are_masked_but_progress_tokens() {
        for (text, expected) in [
            (r#"{"password": "correct horse"}"#, r#"{"password": "…"}"#),
            (r#"{"apiKey":"abc\"def","x":"y"}"#, r#"{"apiKey":"…","x":"y"}"#),
            (r#"{"progressToken":"abcdef"}"#, r#"{"progressToken":"abcdef"}"#),
            (r#"{"maxTokens":"many"}"#, r#"{"maxTokens":"many"}"#),
            (r#"{"password":{"type":"string"}}"#, r#"{"password":{"type":"string"}}"#),
            (r#"{"required":["password","token"]}"#, r#"{"required":["password","token"]}"#),
            (r#"{"password":["letmein","abcdef"]}"#, r#"{"password":["letmein","abcdef"]}"#),
        ] {
            assert_eq!(apply(&[], text).0, expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_text_without_secrets_stays_as_it_is(text in r#"[a-z"\\{}:,\[\] 0-9é…]{0,60}"#) {
            prop_assert_eq!(apply(&["SECRET"], &text), (text, 0));
        }

        #[test]
        fn a_masked_message_is_json_and_has_no_secret(
            secret in r#"[A-Z"\\/é]{4,9}"#, before in "[a-z ]{0,5}", after in "[a-z ]{0,5}",
        ) {
            let text = serde_json::json!({"a": [format!("{before}{secret}{after}")], "n": 12}).to_string();
            let (masked, count) = apply(&[&secret], &text);
            let value: serde_json::Value = serde_json::from_str(&masked).expect("JSON");
            prop_assert_eq!(&value["a"][0], &serde_json::json!(format!("{before}…{after}")));
            prop_assert_eq!((&value["n"], count), (&serde_json::json!(12), 1));
        }
    }
}
