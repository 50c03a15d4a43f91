//! Facts about the daemon's process that the kernel shows to no other process of its user.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

/// The daemon's process. `Debug` shows no values of variables.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Its environment, without variables that are not UTF-8.
    pub environment: BTreeMap<String, String>,
    /// Its working directory.
    pub directory: Option<PathBuf>,
    /// Its executable, as the kernel names it: followed by ` (deleted)` if the file was deleted.
    pub executable: Option<PathBuf>,
    /// Its open files, as the kernel names them.
    pub open_files: Vec<String>,
}

impl fmt::Debug for ProcessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { environment, directory, executable, open_files } = self;
        let names: Vec<_> = environment.keys().collect();
        f.debug_struct("ProcessReport")
            .field("environment", &names)
            .field("directory", directory)
            .field("executable", executable)
            .field("open_files", open_files)
            .finish()
    }
}

pub(super) async fn report() -> ProcessReport {
    spawn_blocking(read).await.unwrap_or_default()
}

fn read() -> ProcessReport {
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let links = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let targets = links.filter_map(|link| fs::read_link(link.path()).ok());
    ProcessReport {
        environment: variables.collect(),
        directory: std::env::current_dir().ok(),
        executable: fs::read_link("/proc/self/exe").ok(),
        open_files: targets.map(|target| target.display().to_string()).collect(),
    }
}
