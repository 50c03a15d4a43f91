//! Which sandbox a server needs, as far as its command tells: what works at level `files`, and what works in no sandbox. Pure.

use std::path::{Path, PathBuf};

use super::interpolate::Sources;
use super::sandbox::{ProtectedDirectories, Sandbox, SandboxLevel};

/// Commands that gain privileges, which no sandbox permits (`no_new_privs`, prctl(2)).
const PRIVILEGED: &[&str] =
    &["doas", "fusermount", "fusermount3", "newgidmap", "newuidmap", "pkexec", "snap", "su", "sudo"];
/// The programs of snap packages. All of them are links to `snap`.
const SNAPS: &str = "/snap/bin";
/// Mode bits: set user id, set group id.
const SET_ID: u32 = 0o6000;
/// Programs that run a package.
const RUNNERS: &[&str] = &["bunx", "npx", "pnpx", "uvx"];
/// Options of these programs that take a value.
const RUNNER_OPTIONS: &[&str] = &["--package", "-p", "--from", "--with", "--python", "--registry", "--index-url"];

/// The files that a package needs beside those that every server has.
enum NeededPaths {
    /// None.
    None,
    /// Every argument is a directory to work in.
    Arguments,
    /// The values of these options, and Git's configuration: Git does not start if that exists and cannot be read.
    Repositories(&'static [&'static str]),
    /// The directory of the file that this variable names, if it is set. The server replaces the file by a new one.
    FileOfVariable(&'static str),
}

/// Packages that were found to work at level `files`.
const KNOWN: &[(&str, NeededPaths)] = &[
    ("@modelcontextprotocol/server-everything", NeededPaths::None),
    ("@modelcontextprotocol/server-filesystem", NeededPaths::Arguments),
    ("@modelcontextprotocol/server-memory", NeededPaths::FileOfVariable("MEMORY_FILE_PATH")),
    ("@modelcontextprotocol/server-sequential-thinking", NeededPaths::None),
    ("mcp-server-fetch", NeededPaths::None),
    ("mcp-server-git", NeededPaths::Repositories(&["--repository", "-r"])),
    ("mcp-server-time", NeededPaths::None),
];
/// Git's configuration of the user (git-config(1)).
const GIT_CONFIG: &[&str] = &["~/.gitconfig", "~/.config/git"];
/// Packages that inspect or signal other processes, which they cannot do in a sandbox.
const PROCESS_INSPECTING: &[&str] = &["@wonderwhy-er/desktop-commander", "mcp-server-process", "process-mcp-server"];

/// Why a command works in no sandbox: the predicate of a sentence about the command. `path` is the server's `PATH`.
pub(crate) fn privilege_problem(command: &str, path: &str, sources: &dyn Sources) -> Option<&'static str> {
    let name = Path::new(command).file_name()?.to_str()?;
    if PRIVILEGED.contains(&name) {
        return Some("gains privileges, which no sandbox permits");
    }
    let found = if command.contains('/') { Some(PathBuf::from(command)) } else { sources.on_path(command, path) };
    let program = found?;
    if program.starts_with(SNAPS) {
        return Some("is a snap, and `snap` gains privileges, which no sandbox permits");
    }
    let mode = sources.permissions(&program).ok()?.first()?.mode;
    (mode & SET_ID != 0)
        .then_some("has a set-user-ID or set-group-ID bit, and no sandbox permits the privileges that this gives")
}

/// The package that this command runs, if it is known to inspect or signal other processes.
pub(crate) fn process_inspecting_package(command: &str, args: &[String]) -> Option<&'static str> {
    let (package, _) = package(command, args)?;
    PROCESS_INSPECTING.iter().find(|known| **known == package).copied()
}

/// The sandbox at level `files` in which a command is known to work. `env` has the variables of the server's configuration.
pub(crate) fn known_to_work(
    command: &str,
    args: &[String],
    env: &[(String, String)],
    sources: &dyn Sources,
) -> Option<Sandbox> {
    let (package, rest) = package(command, args)?;
    let (_, needed) = KNOWN.iter().find(|(known, _)| *known == package)?;
    let protected = ProtectedDirectories::of(sources);
    let is_usable = |path: &PathBuf| {
        let expanded = expanded(path, sources);
        expanded.is_some_and(|path| sources.exists(&path) && protected.opened_by(&path).is_none())
    };
    let (mut read, mut write) = (Vec::new(), Vec::new());
    match needed {
        NeededPaths::None => {}
        NeededPaths::Arguments if rest.is_empty() => return None,
        NeededPaths::Arguments => write.extend(rest.iter().map(PathBuf::from)),
        NeededPaths::Repositories(options) => {
            write.extend(values(rest, options).map(PathBuf::from));
            read.extend(GIT_CONFIG.iter().map(PathBuf::from).filter(is_usable));
        }
        NeededPaths::FileOfVariable(variable) => {
            if let Some((_, file)) = env.iter().find(|(name, _)| name == variable) {
                write.push(Path::new(file).parent()?.to_owned());
            }
        }
    }
    write.iter().all(is_usable).then(|| Sandbox { read, write, ..Sandbox::of_level(SandboxLevel::Files) })
}

/// A path of the configuration that is absolute, or begins with the home directory.
fn expanded(path: &Path, sources: &dyn Sources) -> Option<PathBuf> {
    match path.strip_prefix("~").or_else(|_| path.strip_prefix("${HOME}")) {
        Ok(below) => Some(sources.home()?.join(below)),
        Err(_) => Some(path.to_owned()).filter(|path| path.is_absolute()),
    }
}

/// The package without its version, and the arguments behind it.
fn package<'a>(command: &str, args: &'a [String]) -> Option<(&'a str, &'a [String])> {
    let runner = Path::new(command).file_name()?.to_str()?;
    if !RUNNERS.contains(&runner) {
        return None;
    }
    let mut index = 0;
    while args.get(index)?.starts_with('-') {
        index += if RUNNER_OPTIONS.contains(&args[index].as_str()) { 2 } else { 1 };
    }
    let word = &args[index];
    let name = word.split("==").next().unwrap_or(word);
    // The `@` at the beginning is that of a scope.
    let end = name.char_indices().skip(1).find(|(_, c)| *c == '@').map_or(name.len(), |(at, _)| at);
    Some((&name[..end], &args[index + 1..]))
}

/// The values of `options`, written as one word or two.
fn values<'a>(args: &'a [String], options: &'static [&'static str]) -> impl Iterator<Item = &'a str> {
    args.iter().enumerate().filter_map(move |(index, word)| {
        let joined = options.iter().find_map(|option| word.strip_prefix(option)?.strip_prefix('='));
        let next = || options.contains(&word.as_str()).then(|| args.get(index + 1)).flatten().map(String::as_str);
        joined.or_else(next)
    })
}

#[cfg(test)]
mod tests {
    use super::super::interpolate::table::Table;
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn packages_that_work_at_files_are_recognized_with_their_directories() {
        let sources = Table::from([("~", "/home/u"), ("/home/u/notes", ""), ("/home/u", ""), ("/srv/repo", "")]);
        for (command, args, expected) in [
            ("npx", "-y @modelcontextprotocol/server-memory", Some(&[][..])),
            ("/usr/bin/npx", "-y @modelcontextprotocol/server-memory@2026.8.31", Some(&[][..])),
            (
                "npx",
                "-y @modelcontextprotocol/server-filesystem ${HOME}/notes /srv/repo",
                Some(&["${HOME}/notes", "/srv/repo"][..]),
            ),
            ("npx", "-y @modelcontextprotocol/server-filesystem ~/notes", Some(&["~/notes"][..])),
            // Access to the whole home directory is no fence.
            ("npx", "-y @modelcontextprotocol/server-filesystem /home/u", None),
            ("npx", "-y @modelcontextprotocol/server-filesystem", None),
            ("npx", "-y @modelcontextprotocol/server-filesystem /srv/missing", None),
            ("uvx", "--python 3.12 mcp-server-time==1.0 --local-timezone UTC", Some(&[][..])),
            ("uvx", "mcp-server-git --repository /srv/repo", Some(&["/srv/repo"][..])),
            ("uvx", "mcp-server-git --repository=/srv/repo", Some(&["/srv/repo"][..])),
            ("npx", "-y some-other-server", None),
            ("node", "@modelcontextprotocol/server-memory", None),
            ("npx", "-y", None),
        ] {
            let found = known_to_work(command, &words(args), &[], &sources);
            let write = found.map(|sandbox| sandbox.write);
            let expected = expected.map(|paths| paths.iter().map(PathBuf::from).collect::<Vec<_>>());
            assert_eq!(write, expected, "{command} {args}");
        }
    }

    #[test]
    fn directory_of_the_memory_file_can_be_written() {
        let sources = Table::from([("~", "/home/u"), ("/home/u", ""), ("/home/u/notes", "")]);
        for (file, expected) in [
            ("/home/u/notes/memory.json", Some("/home/u/notes")),
            ("~/notes/memory.json", Some("~/notes")),
            // Its directory is the home directory.
            ("${HOME}/memory.json", None),
            ("/srv/missing/memory.json", None),
            ("memory.json", None),
        ] {
            let env = [("MEMORY_FILE_PATH".to_owned(), file.to_owned())];
            let args = words("-y @modelcontextprotocol/server-memory");
            let write = known_to_work("npx", &args, &env, &sources).map(|sandbox| sandbox.write);
            assert_eq!(write, expected.map(|path| vec![PathBuf::from(path)]), "{file}");
        }
    }

    #[test]
    fn configuration_of_git_can_be_read_if_it_exists() {
        let args = words("mcp-server-git --repository /srv/repo");
        let read = |sources: &Table| known_to_work("uvx", &args, &[], sources).expect("it is known").read;
        let mut sources = Table::from([("~", "/home/u"), ("/srv/repo", "")]);
        assert!(read(&sources).is_empty());
        sources.insert("/home/u/.gitconfig", "");
        assert_eq!(read(&sources), [PathBuf::from("~/.gitconfig")]);
    }

    #[test]
    fn commands_that_gain_privileges_are_recognized_by_name() {
        let sources = Table::from([("~", "/home/u")]);
        for (command, expected) in
            [("sudo", true), ("/usr/bin/pkexec", true), ("/snap/bin/code", true), ("npx", false), ("sudoku", false)]
        {
            assert_eq!(privilege_problem(command, "/usr/bin", &sources).is_some(), expected, "{command}");
        }
    }
}
