//! Held against a second writer, which follows the definition of the form.

use fastrand::Rng;
use proptest::prelude::*;

use super::*;

fn form(json: &str) -> String {
    String::from_utf8(canonical(json.as_bytes())).expect("UTF-8")
}

#[test]
fn spelling_and_order_of_members_do_not_matter() {
    for (json, expected) in [
        ("", ""),
        (" { } ", "{}"),
        (" [ ] ", "[]"),
        (" -1.50E+3 ", "-1.50E+3"),
        ("[true , false,\tnull\r\n]", "[true,false,null]"),
        (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
        (r#"{"b":{"d":[1,2],"c":{}},"a":"x,y}"}"#, r#"{"a":"x,y}","b":{"c":{},"d":[1,2]}}"#),
        (r#"[{"b":1,"a":[{"d":1,"c":2}],"":3},{"b":1,"a":2}]"#, r#"[{"":3,"a":[{"c":2,"d":1}],"b":1},{"a":2,"b":1}]"#),
        (r#"{"a":2,"b":1,"a":1}"#, r#"{"a":2,"a":1,"b":1}"#),
        (r#"{"é":1,"z":2,"\u00e8":3}"#, r#"{"z":2,"è":3,"é":1}"#),
        (r#"{"ab":1,"a":2,"a\u0000":3}"#, r#"{"a":2,"a\u0000":3,"ab":1}"#),
        (r#""\u0041\/\u002f\"\u0022\\\u005c""#, r#""A//\"\"\\\\""#),
        (
            r#""\b\u0008\f\u000C\n\u000a\r\u000d\t\u0009\u001F\u007f""#,
            "\"\\b\\b\\f\\f\\n\\n\\r\\r\\t\\t\\u001f\u{7f}\"",
        ),
        (r#""\uD83D\uDE00 😀""#, r#""😀 😀""#),
        (r#""\uD83D \uDE00\ud83d\uDBFF\uDFFF""#, "\"\\ud83d \\ude00\\ud83d\u{10ffff}\""),
        (r#"{"\uDC00":1,"\ud800":2}"#, r#"{"\ud800":2,"\udc00":1}"#),
    ] {
        assert_eq!(form(json), expected, "{json}");
        assert_eq!(form(expected), expected, "{json}");
    }
}

/// Quadratic time would take minutes here.
#[test]
fn nesting_of_100_000_levels_is_sorted_on_every_level() {
    const DEPTH: usize = 100_000;
    let wrapped = |open: &str, close: &str| format!("{}1{}", open.repeat(DEPTH), close.repeat(DEPTH));
    for (open, close) in [("[", "]"), (r#"{"b":"#, "}"), (r#"[{"b":"#, "}]")] {
        assert!(form(&wrapped(&format!("{open} "), close)) == wrapped(open, close), "{open}");
    }
    assert!(form(&wrapped(r#"{"b":"#, r#","a":2}"#)) == wrapped(r#"{"a":2,"b":"#, "}"));
}

/// A JSON value as it can be spelled. Strings are UTF-16, as some of them cannot be decoded.
#[derive(Debug, Clone, PartialEq)]
enum Tree {
    Word(&'static str),
    Text(Vec<u16>),
    Array(Vec<Tree>),
    Object(Vec<(Vec<u16>, Tree)>),
}

const WORDS: [&str; 8] = ["true", "false", "null", "0", "-0", "1", "1.0", "1e0"];
/// Code units of all kinds: plain, with escapes of each form, invisible, of two and three bytes, and surrogates.
const UNITS: [u16; 13] = [0x61, 0x62, 0x22, 0x5c, 0x2f, 0, 8, 10, 0x7f, 0xe9, 0x200b, 0xd83d, 0xde00];

fn text() -> impl Strategy<Value = Vec<u16>> {
    let unit = prop_oneof![4 => prop::sample::select(&UNITS[..]), 1 => any::<u16>()];
    prop::collection::vec(unit, 0..4)
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![prop::sample::select(&WORDS[..]).prop_map(Tree::Word), text().prop_map(Tree::Text)];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::Array),
            prop::collection::vec((text(), inner), 0..6).prop_map(Tree::Object),
        ]
    })
}

/// The canonical form, straight from its definition.
fn expected(tree: &Tree) -> String {
    match tree {
        Tree::Word(word) => (*word).to_owned(),
        Tree::Text(units) => format!("\"{}\"", expected_text(units)),
        Tree::Array(elements) => format!("[{}]", elements.iter().map(expected).collect::<Vec<_>>().join(",")),
        Tree::Object(members) => {
            let mut members: Vec<_> =
                members.iter().map(|(key, value)| (expected_text(key), expected(value))).collect();
            members.sort_by(|one, other| one.0.cmp(&other.0));
            let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

fn expected_text(units: &[u16]) -> String {
    let spelled = |char: Result<char, std::char::DecodeUtf16Error>| match char {
        Ok(char) => unquoted(char),
        Err(lone) => format!("\\u{:04x}", lone.unpaired_surrogate()),
    };
    char::decode_utf16(units.iter().copied()).map(spelled).collect()
}

fn unquoted(char: char) -> String {
    let json = serde_json::to_string(&char.to_string()).expect("JSON");
    json[1..json.len() - 1].to_owned()
}

/// One of the many spellings of a value. Members change places, unless their keys are equal.
fn spelled(tree: &Tree, rng: &mut Rng) -> String {
    let parts: Vec<String> = match tree {
        Tree::Word(word) => return (*word).to_owned(),
        Tree::Text(units) => return spelled_text(units, rng),
        Tree::Array(elements) => elements.iter().map(|element| spelled(element, rng)).collect(),
        Tree::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for from in 1..members.len() {
                let to = rng.usize(..=from);
                if members[to..from].iter().all(|(key, _)| *key != members[from].0) {
                    let member = members.remove(from);
                    members.insert(to, member);
                }
            }
            let member = |(key, value): &(Vec<u16>, Tree)| {
                format!("{}{}:{}{}", spelled_text(key, rng), blank(rng), blank(rng), spelled(value, rng))
            };
            members.into_iter().map(member).collect()
        }
    };
    let spaced: Vec<_> = parts.into_iter().map(|part| format!("{}{part}{}", blank(rng), blank(rng))).collect();
    let (open, close) = if matches!(tree, Tree::Array(_)) { ('[', ']') } else { ('{', '}') };
    format!("{open}{}{}{close}", blank(rng), spaced.join(","))
}

fn blank(rng: &mut Rng) -> &'static str {
    ["", "", " ", "\n\t "][rng.usize(..4)]
}

fn spelled_text(units: &[u16], rng: &mut Rng) -> String {
    let unit = |unit: u16, rng: &mut Rng| if rng.bool() { format!("\\u{unit:04x}") } else { format!("\\u{unit:04X}") };
    let mut json = String::from("\"");
    for char in char::decode_utf16(units.iter().copied()) {
        match char {
            Ok(char) if rng.bool() => char.encode_utf16(&mut [0; 2]).iter().for_each(|each| json += &unit(*each, rng)),
            Ok('/') => json += "\\/",
            Ok(char) => json += &unquoted(char),
            Err(lone) => json += &unit(lone.unpaired_surrogate(), rng),
        }
    }
    json + "\""
}

/// Changes the leaf or the key with this number, and counts them.
fn change(tree: &mut Tree, count: &mut usize, number: usize) {
    let is_it = |count: &mut usize| {
        *count += 1;
        *count - 1 == number
    };
    match tree {
        Tree::Word(word) if is_it(count) => {
            let at = WORDS.iter().position(|other| other == word).expect("a word");
            *word = WORDS[(at + 1) % WORDS.len()];
        }
        Tree::Text(text) if is_it(count) => text.push(0x61),
        Tree::Word(_) | Tree::Text(_) => {}
        Tree::Array(elements) => elements.iter_mut().for_each(|element| change(element, count, number)),
        Tree::Object(members) => {
            for (key, value) in members {
                if is_it(count) {
                    // No other key is as long.
                    key.extend([0x61; 9]);
                }
                change(value, count, number);
            }
        }
    }
}

proptest! {
    #[test]
    fn every_spelling_has_the_same_form(tree in tree(), seed in any::<u64>()) {
        let (json, expected) = (spelled(&tree, &mut Rng::with_seed(seed)), expected(&tree));
        prop_assert_eq!(form(&json), &*expected, "{}", json);
        prop_assert_eq!(form(&expected), &*expected);
        prop_assert!(expected.len() <= json.len());
    }

    #[test]
    fn each_changed_value_changes_the_form(tree in tree(), at in any::<prop::sample::Index>(), seed in any::<u64>()) {
        let (mut rng, mut leaves) = (Rng::with_seed(seed), 0);
        change(&mut tree.clone(), &mut leaves, usize::MAX);
        prop_assume!(leaves > 0);
        let mut changed = tree.clone();
        change(&mut changed, &mut 0, at.index(leaves));
        prop_assert_ne!(form(&spelled(&tree, &mut rng)), form(&spelled(&changed, &mut rng)));
    }

    #[test]
    fn the_meaning_stays(tree in tree(), seed in any::<u64>()) {
        let json = spelled(&tree, &mut Rng::with_seed(seed));
        // A value with a lone surrogate cannot be decoded.
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(&json) {
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&form(&json)).expect("JSON"), value);
        }
    }

    #[test]
    fn a_string_as_serde_json_writes_it_is_canonical(text in any::<String>()) {
        let json = serde_json::to_string(&text).expect("JSON");
        prop_assert_eq!(form(&json), json);
    }

    #[test]
    fn what_is_not_json_is_no_panic(
        bytes in prop::collection::vec(prop_oneof![1 => any::<u8>(), 9 => prop::sample::select(&b"{}[],:\"\\abu1 "[..])], 0..40),
    ) {
        canonical(&bytes);
    }
}
