//! Finds configuration files that have changed on disk since the daemon read them.
//!
//! The client compares the files, because a disk may hang and the daemon must not wait for it.

use std::path::Path;

use super::text::join_limited;
use crate::admin::report::{FileReport, Report};
use crate::config;
use crate::config::interpolate::Process;

const MAX_NAMED: usize = 3;

/// Adds the changed files to the report, for the configuration in use and for a refused one.
pub(super) fn compared(mut report: Report) -> Report {
    report.files_changed = changed(&report.files);
    if let Some(refused) = &mut report.reload_refused {
        refused.files_changed = changed(&refused.files);
    }
    report
}

fn changed(files: &[FileReport]) -> Vec<String> {
    let has_changed = |file: &&FileReport| config::changed(Path::new(&file.path), file.sha256.as_deref(), &Process);
    files.iter().filter(has_changed).map(|file| file.path.clone()).collect()
}

/// "FILE has changed", as the beginning of a sentence; `None` without files.
pub(super) fn sentence(files: &[String]) -> Option<String> {
    let verb = match files.len() {
        0 => return None,
        1 => "has",
        _ => "have",
    };
    Some(format!("{} {verb} changed", join_limited(files, MAX_NAMED)))
}
