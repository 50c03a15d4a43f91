//! Writable views of directories, for a server on trial. What it writes goes to memory and disappears with its namespaces. The directories
//! do not change.
//!
//! Each is an overlay mount with the directory as its lower layer. Source: the kernel's `Documentation/filesystems/overlayfs.rst`. The
//! kernel refuses one over mounts that lie in the directory, and permits none in a user namespace before Linux 5.11.

use std::ffi::{CStr, CString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, chmod, fstat};
use rustix::mount::{MountFlags, MoveMountFlags, UnmountFlags, mount, move_mount, unmount};

/// The limits of what is written in all of them.
const OPTIONS: &CStr = c"mode=0700,size=512m,nr_inodes=64k";

/// The views of one server, in its new root.
pub(super) struct Copies {
    /// Where the files are that were written. Not part of the finished root.
    written: PathBuf,
    /// Where the directory of a view is mounted meanwhile.
    lower: PathBuf,
    made: usize,
}

impl Copies {
    pub(super) fn new(root: &Path) -> Self {
        Self { written: root.join(".mcpd-written"), lower: root.join(".mcpd-lower"), made: 0 }
    }

    /// Mounts a view of `tree`, a directory, at `target`.
    pub(super) fn attach(&mut self, tree: &OwnedFd, target: &Path) -> io::Result<()> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        if self.made == 0 {
            fs::create_dir(&self.written)?;
            fs::create_dir(&self.lower)?;
            mount("tmpfs", &self.written, "tmpfs", flags, OPTIONS)?;
        }
        self.made += 1;
        let [upper, work] = ["upper", "work"].map(|layer| self.written.join(format!("{layer}{}", self.made)));
        for layer in [&upper, &work] {
            DirBuilder::new().mode(0o700).create(layer)?;
        }
        // The view has the mode of its upper layer.
        chmod(&upper, Mode::from_raw_mode(fstat(tree)?.st_mode))?;
        fs::create_dir_all(target)?;
        move_mount(tree, "", CWD, &self.lower, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        let mounted = mount("overlay", target, "overlay", flags, &*options(&self.lower, &upper, &work)?);
        unmount(&self.lower, UnmountFlags::DETACH)?;
        Ok(mounted?)
    }

    /// Removes what only this needed. The views stay.
    pub(super) fn finish(self) -> io::Result<()> {
        if self.made > 0 {
            unmount(&self.written, UnmountFlags::DETACH)?;
            [&self.written, &self.lower].into_iter().try_for_each(fs::remove_dir)?;
        }
        Ok(())
    }
}

/// The options of an overlay. None of the paths has a character with a meaning there.
fn options(lower: &Path, upper: &Path, work: &Path) -> io::Result<CString> {
    let [lower, upper, work] = [lower, upper, work].map(|path| path.as_os_str().as_bytes());
    let parts = [b"lowerdir=", lower, b",upperdir=", upper, b",workdir=", work, b",userxattr"];
    Ok(CString::new(parts.concat())?)
}
