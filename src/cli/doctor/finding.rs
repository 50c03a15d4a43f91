//! The results of checks. Pure data: `page` prints them.

use std::path::PathBuf;

use crate::config::Definition;
use crate::config::diagnostic::{Correction, Edit};

/// The result of one check.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    /// The subject: a server, a file, a setting.
    pub(super) about: String,
    /// The result, on one line.
    pub(super) found: String,
    pub(super) verdict: Verdict,
    /// The code of the server error that was found.
    pub(super) code: Option<String>,
    /// Quoted output, such as a server's last lines on stderr.
    pub(super) lines: Vec<String>,
    /// Where the server in question is configured.
    pub(super) definition: Option<Definition>,
    /// What `--fix` does about it.
    pub(super) fix: Option<Fix>,
}

#[derive(Debug, Clone)]
pub(super) enum Verdict {
    Fine,
    /// It works, but probably not as intended.
    Warning {
        advice: String,
    },
    /// It does not work.
    Problem {
        advice: String,
    },
}

/// What solves the problem of a finding.
#[derive(Debug, Clone)]
pub(super) enum Fix {
    Edit(Edit),
    Mode {
        path: PathBuf,
        mode: u32,
    },
    /// Makes this user the owner.
    Owner(PathBuf),
    /// For this server, which starts again then.
    CreateDirectory {
        path: PathBuf,
        server: String,
    },
    /// Removes what a download has left, if no part of the path is a symbolic link. The server starts again then.
    RemoveDirectory {
        path: PathBuf,
        server: String,
    },
}

/// The findings about one part of the path of a call.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) findings: Vec<Finding>,
}

impl Finding {
    pub(super) fn fine(about: impl Into<String>, found: impl Into<String>) -> Self {
        let (about, found) = (about.into(), found.into());
        Self { about, found, verdict: Verdict::Fine, code: None, lines: Vec::new(), definition: None, fix: None }
    }

    pub(super) fn warning(about: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning { advice: advice.into() }, ..Self::fine(about, found) }
    }

    pub(super) fn problem(about: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Problem { advice: advice.into() }, ..Self::fine(about, found) }
    }

    /// Adds where the server is configured.
    pub(super) fn defined(self, definition: Option<&Definition>) -> Self {
        Self { definition: definition.cloned(), ..self }
    }

    pub(super) fn with_code(self, code: Option<String>) -> Self {
        Self { code, ..self }
    }

    pub(super) fn with_advice(self, new: String) -> Self {
        let verdict = match self.verdict {
            Verdict::Fine => Verdict::Fine,
            Verdict::Warning { .. } => Verdict::Warning { advice: new },
            Verdict::Problem { .. } => Verdict::Problem { advice: new },
        };
        Self { verdict, ..self }
    }

    pub(super) fn with_fix(self, fix: Option<Fix>) -> Self {
        Self { fix, ..self }
    }

    pub(super) fn with_lines(self, lines: impl IntoIterator<Item = String>) -> Self {
        Self { lines: lines.into_iter().collect(), ..self }
    }
}

impl From<Correction> for Fix {
    fn from(correction: Correction) -> Self {
        match correction {
            Correction::Edit(edit) => Self::Edit(edit),
            Correction::MakePrivate(path) => Self::Mode { path, mode: 0o600 },
        }
    }
}

impl Verdict {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Warning { .. } => "warning",
            Self::Problem { .. } => "problem",
        }
    }

    pub(super) fn advice(&self) -> Option<&str> {
        match self {
            Self::Fine => None,
            Self::Warning { advice } | Self::Problem { advice } => Some(advice),
        }
    }
}

/// Counts the warnings and the problems.
pub(super) fn count(groups: &[Group]) -> (usize, usize) {
    let verdicts = || groups.iter().flat_map(|group| &group.findings).map(|finding| &finding.verdict);
    let warnings = verdicts().filter(|verdict| matches!(verdict, Verdict::Warning { .. })).count();
    (warnings, verdicts().filter(|verdict| matches!(verdict, Verdict::Problem { .. })).count())
}
