//! The text of a pin file: the approved definitions of one server.
//!
//! It is one JSON object, with one item per line in a fixed order, so that version control shows which items have changed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::approval::Pins;
use super::canonical::canonical;
use super::digest::Digest;
use super::facts::Facts;
use super::kind::PinnedKind;

/// Rises with each change of the format.
const VERSION: u32 = 1;
/// Approved definitions of one key. At this number the one that was approved first is dropped.
const MAX_DEFINITIONS: usize = 32;

/// The approved definitions of one server, with their texts.
#[derive(Debug, Clone)]
pub struct PinRecord {
    server: Arc<str>,
    items: BTreeMap<(PinnedKind, Arc<str>), BTreeMap<Digest, PinnedText>>,
}

/// An approved definition.
#[derive(Debug, Clone)]
pub struct PinnedText {
    /// In canonical form.
    pub definition: Box<RawValue>,
    /// When it was approved, in seconds since 1970.
    pub approved: u64,
}

/// Why a text is not a pin record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PinRecordError {
    #[error("line {line} is malformed")]
    Syntax { line: usize },
    #[error("its version {version} is not known")]
    Version { version: u32 },
    #[error("the digest in line {line} is not that of its definition")]
    WrongDigest { line: usize },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content<'a> {
    version: u32,
    server: String,
    #[serde(borrow)]
    items: Vec<Line<'a>>,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    kind: PinnedKind,
    #[serde(borrow)]
    key: Cow<'a, str>,
    sha256: Digest,
    approved: u64,
    #[serde(borrow)]
    definition: &'a RawValue,
}

impl PinRecord {
    /// A record in which nothing is approved.
    pub fn new(server: &str) -> Self {
        Self { server: server.into(), items: BTreeMap::new() }
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    /// # Errors
    /// If it is no text of [`Self::to_text`], or a definition is not that of its digest.
    pub fn parse(text: &str) -> Result<Self, PinRecordError> {
        let content: Content<'_> = serde_json::from_str(text).map_err(|error| {
            // A later version may have other members.
            let Version { version } = serde_json::from_str(text).unwrap_or(Version { version: VERSION });
            if version == VERSION {
                PinRecordError::Syntax { line: error.line() }
            } else {
                PinRecordError::Version { version }
            }
        })?;
        if content.version != VERSION {
            return Err(PinRecordError::Version { version: content.version });
        }
        let mut record = Self::new(&content.server);
        for Line { kind, key, sha256, approved, definition } in content.items {
            let json = definition.get();
            if record.insert(kind, &key.into(), json.as_bytes(), approved) != Some(sha256) {
                return Err(PinRecordError::WrongDigest { line: line_of(json, text) });
            }
        }
        Ok(record)
    }

    pub fn to_text(&self) -> String {
        let mut text = format!("{{\"version\":{VERSION},\"server\":{},\"items\":[", Value::from(&*self.server));
        let mut separator = "\n";
        for ((kind, key), definitions) in &self.items {
            for (digest, PinnedText { definition, approved }) in definitions {
                let (kind, key) = (kind.word(), Value::from(&**key));
                let head = format!(r#"{{"kind":"{kind}","key":{key},"sha256":"{digest}","approved":{approved}"#);
                text.extend([separator, &head, ",\"definition\":", definition.get(), "}"]);
                separator = ",\n";
            }
        }
        text + "\n]}\n"
    }

    /// Approves a definition, at this time in seconds since 1970. `None` if it is not JSON.
    pub fn insert(&mut self, kind: PinnedKind, key: &Arc<str>, json: &[u8], approved: u64) -> Option<Digest> {
        let text = String::from_utf8(canonical(json)).ok()?;
        let digest = Digest::of_canonical(text.as_bytes());
        let definition = RawValue::from_string(text).ok()?;
        let definitions = self.items.entry((kind, Arc::clone(key))).or_default();
        // An approval twice keeps its time, so that the file stays the same.
        definitions.entry(digest).or_insert(PinnedText { definition, approved });
        if definitions.len() > MAX_DEFINITIONS {
            let others = definitions.iter().filter(|(other, _)| **other != digest);
            let first = others.min_by_key(|(_, text)| text.approved).map(|(first, _)| *first);
            first.and_then(|first| definitions.remove(&first));
        }
        Some(digest)
    }

    /// All approved definitions, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (PinnedKind, &Arc<str>, Digest, &PinnedText)> {
        self.items.iter().flat_map(|((kind, key), definitions)| {
            definitions.iter().map(move |(digest, text)| (*kind, key, *digest, text))
        })
    }

    /// The approved definitions of `key`, the one that was approved last at the end.
    pub fn definitions(&self, kind: PinnedKind, key: &Arc<str>) -> Vec<(Digest, &PinnedText)> {
        let definitions = self.items.get(&(kind, Arc::clone(key)));
        let mut all: Vec<_> = definitions.into_iter().flatten().map(|(digest, text)| (*digest, text)).collect();
        all.sort_by_key(|(_, text)| text.approved);
        all
    }

    /// The same definitions without their texts.
    pub fn pins(&self) -> Pins {
        let mut pins = Pins::default();
        for (kind, key, digest, text) in self.iter() {
            pins.insert(kind, key, digest, Facts::of_canonical(text.definition.get().to_owned()));
        }
        pins
    }
}

/// The number of the line of `text` in which its part begins.
fn line_of(part: &str, text: &str) -> usize {
    let before = part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    text.bytes().take(before).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(items: &[(PinnedKind, &str, &str)]) -> PinRecord {
        let mut record = PinRecord::new("files");
        for (kind, key, json) in items {
            assert!(record.insert(*kind, &Arc::from(*key), json.as_bytes(), 7).is_some(), "{json}");
        }
        record
    }

    const ITEMS: [(PinnedKind, &str, &str); 6] = [
        (PinnedKind::Tool, "write", r#"{ "name":"write", "description":"a\u0062\n" }"#),
        (PinnedKind::Tool, "read \u{200b}\"", r#"{"name":"read","x":[1.0,1e3,"\ud800"]}"#),
        (PinnedKind::Tool, "write", r#"{"name":"write","title":"\u2028"}"#),
        (PinnedKind::Template, "a://{b}", r#"{"uriTemplate":"a://{b}"}"#),
        (PinnedKind::Prompt, "ask", r#"{"name":"ask"}"#),
        (PinnedKind::Instructions, "", r#""Use it.""#),
    ];

    #[test]
    fn text_is_read_back_and_has_one_item_per_line_in_a_fixed_order() {
        let mut reversed = ITEMS;
        reversed.reverse();
        let text = record(&ITEMS).to_text();
        assert_eq!(record(&reversed).to_text(), text, "the order of approval");
        assert_eq!(text.lines().count(), ITEMS.len() + 2);
        let first = text.lines().nth(1).expect("an item");
        assert!(first.starts_with(r#"{"kind":"instructions","key":"","sha256":""#), "{first}");
        assert!(first.ends_with(r#","approved":7,"definition":"Use it."},"#), "{first}");
        let parsed = PinRecord::parse(&text).expect("its own text");
        assert_eq!((parsed.to_text(), parsed.server()), (text, "files"));
        let empty = PinRecord::new("a");
        assert!(PinRecord::parse(&empty.to_text()).is_ok_and(|empty| empty.iter().next().is_none()));
    }

    #[test]
    fn every_truncated_text_is_refused() {
        let text = record(&ITEMS).to_text();
        let whole = text.trim_end().len();
        for end in (0..whole).filter(|end| text.is_char_boundary(*end)) {
            assert!(matches!(PinRecord::parse(&text[..end]), Err(PinRecordError::Syntax { .. })), "{end}");
        }
    }

    #[test]
    fn a_text_that_was_changed_is_refused_with_its_line() {
        let text = record(&ITEMS).to_text();
        let line = |part: &str| 1 + text[..text.find(part).expect("a part")].matches('\n').count();
        let ask = r#"{"name":"ask"}"#;
        for (from, to, expected) in [
            ("Use it.", "Use it!", PinRecordError::WrongDigest { line: 2 }),
            (ask, r#"{"name":"asks"}"#, PinRecordError::WrongDigest { line: line(ask) }),
            (r#""kind":"prompt""#, r#""kind":"resource""#, PinRecordError::Syntax { line: line(ask) }),
            (r#""approved":7"#, r#""approved":-7"#, PinRecordError::Syntax { line: 2 }),
            (r#""approved":7"#, r#""approved":7,"by":"x""#, PinRecordError::Syntax { line: 2 }),
            (r#""version":1"#, r#""version":2"#, PinRecordError::Version { version: 2 }),
            (r#""version":1"#, r#""version":2,"more":{}"#, PinRecordError::Version { version: 2 }),
            (r#""version":1,"#, "", PinRecordError::Syntax { line: text.lines().count() }),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            assert_eq!(PinRecord::parse(&changed).err(), Some(expected), "{from} {to}");
        }
        assert!(PinRecord::parse(&text.replace("},", "},  ")).is_ok(), "white space does not matter");
    }

    #[test]
    fn a_definition_is_kept_in_canonical_form_whatever_its_spelling() {
        let (mut record, key) = (record(&ITEMS), Arc::from("write"));
        let before = record.to_text();
        let canonical = r#"{"description":"ab\n","name":"write"}"#;
        let again = record.insert(PinnedKind::Tool, &key, canonical.as_bytes(), 9);
        assert_eq!((again.is_some(), record.to_text()), (true, before), "approved twice");
        assert_eq!(record.insert(PinnedKind::Tool, &key, b"{", 9), None);
        let kept = record.definitions(PinnedKind::Tool, &key);
        assert!(kept.iter().any(|(_, text)| text.definition.get() == canonical), "{kept:?}");
    }

    #[test]
    fn of_many_definitions_the_one_that_was_approved_first_is_dropped() {
        let (mut record, key) = (PinRecord::new("files"), Arc::from("a"));
        let mut approve = |json: &str, time: usize| {
            record.insert(PinnedKind::Tool, &key, json.as_bytes(), time as u64).expect("JSON")
        };
        let digests: Vec<_> = (0..MAX_DEFINITIONS + 2).map(|time| approve(&time.to_string(), time)).collect();
        let early = approve("\"early\"", 0);
        let pins = record.pins();
        let is_approved = |digest: &Digest| pins.is_approved(PinnedKind::Tool, "a", *digest);
        assert!(is_approved(&early), "the one that is approved now");
        assert!(digests[3..].iter().all(is_approved) && !digests[..3].iter().any(is_approved));
        let last = record.definitions(PinnedKind::Tool, &key).last().map(|(digest, _)| *digest);
        assert_eq!(last, digests.last().copied());
    }
}
