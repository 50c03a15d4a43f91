//! What the daemon itself uses.

use std::fs;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use rustix::param::page_size;

use crate::clock::unix_seconds;

/// The daemon's process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DaemonProcess {
    /// Bytes of resident memory, if they can be read.
    pub(super) resident: Option<u64>,
    /// Time on a processor.
    pub(super) cpu: Duration,
    /// When it was started, in seconds since 1970.
    pub(super) started: u64,
}

impl DaemonProcess {
    /// This process, which runs for `uptime`.
    pub(crate) fn read(uptime: Duration) -> Self {
        let cpu = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).unwrap_or_default();
        let pages = fs::read_to_string("/proc/self/statm").ok();
        let pages = pages.and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
        let resident = pages.map(|pages| pages * page_size() as u64);
        Self { resident, cpu, started: unix_seconds().saturating_sub(uptime.as_secs()) }
    }
}
