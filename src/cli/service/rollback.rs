//! The state of the units before an installation, and the way back to it.

use super::files::Applied;
use super::manager::Manager;
use crate::systemctl::{SERVICE, SOCKET};

const UNITS: [&str; 2] = [SOCKET, SERVICE];

/// What ran, and what was enabled.
pub(super) struct Former {
    /// Enabled, of [`UNITS`].
    enabled: [bool; 2],
    /// Active, of [`UNITS`].
    active: [bool; 2],
}

impl Former {
    pub(super) async fn of(manager: &Manager<'_>, (service_runs, socket_listens): (bool, bool)) -> Self {
        let mut enabled = [false; 2];
        for (unit, enabled) in UNITS.iter().zip(&mut enabled) {
            let state = manager.show(unit, "UnitFileState").await;
            *enabled = state.get("UnitFileState").is_some_and(|state| state.starts_with("enabled"));
        }
        Self { enabled, active: [socket_listens, service_runs] }
    }

    /// Puts the files back and has run what ran; returns `why`, and what came of this.
    pub(super) async fn restore(self, manager: &Manager<'_>, applied: Vec<Applied>, why: &str) -> String {
        let units = |is: [bool; 2], wanted: bool| {
            UNITS.into_iter().zip(is).filter(move |(_, is)| *is == wanted).map(|(unit, _)| unit)
        };
        // Units that were not there before cannot be disabled once their files are gone. That of a unit unknown to systemd fails.
        for (words, unit) in units(self.active, false)
            .map(|unit| ("stop", unit))
            .chain(units(self.enabled, false).map(|unit| ("disable", unit)))
        {
            let _ = manager.run(&[words, unit]).await;
        }
        for undone in applied.into_iter().rev().map(Applied::undo) {
            if let Err(error) = undone {
                return format!("{why}\n  and a former unit could not be put back: {error}");
            }
        }
        let _ = manager.run(&["daemon-reload"]).await;
        for unit in UNITS {
            let _ = manager.run(&["reset-failed", unit]).await;
        }
        let start: Vec<_> = ["start"].into_iter().chain(units(self.active, true)).collect();
        if start.len() == 1 {
            return format!("{why}\n  nothing was installed, and nothing runs: all is as before");
        }
        match manager.run(&start).await {
            Ok(()) => format!("{why}\n  the former units are back, and run"),
            Err(error) => format!("{why}\n  the former units are back, and do not start either: {error}"),
        }
    }
}
