//! What `--json` prints: objects of a documented shape (docs/json.md), each of which begins with the number of that shape.

use std::process::ExitCode;

use serde::Serialize;

use super::{FAILED, fail};
use crate::printable;

/// Of every shape. Members are added while it stays; it rises when one is renamed, taken away, or means something else.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Shaped<'a, T> {
    format: u32,
    #[serde(flatten)]
    body: &'a T,
}

/// `body` on several lines, for a command that prints one object.
pub(super) fn page(body: &impl Serialize) -> Result<String, ExitCode> {
    let shaped = Shaped { format: FORMAT, body };
    serde_json::to_string_pretty(&shaped)
        .map(|text| printable::json(&text).into_owned() + "\n")
        .map_err(|error| fail(FAILED, error))
}

/// `body` on one line, for a command that prints one object after another.
pub(super) fn line(body: &impl Serialize) -> Result<String, ExitCode> {
    let shaped = Shaped { format: FORMAT, body };
    serde_json::to_string(&shaped)
        .map(|text| printable::json(&text).into_owned() + "\n")
        .map_err(|error| fail(FAILED, error))
}
