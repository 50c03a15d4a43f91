//! A definition, with what was computed of it.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::digest::Digest;
use super::facts::Facts;

/// What follows from one definition, computed when it is first needed.
#[derive(Debug, Clone, Default)]
pub struct Fingerprint {
    digest: OnceLock<Digest>,
    facts: OnceLock<Facts>,
}

/// It follows from the definition, so it makes no difference between values that contain both.
impl PartialEq for Fingerprint {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Fingerprint {}

/// A definition as the server sent it: valid JSON. Instructions are a JSON string.
#[derive(Debug, Clone, Copy)]
pub struct Definition<'a> {
    json: &'a [u8],
    fingerprint: Option<&'a Fingerprint>,
}

impl<'a> Definition<'a> {
    /// A definition whose fingerprint is kept: it must be of no other definition.
    pub fn new(json: &'a [u8], fingerprint: &'a Fingerprint) -> Self {
        Self { json, fingerprint: Some(fingerprint) }
    }

    /// A definition without a kept fingerprint.
    pub fn plain(json: &'a [u8]) -> Self {
        Self { json, fingerprint: None }
    }

    pub fn digest(self) -> Digest {
        let compute = || Digest::of(self.json);
        self.fingerprint.map_or_else(compute, |kept| *kept.digest.get_or_init(compute))
    }

    pub fn facts(self) -> Cow<'a, Facts> {
        let compute = || Facts::of(self.json);
        self.fingerprint.map_or_else(|| Cow::Owned(compute()), |kept| Cow::Borrowed(kept.facts.get_or_init(compute)))
    }
}
