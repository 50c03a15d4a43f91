//! Attributes of a process that mcpd changes for itself, and gives back.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The original values of process attributes that mcpd has changed for itself. Servers get these values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessAttributes {
    /// File mode creation mask.
    pub umask: Option<u32>,
    /// Soft limit of open files.
    pub open_files: Option<u64>,
    /// Soft limit of core files, in bytes.
    pub core_size: Option<u64>,
}

impl ProcessAttributes {
    /// Gives these values to this process.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn apply(self) -> rustix::io::Result<()> {
        if let Some(umask) = self.umask {
            rustix::process::umask(Mode::from_raw_mode(umask));
        }
        for (resource, current) in [(Resource::Nofile, self.open_files), (Resource::Core, self.core_size)] {
            if current.is_some() {
                setrlimit(resource, Rlimit { current, ..getrlimit(resource) })?;
            }
        }
        Ok(())
    }
}
