//! Calls that a server has answered with an error about files, which its sandbox may hide.

#[expect(clippy::disallowed_types, reason = "a cell: each lock lasts for one look or change, without waiting")]
use std::sync::Mutex;
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::Sandbox;
use crate::server::refused_path::{RefusedPath, refused_paths};

/// Maximum number of paths that are kept. Others are dropped.
const MAX_PATHS: usize = 32;
/// Largest answer that is searched, in bytes. An error about a file is short.
const MAX_SEARCHED: usize = 64 << 10;

/// Calls that failed at files, at sandbox level `files`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RefusedCalls {
    /// How many.
    pub calls: usize,
    /// The paths that their errors name, at most 32. Some may exist neither inside nor outside the sandbox.
    pub paths: Vec<RefusedPath>,
}

/// Calls that failed at files. Shared by all instances of a server.
#[derive(Debug, Default)]
#[expect(clippy::disallowed_types, reason = "see the import")]
pub struct RefusedCallCounter(Mutex<(Option<Sandbox>, RefusedCalls)>);

impl RefusedCallCounter {
    /// Notes a result or an error of a server with this sandbox, if it is about files. Forgets what another sandbox has refused.
    pub(crate) fn note(&self, sandbox: &Sandbox, answer: &[u8]) {
        let mut paths = Vec::new();
        if answer.len() <= MAX_SEARCHED
            && let Ok(answer) = serde_json::from_slice(answer)
        {
            search(&answer, &mut paths);
        }
        if paths.is_empty() {
            return;
        }
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.0.as_ref() != Some(sandbox) {
            *noted = (Some(sandbox.clone()), RefusedCalls::default());
        }
        noted.1.calls += 1;
        for path in paths {
            if noted.1.paths.len() < MAX_PATHS && !noted.1.paths.contains(&path) {
                noted.1.paths.push(path);
            }
        }
    }

    /// The calls of a server that has this sandbox.
    pub(crate) fn of(&self, sandbox: &Sandbox) -> Option<RefusedCalls> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (noted.0.as_ref() == Some(sandbox)).then(|| noted.1.clone())
    }
}

/// Searches all texts of a value.
fn search(value: &Value, paths: &mut Vec<RefusedPath>) {
    match value {
        Value::String(text) => paths.extend(text.lines().flat_map(refused_paths)),
        Value::Array(all) => all.iter().for_each(|one| search(one, paths)),
        Value::Object(all) => all.values().for_each(|one| search(one, paths)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
