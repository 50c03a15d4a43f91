//! What a trial tells while it runs.

use std::time::Duration;

/// One of the runs of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrialRun {
    /// Its launcher installs the server.
    Install,
    /// The server is measured.
    Measured,
}

/// A line of the tracer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TraceLine<'a> {
    pub(crate) run: TrialRun,
    /// Without its end. `None` if it was too long to be kept.
    pub(crate) text: Option<&'a [u8]>,
}

/// What a trial does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrialPhase {
    /// The launcher downloads the server.
    Installing,
    /// The server starts, and lists what it offers.
    Starting,
    /// It was sent the call.
    Calling,
    /// It is left to itself for a moment.
    Watching,
    /// It is being stopped.
    Ending,
}

/// The progress of a trial, reported at the begin of each phase and each second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrialEvent {
    pub(crate) phase: TrialPhase,
    /// Since the begin of the phase.
    pub(crate) elapsed: Duration,
    /// Bytes on disk.
    pub(crate) disk: u64,
    /// The last line that the server has written to stderr.
    pub(crate) stderr: Option<String>,
}
