//! Finds members of a JSON object without decoding the others, and reads all members or elements of a small object or array.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserializer, Visitor};

use super::scan::{NotJson, Part, Walk};

/// The raw values of the members `names` of the object `json`. Each is a slice of `json`.
///
/// `null` is an ordinary value. A duplicate of a requested member is an error, because parsers disagree on which one counts.
///
/// # Errors
/// If `json` is not one well-formed object in UTF-8, or has a carriage return between tokens.
pub fn members<const N: usize>(json: &Bytes, names: [&str; N]) -> Result<[Option<Bytes>; N], NotAnObject> {
    Ok(slices(json, &names)?.map(|value| value.map(|value| json.slice_ref(value))))
}

/// Like [`members`], for an object within a message that was parsed: what is nested in its members is not read again.
///
/// # Errors
/// If `json` is no object, or a requested member is duplicate.
pub fn members_of_parsed<const N: usize>(json: &Bytes, names: [&str; N]) -> Result<[Option<Bytes>; N], NotAnObject> {
    let mut found = [None; N];
    find(Walk::object(json).accepted(), &names, &mut found)?;
    Ok(found.map(|value| value.map(|value| json.slice_ref(value))))
}

/// Like [`members`], with borrowed slices.
pub(super) fn slices<'a, const N: usize>(
    json: &'a [u8],
    names: &[&str; N],
) -> Result<[Option<&'a [u8]>; N], NotAnObject> {
    let mut found = [None; N];
    find(Walk::object(json), names, &mut found)?;
    Ok(found)
}

fn find<'a>(mut walk: Walk<'a>, names: &[&str], found: &mut [Option<&'a [u8]>]) -> Result<(), NotAnObject> {
    while let Some(member) = walk.next()? {
        match which(member.key, names) {
            Key::Other => {}
            Key::Match(index) if found[index].is_none() => found[index] = Some(member.value),
            Key::Match(_) | Key::Lookalike(_) => return Err(NotAnObject),
        }
    }
    Ok(walk.end()?)
}

/// Passes each member of the object `json` to `show`, in order: the decoded key, and the raw value as a slice of `json`. Skips keys with a
/// lone surrogate. Includes duplicates.
///
/// # Errors
/// As for [`members`]. Members before the error were passed to `show`.
pub fn each(json: &Bytes, mut show: impl FnMut(Bytes, Bytes)) -> Result<(), NotAnObject> {
    let mut walk = Walk::object(json);
    while let Some(member) = walk.next()? {
        if let Some(key) = text_within(json, member.key) {
            show(key, json.slice_ref(member.value));
        }
    }
    Ok(walk.end()?)
}

/// The text is not one well-formed JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON object")]
pub struct NotAnObject;

impl From<NotJson> for NotAnObject {
    fn from(_: NotJson) -> Self {
        Self
    }
}

/// The decoded text of a raw JSON string: a slice of `raw` unless it has escapes. `None` if `raw` is not a string.
#[must_use]
pub fn text(raw: &Bytes) -> Option<Bytes> {
    text_within(raw, raw)
}

/// The text of a raw JSON string, as a `String`. `None` if it is not a string.
#[must_use]
pub fn string(raw: &Bytes) -> Option<String> {
    String::from_utf8(text(raw)?.into()).ok()
}

/// Like [`text`], for a slice of `line`.
pub(super) fn text_within(line: &Bytes, raw: &[u8]) -> Option<Bytes> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inner).is_none() {
        return Some(line.slice_ref(inner));
    }
    serde_json::from_slice::<String>(raw).ok().map(Bytes::from)
}

/// How a key compares to the requested names.
pub(super) enum Key {
    /// It equals the name at this index.
    Match(usize),
    /// It differs, but a lenient parser could take it for the name at this index: one that folds case, stops at a NUL, or drops lone
    /// surrogates.
    Lookalike(usize),
    /// Any other.
    Other,
}

/// Compares a raw key, with its quotes, to `names`.
pub(super) fn which(quoted: &[u8], names: &[&str]) -> Key {
    let key = &quoted[1..quoted.len() - 1];
    if let Some(index) = names.iter().position(|name| name.as_bytes() == key) {
        return Key::Match(index);
    }
    // Without escapes there is no NUL, and in ASCII a letter has one byte in either case.
    let is_plain = |text: &[u8]| text.iter().all(|byte| !matches!(byte, 0 | b'\\') && byte.is_ascii());
    if is_plain(key) && names.iter().all(|name| name.len() != key.len() && is_plain(name.as_bytes())) {
        return Key::Other;
    }
    which_unusual(quoted, names)
}

/// The one of `names` that a raw key, with its quotes, is, or that a lenient parser could take it for.
#[must_use]
pub fn may_be_read_as<'n>(quoted: &[u8], names: &[&'n str]) -> Option<&'n str> {
    match which(quoted, names) {
        Key::Other => None,
        Key::Match(index) | Key::Lookalike(index) => names.get(index).copied(),
    }
}

/// Like [`which`], for keys with escapes or of other case.
#[cold]
fn which_unusual(quoted: &[u8], names: &[&str]) -> Key {
    let key = &decode(quoted)[..];
    if let Some(index) = names.iter().position(|name| name.as_bytes() == key) {
        return Key::Match(index);
    }
    names.iter().position(|name| looks_like(key, name.as_bytes())).map_or(Key::Other, Key::Lookalike)
}

/// Whether a lenient parser could take `key` for `name`.
fn looks_like(key: &[u8], name: &[u8]) -> bool {
    folded(key).eq(folded(name))
}

/// A decoded key up to its first NUL, without lone surrogates, and with the case of letters folded.
fn folded(key: &[u8]) -> impl Iterator<Item = char> {
    let letters = key.utf8_chunks().flat_map(|chunk| chunk.valid().chars()).take_while(|letter| *letter != '\0');
    // Upper case alone differs for `ẞ` and `ß`, lower case alone for `ſ` and `s`.
    let lower = letters.flat_map(char::to_lowercase);
    // The lower case of `İ` has a dot above, which some parsers leave out.
    lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase).filter(|letter| *letter != '\u{307}')
}

/// Decodes a key to bytes, because a key with a lone surrogate is valid JSON but not valid text.
fn decode(quoted: &[u8]) -> Vec<u8> {
    struct Key;
    impl Visitor<'_> for Key {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a key")
        }

        fn visit_bytes<E>(self, key: &[u8]) -> Result<Self::Value, E> {
            Ok(key.to_vec())
        }
    }
    // This cannot fail: the scan found a string.
    serde_json::Deserializer::from_slice(quoted).deserialize_bytes(Key).unwrap_or_default()
}

/// The parts of an object or array that is part of a parsed line, read one by one. Each part has a raw key with its quotes, which is
/// empty in an array, and a raw value. Both are slices of the whole.
pub struct Parts<'a> {
    whole: &'a Bytes,
    walk: Walk<'a>,
}

impl<'a> Parts<'a> {
    /// The members of an object. `None` if it is another value.
    #[must_use]
    pub fn of_object(whole: &'a Bytes) -> Option<Self> {
        whole.starts_with(b"{").then(|| Self { whole, walk: Walk::object(whole).accepted() })
    }

    /// The elements of an array. `None` if it is another value.
    #[must_use]
    pub fn of_array(whole: &'a Bytes) -> Option<Self> {
        whole.starts_with(b"[").then(|| Self { whole, walk: Walk::array(whole).accepted() })
    }
}

impl Iterator for Parts<'_> {
    type Item = (Bytes, Bytes);

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.walk.next().ok()??;
        Some((self.whole.slice_ref(part.key), self.whole.slice_ref(part.value)))
    }
}

/// The members of `object` in order: each raw key with its quotes, and its raw value. Both are slices of `object`. `None` if it is not
/// one well-formed object, or has more than `most` members.
#[must_use]
pub fn entries(object: &Bytes, most: usize) -> Option<Vec<(Bytes, Bytes)>> {
    all(Walk::object(object), most, |part| (object.slice_ref(part.key), object.slice_ref(part.value)))
}

/// The elements of `array` as its slices. `None` if it is not one well-formed array, or has more than `most` elements.
#[must_use]
pub fn elements(array: &Bytes, most: usize) -> Option<Vec<Bytes>> {
    all(Walk::array(array), most, |part| array.slice_ref(part.value))
}

fn all<'a, T>(mut walk: Walk<'a>, most: usize, of: impl Fn(Part<'a>) -> T) -> Option<Vec<T>> {
    let mut found = Vec::new();
    while let Some(part) = walk.next().ok()? {
        if found.len() == most {
            return None;
        }
        found.push(of(part));
    }
    walk.end().ok()?;
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &'static str, expected: Result<[Option<&str>; 2], NotAnObject>) {
        let found = members(&Bytes::from_static(json.as_bytes()), ["id", "method"]);
        let expected = expected.map(|e| e.map(|m| m.map(|m| Bytes::copy_from_slice(m.as_bytes()))));
        assert_eq!(found, expected, "{json}");
    }

    #[test]
    fn finds_members_by_range() {
        check(r#"{"id": 1.10, "x": {"id": 2}, "method":"a"}"#, Ok([Some("1.10"), Some("\"a\"")]));
        check(r#"{"id":null}"#, Ok([Some("null"), None]));
        check(r#"{"\u0069d":7}"#, Ok([Some("7"), None]));
        check(r#"{"\ud800":1,"id":7,"\udfffmethods":2}"#, Ok([Some("7"), None]));
        check(r#"{"id":123456789012345678901234567890}"#, Ok([Some("123456789012345678901234567890"), None]));
        check("{}", Ok([None, None]));
    }

    #[test]
    fn refuses_what_is_not_one_object() {
        for json in ["", "[]", "1", "{", r#"{"id":1}{}"#, r#"{"id":1,"id":2}"#, r#"{"id":1,"\u0069d":2}"#, "{'id':1}"] {
            check(json, Err(NotAnObject));
        }
        assert!(members(&Bytes::from_static(b"{\"a\":\"\xff\"}"), ["id"]).is_err());
    }

    #[test]
    fn refuses_keys_that_a_careless_reader_takes_for_searched_ones() {
        for (name, keys) in [
            ("id", &["ID", "Id", "iD", r"id\u0000", r"id\u0000x", r"ID\u0000\ud800", "İD", "ıd"][..]),
            ("method", &["METHOD", "Method", r"method\u0000\u0000", r"method\udc00", r"\ud800method", r"met\udfffhod"]),
            ("token", &["to\u{212a}en", r"TO\u212aEN"]),
            ("params", &["param\u{17f}", r"PARAM\u017f"]),
            ("größe", &["GRÖSSE", "GRÖẞE", "grösse", r"gr\u00d6\u1e9ee\u0000"]),
            ("straße", &["STRASSE", "strasse"]),
            ("STRASSE", &["straße"]),
            ("σς", &["ΣΣ", "σσ"]),
        ] {
            for key in keys {
                let json = format!(r#"{{"{key}":1}}"#);
                assert_eq!(members(&Bytes::from(json), [name]), Err(NotAnObject), "{key}");
                assert_eq!(may_be_read_as(format!("\"{key}\"").as_bytes(), &["other", name]), Some(name), "{key}");
            }
        }
        for key in ["x", r"\u0000id", r"\ud800", r"i\u0000d", "id ", "ï", "größe", r"\ud83d\ude00id", r"\ufffdid"] {
            assert_eq!(may_be_read_as(format!("\"{key}\"").as_bytes(), &["id", "größer"]), None, "{key}");
        }
        check(r#"{"i":1,"idx":2,"methods":3,"":4}"#, Ok([None, None]));
    }

    #[test]
    fn shows_each_member_in_order() {
        let shown = |json: &'static str| {
            let mut all = Vec::new();
            let end = each(&Bytes::from_static(json.as_bytes()), |key, value| all.push((key, value)));
            (
                all.into_iter().map(|(key, value)| [key, Bytes::from_static(b"="), value].concat()).collect::<Vec<_>>(),
                end,
            )
        };
        let all: Vec<Vec<u8>> = ["b=1", "a={ \"b\":2 }", "b=3"].map(|member| member.into()).into();
        assert_eq!(shown(r#"{"b":1, "\u0061" : { "b":2 },"\ud800":0,"b":3}"#), (all, Ok(())));
        assert_eq!(shown("{}"), (vec![], Ok(())));
        assert_eq!(shown(r#"{"a":1"#).1, Err(NotAnObject));
        assert_eq!(shown("[1]"), (vec![], Err(NotAnObject)));
    }

    #[test]
    fn survives_deep_nesting_outside_the_searched_members() {
        let json = format!("{{\"x\":{}{},\"id\":1}}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(members(&Bytes::from(json), ["id"]).is_ok());
    }

    #[test]
    fn text_decodes_escapes_only_where_there_are_any() {
        assert_eq!(text(&Bytes::from_static(b"\"tools/call\"")).as_deref(), Some(&b"tools/call"[..]));
        assert_eq!(text(&Bytes::from_static(b"\"tools\\/call\"")).as_deref(), Some(&b"tools/call"[..]));
        assert_eq!(text(&Bytes::from_static(b"7")), None);
        assert_eq!(text(&Bytes::from_static(b"\"")), None);
    }

    #[test]
    fn members_are_found_as_they_are_spelled() {
        let object = Bytes::from_static(br#" {"a" : 1.0,"\u0062":{"c":[]} , "a":null} "#);
        let found = entries(&object, 3).expect("an object");
        let shown: Vec<_> = found.iter().map(|(key, value)| [&key[..], b"=", value].concat()).collect();
        assert_eq!(shown, [&b"\"a\"=1.0"[..], br#""\u0062"={"c":[]}"#, b"\"a\"=null"]);
        assert_eq!(entries(&object, 2), None);
        assert_eq!(Parts::of_object(&object).map(Iterator::count), None, "it begins with a blank");
        assert_eq!(Parts::of_object(&object.slice(1..)).map(|parts| parts.collect()), Some(found));
        for not_one in ["", "[]", "{}{}", "{\"a\"}"] {
            assert_eq!(entries(&Bytes::from_static(not_one.as_bytes()), 9), None, "{not_one}");
        }
    }

    #[test]
    fn a_long_array_is_none() {
        let of =
            |text: &'static str, most| elements(&Bytes::from_static(text.as_bytes()), most).map(|found| found.len());
        assert_eq!((of("[1, \"]\" ]", 2), of("[1,2]", 1), of("[]", 0), of("{}", 9)), (Some(2), None, Some(0), None));
    }
}
