//! `--json` output: objects whose shapes docs/internals/json.md documents. Each begins with the version of its shape.

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use serde::Serialize;

use super::{FAILED, fail, try_print};
use crate::printable;

/// Version of every shape. New members keep it; renaming, removing or redefining a member raises it.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct VersionedBody<'a, T> {
    format: u32,
    #[serde(flatten)]
    body: &'a T,
}

/// Prints `body` on several lines.
pub(super) fn print(body: &impl Serialize) -> ExitCode {
    try_print_page(body).err().unwrap_or(ExitCode::SUCCESS)
}

/// Prints `body` on several lines.
///
/// # Errors
/// The exit code, if the output is closed or cannot be written.
pub(super) fn try_print_page(body: &impl Serialize) -> Result<(), ExitCode> {
    print_serialized(serde_json::to_string_pretty(&VersionedBody { format: FORMAT, body }))
}

/// Prints `body` on one line, for commands that print a stream of objects.
///
/// # Errors
/// The exit code, if the output is closed or cannot be written.
pub(super) fn print_line(body: &impl Serialize) -> Result<(), ExitCode> {
    print_serialized(serde_json::to_string(&VersionedBody { format: FORMAT, body }))
}

fn print_serialized(text: serde_json::Result<String>) -> Result<(), ExitCode> {
    let text = text.map_err(|error| fail(FAILED, error))?;
    try_print(printable::json(&text).into_owned() + "\n")
}
