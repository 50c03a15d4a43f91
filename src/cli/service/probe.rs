//! Finds the hardening setting that systemd cannot enforce on this machine.
//!
//! For each setting, a small unit runs `mcpd --version` with this and all earlier settings, because some only work together.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::manager::Manager;
use super::units::{hardening, program_argument};
use crate::sockets::RuntimeDir;

/// The first setting with which systemd does not run `program`.
pub(super) async fn unenforceable(manager: &Manager<'_>, directory: &RuntimeDir, program: &str) -> Option<String> {
    // systemd also searches this directory, which is removed at logout.
    let place = directory.session()?.join("systemd/user");
    let probes = Probes::write(&place, &program_argument(program)).ok()?;
    manager.run(&["daemon-reload"]).await.ok()?;
    let mut found = None;
    for (unit, setting) in &probes.0 {
        let name = unit.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if manager.run(&["start", name]).await.is_err() {
            let _ = manager.run(&["reset-failed", name]).await;
            found = Some(setting.clone());
            break;
        }
    }
    drop(probes);
    let _ = manager.run(&["daemon-reload"]).await;
    found
}

/// Unit files, each with its last setting. Dropping this removes them.
struct Probes(Vec<(PathBuf, String)>);

impl Probes {
    fn write(place: &Path, program: &str) -> io::Result<Self> {
        fs::create_dir_all(place)?;
        let (mut probes, mut settings) = (Self(Vec::new()), String::new());
        for setting in hardening() {
            settings += &format!("{setting}\n");
            let unit = format!(
                "[Service]\nType=oneshot\nExecStart={program} --version\nStandardOutput=null\nStandardError=null\n{settings}"
            );
            let path = place.join(format!("mcpd-probe-{}-{}.service", std::process::id(), probes.0.len()));
            probes.0.push((path.clone(), setting.to_owned()));
            fs::write(path, unit)?;
        }
        Ok(probes)
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        for (path, _) in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}
