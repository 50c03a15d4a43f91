//! Descriptors that are kept back, so that somebody comes in when no other is free.

use std::cell::RefCell;
use std::fs::File;
use std::io;

use rustix::io::Errno;

/// For the connection, and for a look in `/proc` at who is at its other end.
const MAX_DESCRIPTORS: usize = 2;

/// Kept back by one socket; by default none.
#[derive(Debug, Default)]
pub(super) struct FdReserve {
    size: usize,
    files: RefCell<Vec<File>>,
}

impl FdReserve {
    /// As many as one connection needs.
    pub(super) fn for_one() -> Self {
        let full = Self { size: MAX_DESCRIPTORS, ..Self::default() };
        full.fill();
        full
    }

    /// Takes back what was given, as far as it is free.
    pub(super) fn fill(&self) {
        let mut files = self.files.borrow_mut();
        while files.len() < self.size
            && let Ok(file) = File::open("/dev/null")
        {
            files.push(file);
        }
    }

    /// Whether some of it is with a connection.
    pub(super) fn is_given(&self) -> bool {
        (1..self.size).contains(&self.files.borrow().len())
    }

    /// Gives all if `error` is for want of them; whether it did. A part of them would help nobody.
    pub(super) fn give(&self, error: &io::Error) -> bool {
        let mut files = self.files.borrow_mut();
        let is_exhausted =
            [Errno::MFILE, Errno::NFILE].iter().any(|one| error.raw_os_error() == Some(one.raw_os_error()));
        let gives = is_exhausted && self.size > 0 && files.len() == self.size;
        if gives {
            files.clear();
        }
        gives
    }
}
