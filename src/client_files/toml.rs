//! TODO
use super::layout::Splice;
use super::tree::Tree;
use super::{Cut, EditError, Mark, Removed, SyntaxError, Value};
use std::borrow::Cow;
use std::ops::Range;
pub(super) fn read(text: &str) -> Result<Tree, SyntaxError> {
    Err(SyntaxError::at(text, 0, "not yet"))
}
pub(super) fn entry<'t>(_: &'t str, _: &[&str], _: &str) -> Option<Cow<'t, str>> {
    None
}
pub(super) fn insert(_: &str, _: &[&str], _: &str, _: &Value) -> Result<Vec<Splice>, EditError> {
    Err(EditError::Unsafe)
}
pub(super) fn remove(_: &str, _: &[&str], _: &str) -> Result<Cut, EditError> {
    Err(EditError::Unsafe)
}
pub(super) fn between(_: &str, _: Option<&Mark>, _: Option<&Mark>) -> Option<Range<usize>> {
    None
}
pub(super) fn restore(_: &str, _: &Removed) -> Result<Vec<Splice>, EditError> {
    Err(EditError::Unsafe)
}
