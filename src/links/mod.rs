//! Links of clients to mcpd: entries in the clients' own files, with a record of each file that says how to undo them.
//!
//! ```text
//! client's file ─► edit (pure): the new text ─► change: record, then file ─► records in the state directory
//! ```
//!
//! A record is written before the file that it is about. It knows the file before and after the link by their digests, so a record whose
//! file was never written does no harm.

mod change;
mod edit;
mod editor;
mod record;

pub(crate) use self::change::{ChangeError, FileChange};
pub(crate) use self::edit::{LinkError, NewLink};
pub(crate) use self::editor::EditorCommand;
pub(crate) use self::record::{LinkRecord, Links, RecordError, Scope, Served, UnreadableRecord};
