//! Restores the state of the units before a failed installation.

use super::files::UndoableChange;
use super::manager::Manager;
use crate::systemctl::{SERVICE, SOCKET};

const UNITS: [&str; 2] = [SOCKET, SERVICE];

/// For each of [`UNITS`], whether it was enabled and active.
pub(super) struct FormerState {
    enabled: [bool; 2],
    active: [bool; 2],
}

impl FormerState {
    pub(super) async fn of(manager: &Manager<'_>, service_runs: bool, socket_listens: bool) -> Self {
        let mut enabled = [false; 2];
        for (unit, enabled) in UNITS.iter().zip(&mut enabled) {
            let state = manager.show(unit, "UnitFileState").await;
            *enabled = state.get("UnitFileState").is_some_and(|state| state.starts_with("enabled"));
        }
        Self { enabled, active: [socket_listens, service_runs] }
    }

    /// Restores the files and restarts the units that ran. Returns `why` with the result.
    pub(super) async fn restore(self, manager: &Manager<'_>, applied: Vec<UndoableChange>, why: &str) -> String {
        let units = |states: [bool; 2], state: bool| {
            UNITS.into_iter().zip(states).filter(move |(_, one)| *one == state).map(|(unit, _)| unit)
        };
        // New units have to be disabled before their files are removed. This fails for a unit that systemd does not know.
        for (words, unit) in units(self.active, false)
            .map(|unit| ("stop", unit))
            .chain(units(self.enabled, false).map(|unit| ("disable", unit)))
        {
            let _ = manager.run(&[words, unit]).await;
        }
        for result in applied.into_iter().rev().map(UndoableChange::undo) {
            if let Err(error) = result {
                return format!("{why}\n  a former unit could not be restored: {error}");
            }
        }
        let _ = manager.run(&["daemon-reload"]).await;
        for unit in UNITS {
            let _ = manager.run(&["reset-failed", unit]).await;
        }
        let start: Vec<_> = ["start"].into_iter().chain(units(self.active, true)).collect();
        if start.len() == 1 {
            return format!("{why}\n  nothing was installed, and nothing runs, as before");
        }
        match manager.run(&start).await {
            Ok(()) => format!("{why}\n  the former units are restored and run"),
            Err(error) => format!("{why}\n  the former units are restored, but do not start either: {error}"),
        }
    }
}
