//! Definitions that agents would reject, in reports: what mcpd mends or leaves out.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::catalog::Lists;
use crate::list_kind::ListKind;
use crate::printable::excerpt;
use crate::validity::{Action, Problem, Reason};

/// Maximum number of items in one report.
const MAX_ITEMS: usize = 50;
/// Maximum bytes of names and members in one report. Later items are counted, not named.
const MAX_BYTES: usize = 16 << 10;
/// Maximum characters of an item's name or URI.
const MAX_NAME: usize = 200;

/// A tool, prompt, resource or skill whose definition agents would reject.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MalformedItem {
    /// `tool`, `prompt`, `resource`, `resource template` or `skill`.
    pub kind: String,
    /// The server's own name for it, or its URI, if it has one.
    pub item: Option<String>,
    /// What is wrong with it, the first defects if there are many.
    pub defects: Vec<Defect>,
}

/// What is wrong with a definition, and what mcpd does.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Defect {
    /// The member, such as `annotations.readOnlyHint`; empty for the whole definition.
    pub member: String,
    /// One of:
    ///
    /// - `null`, `missing`, `duplicate`, `too_long`
    /// - `type`: it is not what `detail` says
    /// - `too_new`: it is permitted from MCP 2026-07-28 on
    /// - `schema`: clients cannot compile the JSON Schema, because of the keyword in `detail`
    pub problem: String,
    /// The expected value in words, or a keyword.
    pub detail: Option<String>,
    /// `dropped` (without the member), `replaced` (by a value of the same meaning), or `left_out` (the whole item).
    pub action: String,
    /// It concerns only agents up to MCP 2025-11-25.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub legacy_only: bool,
}

/// The defects of one definition.
pub(crate) fn defects(reasons: &[Reason]) -> Vec<Defect> {
    let defect = |Reason { path, problem, action, is_legacy_only }: &Reason| {
        let (problem, detail) = match problem {
            Problem::Null => ("null", None),
            Problem::Missing => ("missing", None),
            Problem::Not(expected) => ("type", Some(*expected)),
            Problem::Duplicate => ("duplicate", None),
            Problem::TooNew => ("too_new", None),
            Problem::Keyword(keyword) => ("schema", Some(*keyword)),
            Problem::TooLong => ("too_long", None),
        };
        let action = match action {
            Action::Dropped => "dropped",
            Action::Replaced => "replaced",
            Action::LeftOut => "left_out",
        };
        Defect {
            member: path.to_string(),
            problem: problem.to_owned(),
            detail: detail.map(str::to_owned),
            action: action.to_owned(),
            legacy_only: *is_legacy_only,
        }
    };
    reasons.iter().map(defect).collect()
}

/// How many items agents would reject, and how many of them are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MalformedCount {
    pub(crate) items: usize,
    pub(crate) left_out: usize,
}

/// The malformed items of these lists and their number. Those that are left out come first.
pub(crate) fn malformed(lists: &Lists) -> (Vec<MalformedItem>, MalformedCount) {
    let item = |kind: ListKind, item: Option<&str>, reasons: &[Reason]| MalformedItem {
        kind: word(kind).to_owned(),
        item: item.map(|item| excerpt(item, MAX_NAME)),
        defects: defects(reasons),
    };
    let (mut left_out, mut mended, mut count) = (Vec::new(), Vec::new(), MalformedCount::default());
    for (kind, list) in lists.iter() {
        let unlisted = list.unlisted.iter().map(|one| (one.key.as_deref(), std::slice::from_ref(&one.reason), true));
        let listed = list.items.iter().filter(|item| !item.validity.reasons().is_empty());
        let listed = listed.map(|item| (Some(&*item.key), item.validity.reasons(), item.validity.is_left_out()));
        for (key, reasons, is_left_out) in unlisted.chain(listed) {
            count.items += 1;
            count.left_out += usize::from(is_left_out);
            let reported = if is_left_out { &mut left_out } else { &mut mended };
            if reported.len() < MAX_ITEMS {
                reported.push(item(kind, key, reasons));
            }
        }
    }
    left_out.extend(mended);
    left_out.truncate(MAX_ITEMS);
    let mut bytes = 0;
    let fit = left_out.iter().take_while(|item| {
        let members = item.defects.iter().map(|defect| defect.member.len()).sum::<usize>();
        bytes += item.item.as_ref().map_or(0, String::len) + members;
        bytes <= MAX_BYTES
    });
    let fit = fit.count().max(1);
    left_out.truncate(fit);
    (left_out, count)
}

fn word(kind: ListKind) -> &'static str {
    match kind {
        ListKind::Tools => "tool",
        ListKind::Prompts => "prompt",
        ListKind::Resources => "resource",
        ListKind::Templates => "resource template",
        ListKind::Skills => "skill",
    }
}
