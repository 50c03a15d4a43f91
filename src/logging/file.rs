//! A log in a file that does not grow without end: when it is full it becomes `.1`, in the place of the one before.
//!
//! Whatever else the process writes to its standard streams goes there, too, the message of a panic above all.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The most that a file takes, in bytes.
const MOST: u64 = 4 << 20;

/// The standard output and error of this process, in a file of bounded size.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    length: u64,
    most: u64,
}

impl LogFile {
    /// Has standard output and error go to the end of this file from now on; it is the user's alone if it is new.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let length = redirect(&path)?;
        Ok(Self { path, length, most: MOST })
    }
}

/// How long the file is that the streams go to now, in bytes.
fn redirect(path: &Path) -> io::Result<u64> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    rustix::stdio::dup2_stdout(&file)?;
    rustix::stdio::dup2_stderr(&file)?;
    Ok(file.metadata()?.len())
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.length > 0 && self.length + line.len() as u64 > self.most {
            let mut older = self.path.as_os_str().to_owned();
            older.push(".1");
            // A log that cannot be begun anew goes on where it is, and is tried again when it is full once more.
            let renewed = std::fs::rename(&self.path, older).and_then(|()| redirect(&self.path));
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
