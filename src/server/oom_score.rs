//! Which processes the kernel kills first when the machine is out of memory (proc_pid_oom_score_adj(5)).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How much the score of a server is raised, in thousandths of the memory. Enough to go before mcpd and the programs of a session, and
/// little enough that a program with a leak goes before a server without one.
const RAISE: i32 = 100;
const MAX: i32 = 1000;

/// The adjustment of this process.
pub(super) struct OomScore(File);

impl OomScore {
    /// Must be called before the memory of this process is protected: from then on, its files in `/proc` belong to root.
    pub(super) fn open() -> io::Result<Self> {
        File::options().read(true).write(true).open("/proc/self/oom_score_adj").map(Self)
    }

    /// Runs `start` with a raised score. The processes that it starts inherit that, and it is lowered again for this process.
    pub(super) fn raised<T>(&self, start: impl FnOnce() -> T) -> T {
        let own = self.read();
        let raised = own.and_then(|own| self.set((own + RAISE).min(MAX)).ok());
        let started = start();
        if let Some((own, ())) = own.zip(raised) {
            let _ = self.set(own);
        }
        started
    }

    fn read(&self) -> Option<i32> {
        let mut text = [0; 16];
        let length = self.0.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
    }

    fn set(&self, score: i32) -> io::Result<()> {
        self.0.write_all_at(score.to_string().as_bytes(), 0)
    }
}
