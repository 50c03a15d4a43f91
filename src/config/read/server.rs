//! Reads the names of servers.

use std::sync::Arc;

use super::super::tree::{Entry, Problem};
use super::Reader;
use crate::naming::is_server_name;

impl Reader<'_> {
    pub(super) fn server_name(&mut self, entry: &Entry) -> Option<Arc<str>> {
        if is_server_name(&entry.key) {
            return Some(Arc::from(entry.key.as_str()));
        }
        let message = format!("`{}` cannot name a server", entry.key.escape_debug());
        let help = format!(
            "write `{}`: a name is letters A to Z, digits and `-`, with single `_` between them",
            fitted_name(&entry.key, "server")
        );
        self.error(Problem::new(entry.key_span.clone(), message).help(help));
        None
    }
}

/// A valid name similar to `name`. `otherwise` if no character of it is usable.
pub(crate) fn fitted_name(name: &str, otherwise: &str) -> String {
    let fitting = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' });
    let fitted: String = fitting.collect();
    let parts = fitted.split('_').map(|part| part.trim_matches('-')).filter(|part| !part.is_empty());
    let joined = parts.collect::<Vec<_>>().join("_");
    if joined.is_empty() { otherwise.to_owned() } else { joined }
}
