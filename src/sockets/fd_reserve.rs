//! A reserve of file descriptors, so that one connection can be accepted when all others are in use.

use std::cell::RefCell;
use std::fs::File;
use std::io;

use rustix::io::Errno;

/// The descriptors that identifying a peer takes for a moment: a handle of its process, and its entry in `/proc`.
const TO_IDENTIFY: usize = 2;
/// Those, and one for the connection.
const MAX_DESCRIPTORS: usize = 1 + TO_IDENTIFY;

/// Fails if the descriptors to identify a peer are not available.
pub(super) fn check_available() -> io::Result<()> {
    [(); TO_IDENTIFY].map(|()| File::open("/dev/null")).into_iter().try_for_each(|file| file.map(drop))
}

/// The reserve of one socket. The default is empty.
#[derive(Debug, Default)]
pub(super) struct FdReserve {
    size: usize,
    files: RefCell<Vec<File>>,
}

impl FdReserve {
    /// A reserve for one connection.
    pub(super) fn for_one() -> Self {
        let full = Self { size: MAX_DESCRIPTORS, ..Self::default() };
        full.fill();
        full
    }

    /// Reserves descriptors again, as far as free ones are available.
    pub(super) fn fill(&self) {
        let mut files = self.files.borrow_mut();
        while files.len() < self.size
            && let Ok(file) = File::open("/dev/null")
        {
            files.push(file);
        }
    }

    /// Whether a connection uses a part of the reserve.
    pub(super) fn is_in_use(&self) -> bool {
        (1..self.size).contains(&self.files.borrow().len())
    }

    /// Releases the whole reserve if `error` means that no descriptor is free. Returns whether it did. A part of the reserve is not
    /// enough for a connection.
    pub(super) fn release(&self, error: &io::Error) -> bool {
        let mut files = self.files.borrow_mut();
        let is_exhausted =
            [Errno::MFILE, Errno::NFILE].iter().any(|one| error.raw_os_error() == Some(one.raw_os_error()));
        let releases = is_exhausted && self.size > 0 && files.len() == self.size;
        if releases {
            files.clear();
        }
        releases
    }
}
