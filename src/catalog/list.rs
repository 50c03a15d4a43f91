//! What a server lists, as it came.

use std::sync::Arc;

use bytes::Bytes;

use crate::kind::PerKind;

/// Something that is listed, as its server described it.
#[derive(Debug, Clone)]
pub struct Item {
    /// The server's own name for it, or its URI.
    pub key: Arc<str>,
    /// That as the server spelled it in JSON: a slice of `definition`.
    pub raw_key: Bytes,
    /// The whole object, raw.
    pub definition: Bytes,
}

/// One of a server's lists.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// In the server's own order.
    pub items: Vec<Item>,
    /// The list was cut at a limit, or at a cursor that came again.
    pub truncated: bool,
}

/// All of a server's lists, as last known.
pub type Lists = PerKind<Arc<List>>;

/// Whether anything is in them.
#[must_use]
pub fn offer_any(lists: &Lists) -> bool {
    lists.iter().any(|(_, list)| !list.items.is_empty())
}

/// Whether both were told by the same server at the same time.
#[must_use]
pub fn is_same(one: &Lists, other: &Lists) -> bool {
    one.iter().all(|(kind, list)| Arc::ptr_eq(list, &other[kind]))
}
