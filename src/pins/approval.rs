//! Decides whether a definition may be exposed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::digest::Digest;
use super::facts::Facts;
use super::kind::PinnedKind;

/// The approved definitions of one server. Has no texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    /// For each kind, the approved definitions of each key: there may be one per era and instance.
    approved: [HashMap<Arc<str>, BTreeMap<Digest, Facts>>; PinnedKind::ALL.len()],
}

/// For each kind, names that a new item of the server must not take from another server.
pub type TakenNames = BTreeMap<PinnedKind, BTreeSet<Arc<str>>>;

/// What happens to a definition that is not approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalRule {
    /// It is exposed, unless it is one of the changes that need approval.
    Warn,
    /// It is withheld.
    Hold,
}

/// What the policy of one server knows of its pins. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Approval {
    rule: ApprovalRule,
    pins: Arc<Pins>,
    taken: Arc<TakenNames>,
}

/// Why a definition is withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withheld {
    /// No definition of this name is approved.
    New,
    /// Other definitions of this name are approved.
    Changed,
    /// Its annotations claim to be more harmless than those of every approved definition.
    #[serde(rename = "annotations")]
    LooserAnnotations,
    /// It has invisible characters that no approved definition has.
    #[serde(rename = "characters")]
    InvisibleCharacters,
    /// It is new, and another server exposes its name.
    #[serde(rename = "name")]
    NameTaken,
}

impl Withheld {
    /// The word for it in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::LooserAnnotations => "annotations",
            Self::InvisibleCharacters => "characters",
            Self::NameTaken => "name",
        }
    }
}

impl Pins {
    pub(super) fn insert(&mut self, kind: PinnedKind, key: &Arc<str>, digest: Digest, facts: Facts) {
        self.approved[kind as usize].entry(Arc::clone(key)).or_default().insert(digest, facts);
    }

    /// Approves a definition of `key`.
    pub fn approve(&mut self, kind: PinnedKind, key: &Arc<str>, definition: Definition<'_>) {
        self.insert(kind, key, definition.digest(), definition.facts().into_owned());
    }

    /// The keys with approved definitions.
    pub fn keys(&self, kind: PinnedKind) -> impl Iterator<Item = &Arc<str>> {
        self.approved[kind as usize].keys()
    }

    fn definitions(&self, kind: PinnedKind, key: &str) -> Option<&BTreeMap<Digest, Facts>> {
        self.approved[kind as usize].get(key)
    }

    /// Whether this definition of `key` is approved.
    pub fn is_approved(&self, kind: PinnedKind, key: &str, digest: Digest) -> bool {
        self.definitions(kind, key).is_some_and(|approved| approved.contains_key(&digest))
    }

    /// Whether any definition of `key` is approved.
    pub fn knows(&self, kind: PinnedKind, key: &str) -> bool {
        self.definitions(kind, key).is_some()
    }
}

impl Approval {
    pub fn new(rule: ApprovalRule, pins: Arc<Pins>, taken: Arc<TakenNames>) -> Self {
        Self { rule, pins, taken }
    }

    pub fn rule(&self) -> ApprovalRule {
        self.rule
    }

    pub fn pins(&self) -> &Arc<Pins> {
        &self.pins
    }

    /// Whether both are the same values, without comparing their contents.
    pub fn is_same(&self, other: &Self) -> bool {
        self.rule == other.rule && Arc::ptr_eq(&self.pins, &other.pins) && Arc::ptr_eq(&self.taken, &other.taken)
    }

    /// Whether the definition of `key` may be exposed.
    pub fn verdict(&self, kind: PinnedKind, key: &str, definition: Definition<'_>) -> Result<(), Withheld> {
        let approved = self.pins.definitions(kind, key);
        if approved.is_some_and(|approved| approved.contains_key(&definition.digest())) {
            return Ok(());
        }
        let is_new = approved.is_none();
        if self.rule == ApprovalRule::Hold {
            return Err(if is_new { Withheld::New } else { Withheld::Changed });
        }
        let (facts, approved) = (definition.facts(), approved.into_iter().flat_map(BTreeMap::values));
        let is_taken = || self.taken.get(&kind).is_some_and(|names| names.contains(key));
        if facts.hides_more_than(approved.clone()) {
            Err(Withheld::InvisibleCharacters)
        } else if !is_new && { approved }.all(|approved| facts.loosens(approved)) {
            Err(Withheld::LooserAnnotations)
        } else if is_new && is_taken() {
            Err(Withheld::NameTaken)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pins::{Fingerprint, PinRecord};

    const TOOL: PinnedKind = PinnedKind::Tool;

    fn pins(approved: &[(PinnedKind, &str, &str)]) -> Arc<Pins> {
        let mut record = PinRecord::new("files");
        for (kind, key, json) in approved {
            record.insert(*kind, &Arc::from(*key), json.as_bytes(), 0);
        }
        Arc::new(record.pins())
    }

    fn verdicts(pins: &Arc<Pins>, key: &str, json: &str) -> [Result<(), Withheld>; 2] {
        let taken: Arc<TakenNames> = Arc::new([(TOOL, ["taken".into()].into())].into());
        [ApprovalRule::Warn, ApprovalRule::Hold].map(|rule| {
            let approval = Approval::new(rule, Arc::clone(pins), Arc::clone(&taken));
            let plain = approval.verdict(TOOL, key, Definition::plain(json.as_bytes()));
            let fingerprint = Fingerprint::default();
            let kept = Definition::new(json.as_bytes(), &fingerprint);
            assert_eq!([(); 2].map(|()| approval.verdict(TOOL, key, kept)), [plain; 2]);
            plain
        })
    }

    #[test]
    fn each_rule_withholds_what_it_must() {
        use Withheld::{Changed, InvisibleCharacters, LooserAnnotations, NameTaken, New};
        let safe = r#"{"annotations":{"readOnlyHint":true}}"#;
        let hidden = "{\"x\":1,\"y\":\"\u{200b}\"}";
        let pins = pins(&[(TOOL, "a", hidden), (TOOL, "b", "{}"), (TOOL, "b", safe), (PinnedKind::Prompt, "p", "{}")]);
        for (key, json, warn, hold) in [
            ("a", r#"{ "y": "\u200b", "x": 1 }"#, Ok(()), Ok(())),
            ("a", r#"{"x":1.0}"#, Ok(()), Err(Changed)),
            ("a", r#"{"x":"\u200b"}"#, Ok(()), Err(Changed)),
            ("a", r#"{"x":"\u200c"}"#, Err(InvisibleCharacters), Err(Changed)),
            ("a", safe, Err(LooserAnnotations), Err(Changed)),
            ("b", safe, Ok(()), Ok(())),
            ("b", r#"{"annotations":{"readOnlyHint":true,"title":"b"}}"#, Ok(()), Err(Changed)),
            ("b", r#"{"annotations":{"openWorldHint":false}}"#, Err(LooserAnnotations), Err(Changed)),
            ("c", safe, Ok(()), Err(New)),
            ("c", r#"{"x":"\u200b"}"#, Err(InvisibleCharacters), Err(New)),
            ("p", "{}", Ok(()), Err(New)),
            ("taken", "{}", Err(NameTaken), Err(New)),
        ] {
            assert_eq!(verdicts(&pins, key, json), [warn, hold], "{key} {json}");
        }
        assert_eq!(verdicts(&Arc::default(), "a", "{}"), [Ok(()), Err(New)], "nothing is approved");
    }

    #[test]
    fn only_new_items_of_the_kind_take_names() {
        let pins = pins(&[(TOOL, "taken", "{}")]);
        assert_eq!(verdicts(&pins, "taken", r#"{"x":1}"#)[0], Ok(()));
        let taken: TakenNames = [(PinnedKind::Prompt, ["p".into()].into())].into();
        let approval = Approval::new(ApprovalRule::Warn, Arc::default(), Arc::new(taken));
        let verdict = |kind| approval.verdict(kind, "p", Definition::plain(b"{}"));
        assert_eq!((verdict(TOOL), verdict(PinnedKind::Prompt)), (Ok(()), Err(Withheld::NameTaken)));
    }

    #[test]
    fn words_are_those_of_the_serialized_form() {
        use Withheld::{Changed, InvisibleCharacters, LooserAnnotations, NameTaken, New};
        for why in [New, Changed, LooserAnnotations, InvisibleCharacters, NameTaken] {
            assert_eq!(serde_json::to_value(why).expect("JSON"), why.word());
        }
        for kind in PinnedKind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("JSON"), kind.word());
        }
    }
}
