//! The root directory of a server with [namespaces](super::namespaces): only what was granted exists in it.
//!
//! Runs in the stage, which enters the namespaces. The new root is a tmpfs, into which the grants are mounted at their canonical paths.
//! Links that lead to them are created again as links: a program may look at where a link stands. [`init`](super::init) adds `/proc`,
//! which only a process in the pid namespace can mount, and changes the root.
//!
//! Source: namespaces(7), mount_namespaces(7), user_namespaces(7), mount(2).

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, FileType, fstat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, mount_change, mount_remount,
    move_mount, open_tree,
};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

use super::copies::Copies;
use super::files::FileGrant;
use super::namespaces::{AtStep, INIT_CAPABILITIES, NamespaceStep as Step, Namespaces, TEMPORARY};
use super::opened::OpenedPath;
use crate::server::start_error::StartError;

/// Where the new root is mounted until it becomes the root. Everything that is granted was opened before.
const ROOT: &str = "/tmp";
/// The root is read-only in the end. Until then its limits only have to be enough.
const ROOT_OPTIONS: &CStr = c"mode=0755,size=4m,nr_inodes=64k";
/// The limits of `/tmp` and `/dev/shm`, each. `TMPDIR` names a directory on the disk.
const TMPFS_OPTIONS: &CStr = c"mode=1777,size=256m,nr_inodes=64k";
/// With the maximum number of terminals, as all of the system share one.
const DEVPTS_OPTIONS: &CStr = c"newinstance,ptmxmode=0666,mode=0620,max=256";
const EMPTY_OPTIONS: &CStr = c"mode=0755,size=4k,nr_inodes=2";
/// Directories that are file systems of their own, where a server may write.
const OWN: &[(&str, MountAccess)] =
    &[("/tmp", MountAccess::Write), ("/dev/shm", MountAccess::Write), ("/dev/pts", MountAccess::Device)];
/// Links that programs expect, with their targets.
const LINKS: &[(&str, &str)] = &[
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// What may be done in a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MountAccess {
    Read,
    /// What is written goes to memory.
    Copy,
    Write,
    /// As outside: a mount for files that are no devices would refuse to open these.
    Device,
}

/// The grants by canonical path, parents first, without those inside others; and the links that lead to them.
#[derive(Debug, Default)]
struct Layout<'g> {
    grants: BTreeMap<&'g Path, (MountAccess, &'g OpenedPath)>,
    links: BTreeMap<&'g Path, &'g Path>,
}

impl<'g> Layout<'g> {
    fn of(grants: &'g [FileGrant]) -> Self {
        let mut layout = Self::default();
        let grants = grants.iter().filter(|grant| !grant.opened.real.starts_with("/proc"));
        for FileGrant { opened, writes, is_copied } in grants {
            let access = match writes {
                _ if opened.real.starts_with("/dev") => MountAccess::Device,
                true if *is_copied => MountAccess::Copy,
                true => MountAccess::Write,
                false => MountAccess::Read,
            };
            let granted = layout.grants.entry(&opened.real).or_insert((access, opened));
            granted.0 = access.max(granted.0);
            layout.links.extend(opened.links.iter().map(|link| (&*link.place, &*link.target)));
        }
        let all = layout.grants.clone();
        layout.grants.retain(|path, (access, _)| {
            let outer = path.ancestors().skip(1).find_map(|parent| all.get(parent));
            outer.is_none_or(|(outer, _)| outer < access)
        });
        let grants = &layout.grants;
        layout.links.retain(|link, _| !link.ancestors().skip(1).any(|parent| grants.contains_key(parent)));
        layout
    }

    /// What may be done at `path` in the new root.
    fn access(&self, path: &Path) -> MountAccess {
        let own = |path: &Path| OWN.iter().find(|(own, _)| path == Path::new(own)).map(|(_, access)| *access);
        let granted = |path| self.grants.get(path).map(|(access, _)| *access);
        path.ancestors().find_map(|path| granted(path).or_else(|| own(path))).unwrap_or(MountAccess::Read)
    }
}

/// The directories, beside the grants, in which a server may write.
pub(super) fn writable() -> impl Iterator<Item = PathBuf> {
    OWN.iter().map(|(path, _)| PathBuf::from(path))
}

/// Moves this process into new namespaces, except the pid namespace, which its children are in. Mounts the new root, and makes it the
/// working directory. The process keeps the capabilities that [`init`] needs. `temporary` is a directory on the disk for `/var/tmp`.
pub(super) fn enter(
    namespaces: Namespaces,
    grants: &[FileGrant],
    env: &BTreeMap<String, String>,
    temporary: Option<&Path>,
) -> Result<(), StartError> {
    let layout = Layout::of(grants);
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let mut flags =
        CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    if namespaces.network {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    set_no_new_privs(true).at(Step::Create)?;
    unshare(flags).at(Step::Create)?;
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ];
    maps.iter().try_for_each(|(path, map)| fs::write(path, map)).at(Step::MapIds)?;
    if !namespaces.nested {
        fs::write("/proc/sys/user/max_user_namespaces", "0").at(Step::LimitNested)?;
    }
    if namespaces.network {
        bring_up_loopback().at(Step::Loopback)?;
    }
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC).at(Step::Mount)?;
    let grants = layout.grants.values().map(|(_, opened)| open(opened));
    let grants = grants.collect::<Result<Vec<_>, _>>()?;
    make_root().at(Step::Mount)?;
    attach_all(&layout, &grants)?;
    link(&layout, temporary.unwrap_or(Path::new("/tmp"))).at(Step::Mount)?;
    cover(env).at(Step::Mount)?;
    restrict(&layout).at(Step::Mount)?;
    rustix::process::chdir(ROOT).at(Step::Mount)?;
    Ok(keep_capabilities(INIT_CAPABILITIES).at(Step::Capabilities)?)
}

/// A copy of the mounts at a path. It has to be opened again, since the kernel copies no mount of another namespace.
fn open(opened: &OpenedPath) -> Result<(&Path, OwnedFd), StartError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let tree = open_tree(CWD, &opened.real, flags);
    // Somebody may have replaced it meanwhile.
    let same = tree
        .map_err(io::Error::from)
        .and_then(|tree| if opened.is_same(&tree)? { Ok(tree) } else { Err(Errno::STALE.into()) });
    same.map(|tree| (&*opened.real, tree))
        .at(Step::OpenGrants)
        .map_err(|failure| StartError::Grant { path: opened.real.clone(), failure })
}

/// The place of `path` in the new root.
fn place(path: &Path) -> PathBuf {
    Path::new(ROOT).join(path.strip_prefix("/").unwrap_or(path))
}

/// Mounts the new root, and what is in it without any grant.
fn make_root() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", ROOT, "tmpfs", flags, ROOT_OPTIONS)?;
    for path in ["/proc", "/var"].into_iter().chain(OWN.iter().map(|(path, _)| *path)) {
        fs::create_dir_all(place(Path::new(path)))?;
    }
    for path in ["/tmp", "/dev/shm"] {
        mount("tmpfs", place(Path::new(path)), "tmpfs", flags, TMPFS_OPTIONS)?;
    }
    mount("devpts", place(Path::new("/dev/pts")), "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, DEVPTS_OPTIONS)?;
    Ok(())
}

/// Mounts the grants, or copies of them.
fn attach_all(layout: &Layout<'_>, grants: &[(&Path, OwnedFd)]) -> Result<(), StartError> {
    let mut copies = Copies::new(Path::new(ROOT));
    for (path, tree) in grants {
        if layout.access(path) == MountAccess::Copy {
            let copied = copies.attach(tree, &place(path)).at(Step::Copy);
            copied.map_err(|failure| StartError::Grant { path: path.to_path_buf(), failure })?;
        } else {
            attach(tree, &place(path)).at(Step::Mount)?;
        }
    }
    Ok(copies.finish().at(Step::Copy)?)
}

/// Creates the links.
fn link(layout: &Layout<'_>, temporary: &Path) -> io::Result<()> {
    let fixed = LINKS.iter().map(|(link, target)| (Path::new(link), Path::new(target)));
    let fixed = fixed.chain([(Path::new(TEMPORARY), temporary)]);
    for (link, target) in fixed.chain(layout.links.iter().map(|(link, target)| (*link, *target))) {
        let link = place(link);
        if let Some(parent) = link.parent() {
            // An error shows when the link is created.
            let _ = fs::create_dir_all(parent);
        }
        match symlink(target, link) {
            Ok(()) => {}
            // It is there already, or it would stand in what was granted.
            Err(error) if [io::ErrorKind::AlreadyExists, io::ErrorKind::ReadOnlyFilesystem].contains(&error.kind()) => {
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Covers files of the system with which programs fail in a user namespace.
fn cover(env: &BTreeMap<String, String>) -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let configuration = place(Path::new("/etc/ssh/ssh_config.d"));
    if user != 0 && configuration.is_dir() {
        // Root is not mapped, and ssh refuses such files if they belong to neither root nor the user.
        mount("tmpfs", configuration, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, EMPTY_OPTIONS)?;
    }
    let users = place(Path::new("/etc/passwd"));
    let known = fs::read_to_string(&users).unwrap_or_default();
    if let Some(entry) = missing_user(&known, user, group, env).filter(|_| users.is_file()) {
        let own = place(Path::new("/passwd"));
        fs::write(&own, known + &entry)?;
        mount_bind(&own, &users)?;
        fs::remove_file(own)?;
    }
    Ok(())
}

/// The entry of the user, if `/etc/passwd` has none: inside, no directory service can be asked for it.
fn missing_user(known: &str, user: u32, group: u32, env: &BTreeMap<String, String>) -> Option<String> {
    if known.lines().any(|line| line.split(':').nth(2) == Some(&user.to_string())) {
        return None;
    }
    let value = |name, default| {
        let value = env.get(name).filter(|value| !value.is_empty() && !value.contains([':', '\n']));
        value.map_or(default, String::as_str)
    };
    let end = if known.is_empty() || known.ends_with('\n') { "" } else { "\n" };
    Some(format!("{end}{}:x:{user}:{group}::{}:/bin/sh\n", value("LOGNAME", "user"), value("HOME", "/")))
}

/// Mounts `tree` at `target`. Where `target` lies in another grant, it exists there.
fn attach(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    if fs::symlink_metadata(target).is_err() {
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        if FileType::from_raw_mode(fstat(tree)?.st_mode).is_dir() {
            fs::create_dir(target)?;
        } else {
            File::create_new(target)?;
        }
    }
    move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    Ok(())
}

/// Takes away what each mount below the new root may not be used for. Flags that are there stay, since the kernel locks them.
fn restrict(layout: &Layout<'_>) -> io::Result<()> {
    let root = File::open(ROOT)?;
    let root = fs::read_to_string(format!("/proc/self/fdinfo/{}", root.as_raw_fd()))?;
    let root = root.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse::<u64>().ok());
    let root: u64 = root.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let text = fs::read("/proc/self/mountinfo")?;
    let mounts: Vec<_> = text.split(|byte| *byte == b'\n').filter_map(MountInfo::of_line).collect();
    let parents: HashMap<_, _> = mounts.iter().map(|mount| (mount.id, mount.parent)).collect();
    let is_inside = |id| {
        let ancestors = std::iter::successors(Some(id), |id| parents.get(id).copied());
        ancestors.take(parents.len()).any(|id| id == root)
    };
    for mount in mounts.iter().filter(|mount| is_inside(mount.id)) {
        let Ok(path) = mount.point.strip_prefix(ROOT) else { continue };
        let flags = match layout.access(&Path::new("/").join(path)) {
            MountAccess::Device => continue,
            MountAccess::Read => MountFlags::RDONLY | MountFlags::NODEV,
            MountAccess::Copy | MountAccess::Write => MountFlags::NODEV,
        };
        match mount_remount(&mount.point, MountFlags::BIND | MountFlags::NOSUID | mount.flags | flags, c"") {
            // Another mount hides it.
            Ok(()) | Err(Errno::NOENT | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Debug, PartialEq)]
struct MountInfo {
    id: u64,
    parent: u64,
    point: PathBuf,
    flags: MountFlags,
}

impl MountInfo {
    fn of_line(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse().ok();
        let (id, parent) = (number()?, number()?);
        let point = PathBuf::from(unescaped(fields.nth(2)?));
        let options = fields.next()?.split(|byte| *byte == b',');
        let flags = options.map(|option| match option {
            b"ro" => MountFlags::RDONLY,
            b"nosuid" => MountFlags::NOSUID,
            b"nodev" => MountFlags::NODEV,
            b"noexec" => MountFlags::NOEXEC,
            // Without one of the flags for access times, these stay as they are.
            _ => MountFlags::empty(),
        });
        Some(Self { id, parent, point, flags: flags.fold(MountFlags::empty(), |all, flag| all | flag) })
    }
}

/// The kernel writes a space, a tab, a line feed and a backslash as `\` with three octal digits.
fn unescaped(field: &[u8]) -> OsString {
    let (mut text, mut rest) = (Vec::new(), field);
    while let Some((byte, after)) = rest.split_first() {
        let code = || u8::from_str_radix(std::str::from_utf8(after.get(..3)?).ok()?, 8).ok();
        match (*byte == b'\\').then(code).flatten() {
            Some(code) => (text.push(code), rest = &after[3..]).1,
            None => (text.push(*byte), rest = after).1,
        }
    }
    OsString::from_vec(text)
}

/// Sets the flag `IFF_UP` of the first interface of a new network namespace (rtnetlink(7)).
fn bring_up_loopback() -> io::Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST_ACK: u16 = 5;
    const IFF_UP: u32 = 1;
    const LOOPBACK_INDEX: u32 = 1;
    const NLMSG_ERROR: u16 = 2;
    let mut request = Vec::new();
    request.extend(32_u32.to_ne_bytes());
    request.extend(RTM_NEWLINK.to_ne_bytes());
    request.extend(NLM_F_REQUEST_ACK.to_ne_bytes());
    // Sequence number and port; then any family and type.
    request.extend([0; 12]);
    for field in [LOOPBACK_INDEX, IFF_UP, IFF_UP] {
        request.extend(field.to_ne_bytes());
    }
    // Protocol 0 is that of routes and interfaces.
    let netlink = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    sendto(&netlink, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0; 256];
    recv(&netlink, &mut answer[..], RecvFlags::empty())?;
    let [kind, error] = [&answer[4..6], &answer[16..20]];
    if kind != NLMSG_ERROR.to_ne_bytes() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    match i32::from_ne_bytes([error[0], error[1], error[2], error[3]]) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// Keeps these capabilities, also for a program that is executed next, and gives up all others for good.
fn keep_capabilities(kept: CapabilitySet) -> io::Result<()> {
    for capability in CapabilitySet::all().difference(kept).iter() {
        match remove_capability_from_bounding_set(capability) {
            // An older kernel does not know it.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut sets = capabilities(None)?;
    (sets.permitted, sets.effective, sets.inheritable) = (kept, kept, kept);
    set_capabilities(None, sets)?;
    kept.iter().try_for_each(|capability| configure_capability_in_ambient_set(capability, true))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn grants_inside_others_are_dropped_and_links_stay_links() {
        let place = tempfile::tempdir().expect("a directory");
        let place = fs::canonicalize(place.path()).expect("it exists");
        let path = |name: &str| place.join(name);
        for directory in ["real/inner/more", "links", "other"] {
            fs::create_dir_all(path(directory)).expect("a fresh directory");
        }
        symlink("../real", path("links/relative")).expect("a fresh link");
        symlink(path("links/relative/inner"), path("links/absolute")).expect("a fresh link");
        symlink("more", path("real/inner/inside")).expect("a fresh link");
        let open = |name| OpenedPath::open(&path(name)).expect("it exists");
        let read = ["links/absolute/inside", "real/inner", "other"].map(open).map(FileGrant::read);
        let write = ["real/inner/more", "other"].map(open).map(FileGrant::write);
        let grants: Vec<_> = read.into_iter().chain(write).collect();
        let layout = Layout::of(&grants);
        let (read, write) = (MountAccess::Read, MountAccess::Write);
        let expected = [("other", write), ("real/inner", read), ("real/inner/more", write)];
        let found: Vec<_> = layout.grants.iter().map(|(path, (access, _))| (path.to_path_buf(), *access)).collect();
        assert_eq!(found, expected.map(|(name, access)| (path(name), access)));
        let links = [("links/absolute", path("links/relative/inner")), ("links/relative", "../real".into())];
        let found: Vec<_> =
            layout.links.iter().map(|(link, target)| (link.to_path_buf(), target.to_path_buf())).collect();
        assert_eq!(found, links.map(|(name, target)| (path(name), target)));
        for (name, expected) in [("real/inner/x", read), ("real/inner/more/x", write), ("other", write), ("real", read)]
        {
            let tmp_is_writable = path(name).starts_with("/tmp") && expected == read && name == "real";
            assert_eq!(layout.access(&path(name)), if tmp_is_writable { write } else { expected }, "{name}");
        }
    }

    #[test]
    fn user_of_a_directory_service_gets_an_entry() {
        let env = [("LOGNAME", "ada"), ("HOME", "/h")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        for (known, expected) in [
            ("root:x:0:0::/root:/bin/sh\n", Some("ada:x:7:8::/h:/bin/sh\n")),
            ("x:x:70:7::/:/bin/sh", Some("\nada:x:7:8::/h:/bin/sh\n")),
            ("me:x:7:7::/home/me:/bin/sh\n", None),
        ] {
            assert_eq!(missing_user(known, 7, 8, &env).as_deref(), expected, "{known}");
        }
        let odd = [("LOGNAME".to_owned(), "a:b".to_owned())].into();
        assert_eq!(missing_user("", 7, 8, &odd).as_deref(), Some("user:x:7:8::/:/bin/sh\n"));
    }

    #[test]
    fn mountinfo_is_read_with_its_escapes() {
        let line = br"36 35 98:0 /mnt1 /mnt\0402\134x rw,noexec,nosuid,relatime shared:1 - ext3 /dev/root rw";
        let flags = MountFlags::NOEXEC | MountFlags::NOSUID;
        let expected = MountInfo { id: 36, parent: 35, point: OsStr::from_bytes(br"/mnt 2\x").into(), flags };
        assert_eq!(MountInfo::of_line(line), Some(expected));
        assert_eq!(MountInfo::of_line(b""), None);
    }
}
