//! Finding members of a JSON object without decoding the rest.

use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The raw values of `wanted` members of the object `json`, each a slice of `json`.
///
/// `null` is a value like any other. A wanted member that occurs twice is an error: two readers could disagree on
/// which one counts.
///
/// # Errors
/// If `json` is not one well-formed object in UTF-8.
pub fn members<const N: usize>(json: &Bytes, wanted: [&str; N]) -> Result<[Option<Bytes>; N], NotAnObject> {
    let text = std::str::from_utf8(json).map_err(|_| NotAnObject)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let raw = deserializer.deserialize_map(Members { wanted }).map_err(|_| NotAnObject)?;
    deserializer.end().map_err(|_| NotAnObject)?;
    Ok(raw.map(|value| value.map(|value| json.slice_ref(value.get().as_bytes()))))
}

/// Not one well-formed JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON object")]
pub struct NotAnObject;

/// The text of a raw JSON string: a slice of `raw` unless it has escapes. `None` if `raw` is no string.
#[must_use]
pub fn text(raw: &Bytes) -> Option<Bytes> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inner).is_none() {
        return Some(raw.slice_ref(inner));
    }
    serde_json::from_slice::<String>(raw).ok().map(Bytes::from)
}

enum Key {
    Wanted(usize),
    /// Not the wanted one, but taken for it by readers that fold case or cut at a zero: two readers would disagree.
    Lookalike,
    Other,
}

/// Whether a careless reader could take `key` for `wanted`.
fn looks_like(key: &str, wanted: &str) -> bool {
    let folded = |c: char| match c {
        'ſ' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    let key = key.trim_end_matches('\0');
    key.len() >= wanted.len() && key.chars().map(folded).eq(wanted.chars().map(folded))
}

struct Members<'w, const N: usize> {
    wanted: [&'w str; N],
}

impl<'de, const N: usize> Visitor<'de> for Members<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(index) = map.next_key_seed(Position(&self.wanted))? {
            match index {
                Key::Other => drop(map.next_value::<IgnoredAny>()?),
                Key::Lookalike => return Err(serde::de::Error::custom("a key that only looks like a wanted one")),
                Key::Wanted(index) if found[index].is_some() => {
                    return Err(serde::de::Error::custom("duplicate member"));
                }
                Key::Wanted(index) => found[index] = Some(map.next_value()?),
            }
        }
        Ok(found)
    }
}

/// Compares a key in place, so that keys nobody asked for cost no allocation.
struct Position<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Position<'_> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        // As bytes: a key with a lone surrogate is legal JSON, though no text.
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Position<'_> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<Self::Value, E> {
        if let Some(index) = self.0.iter().position(|wanted| wanted.as_bytes() == key) {
            return Ok(Key::Wanted(index));
        }
        let Ok(key) = std::str::from_utf8(key) else { return Ok(Key::Other) };
        Ok(if self.0.iter().any(|wanted| looks_like(key, wanted)) { Key::Lookalike } else { Key::Other })
    }
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
        check(r#"{"\ud800":1,"id":7,"\udfffmethod":2}"#, Ok([Some("7"), None]));
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
    fn refuses_keys_that_a_careless_reader_takes_for_wanted_ones() {
        for key in ["ID", "Id", "iD", "id\\u0000", "METHOD", "Method", "method\\u0000\\u0000"] {
            let json = format!(r#"{{"{key}":1}}"#);
            assert_eq!(members(&Bytes::from(json), ["id", "method"]), Err(NotAnObject), "{key}");
        }
        let kelvin = Bytes::from_static("{\"to\u{212a}en\":1}".as_bytes());
        assert_eq!(members(&kelvin, ["token"]), Err(NotAnObject));
        let long_s = Bytes::from_static("{\"param\u{17f}\":1}".as_bytes());
        assert_eq!(members(&long_s, ["params"]), Err(NotAnObject));
        check(r#"{"i":1,"idx":2,"methods":3,"":4}"#, Ok([None, None]));
    }

    #[test]
    fn survives_deep_nesting_outside_the_wanted_members() {
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
}
