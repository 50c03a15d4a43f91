//! The text about items that mcpd mends or leaves out, the same in each command.

use super::text::{count, one_line};
use crate::manager::report::{Defect, MalformedItem};

/// What is wrong with an item: its first defect, and the number of others.
pub(super) fn item(MalformedItem { kind, item, defects }: &MalformedItem) -> String {
    let name = item.as_ref().map_or_else(|| format!("a {kind}"), |item| format!("{kind} `{}`", one_line(item)));
    format!("{name}: {}", of_defects(defects))
}

/// The first defect, and the number of others.
pub(super) fn of_defects(defects: &[Defect]) -> String {
    let Some(first) = defects.first() else { return String::new() };
    let others = match defects.len() - 1 {
        0 => String::new(),
        others => format!(", and {}", count(others, "other defect")),
    };
    defect(first) + &others
}

fn defect(Defect { member, problem, detail, action, legacy_only }: &Defect) -> String {
    let subject = if member.is_empty() { "the definition".to_owned() } else { format!("`{}`", one_line(member)) };
    let detail = one_line(detail.as_deref().unwrap_or_default());
    let problem = match &**problem {
        "null" => "is null".to_owned(),
        "missing" => "is missing".to_owned(),
        "type" => format!("is not {detail}"),
        "duplicate" => "occurs twice".to_owned(),
        "too_new" => "is not permitted before MCP 2026-07-28".to_owned(),
        "schema" => format!("has a `{detail}` that clients cannot compile"),
        "too_long" => "is too long".to_owned(),
        other => one_line(other),
    };
    let action = match &**action {
        "dropped" => "dropped",
        "replaced" => "replaced",
        _ => "left out",
    };
    let era = if *legacy_only { " for agents up to MCP 2025-11-25" } else { "" };
    format!("{subject} {problem} ({action}{era})")
}
