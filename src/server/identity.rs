//! What a server declares about itself in the handshake of each era, as it sent it. Pure.
//!
//! An identity stays when the instance ends, and is cached on disk with the lists. So it is known before the server runs.

use std::sync::Arc;

use bytes::Bytes;

use crate::era::{self, Era};
use crate::instructions;
use crate::jsonrpc::members::{Parts, each, entries, members, text};
use crate::jsonrpc::normalise::is_empty_array;
use crate::jsonrpc::splice::{applied, with_first};
use crate::pins::Fingerprint;
use crate::task_state::TaskSupport;
use crate::validity::mended_capabilities;

/// Maximum bytes of each part. Members of an object that exceed it, such as embedded icons, are left out.
const MAX_PART_LEN: usize = 64 << 10;
/// Maximum members of an object. One with more is refused.
const MAX_MEMBERS: usize = 1000;

/// Maximum extensions of a server. Later ones are left out.
const MAX_EXTENSIONS: usize = 64;

/// An extension that a server declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// Its id.
    pub id: Arc<str>,
    /// Its raw settings, an object.
    pub settings: Bytes,
}

/// What a server has declared in one handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The version that was negotiated.
    pub protocol: &'static str,
    /// The raw `serverInfo`, an object.
    pub info: Option<Bytes>,
    /// The raw `capabilities`, an object, as the server sent them.
    pub sent_capabilities: Bytes,
    /// The same as agents accept them. They have tools if the server declares nothing: it may have some all the same.
    pub capabilities: Bytes,
    /// The server has declared nothing.
    pub declares_nothing: bool,
    /// The instructions, verbatim.
    pub instructions: Option<Arc<str>>,
    /// Of the instructions, computed once they are compared with approved ones.
    pub fingerprint: Fingerprint,
    /// Those in `capabilities`, read once, because each message of an extension needs them.
    extensions: Box<[Extension]>,
}

impl ServerIdentity {
    /// An identity of these parts. `sent_capabilities` is an object.
    pub(super) fn new(
        protocol: &'static str,
        info: Option<Bytes>,
        sent_capabilities: Bytes,
        instructions: Option<Arc<str>>,
    ) -> Self {
        let mut capabilities = mended_capabilities(&sent_capabilities).unwrap_or_else(|| sent_capabilities.clone());
        let mut declared = Parts::of_object(&capabilities).into_iter().flatten();
        let declares_nothing = declared.all(|(name, _)| name[..] == *b"\"experimental\"");
        if declares_nothing {
            capabilities = applied(&capabilities, &[with_first(&capabilities, r#""tools":{}"#)]).into();
        }
        let extensions = extensions(&capabilities);
        let fingerprint = Fingerprint::default();
        Self {
            protocol,
            info,
            sent_capabilities,
            capabilities,
            declares_nothing,
            instructions,
            fingerprint,
            extensions,
        }
    }

    /// Reads the parts of a result of `initialize` or `server/discover`. `None` if the capabilities are neither null nor an object of at
    /// most [`MAX_MEMBERS`] members. `[]` is PHP's empty object.
    pub(super) fn read(
        protocol: &'static str,
        info: Option<&Bytes>,
        capabilities: &Bytes,
        instructions: Option<&Bytes>,
    ) -> Option<Self> {
        let instructions = instructions.and_then(text);
        let instructions =
            instructions.map(|text| instructions::cut(&String::from_utf8_lossy(&text), MAX_PART_LEN).into());
        let is_empty = capabilities[..] == *b"null" || is_empty_array(capabilities);
        let capabilities = if is_empty { Bytes::from_static(b"{}") } else { bounded(capabilities)? };
        Some(Self::new(protocol, info.and_then(bounded), capabilities, instructions))
    }

    /// The era of the handshake.
    #[must_use]
    pub fn era(&self) -> Era {
        era::of(self.protocol)
    }

    /// Whether the server declares the capability at this path, such as `["resources", "subscribe"]`.
    #[must_use]
    pub fn declares(&self, path: &[&str]) -> bool {
        let mut value = self.capabilities.clone();
        for name in path {
            let Ok([Some(found)]) = members(&value, [*name]) else { return false };
            value = found;
        }
        !matches!(&value[..], b"null" | b"false")
    }

    /// The extensions, in the order of the server.
    #[must_use]
    pub fn extensions(&self) -> &[Extension] {
        &self.extensions
    }

    /// Its support of tasks.
    pub(crate) fn tasks(&self) -> TaskSupport {
        let Ok([tasks, extensions]) = members(&self.capabilities, ["tasks", "extensions"]) else {
            return TaskSupport::default();
        };
        match self.era() {
            Era::Modern => TaskSupport::of_extensions(extensions.as_ref()),
            Era::Legacy => TaskSupport::read(tasks.as_ref().filter(|_| era::has(self.protocol, "tasks"))),
        }
    }
}

/// The last known identity of a server in each era.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identities {
    legacy: Option<Arc<ServerIdentity>>,
    modern: Option<Arc<ServerIdentity>>,
}

impl Identities {
    /// The identity in this era.
    #[must_use]
    pub fn of(&self, era: Era) -> Option<&Arc<ServerIdentity>> {
        match era {
            Era::Legacy => self.legacy.as_ref(),
            Era::Modern => self.modern.as_ref(),
        }
    }

    /// The identity in this era, or else in the other.
    #[must_use]
    pub fn preferably(&self, era: Era) -> Option<&Arc<ServerIdentity>> {
        self.of(era).or_else(|| self.of(era.other()))
    }

    /// The server has completed a handshake at least once.
    #[must_use]
    pub fn has_handshake(&self) -> bool {
        self.legacy.is_some() || self.modern.is_some()
    }

    /// Records an identity in the era of its handshake.
    pub(super) fn insert(&mut self, identity: Arc<ServerIdentity>) {
        let era = identity.era();
        *self.slot(era) = Some(identity);
    }

    /// Forgets the identity in an era that the server does not have.
    pub(super) fn remove(&mut self, era: Era) {
        *self.slot(era) = None;
    }

    fn slot(&mut self, era: Era) -> &mut Option<Arc<ServerIdentity>> {
        match era {
            Era::Legacy => &mut self.legacy,
            Era::Modern => &mut self.modern,
        }
    }

    /// All known identities, the older era first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<ServerIdentity>> {
        Era::ALL.into_iter().filter_map(|era| self.of(era))
    }
}

/// The extensions in raw capabilities. A malformed object has none.
fn extensions(capabilities: &Bytes) -> Box<[Extension]> {
    let Ok([Some(raw)]) = members(capabilities, ["extensions"]) else { return Box::default() };
    let mut all = Vec::new();
    let read = each(&raw, |id, settings| {
        if all.len() < MAX_EXTENSIONS
            && settings.starts_with(b"{")
            && let Ok(id) = std::str::from_utf8(&id)
        {
            all.push(Extension { id: id.into(), settings });
        }
    });
    read.map(|()| all.into()).unwrap_or_default()
}

/// A copy of a raw object, so that it does not keep the whole message in memory. `None` if it is not an object, or has too many members.
fn bounded(object: &Bytes) -> Option<Bytes> {
    let found = entries(object, MAX_MEMBERS)?;
    if object.len() <= MAX_PART_LEN {
        return Some(Bytes::copy_from_slice(object));
    }
    let mut text = String::from("{");
    for (key, value) in found {
        if text.len() + key.len() + value.len() + 3 <= MAX_PART_LEN {
            let comma = if text.len() > 1 { "," } else { "" };
            let [key, value] = [&key, &value].map(|raw| String::from_utf8_lossy(raw));
            text += &format!("{comma}{key}:{value}");
        }
    }
    Some(format!("{text}}}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(protocol: &'static str, capabilities: &str) -> ServerIdentity {
        let capabilities = Bytes::copy_from_slice(capabilities.as_bytes());
        ServerIdentity::read(protocol, None, &capabilities, None).expect("an object")
    }

    #[test]
    fn parts_are_stored_as_they_were_sent() {
        let raw = |text: &'static str| Bytes::from_static(text.as_bytes());
        let (info, capabilities) = (raw(r#"{"name" : "s","x":1.0}"#), raw(r#"{"tools":[],"x":[1.0]}"#));
        let read = ServerIdentity::read("2025-11-25", Some(&info), &capabilities, Some(&raw(r#"" a\nb ""#)));
        let read = read.expect("an object");
        assert_eq!(
            (read.info, read.sent_capabilities, read.instructions.as_deref()),
            (Some(info), capabilities, Some(" a\nb "))
        );
        assert_eq!(read.capabilities[..], br#"{"tools":{},"x":[1.0]}"#[..]);
        assert_eq!(ServerIdentity::read("2025-11-25", None, &raw("[1]"), None), None);
        let many = |count: usize| {
            let members: Vec<_> = (0..count).map(|number| format!(r#""x{number}":{{}}"#)).collect();
            ServerIdentity::read("2025-11-25", None, &Bytes::from(format!("{{{}}}", members.join(","))), None)
        };
        assert_eq!((many(MAX_MEMBERS).is_some(), many(MAX_MEMBERS + 1).is_some()), (true, false));
        let strange =
            ServerIdentity::read("2025-11-25", Some(&raw("7")), &raw("{}"), Some(&raw("7"))).expect("an object");
        assert_eq!((strange.info, strange.instructions), (None, None));
    }

    #[test]
    fn members_that_exceed_the_limit_are_left_out() {
        let long = "x".repeat(MAX_PART_LEN);
        let object = format!(r#"{{"name":"s","icons":"{long}","version":"1"}}"#);
        assert_eq!(bounded(&Bytes::from(object)).as_deref(), Some(&br#"{"name":"s","version":"1"}"#[..]));
    }

    #[test]
    fn empty_capabilities_are_read_in_every_spelling_and_declare_tools() {
        for (capabilities, expected, declares_nothing) in [
            ("{}", r#"{"tools":{}}"#, true),
            ("null", r#"{"tools":{}}"#, true),
            ("[ ]", r#"{"tools":{}}"#, true),
            (r#"{"tools":null, "experimental":{"a":{}}}"#, r#"{"tools":{},"experimental":{"a":{}}}"#, true),
            (r#"{"tools":[],"logging":null}"#, r#"{"tools":{}}"#, false),
            (r#"{"prompts":{ },"logging":[ ]}"#, r#"{"prompts":{ },"logging":{}}"#, false),
            (r#"{ "tools":{"listChanged":true} }"#, r#"{ "tools":{"listChanged":true} }"#, false),
        ] {
            let one = identity("2025-11-25", capabilities);
            assert_eq!((&one.capabilities[..], one.declares_nothing), (expected.as_bytes(), declares_nothing));
        }
    }

    #[test]
    fn capability_is_declared_unless_it_is_null_or_false() {
        let one = identity("2025-11-25", r#"{"tools":{},"resources":{"subscribe":true,"x":false},"logging":null}"#);
        let declared = |path: &str| one.declares(&path.split('.').collect::<Vec<_>>());
        for (path, expected) in [
            ("tools", true),
            ("resources.subscribe", true),
            ("resources.x", false),
            ("resources.listChanged", false),
            ("logging", false),
            ("prompts.listChanged", false),
        ] {
            assert_eq!(declared(path), expected, "{path}");
        }
    }

    #[test]
    fn extensions_are_read_in_both_eras() {
        for protocol in ["2025-11-25", era::MODERN] {
            let one = identity(protocol, r#"{"extensions":{"z/b":{"k":1.0},"a/b":{},"x":null}}"#);
            let shown: Vec<_> = one.extensions().iter().map(|one| (&*one.id, &one.settings[..])).collect();
            assert_eq!(shown, [("z/b", &br#"{"k":1.0}"#[..]), ("a/b", b"{}")]);
        }
        assert!(identity(era::MODERN, r#"{"extensions":[]}"#).extensions().is_empty());
        let many: Vec<_> = (0..=MAX_EXTENSIONS).map(|number| format!(r#""x/{number}":{{}}"#)).collect();
        let many = identity(era::MODERN, &format!(r#"{{"extensions":{{{}}}}}"#, many.join(",")));
        assert_eq!(many.extensions().len(), MAX_EXTENSIONS);
    }

    #[test]
    fn identity_falls_back_to_the_other_era() {
        let mut known = Identities::default();
        assert!(!known.has_handshake() && known.preferably(Era::Legacy).is_none());
        known.insert(Arc::new(identity(era::MODERN, "{}")));
        assert!(known.has_handshake() && known.of(Era::Legacy).is_none());
        assert_eq!(known.preferably(Era::Legacy), known.of(Era::Modern));
        known.insert(Arc::new(identity("2025-06-18", r#"{"tools":{}}"#)));
        assert_eq!(known.preferably(Era::Legacy).map(|one| one.protocol), Some("2025-06-18"));
        known.remove(Era::Legacy);
        assert_eq!(known.iter().count(), 1);
    }
}
