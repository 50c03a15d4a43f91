//! The last known lists and identities of servers, one file each. A lazy server is listed from its file until its first
//! call starts it, and `mcpd check` matches patterns against it.
//!
//! The name of a file is a hash of the server's launch configuration, so a changed configuration has no file. A file is replaced
//! atomically. An unreadable or malformed file counts as missing. All functions but [`ListCacheFile::store`] and [`ListCacheFile::load`]
//! may block, and belong on another thread.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::identity::{Identities, ServerIdentity};
use super::listing::{Listing, Next};
use crate::catalog::{List, Lists};
use crate::config::{Launch, Malformed, ServerConfig};
use crate::disk::on_disk;
use crate::era;
use crate::list_kind::{ListKind, PerKind};

/// Largest file that is read: the limits of the lists, and a little more.
const MAX_FILE: u64 = 16 << 20;
/// At this number of files the oldest one is removed.
const MAX_FILES: usize = 1000;
/// Rises with each change of the file's format.
const VERSION: u32 = 4;

/// The lists and identities of a server.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub(super) lists: Lists,
    pub(super) identities: Identities,
}

/// The file of one server.
#[derive(Debug, Clone)]
pub(super) struct ListCacheFile {
    directory: PathBuf,
    file: String,
    malformed: Malformed,
}

#[derive(Serialize, Deserialize)]
struct CacheContent<'a> {
    version: u32,
    server: &'a str,
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow)]
    prompts: Vec<&'a RawValue>,
    #[serde(borrow)]
    resources: Vec<&'a RawValue>,
    #[serde(borrow, rename = "resourceTemplates")]
    templates: Vec<&'a RawValue>,
    #[serde(borrow)]
    skills: Vec<&'a RawValue>,
    #[serde(borrow)]
    identities: Vec<CachedIdentity<'a>>,
    /// [`crate::catalog::List::makes_tasks`] of its tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "makesTasks")]
    makes_tasks: bool,
}

/// [`ServerIdentity`] of one era.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CachedIdentity<'a> {
    protocol_version: &'a str,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    server_info: Option<&'a RawValue>,
    #[serde(borrow)]
    capabilities: &'a RawValue,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
}

impl CachedIdentity<'_> {
    /// `None` if this version of mcpd does not support the protocol version.
    fn restore(self) -> Option<Arc<ServerIdentity>> {
        let bytes = |raw: &RawValue| Bytes::copy_from_slice(raw.get().as_bytes());
        Some(Arc::new(ServerIdentity::new(
            era::supported(self.protocol_version)?,
            self.server_info.map(bytes),
            bytes(self.capabilities),
            self.instructions.map(Arc::from),
        )))
    }
}

/// The last known lists of a server with this configuration, if it has ever listed.
#[must_use]
pub fn last_known(directory: &Path, config: &ServerConfig) -> Option<Lists> {
    ListCacheFile::of(directory.to_owned(), config)?.read(&config.name).map(|known| known.lists)
}

/// The last known instructions of a server with this configuration, of each era.
pub(crate) fn last_known_instructions(directory: &Path, config: &ServerConfig) -> Vec<Arc<str>> {
    let known = ListCacheFile::of(directory.to_owned(), config).and_then(|file| file.read(&config.name));
    let identities = known.into_iter().flat_map(|known| known.identities.iter().cloned().collect::<Vec<_>>());
    identities.filter_map(|identity| identity.instructions.clone()).collect()
}

impl ListCacheFile {
    /// `None` for a server that cannot be launched.
    pub(super) fn of(directory: PathBuf, config: &ServerConfig) -> Option<Self> {
        let launch = config.launch.as_ref().ok()?;
        let malformed = config.settings.malformed;
        Some(Self { directory, file: format!("{}.json", key(&config.name, launch)), malformed })
    }

    /// Reads the file.
    pub(super) fn read(&self, server: &str) -> Option<Inventory> {
        let path = self.directory.join(&self.file);
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > MAX_FILE {
            return None;
        }
        let text = fs::read(path).ok()?;
        let file: CacheContent<'_> = serde_json::from_slice(&text).ok()?;
        if file.version != VERSION || file.server != server {
            return None;
        }
        let makes_tasks = file.makes_tasks;
        let mut identities = Identities::default();
        file.identities.into_iter().filter_map(CachedIdentity::restore).for_each(|one| identities.insert(one));
        // The file has the form of one `list` result with the items of all kinds, so each list is parsed and checked like a
        // page.
        let text = Bytes::from(text);
        let lists = ListKind::ALL.map(|kind| match Listing::of(kind, self.malformed).page(&text).ok()? {
            Next::Done(list) => Some(Arc::new(List { makes_tasks: makes_tasks && kind == ListKind::Tools, ..list })),
            Next::Page(..) => None,
        });
        let is_whole = lists.iter().all(Option::is_some);
        let lists = PerKind::from_fn(|kind| lists[kind as usize].clone().unwrap_or_default());
        is_whole.then_some(Inventory { lists, identities })
    }

    /// Reads the file on another thread. `None` also if the disk does not answer.
    pub(super) async fn load(self, server: Arc<str>) -> Option<Inventory> {
        on_disk(move || self.read(&server)).await.ok().flatten()
    }

    /// Writes it in the background. If that fails, the next start of a lazy server has to list.
    pub(super) fn store(self, server: Arc<str>, known: Inventory) {
        tokio::spawn(async move {
            let name = Arc::clone(&server);
            let written = on_disk(move || self.write(&server, &known)).await.map_err(io::Error::other);
            if let Err(error) = written.flatten() {
                tracing::warn!(server = %name, "cannot write its lists to the cache: {error}");
            }
        });
    }

    /// Writes the file, unless its content is the same.
    fn write(&self, server: &str, Inventory { lists, identities }: &Inventory) -> io::Result<()> {
        let raw = |kind: ListKind| {
            lists[kind].items.iter().filter_map(|item| serde_json::from_slice(&item.json).ok()).collect()
        };
        let file = CacheContent {
            version: VERSION,
            server,
            tools: raw(ListKind::Tools),
            prompts: raw(ListKind::Prompts),
            resources: raw(ListKind::Resources),
            templates: raw(ListKind::Templates),
            skills: raw(ListKind::Skills),
            identities: identities.iter().filter_map(|one| cached(one)).collect(),
            makes_tasks: lists[ListKind::Tools].makes_tasks,
        };
        let text = serde_json::to_vec(&file)?;
        let path = self.directory.join(&self.file);
        if is_stored(&path, &text) {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(&text)?;
        file.persist(path).map_err(|error| error.error)?;
        make_room(&self.directory)
    }
}

fn cached(identity: &ServerIdentity) -> Option<CachedIdentity<'_>> {
    Some(CachedIdentity {
        protocol_version: identity.protocol,
        server_info: identity.info.as_ref().and_then(|raw| serde_json::from_slice(raw).ok()),
        capabilities: serde_json::from_slice(&identity.sent_capabilities).ok()?,
        instructions: identity.instructions.as_deref().map(str::to_owned),
    })
}

/// Whether the file has this content already. A server may start often without a change.
fn is_stored(path: &Path, text: &[u8]) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == text.len() as u64)
        && fs::read(path).is_ok_and(|file| file == text)
}

/// Removes the oldest files, as files of former configurations would stay otherwise. Remembers only the oldest file, not the whole
/// listing, because memory that this thread allocates is never returned to the system.
fn make_room(directory: &Path) -> io::Result<()> {
    while fs::read_dir(directory)?.count() > MAX_FILES {
        let Some(path) = first_written(directory)? else { break };
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // Another thread may have been faster.
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn first_written(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut first: Option<(_, PathBuf)> = None;
    for file in fs::read_dir(directory)? {
        let file = file?;
        let Ok(time) = file.metadata().and_then(|metadata| metadata.modified()) else { continue };
        if first.as_ref().is_none_or(|(earliest, _)| time < *earliest) {
            first = Some((time, file.path()));
        }
    }
    Ok(first.map(|(_, path)| path))
}

/// The name of the file: a hash of everything that decides which tools exist. Secrets are left out, and so are values of variables, which
/// may be secrets.
fn key(server: &str, launch: &Launch) -> String {
    let mut hash = Sha256::new();
    if let Some(program) = launch.program() {
        let cwd = program.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()).unwrap_or_default();
        let names = program.env.keys().chain(&program.pass_env);
        for part in [server, &program.command, &cwd].into_iter().chain(names.map(String::as_str)) {
            hash.update(program.secrets.masked_as_loaded(part));
            hash.update([0]);
        }
        for arg in &program.args {
            hash.update([1]);
            hash.update(program.secrets.masked_as_loaded(arg));
        }
    }
    if let Some(remote) = launch.remote() {
        for part in [server, &remote.url].into_iter().chain(remote.headers.keys().map(String::as_str)) {
            hash.update(remote.secrets.masked_as_loaded(part));
            hash.update([2]);
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_lists_are_not_written_again_and_the_oldest_file_is_removed() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let config = ServerConfig::new("s", "x");
        let cache = ListCacheFile::of(place.path().to_owned(), &config).expect("it can be run");
        let inode =
            || std::os::unix::fs::MetadataExt::ino(&fs::metadata(place.path().join(&cache.file)).expect("file"));
        let tools =
            |name: &str| known(ListKind::Tools, &format!(r#"{{"tools":[{{"name":"{name}","inputSchema":{{}}}}]}}"#));
        cache.write("s", &tools("a")).expect("written");
        let first = inode();
        cache.write("s", &tools("a")).expect("nothing to write");
        assert_eq!(inode(), first);
        for number in 0..MAX_FILES {
            fs::write(place.path().join(format!("{number}.json")), "").expect("writable");
        }
        cache.write("s", &tools("b")).expect("written");
        assert_ne!(inode(), first);
        assert_eq!(fs::read_dir(place.path()).expect("a directory").count(), MAX_FILES);
        assert_eq!(&*cache.read("s").expect("it was written last").lists[ListKind::Tools].items[0].key, "b");
    }

    fn known(kind: ListKind, text: &str) -> Inventory {
        let Ok(Next::Done(list)) = Listing::of(kind, Malformed::Mend).page(&Bytes::copy_from_slice(text.as_bytes()))
        else {
            panic!("no list: {text}")
        };
        let mut lists = Lists::default();
        lists[kind] = Arc::new(list);
        let mut identities = Identities::default();
        identities.insert(Arc::new(ServerIdentity::new(
            era::MODERN,
            Some(Bytes::from_static(br#"{"name" : "s"}"#)),
            Bytes::from_static(br#"{"tools":{"x":1.0}}"#),
            Some("Read\nthis.".into()),
        )));
        Inventory { lists, identities }
    }

    #[test]
    fn a_list_is_read_as_it_was_written_and_anything_else_is_none() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let config = ServerConfig::new("s", "x").args(["a"]).env("TOKEN", "secret");
        let cache_of =
            |config: &ServerConfig| ListCacheFile::of(place.path().join("a/b"), config).expect("it can be run");
        let cache = cache_of(&config);
        assert!(cache.read("s").is_none());
        let tools = r#"{"tools":[{"name":"t","inputSchema":{},"x":1.10},{"name":"u","inputSchema":{}}]}"#;
        let written = known(ListKind::Tools, tools);
        cache.write("s", &written).expect("written");
        let read = cache.read("s").expect("it was written");
        assert_eq!(read.identities, written.identities);
        assert_eq!(&read.lists[ListKind::Tools].items[0].json[..], br#"{"name":"t","inputSchema":{},"x":1.10}"#);
        assert_eq!(&*read.lists[ListKind::Tools].items[1].key, "u");
        assert!(!read.lists[ListKind::Tools].makes_tasks);
        let tools = List { makes_tasks: true, ..List::clone(&read.lists[ListKind::Tools]) };
        let mut lists = read.lists;
        lists[ListKind::Tools] = Arc::new(tools);
        cache.write("s", &Inventory { lists, identities: Identities::default() }).expect("written");
        let read = cache.read("s").expect("it was written");
        assert!(read.lists[ListKind::Tools].makes_tasks && !read.lists[ListKind::Prompts].makes_tasks);
        assert!(cache.read("other").is_none());
        assert!(last_known(&place.path().join("a/b"), &config).is_some());
        for foreign in ["", "{}", "[1", r#"{"version":1,"server":"s","tools":[]}"#, "\u{0}\u{1}"] {
            fs::write(place.path().join("a/b").join(&cache.file), foreign).expect("writable");
            assert!(cache.read("s").is_none(), "{foreign}");
        }
        let changed = ServerConfig::new("s", "x").args(["b"]).env("TOKEN", "secret");
        assert_ne!(cache_of(&changed).file, cache.file);
        let other_secret = ServerConfig::new("s", "x").args(["a"]).env("TOKEN", "other");
        assert_eq!(cache_of(&other_secret).file, cache.file);
        let remote = |url| ServerConfig::remote("s", url).header("X-Key", "secret");
        let away = cache_of(&remote("https://a/mcp"));
        assert_eq!(cache_of(&remote("https://a/mcp").header("X-Key", "other")).file, away.file);
        assert_ne!(cache_of(&remote("https://a/other")).file, away.file);
    }
}
