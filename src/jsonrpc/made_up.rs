//! JSON that nobody has written, for property tests.

use proptest::collection::vec;
use proptest::prelude::*;

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
