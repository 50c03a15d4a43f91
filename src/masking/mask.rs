//! Removes known secrets from a text. All other bytes stay, and JSON stays JSON.

use std::ops::{Range, RangeInclusive};

use aho_corasick::{AhoCorasick, BuildError};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::members::{self, is_json};
use super::views::find_in_all;

/// Stands for a secret.
const MASK: &str = "…";
/// Least length of a line of a secret that is masked by itself.
const MIN_LINE: usize = 8;
/// Lengths of secrets whose Base64 is masked.
const ENCODED: RangeInclusive<usize> = 6..=8192;
/// The search finds this many bytes of a secret. The rest is then compared.
const ANCHOR: usize = 64;
/// Least length of a beginning of a secret that is masked where a text is cut off.
const MIN_CUT: usize = 4;
/// The same for texts that may be whole.
const MIN_END: usize = 8;

/// The known secrets, in all forms.
#[derive(Debug)]
pub(crate) struct Mask {
    /// Sorted.
    forms: Vec<Vec<u8>>,
    /// The forms that begin with each pattern of `search`.
    anchors: Vec<Range<usize>>,
    search: Result<AhoCorasick, BuildError>,
    longest: usize,
}

/// A text without secrets, and how many were in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Masked {
    pub(crate) text: String,
    pub(crate) count: usize,
}

/// What of a text is masked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// All of it.
    Text,
    /// Only strings of JSON, from this offset on.
    Strings(usize),
}

impl Mask {
    /// Masks these values, and those of members with secrets' names.
    pub(crate) fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut forms = Vec::new();
        for value in values.into_iter().filter(|value| !value.is_empty()) {
            // A server may write the lines of a key one by one, and text that is not JSON is masked line by line.
            let lines = value.lines().map(str::trim).filter(|line| line.len() >= MIN_LINE && line.len() < value.len());
            forms.extend(lines.map(|line| line.as_bytes().to_vec()));
            if value.contains(' ') {
                forms.push(value.replace(' ', "+").into_bytes());
            }
            forms.extend(in_base64(&value));
            forms.push(value.into_bytes());
        }
        forms.sort_unstable();
        forms.dedup();
        let mut anchors: Vec<Range<usize>> = Vec::new();
        for at in 0..forms.len() {
            match anchors.last_mut() {
                Some(last) if anchor(&forms[last.start]) == anchor(&forms[at]) => last.end = at + 1,
                _ => anchors.push(at..at + 1),
            }
        }
        let search = AhoCorasick::new(anchors.iter().map(|range| anchor(&forms[range.start])));
        let longest = forms.iter().map(Vec::len).max().unwrap_or_default();
        Self { forms, anchors, search, longest }
    }

    /// `text` without secrets. A text that is not JSON is read line by line, since each may be JSON.
    pub(crate) fn apply(&self, text: &str) -> Masked {
        let mut masked = Masked::default();
        if is_json(text.as_bytes()) {
            self.mask_json(text, Scope::Text, &mut masked);
        } else {
            for line in text.split_inclusive('\n') {
                if is_json(line.as_bytes()) {
                    self.mask_json(line, Scope::Text, &mut masked);
                } else {
                    let mut found = find_in_all(line.as_bytes(), false, |text| self.find(text));
                    // JSON may follow other text, and a message may be cut off.
                    let from = memchr::memchr2(b'{', b'[', line.as_bytes()).unwrap_or(line.len());
                    let members = members::secrets(&line.as_bytes()[from..]).into_iter();
                    found.extend(members.map(|range| from + range.start..from + range.end));
                    copy(line, merged(found).into_iter().map(|range| (range, MASK)), &mut masked);
                }
            }
        }
        masked
    }

    /// Text of JSON without secrets in strings after the offset `from`. Other values stay, and so does the type of each.
    pub(crate) fn apply_to_strings(&self, json: &str, from: usize) -> String {
        let mut masked = Masked::default();
        self.mask_json(json, Scope::Strings(from), &mut masked);
        masked.text
    }

    /// As [`Self::apply`], for a text that was cut off: it may end within a secret.
    pub(crate) fn apply_to_cut(&self, text: &str) -> Masked {
        let ends = find_in_all(text.as_bytes(), false, |text| self.unfinished(text, MIN_CUT).into_iter().collect());
        let Some(start) = ends.into_iter().map(|end| end.start).min() else { return self.apply(text) };
        let whole = self.apply(text.get(..start).unwrap_or_default());
        Masked { text: whole.text + MASK, count: whole.count + 1 }
    }

    fn mask_json(&self, text: &str, scope: Scope, to: &mut Masked) {
        let bytes = text.as_bytes();
        let strings = strings(bytes);
        let mut found = find_in_all(bytes, true, |text| self.find(text));
        found.extend(members::secrets(bytes));
        if scope != Scope::Text {
            // What mcpd shortens may end within a secret.
            let end = |string: &Range<usize>| {
                let inner = &bytes[string.clone()];
                let end = self.unfinished(inner.strip_suffix(MASK.as_bytes()).unwrap_or(inner), MIN_END)?;
                Some(string.start + end.start..string.end)
            };
            found.extend(strings.iter().filter_map(end));
        }
        let masked = merged(found).into_iter().filter_map(|range| {
            let string = strings.partition_point(|string| string.end < range.end);
            let is_in_string = strings.get(string).is_some_and(|string| string.start <= range.start);
            match scope {
                Scope::Strings(from) => (is_in_string && range.start >= from).then_some((range, MASK)),
                Scope::Text if is_in_string => Some((range, MASK)),
                Scope::Text => is_whole_value(bytes, &range).then_some((range, "\"…\"")),
            }
        });
        copy(text, masked, to);
    }

    /// Where secrets stand in a text. They may overlap.
    fn find(&self, text: &[u8]) -> Vec<Range<usize>> {
        let all = || std::iter::once(0..text.len()).collect();
        let Ok(search) = &self.search else { return all() };
        let Ok(found) = search.try_find_overlapping_iter(text) else { return all() };
        found
            .map(|found| {
                let rest = &text[found.start()..];
                let forms = &self.forms[self.anchors[found.pattern().as_usize()].clone()];
                let len =
                    forms.iter().map(|form| form.iter().zip(rest).take_while(|(one, other)| one == other).count());
                found.start()..found.start() + len.max().unwrap_or_default()
            })
            .collect()
    }

    /// The end of a text that is the beginning of a secret, and at least `min` bytes.
    fn unfinished(&self, text: &[u8], min: usize) -> Option<Range<usize>> {
        let starts = text.len().saturating_sub(self.longest)..(text.len() + 1).saturating_sub(min);
        let is_beginning = |start: &usize| {
            let end = &text[*start..];
            let next = self.forms.partition_point(|form| form.as_slice() < end);
            self.forms.get(next).is_some_and(|form| form.starts_with(end))
        };
        starts.into_iter().find(is_beginning).map(|start| start..text.len())
    }
}

fn anchor(form: &[u8]) -> &[u8] {
    &form[..form.len().min(ANCHOR)]
}

/// The characters of Base64 that depend on `value` alone, for each offset of `value` modulo 3 and for both alphabets.
fn in_base64(value: &str) -> impl Iterator<Item = Vec<u8>> {
    let is_encoded = ENCODED.contains(&value.len());
    (0..3_usize).filter(move |_| is_encoded).flat_map(move |offset| {
        let shifted = [vec![0; offset], value.as_bytes().to_vec()].concat();
        let own = (offset * 8).div_ceil(6)..shifted.len() * 8 / 6;
        [STANDARD_NO_PAD, URL_SAFE_NO_PAD].map(|engine| engine.encode(&shifted).as_bytes()[own.clone()].to_vec())
    })
}

/// The strings of a text of JSON, without their quotes.
pub(crate) fn strings(text: &[u8]) -> Vec<Range<usize>> {
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some(next) = memchr::memchr(b'"', &text[at..]) {
        let string = members::string_at(text, at + next);
        at = text.len().min(string.end + 1);
        all.push(string);
    }
    all
}

/// Whether a range outside of strings is a whole number or word.
fn is_whole_value(text: &[u8], range: &Range<usize>) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    !is_part(range.start.checked_sub(1).and_then(|before| text.get(before))) && !is_part(text.get(range.end))
}

/// The ranges in order, those that overlap as one.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Copies `text` with other texts in the place of these ranges.
fn copy(text: &str, masked: impl Iterator<Item = (Range<usize>, &'static str)>, to: &mut Masked) {
    let mut done = 0;
    for (range, mask) in masked {
        // A range within a character takes all of it.
        let start = (done..=range.start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(done);
        to.text += &text[done..start];
        to.text += mask;
        to.count += 1;
        done = (range.end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    }
    to.text += &text[done..];
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn apply(values: &[&str], text: &str) -> (String, usize) {
        let Masked { text, count } = Mask::new(values.iter().map(|value| (*value).to_owned())).apply(text);
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
    fn encoded_secrets_are_masked() {
        let secret = "p%ss wörd/?+\"1";
        let escaped = |text: &str| serde_json::to_string(text).expect("JSON");
        let twice = escaped(&escaped(&escaped(secret)));
        let hidden = |text: &str| apply(&[secret], text).0;
        assert_eq!(hidden(&format!("{{\"a\":{twice}}}")), r#"{"a":"\"\\\"…\\\"\""}"#);
        for encoded in [
            "p%25ss%20w%C3%B6rd%2F%3f%2B%221",
            "p%25ss+w%c3%b6rd%2f%3F%2b%221",
            "p%2525ss%2520w%25C3%25B6rd%252F%253F%252B%25221",
        ] {
            assert_eq!(hidden(&format!("https://x.org/?a={encoded}&b=1")), "https://x.org/?a=…&b=1", "{encoded}");
        }
        assert_eq!(hidden(r#"{"a":"\ud83d p%ss w\u00f6rd\/?+\"1 \n1"}"#), r#"{"a":"\ud83d … \n1"}"#);
    }

    #[test]
    fn secret_in_base64_is_masked_at_any_offset() {
        use base64::engine::general_purpose::{STANDARD, URL_SAFE};
        let secret = "hunter2?>~~";
        for before in ["", "u", "u:", "user", "user:"] {
            for after in ["", "x", "xy", "xyz"] {
                let plain = format!("{before}{secret}{after}");
                for encoded in [STANDARD.encode(&plain), STANDARD_NO_PAD.encode(&plain), URL_SAFE.encode(&plain)] {
                    let (masked, count) = apply(&[secret], &format!("Basic {encoded}"));
                    let left = masked.replace("Basic ", "").replace('…', "");
                    let own = encoded.len() - left.len();
                    assert!(count == 1 && own + 2 >= secret.len() * 8 / 6, "{plain}: {encoded} {masked}");
                }
            }
        }
    }

    #[test]
    fn secrets_with_the_same_beginning_and_parts_of_secrets_are_masked() {
        let header = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MCJ9";
        let [one, other] = ["aaa.bbb", "ccc.ddd"].map(|rest| format!("{header}.{rest}"));
        assert_eq!(apply(&[&one, &other, "bbb-x"], &format!("{one} {other}, {one}-x")).0, "… …, …");
        let key = "-----BEGIN KEY-----\nMIIEvQIBADAN\nBgk=\n-----END KEY-----";
        assert_eq!(apply(&[key], "a MIIEvQIBADAN b").0, "a … b");
    }

    #[test]
    fn text_that_was_cut_off_does_not_end_within_a_secret() {
        let mask = Mask::new(["hunter2-and-more".to_owned(), "p\"q-secret".to_owned()]);
        for (text, expected, count) in [
            (r#"{"a":"hunter2-an"#, r#"{"a":"…"#, 1),
            (r#"{"a":"hunter2-and-more","b":"hunt"#, r#"{"a":"…","b":"…"#, 2),
            (r#"{"a":"p\"q-s"#, r#"{"a":"…"#, 1),
            (r#"{"a":"hun"#, r#"{"a":"hun"#, 0),
        ] {
            assert_eq!(mask.apply_to_cut(text), Masked { text: expected.to_owned(), count }, "{text}");
        }
    }

    #[test]
    fn only_strings_of_an_answer_are_masked() {
        let mask = Mask::new(["result".to_owned(), "4711".to_owned(), "hunter2-and-more".to_owned()]);
        let answer =
            r#"{"id":4711,"result":{"a":"a result","n":4711,"password":1234,"cut":"so hunter2-and…","b":"hunter2"}}"#;
        let expected = r#"{"id":4711,"result":{"a":"a …","n":4711,"password":1234,"cut":"so …","b":"hunter2"}}"#;
        assert_eq!(mask.apply_to_strings(answer, 18), expected);
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
            (
                r#"{"password":["letmein",{"a":"abcdef"},["abcdef"],9876]}"#,
                r#"{"password":["…",{"a":"abcdef"},["…"],"…"]}"#,
            ),
            (r#"{"pin":1,"password":123456,"a":12}"#, r#"{"pin":1,"password":"…","a":12}"#),
            (r#"{"progressToken":123456}"#, r#"{"progressToken":123456}"#),
            (r#"{"name":"API_KEY","value":"abcdef"}"#, r#"{"name":"API_KEY","value":"…"}"#),
            (r#"[{"value":"abcdef","key":"Authorization"}]"#, r#"[{"value":"…","key":"Authorization"}]"#),
            (r#"{"name":"LANG","value":"abcdef"}"#, r#"{"name":"LANG","value":"abcdef"}"#),
            (r#"{"a":"{\"password\":\"le\\u0074me\"}"}"#, r#"{"a":"{\"password\":\"…\"}"}"#),
            (
                r#"got {"password":"abcdef","n":[1]}, then } ["password"]"#,
                r#"got {"password":"…","n":[1]}, then } ["password"]"#,
            ),
            (r#"{"a":[1],"password":"abcdef"#, r#"{"a":[1],"password":"…"#),
            ("x\n{\"password\":\"abcdef\"}\n", "x\n{\"password\":\"…\"}\n"),
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
