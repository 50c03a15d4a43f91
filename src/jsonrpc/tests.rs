//! JSON that no peer has written, for tests of rooms that work on raw bytes.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

/// JSON as a test spells it, as it comes from a peer.
pub(crate) fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Raw bytes, to be compared as text.
pub(crate) fn text(raw: &[u8]) -> String {
    String::from_utf8(raw.to_vec()).expect("text")
}

/// Members of an object, none twice, with keys of `names`: with commas between them, and blanks anywhere.
pub(crate) fn members_of(names: &'static [&'static str]) -> impl Strategy<Value = String> {
    let value = prop_oneof![
        "-?[1-9][0-9]{0,2}",
        r#""[a-c,}{ ]{0,4}""#,
        Just("{\"a\":[1, {}]}".to_owned()),
        Just("[]".to_owned())
    ];
    vec(("[ \t]?", 0..names.len(), "[ ]?", value, "[ \n]?"), 0..6).prop_map(|parts| {
        let mut seen = Vec::new();
        let parts = parts.into_iter().filter(|(_, name, ..)| {
            !seen.contains(name) && {
                seen.push(*name);
                true
            }
        });
        let parts = parts.map(|(a, name, b, value, c)| format!("{a}\"{}\"{b}:{b}{value}{c}", names[name]));
        parts.collect::<Vec<_>>().join(",")
    })
}
