//! Whether what a server sends is what agents accept, and the edits that make it so. Pure.
//!
//! Many clients validate a whole list or result at once, so one odd member costs an agent the tools of all servers. The rules are those
//! of real validators: zod in the TypeScript SDK, pydantic in the Python SDKs, serde in rmcp. They differ by era, not by version.
//! `tests/interop/checks/definitions.py` compares them with these validators.
//!
//! - [`rules`]: what each member may be, as tables
//! - [`walk`]: compares raw JSON with a table
//! - [`schema`], [`pattern`]: JSON Schemas of tools
//! - [`results`]: results of calls

mod pattern;
mod results;
mod rules;
mod schema;
mod walk;

use std::sync::Arc;

use bytes::Bytes;

pub use self::results::{ResultKind, may_be_malformed, mended_response};
use self::walk::{Judge, Unfit};
use crate::era::Era;
use crate::jsonrpc::splice::{Change, applied};
use crate::list_kind::ListKind;

/// Reasons that are kept for one item.
const MAX_REASONS: usize = 20;
/// Edits of one item. One that needs more is left out.
const MAX_CHANGES: usize = 1000;

/// What is wrong with a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// It is null.
    Null,
    /// It is required and missing.
    Missing,
    /// It has another type or value: the expected one, in words.
    Not(&'static str),
    /// It occurs twice.
    Duplicate,
    /// It is permitted from MCP 2026-07-28 on.
    TooNew,
    /// It is no JSON Schema that validators can compile: the keyword.
    Keyword(&'static str),
    /// It is too long.
    TooLong,
}

/// What mcpd does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The member is left out.
    Dropped,
    /// The member has another value, of the same meaning.
    Replaced,
    /// The whole item is left out.
    LeftOut,
}

/// A defect of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// Where, such as `annotations.readOnlyHint`. Empty for the whole item.
    pub path: Box<str>,
    /// What.
    pub problem: Problem,
    /// What mcpd does.
    pub action: Action,
    /// It is a defect for legacy agents only.
    pub is_legacy_only: bool,
}

/// An item that cannot be listed, because it has no usable name or URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlisted {
    /// Its name or URI, if it has one.
    pub key: Option<Arc<str>>,
    /// Why.
    pub reason: Reason,
}

/// The defects of an item. A valid item has none.
#[derive(Debug, Clone, Default)]
pub struct Validity(Option<Box<Defects>>);

#[derive(Debug, Clone)]
struct Defects {
    is_left_out: bool,
    legacy: Vec<Change>,
    modern: Vec<Change>,
    /// Bytes by which the edits lengthen the definition, at most.
    growth: usize,
    reasons: Vec<Reason>,
}

impl Validity {
    /// Judges the raw definition of an item, an object. The rules for legacy agents include those for modern ones.
    #[must_use]
    pub fn of_item(kind: ListKind, definition: &Bytes) -> Self {
        let shape = rules::of_kind(kind);
        let (legacy, mut reasons) = match judge(shape, definition, Era::Legacy, MAX_CHANGES) {
            Ok((_, reasons)) if reasons.is_empty() => return Self(None),
            Ok(mended) => mended,
            Err(reason) => {
                let reasons = vec![reason];
                let defects = Defects { is_left_out: true, legacy: vec![], modern: vec![], growth: 0, reasons };
                return Self(Some(Box::new(defects)));
            }
        };
        let (modern, of_modern) = judge(shape, definition, Era::Modern, MAX_CHANGES).unwrap_or_default();
        for reason in &mut reasons {
            reason.is_legacy_only = !of_modern.contains(reason);
        }
        let growth = growth(&legacy).max(growth(&modern));
        Self(Some(Box::new(Defects { is_left_out: false, legacy, modern, growth, reasons })))
    }

    /// No agent sees the item.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        self.0.as_ref().is_some_and(|defects| defects.is_left_out)
    }

    /// The edits of the definition for agents of this era.
    #[must_use]
    pub fn changes(&self, era: Era) -> &[Change] {
        self.0.as_ref().map_or(&[], |defects| match era {
            Era::Legacy => &defects.legacy,
            Era::Modern => &defects.modern,
        })
    }

    /// Bytes by which agents may see a longer definition.
    #[must_use]
    pub fn growth(&self) -> usize {
        self.0.as_ref().map_or(0, |defects| defects.growth)
    }

    /// Agents of the two eras see different definitions.
    #[must_use]
    pub fn differs_by_era(&self) -> bool {
        self.0.as_ref().is_some_and(|defects| defects.legacy != defects.modern)
    }

    /// Its defects, the first ones if there are many.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        self.0.as_ref().map_or(&[], |defects| &defects.reasons)
    }
}

fn growth(changes: &[Change]) -> usize {
    let sum = |bytes: fn(&Change) -> &Bytes| changes.iter().map(|change| bytes(change).len()).sum::<usize>();
    sum(|change| &change.replacement).saturating_sub(sum(|change| &change.part))
}

fn judge(
    shape: &rules::Shape,
    json: &Bytes,
    era: Era,
    max_changes: usize,
) -> Result<(Vec<Change>, Vec<Reason>), Reason> {
    let mut judge = Judge::new(era, max_changes);
    let left_out =
        |path: String, problem| Reason { path: path.into(), problem, action: Action::LeftOut, is_legacy_only: false };
    match judge.record(shape, json) {
        Ok(()) => judge.end().ok_or_else(|| left_out(String::new(), Problem::TooLong)),
        Err(Unfit { path, problem, .. }) => Err(left_out(path, problem)),
    }
}

/// The raw `serverInfo` of a server as agents accept it; `None` if it has no name.
#[must_use]
pub fn mended_info(info: &Bytes) -> Option<Bytes> {
    mended(rules::SERVER_INFO, info)
}

/// The raw capabilities of a server as agents accept them; `None` if they are no object.
#[must_use]
pub fn mended_capabilities(capabilities: &Bytes) -> Option<Bytes> {
    mended(rules::CAPABILITIES, capabilities)
}

/// The rules of these parts are the same in both eras.
fn mended(shape: &rules::Shape, json: &Bytes) -> Option<Bytes> {
    let (changes, _) = judge(shape, json, Era::Legacy, MAX_CHANGES).ok()?;
    Some(if changes.is_empty() { json.clone() } else { applied(json, &changes).into() })
}

#[cfg(test)]
mod tests;
