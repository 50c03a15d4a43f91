//! A log file of bounded size. When it is full, it is renamed to `.1` and replaces the former `.1`.
//!
//! All output on the process's standard streams goes there too, including panic messages.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::disk::open_own;

/// The size at which a file is replaced.
pub(super) const MAX_SIZE: u64 = 4 << 20;

/// The standard output and error of this process, in a file of bounded size.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    length: u64,
}

impl LogFile {
    /// Redirects standard output and error to the end of this file. A new file is private to the user.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let length = redirect(&path)?;
        Ok(Self { path, length })
    }
}

/// The path of the file that a full one becomes.
pub(crate) fn older(path: &Path) -> PathBuf {
    let mut older = path.as_os_str().to_owned();
    older.push(".1");
    older.into()
}

/// Redirects the standard streams. Returns the length of the file.
fn redirect(path: &Path) -> io::Result<u64> {
    let file = open_own(OpenOptions::new().append(true), path)?;
    rustix::stdio::dup2_stdout(&file)?;
    rustix::stdio::dup2_stderr(&file)?;
    Ok(file.metadata()?.len())
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.length > 0 && self.length + line.len() as u64 > MAX_SIZE {
            // If the file cannot be replaced, logging continues in it, and the next attempt follows after as many bytes.
            let renewed = std::fs::rename(&self.path, older(&self.path)).and_then(|()| redirect(&self.path));
            self.length = renewed.unwrap_or(0);
        }
        io::stderr().write_all(line)?;
        self.length += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
