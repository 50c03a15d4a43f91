//! What was looked at, and what was found. Pure data: `page` shows it.

use crate::config::Definition;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) about: String,
    /// What was found, on one line.
    pub(super) found: String,
    pub(super) verdict: Verdict,
    /// The code of the server error that was found.
    pub(super) code: Option<String>,
    /// What belongs to it word for word, such as the last lines of a server.
    pub(super) lines: Vec<String>,
    /// Where the server is configured that it is about.
    pub(super) definition: Option<Definition>,
}

/// Whether it is as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// It works, and will most likely not do all that was meant.
    Warning {
        /// What to do.
        advice: String,
    },
    /// It does not work.
    Problem {
        /// What to do.
        advice: String,
    },
}

/// What was found of one part of the way that a call takes.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) title: &'static str,
    pub(super) findings: Vec<Finding>,
}

impl Finding {
    pub(super) fn fine(about: impl Into<String>, found: impl Into<String>) -> Self {
        let (about, found) = (about.into(), found.into());
        Self { about, found, verdict: Verdict::Fine, code: None, lines: Vec::new(), definition: None }
    }

    pub(super) fn warning(about: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning { advice: advice.into() }, ..Self::fine(about, found) }
    }

    pub(super) fn problem(about: impl Into<String>, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Problem { advice: advice.into() }, ..Self::fine(about, found) }
    }

    /// The same about the server that is defined there.
    pub(super) fn defined(self, definition: Option<&Definition>) -> Self {
        Self { definition: definition.cloned(), ..self }
    }

    pub(super) fn with_code(self, code: Option<String>) -> Self {
        Self { code, ..self }
    }

    pub(super) fn with_lines(self, lines: impl IntoIterator<Item = String>) -> Self {
        Self { lines: lines.into_iter().collect(), ..self }
    }
}

impl Verdict {
    /// The word for it.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Warning { .. } => "warning",
            Self::Problem { .. } => "problem",
        }
    }

    /// What to do, if anything.
    pub(super) fn advice(&self) -> Option<&str> {
        match self {
            Self::Fine => None,
            Self::Warning { advice } | Self::Problem { advice } => Some(advice),
        }
    }
}

/// How many findings are a warning, and how many a problem.
pub(super) fn count(groups: &[Group]) -> (usize, usize) {
    let verdicts = || groups.iter().flat_map(|group| &group.findings).map(|finding| &finding.verdict);
    let warnings = verdicts().filter(|verdict| matches!(verdict, Verdict::Warning { .. })).count();
    (warnings, verdicts().filter(|verdict| matches!(verdict, Verdict::Problem { .. })).count())
}
