//! Removes known secrets from a text. All other bytes stay, and JSON stays JSON.

use std::iter;
use std::ops::Range;

use aho_corasick::{AhoCorasick, BuildError};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::members::{self, is_json};
use super::views::{find_in_all, without_cut_unit};

/// Stands for a secret.
const MASK: &str = "…";
/// Least length of a line of a secret that is masked by itself.
const MIN_LINE: usize = 8;
/// Least length of a secret whose Base64 is masked.
const MIN_ENCODED: usize = 6;
/// Lengths of the lines of Base64 in PEM, and in MIME and `base64`.
const WIDTHS: [usize; 2] = [64, 76];
/// Greatest length of a secret whose Base64 is masked by single lines.
const MAX_WRAPPED: usize = 8192;
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
            forms.extend(lines_of_base64(&value));
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
            self.mask_json(text, Vec::new(), Scope::Text, &mut masked);
            return masked;
        }
        let of_lines = self.find_across_lines(text.as_bytes());
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let (content, line_end) = line.split_at(line.trim_end_matches(['\r', '\n']).len());
            let touched = of_lines.iter().filter(|range| range.start < at + content.len() && range.end > at);
            let place = |offset: usize| offset.saturating_sub(at).min(content.len());
            let found: Vec<_> = touched.map(|range| place(range.start)..place(range.end)).collect();
            if is_json(content.as_bytes()) {
                self.mask_json(content, found, Scope::Text, &mut masked);
            } else {
                self.mask_line(content, found, &mut masked);
            }
            masked.text += line_end;
            at += line.len();
        }
        masked
    }

    /// Text of JSON without secrets in strings after the offset `from`. Other values stay, and so does the type of each.
    pub(crate) fn apply_to_strings(&self, json: &str, from: usize) -> String {
        let mut masked = Masked::default();
        self.mask_json(json, Vec::new(), Scope::Strings(from), &mut masked);
        masked.text
    }

    /// As [`Self::apply`], for a text that was cut off: it may end within a secret.
    pub(crate) fn apply_to_cut(&self, text: &str) -> Masked {
        let Some(start) = self.cut_secret(text.as_bytes(), false, MIN_CUT) else { return self.apply(text) };
        let whole = self.apply(text.get(..start).unwrap_or_default());
        Masked { text: whole.text + MASK, count: whole.count + 1 }
    }

    /// Secrets that are written in several lines.
    fn find_across_lines(&self, text: &[u8]) -> Vec<Range<usize>> {
        if !text.contains(&b'\n') {
            return Vec::new();
        }
        let mut found = find_in_all(text, false, |text| self.find(text));
        found.retain(|range| text[range.clone()].contains(&b'\n'));
        found
    }

    /// Masks a line that is not JSON. `found`: what is known to be secret.
    fn mask_line(&self, line: &str, mut found: Vec<Range<usize>>, to: &mut Masked) {
        found.extend(find_in_all(line.as_bytes(), false, |text| self.find(text)));
        // JSON may follow other text, and a message may be cut off.
        let from = memchr::memchr2(b'{', b'[', line.as_bytes()).unwrap_or(line.len());
        let members = members::secrets(&line.as_bytes()[from..]).into_iter();
        found.extend(members.map(|range| from + range.start..from + range.end));
        copy(line, merged(found).into_iter().map(|range| (range, MASK)), to);
    }

    fn mask_json(&self, text: &str, mut found: Vec<Range<usize>>, scope: Scope, to: &mut Masked) {
        let bytes = text.as_bytes();
        let strings = strings(bytes);
        found.extend(find_in_all(bytes, true, |text| self.find(text)));
        found.extend(members::secrets(bytes));
        if scope != Scope::Text {
            found.extend(strings.iter().filter_map(|string| {
                // What mcpd shortens may end within a secret.
                let inner = &bytes[string.clone()];
                let start = self.cut_secret(inner.strip_suffix(MASK.as_bytes()).unwrap_or(inner), true, MIN_END)?;
                Some(string.start + start..string.end)
            }));
        }
        let parts = found.into_iter().flat_map(|range| json_parts(bytes, &strings, range)).collect();
        let masked = merged(parts).into_iter().filter_map(|range| {
            let string = strings.partition_point(|string| string.end < range.end);
            let is_in_string = strings.get(string).is_some_and(|string| string.start <= range.start);
            match scope {
                Scope::Strings(from) => (is_in_string && range.start >= from).then_some((range, MASK)),
                Scope::Text => Some((range, if is_in_string { MASK } else { "\"…\"" })),
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

    /// Where the beginning of a secret stands that ends a text, in any form of the text.
    fn cut_secret(&self, text: &[u8], is_json: bool, min: usize) -> Option<usize> {
        let ends = find_in_all(text, is_json, |text| self.unfinished(text, min).into_iter().collect());
        ends.into_iter().map(|end| end.start).min()
    }

    /// The end of a text that is the beginning of a secret, and at least `min` bytes.
    fn unfinished(&self, text: &[u8], min: usize) -> Option<Range<usize>> {
        let whole = without_cut_unit(text);
        let cut_within = (whole.len() < text.len()).then(|| self.beginning_of_secret(whole, min)).flatten();
        let start = self.beginning_of_secret(text, min).into_iter().chain(cut_within).min()?;
        Some(start..text.len())
    }

    fn beginning_of_secret(&self, text: &[u8], min: usize) -> Option<usize> {
        let mut starts = text.len().saturating_sub(self.longest)..(text.len() + 1).saturating_sub(min);
        starts.find(|start| {
            let end = &text[*start..];
            let next = self.forms.partition_point(|form| form.as_slice() < end);
            self.forms.get(next).is_some_and(|form| form.starts_with(end))
        })
    }
}

fn anchor(form: &[u8]) -> &[u8] {
    &form[..form.len().min(ANCHOR)]
}

/// The characters of Base64 that depend on `value` alone, for each offset of `value` modulo 3 and for both alphabets.
fn in_base64(value: &str) -> impl Iterator<Item = Vec<u8>> {
    let is_encoded = value.len() >= MIN_ENCODED;
    (0..3_usize).filter(move |_| is_encoded).flat_map(move |offset| {
        let shifted = [vec![0; offset], value.as_bytes().to_vec()].concat();
        let own = (offset * 8).div_ceil(6)..shifted.len() * 8 / 6;
        [STANDARD_NO_PAD, URL_SAFE_NO_PAD].map(|engine| engine.encode(&shifted).as_bytes()[own.clone()].to_vec())
    })
}

/// The lines of the Base64 of a whole secret after the first one. Each line that a server writes is masked by itself.
fn lines_of_base64(value: &str) -> Vec<Vec<u8>> {
    if value.len() > MAX_WRAPPED {
        return Vec::new();
    }
    let encoded = STANDARD_NO_PAD.encode(value);
    let own = &encoded.as_bytes()[..value.len() * 8 / 6];
    let lines = WIDTHS.iter().flat_map(|width| own.chunks(*width).skip(1));
    lines.filter(|line| line.len() >= MIN_LINE).map(<[u8]>::to_vec).collect()
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

/// What is masked for a range of JSON: the range, if it is in one string. Otherwise the strings that it touches, and the numbers and words that
/// are in it as a whole.
fn json_parts(text: &[u8], strings: &[Range<usize>], range: Range<usize>) -> Vec<Range<usize>> {
    let first = strings.partition_point(|string| string.end <= range.start);
    let touched = || strings[first..].iter().take_while(|string| string.start < range.end);
    if touched().next().is_some_and(|string| string.start <= range.start && range.end <= string.end) {
        return vec![range];
    }
    let mut parts: Vec<_> = touched().cloned().collect();
    let starts = iter::once(range.start).chain(touched().map(|string| string.end + 1));
    let ends = touched().map(|string| string.start).chain([range.end]);
    for (mut at, end) in starts.zip(ends) {
        for word in text.get(at..end).unwrap_or_default().split(|byte| !is_in_word(*byte)) {
            let word = at..at + word.len();
            at = word.end + 1;
            let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| is_in_word(*byte));
            let before = word.start.checked_sub(1).and_then(|before| text.get(before));
            if !word.is_empty() && !is_part(before) && !is_part(text.get(word.end)) {
                parts.push(word);
            }
        }
    }
    parts
}

/// Whether a byte is of a number or word.
fn is_in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
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
    fn secret_in_wrapped_base64_is_masked() {
        let secret: String = (0..40).map(|number| format!("{number:x}-secret?")).collect();
        let encoded = |before: &str| STANDARD_NO_PAD.encode(format!("{before}{secret}"));
        for (width, line_break) in [(76, "\n"), (64, "\r\n"), (60, "\n  ")] {
            for before in ["", "user:"] {
                let encoded = encoded(before);
                let lines: Vec<_> = encoded.as_bytes().chunks(width).map(String::from_utf8_lossy).collect();
                let wrapped = lines.join(line_break);
                let json = serde_json::json!({ "a": wrapped, "b": [1] }).to_string();
                let nested = serde_json::json!({ "a": json }).to_string();
                let url = wrapped.replace('\r', "%0D").replace('\n', "%0A").replace('+', "%2B");
                for text in [wrapped, json, nested, url] {
                    let (masked, _) = apply(&[&secret], &text);
                    let is_shown = |line: &&[u8]| masked.contains(&*String::from_utf8_lossy(line));
                    let shown = encoded.as_bytes().windows(12).find(is_shown).map(String::from_utf8_lossy);
                    assert_eq!(shown, None, "{text}\n{masked}");
                    assert_eq!(is_json(masked.as_bytes()), is_json(text.as_bytes()), "{masked}");
                }
            }
            // Each line of stderr is a text of its own.
            let encoded = encoded("");
            for line in encoded.as_bytes().chunks(width).filter(|_| WIDTHS.contains(&width)) {
                assert_eq!(apply(&[&secret], &String::from_utf8_lossy(line)).0.trim_end_matches("pw"), "…");
            }
        }
        let long = "0123456789".repeat(2000);
        let encoded = STANDARD_NO_PAD.encode(&long);
        assert_eq!(apply(&[&long], &format!("a {encoded} b")).0, "a … b");
    }

    #[test]
    fn lines_of_a_text_stay_lines() {
        let secret = "{\n  \"user\": \"joe\",\n}\nab\n";
        let text = format!("[1]\nx {secret}[\"joe\"]\r\nab\nc");
        assert_eq!(apply(&[secret, "joe"], &text).0, "[1]\nx …\n…\n…\n…\n[\"…\"]\r\nab\nc");
        assert_eq!(apply(&["one\ntwo"], "[\"one\"]\n one\ntwo \n").0, "[\"one\"]\n …\n… \n");
    }

    #[test]
    fn secret_that_is_a_text_of_json_masks_strings_and_values_but_no_structure() {
        let secret = "{\n  \"user\": \"joe-is-here\",\n  \"pin\": 4711, \"on\": true,\n  \"zone\": \"abc\"\n}\n";
        for (text, expected) in [
            (secret, "{\n  \"…\": \"…\",\n  \"…\": \"…\", \"…\": \"…\",\n  \"…\": \"…\"\n}\n"),
            ("{\"a\":{\"user\": \"joe-is-here\",\"x\":4711}}", "{\"a\":{\"…\": \"…\",\"x\":4711}}"),
            ("{\"x\":1,\"pin\": 4711, \"on\": true,\"y\":12}", "{\"x\":1,\"…\": \"…\", \"…\": \"…\",\"y\":12}"),
            ("{\"user\": \"joe-is-here\",\"pin\": 47115}", "{\"…\": \"…\",\"pin\": 47115}"),
        ] {
            let masked = apply(&[secret], text).0;
            assert_eq!(masked, expected, "{text}");
            assert_eq!(is_json(masked.as_bytes()), is_json(text.as_bytes()), "{masked}");
            let inner = serde_json::json!({ "a": text }).to_string();
            assert!(is_json(apply(&[secret], &inner).0.as_bytes()), "{inner}");
        }
        let mask = Mask::new([secret.to_owned()]);
        let text = "{\"x\":1,\"pin\": 4711, \"on\": true,\"y\":12}";
        assert_eq!(mask.apply_to_strings(text, 7), "{\"x\":1,\"…\": 4711, \"…\": true,\"y\":12}");
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
    fn text_that_was_cut_within_a_character_or_escape_does_not_end_within_a_secret() {
        let mask = Mask::new([format!("{}é\"🞄 tail", "A".repeat(40))]);
        let percent = "%41".repeat(40);
        for (prefix, units) in [
            (
                "A".repeat(40),
                &["\u{fffd}", r"\", r"\u00", r"\u00e9", r"\u00e9\", r"é\", "é\\\"\u{fffd}", r"é\ud83d\udf"][..],
            ),
            (r"\u0041".repeat(40), &["", r"\", r"\u0", r"\u00e9\u00"]),
            (r"\\u0041".repeat(40), &["", r"\", r"\\", r"\\u0"]),
            (percent.clone(), &["%", "%C", "%C3", "%C3%", "%C3%A9%2"]),
            (percent.replace('%', "%25"), &["%", "%2", "%25", "%25C", "%25C3%2"]),
        ] {
            for unit in units {
                let text = format!("{{\"x\":\".{prefix}{unit}");
                assert_eq!(mask.apply_to_cut(&text), Masked { text: "{\"x\":\".…".to_owned(), count: 1 }, "{text}");
            }
        }
    }

    #[test]
    fn shortened_strings_of_an_answer_do_not_end_within_a_secret_in_any_form() {
        let secret = "correct\"horse\\battery staple over the hill";
        let mask = Mask::new([secret.to_owned()]);
        let percent = "correct%22horse%5Cbattery%20staple";
        let nested = serde_json::to_string(&secret[..30]).expect("JSON");
        for cut in
            [&secret[..9], &secret[..16], &secret[..30], percent, &format!("{percent}%2"), nested.trim_end_matches('"')]
        {
            let answer = serde_json::json!({"result": {"text": format!("... {}…", cut), "n": 1}}).to_string();
            let text = mask.apply_to_strings(&answer, 0);
            let quote = if cut.starts_with('"') { "\\\"" } else { "" };
            assert_eq!(text, format!(r#"{{"result":{{"n":1,"text":"... {quote}…"}}}}"#), "{cut}");
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
