//! Reads and writes pin files. All functions may block, and belong on another thread.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::change::DefinitionChange;
use crate::pin_files::{PinDirectory, PinFileError};
use crate::pins::{PinRecord, PinnedKind, Pins, SeenChanges};

/// What the files of a server contain.
#[derive(Debug, Clone)]
pub(in crate::manager) struct Loaded {
    /// `None`: there is no pin file.
    pub(super) pins: Result<Option<Arc<Pins>>, PinFileError>,
    pub(super) seen: SeenChanges,
}

/// The files of some servers.
pub(in crate::manager) type LoadedPins = Vec<(Arc<str>, Loaded)>;

/// A definition to approve.
#[derive(Debug, Clone)]
pub(super) struct NewPin {
    pub(super) kind: PinnedKind,
    pub(super) key: Arc<str>,
    pub(super) json: Bytes,
}

/// What is to be added to a pin file.
#[derive(Debug, Default)]
pub(super) struct Addition {
    /// What is approved and offered. It is added only if there is no file.
    pub(super) known: Vec<NewPin>,
    pub(super) pins: Vec<NewPin>,
}

impl Loaded {
    pub(in crate::manager) fn read(directory: &PinDirectory, server: &str) -> Self {
        let pins = directory.load(server).map(|record| record.map(|record| Arc::new(record.pins())));
        Self { pins, seen: directory.load_seen(server) }
    }

    /// The disk does not answer.
    pub(in crate::manager) fn late() -> Self {
        Self { pins: Err(PinFileError::Unreadable(std::io::ErrorKind::TimedOut)), seen: SeenChanges::default() }
    }
}

/// Adds to the pin file of a server. Returns what is approved then.
pub(super) fn add(
    directory: &PinDirectory,
    server: &str,
    Addition { known, pins }: &Addition,
    now: u64,
) -> Result<Arc<Pins>, PinFileError> {
    let present = directory.load(server)?;
    let known = if present.is_none() { &known[..] } else { &[] };
    let mut record = present.unwrap_or_else(|| PinRecord::new(server));
    for NewPin { kind, key, json } in known.iter().chain(pins) {
        record.insert(*kind, key, json, now);
    }
    directory.store(server, &record)?;
    Ok(Arc::new(record.pins()))
}

/// Adds the approved texts to the changes of a server.
pub(in crate::manager) fn add_texts(directory: &PinDirectory, server: &str, changes: &mut [DefinitionChange]) {
    let known: BTreeSet<_> = changes.iter().filter(|change| !change.is_new).map(|change| &change.key).collect();
    if known.is_empty() {
        return;
    }
    let Ok(Some(record)) = directory.load(server) else { return };
    for change in changes {
        let definitions = record.definitions(change.kind, &change.key);
        change.approved = definitions.into_iter().map(|(_, text)| text.definition.clone()).collect();
    }
}
