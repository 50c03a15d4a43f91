//! The sandbox that `add` and `import` propose for a command: level `files` with the paths that its command line and its variables
//! name, or the reason against that level. Pure.
//!
//! mcpd itself finds where the command is installed when it starts the server.

use std::fmt;
use std::path::{Path, PathBuf};

use super::super::environment::names_certificates;
use super::super::interpolate::Sources;
use super::super::sandbox::{NamespaceUse, ProtectedDirectories, Sandbox, SandboxLevel};
use super::invocation::Invocation;
use super::table::{self, SandboxNeeds};
use super::{SHOWS_NO_WINDOW, privilege_problem};

/// What every server at level `files` may read.
const SYSTEM: &[&str] =
    &["/bin", "/dev", "/etc", "/gnu/store", "/lib", "/lib64", "/nix/store", "/opt", "/proc", "/sbin", "/sys", "/usr"];
/// Ends of the names of files that a server changes, with others beside them.
const DATA_ENDS: &[&str] = &["db", "db3", "duckdb", "jsonl", "kuzu", "log", "sqlite", "sqlite3"];
/// Ends of the names of programs and scripts. They are found as a part of the installation.
const PROGRAM_ENDS: &[&str] = &["cjs", "jar", "js", "mjs", "mts", "php", "py", "rb", "ts"];
/// Variables whose directories belong to the installation.
const LIBRARIES: &[&str] = &["HOME", "NODE_PATH", "PATH", "PYTHONPATH", "TMPDIR"];
/// Where browsers are downloaded to, with the variable that names that place.
const BROWSERS: &[(&str, &str)] =
    &[("PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright"), ("PUPPETEER_CACHE_DIR", ".cache/puppeteer")];
/// Git's configuration of the user, with the variable that names it (git(1)).
const GIT_CONFIG: (&str, &str) = ("GIT_CONFIG_GLOBAL", ".gitconfig");
const SHELLS: &[&str] = &["bash", "dash", "ksh", "sh", "zsh"];
/// The maximum length of a script that is looked at.
const MAX_SCRIPT: u64 = 64 * 1024;

/// The command line of a server, as its configuration has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandLine<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: &'a [(String, String)],
    pub(crate) cwd: Option<&'a str>,
}

/// Level `files` for one server.
#[derive(Debug, PartialEq)]
pub(crate) struct Proposal {
    pub(crate) sandbox: Sandbox,
    /// Variables that it needs at this level.
    pub(crate) env: Vec<(String, String)>,
}

/// Why a server is proposed no level `files`. Displayed as a sentence about the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FilesObstacle {
    NotFound(String),
    Container,
    Privileges(&'static str),
    OtherProcesses,
    Mounts,
    /// The program that runs others.
    OtherPrograms(String),
    /// The program that selects another one.
    Shim(String),
    Window,
    MissingPath(String),
    ProtectedPath(String),
}

impl fmt::Display for FilesObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(command) => write!(f, "its command `{}` is not found", command.escape_debug()),
            Self::Container => f.write_str("a sandbox restricts only the client of a container, not what runs in it"),
            Self::Privileges(reason) => write!(f, "its command {reason}"),
            Self::OtherProcesses => f.write_str("it inspects or signals other processes"),
            Self::Mounts => f.write_str("its command creates mounts, which a sandbox forbids"),
            Self::OtherPrograms(name) => {
                write!(f, "`{}` runs other programs, and which files these need is not known", name.escape_debug())
            }
            Self::Shim(program) => {
                write!(f, "`{}` selects a program by files in your home directory", program.escape_debug())
            }
            Self::Window => {
                write!(f, "its browser opens a window; with `{SHOWS_NO_WINDOW}` in its arguments it can have `files`")
            }
            Self::MissingPath(path) => write!(f, "`{}` does not exist", path.escape_debug()),
            Self::ProtectedPath(path) => {
                write!(f, "`{}` would open your home directory or a directory of mcpd", path.escape_debug())
            }
        }
    }
}

/// The sandbox to propose for a command.
pub(crate) fn proposal(line: CommandLine<'_>, sources: &dyn Sources) -> Result<Proposal, FilesObstacle> {
    let CommandLine { command, args, env, .. } = line;
    let invocation = Invocation::of(command, args);
    let path =
        env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone()).or_else(|| sources.var("PATH"));
    let path = path.unwrap_or_default();
    if let Some(reason) = privilege_problem(command, &path, sources) {
        return Err(FilesObstacle::Privileges(reason));
    }
    let mut paths = Paths::new(sources);
    let mut sandbox = Sandbox::of_level(SandboxLevel::Files);
    let mut more = Vec::new();
    for known in invocation.known() {
        match &known.sandbox {
            SandboxNeeds::Files | SandboxNeeds::Privileges => {}
            SandboxNeeds::Container => return Err(FilesObstacle::Container),
            SandboxNeeds::OtherProcesses => return Err(FilesObstacle::OtherProcesses),
            SandboxNeeds::Mounts => return Err(FilesObstacle::Mounts),
            SandboxNeeds::OtherPrograms => return Err(FilesObstacle::OtherPrograms(invocation.program().to_owned())),
            SandboxNeeds::Browser if invocation.is_container() => {}
            SandboxNeeds::Browser if !invocation.rest.iter().any(|arg| arg == SHOWS_NO_WINDOW) => {
                return Err(FilesObstacle::Window);
            }
            SandboxNeeds::Browser => {
                sandbox.nested_namespaces = true;
                // Its processes communicate by Unix sockets. Without namespaces these would reach services of the user, too.
                sandbox.unix = Some(true);
                sandbox.namespaces = NamespaceUse::Require;
                more.extend(BROWSERS.iter().filter_map(|place| paths.add_of_home(*place)));
            }
            SandboxNeeds::GitConfig => more.extend(paths.add_of_home(GIT_CONFIG)),
            SandboxNeeds::FileOfVariable(variable) => {
                if let Some((_, file)) = env.iter().find(|(name, _)| name == variable) {
                    paths.add_parent(file)?;
                }
            }
        }
    }
    check_program(command, &path, sources)?;
    paths.add_line(line)?;
    let (read, write) = paths.into_lists();
    more.retain(|(name, _): &(String, _)| env.iter().all(|(known, _)| known != name));
    Ok(Proposal { sandbox: Sandbox { read, write, ..sandbox }, env: more })
}

/// The paths that a command line names, as they are spelled: those to read, and those to write.
pub(crate) fn named_paths(
    line: CommandLine<'_>,
    sources: &dyn Sources,
) -> Result<(Vec<PathBuf>, Vec<PathBuf>), FilesObstacle> {
    let mut paths = Paths::new(sources);
    paths.add_line(line)?;
    Ok(paths.into_lists())
}

/// Refuses a program whose installation cannot be found.
fn check_program(command: &str, path: &str, sources: &dyn Sources) -> Result<(), FilesObstacle> {
    let found = match command.contains('/') {
        true => expanded(command, sources).filter(|program| sources.exists(program)),
        false => sources.on_path(command, path),
    };
    let program = found.ok_or_else(|| FilesObstacle::NotFound(command.to_owned()))?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    if SYSTEM.iter().any(|system| program.starts_with(system)) || directory.ends_with("node_modules/.bin") {
        return Ok(());
    }
    let text = sources.read(&program, MAX_SCRIPT).unwrap_or_default();
    let shown = || program.display().to_string();
    // A shim that exports the directory of its version manager, such as `PYENV_ROOT`, needs nothing else.
    let is_shim = directory.ends_with("shims") && !text.contains("_ROOT=") || directory.ends_with(".volta/bin");
    if is_shim {
        return Err(FilesObstacle::Shim(shown()));
    }
    let mut words = text.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default().split_whitespace();
    let is_shell =
        words.any(|word| Path::new(word).file_name().is_some_and(|name| SHELLS.iter().any(|shell| name == *shell)));
    if is_shell && !directory.ends_with("shims") { Err(FilesObstacle::OtherPrograms(shown())) } else { Ok(()) }
}

/// Collects the paths of a proposal, as they are spelled.
struct Paths<'a> {
    protected: ProtectedDirectories,
    sources: &'a dyn Sources,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
}

impl<'a> Paths<'a> {
    fn new(sources: &'a dyn Sources) -> Self {
        Self { protected: ProtectedDirectories::of(sources), sources, read: Vec::new(), write: Vec::new() }
    }

    /// Adds what the arguments and the variables name.
    fn add_line(&mut self, CommandLine { args, env, cwd, .. }: CommandLine<'_>) -> Result<(), FilesObstacle> {
        if let Some((cwd, path)) = cwd.and_then(|cwd| Some((cwd, expanded(cwd, self.sources)?))) {
            // The server may write there.
            self.check(cwd, &path)?;
        }
        for word in args {
            self.add(word.split_once('=').map_or(word.as_str(), |(_, value)| value))?;
        }
        let is_file = |name: &str| !names_certificates(name) && !LIBRARIES.contains(&name);
        for (_, value) in env.iter().filter(|(name, value)| is_file(name) && !value.contains(':')) {
            self.add(value)?;
        }
        Ok(())
    }

    /// Those to read and those to write.
    fn into_lists(self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let Self { mut read, write, .. } = self;
        read.retain(|path| !write.iter().any(|directory| path.starts_with(directory)));
        (read, write)
    }

    /// Adds what `word` names: a directory to work in, a file to read, or the directory of data. Not every word is a path.
    fn add(&mut self, word: &str) -> Result<(), FilesObstacle> {
        let Some(path) = expanded(word, self.sources) else { return Ok(()) };
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        if SYSTEM.iter().any(|system| path.starts_with(system)) || PROGRAM_ENDS.contains(&end) {
            return Ok(());
        }
        if !self.sources.exists(&path) {
            // Such as the path of a URL.
            let is_bare = path.components().count() <= 2;
            return if is_bare { Ok(()) } else { self.add_parent(word) };
        }
        if DATA_ENDS.contains(&end) {
            return self.add_parent(word);
        }
        self.check(word, &path)?;
        let is_directory = self.sources.list(&path).is_ok();
        let paths = if is_directory { &mut self.write } else { &mut self.read };
        paths.extend((!paths.contains(&PathBuf::from(word))).then(|| PathBuf::from(word)));
        Ok(())
    }

    /// Adds the directory of a file that the server creates or replaces.
    fn add_parent(&mut self, file: &str) -> Result<(), FilesObstacle> {
        let Some(path) = expanded(file, self.sources) else { return Ok(()) };
        let (Some(spelled), Some(parent)) = (Path::new(file).parent(), path.parent()) else { return Ok(()) };
        if !self.sources.exists(parent) {
            return Err(FilesObstacle::MissingPath(file.to_owned()));
        }
        self.check(file, parent)?;
        self.write.extend((!self.write.iter().any(|known| known == spelled)).then(|| spelled.to_owned()));
        Ok(())
    }

    /// Adds a path in the home directory to be read, if it exists. Returns the variable that names it.
    fn add_of_home(&mut self, (variable, place): (&str, &str)) -> Option<(String, String)> {
        let path = self.sources.home()?.join(place);
        if !self.sources.exists(&path) || self.protected.opened_by(&path).is_some() {
            return None;
        }
        self.read.push(Path::new("~").join(place));
        Some((variable.to_owned(), format!("${{HOME}}/{place}")))
    }

    fn check(&self, word: &str, path: &Path) -> Result<(), FilesObstacle> {
        let opens = self.protected.opened_by(path);
        opens.map_or(Ok(()), |_| Err(FilesObstacle::ProtectedPath(word.to_owned())))
    }
}

/// A path of the configuration that is absolute, or begins with the home directory.
pub(crate) fn expanded(word: &str, sources: &dyn Sources) -> Option<PathBuf> {
    let below = word.strip_prefix('~').or_else(|| word.strip_prefix("${HOME}"));
    let path = match below {
        Some("") => sources.home()?,
        Some(below) if below.starts_with('/') => sources.home()?.join(below.trim_start_matches('/')),
        _ => PathBuf::from(word),
    };
    (path.is_absolute() && !path.to_str()?.contains(['*', '?', '$', '{', '\n'])).then_some(path)
}

/// Whether the program of a command runs in the sandbox without mounts.
pub(crate) fn creates_mounts(command: &str) -> bool {
    table::known(&[Path::new(command).file_name().and_then(|name| name.to_str()).unwrap_or_default()])
        .any(|known| matches!(known.sandbox, SandboxNeeds::Mounts))
}

#[cfg(test)]
mod tests {
    use super::super::super::interpolate::tests::table::Table;
    use super::super::super::serialize::sandbox_text;
    use super::*;

    fn sources() -> Table {
        let programs = ["/p/npx", "/p/uvx", "/p/node", "/p/docker", "/p/bash", "/p/sudo", "/p/bwrap"];
        let mut table = Table::from([
            ("~", "/home/u"),
            ("PATH", "/p"),
            ("/home/u", ""),
            ("/home/u/notes", ""),
            ("/home/u/notes/a", "text"),
            ("/home/u/memory.json", ""),
            ("/srv/repo", ""),
            ("/srv/repo/file", ""),
            ("/srv/data", ""),
            ("/srv/data/x.db", ""),
            ("/srv/key.json", ""),
            ("/home/u/.cache/ms-playwright", ""),
            ("/home/u/.asdf/shims/npx", "#!/bin/sh\nexec asdf"),
            ("/home/u/.pyenv/shims/python", "#!/usr/bin/env bash\nexport PYENV_ROOT=x"),
            ("/home/u/start.sh", "#!/bin/sh\nexec npx x"),
            ("/home/u/go/bin/server", "binary"),
        ]);
        for program in programs {
            table.insert(program, "");
            table.insert(&format!("{program} mode"), "755");
        }
        table
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    fn proposed(line: &str, env: &[(&str, &str)]) -> String {
        let words = words(line);
        let env: Vec<_> = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let line = CommandLine { command: &words[0], args: &words[1..], env: &env, cwd: None };
        match proposal(line, &sources()) {
            Ok(Proposal { sandbox, env }) => {
                env.iter().fold(sandbox_text(&sandbox), |text, (name, value)| format!("{text} {name}={value}"))
            }
            Err(obstacle) => obstacle.to_string(),
        }
    }

    #[test]
    fn level_files_is_proposed_with_the_paths_of_the_command_line() {
        for (line, expected) in [
            ("npx -y @modelcontextprotocol/server-memory", r#""files""#),
            ("npx -y some-server --mode=fast", r#""files""#),
            (
                "npx -y @modelcontextprotocol/server-filesystem ${HOME}/notes /srv/repo",
                r#"{ level = "files", write = ["${HOME}/notes", "/srv/repo"] }"#,
            ),
            ("npx -y some ~/notes ~/notes", r#"{ level = "files", write = ["~/notes"] }"#),
            ("uvx mcp-server-git --repository=/srv/repo", r#"{ level = "files", write = ["/srv/repo"] }"#),
            // The directory of a database, also of a new one, and a file to read.
            ("uvx x --db /srv/data/x.db", r#"{ level = "files", write = ["/srv/data"] }"#),
            ("uvx x --db /srv/data/new", r#"{ level = "files", write = ["/srv/data"] }"#),
            ("uvx x --key /srv/key.json", r#"{ level = "files", read = ["/srv/key.json"] }"#),
            ("uvx x --path=/mcp --root /usr/share", r#""files""#),
            ("node /srv/repo/x.js", r#""files""#),
            ("/home/u/go/bin/server", r#""files""#),
            ("/home/u/.pyenv/shims/python /srv/x.py", r#""files""#),
            (
                "npx -y @playwright/mcp --headless",
                r#"{ level = "files", read = ["~/.cache/ms-playwright"], unix = true, namespaces = "require", nested_namespaces = true } PLAYWRIGHT_BROWSERS_PATH=${HOME}/.cache/ms-playwright"#,
            ),
        ] {
            assert_eq!(proposed(line, &[]), expected, "{line}");
        }
    }

    #[test]
    fn level_files_is_not_proposed_with_the_reason() {
        for (line, expected) in [
            ("npx -y x ~", "`~` would open your home directory or a directory of mcpd"),
            ("npx -y x /home/u/new.db", "`/home/u/new.db` would open your home directory or a directory of mcpd"),
            ("npx -y x /srv/missing/x", "`/srv/missing/x` does not exist"),
            (
                "npx -y @playwright/mcp",
                "its browser opens a window; with `--headless` in its arguments it can have `files`",
            ),
            ("docker run -i mcp/playwright", "a sandbox restricts only the client of a container, not what runs in it"),
            ("bash -c x", "`bash` runs other programs, and which files these need is not known"),
            ("/home/u/start.sh", "`/home/u/start.sh` runs other programs, and which files these need is not known"),
            (
                "/home/u/.asdf/shims/npx x",
                "`/home/u/.asdf/shims/npx` selects a program by files in your home directory",
            ),
            ("sudo x", "its command gains privileges, which no sandbox permits"),
            ("bwrap x", "its command creates mounts, which a sandbox forbids"),
            ("npx -y @wonderwhy-er/desktop-commander", "it inspects or signals other processes"),
            ("missing", "its command `missing` is not found"),
        ] {
            assert_eq!(proposed(line, &[]), expected, "{line}");
        }
    }

    #[test]
    fn paths_of_variables_are_proposed() {
        let memory = "npx -y @modelcontextprotocol/server-memory";
        for (variable, value, expected) in [
            ("MEMORY_FILE_PATH", "/home/u/notes/memory.json", r#"{ level = "files", write = ["/home/u/notes"] }"#),
            ("MEMORY_FILE_PATH", "~/notes/a", r#"{ level = "files", write = ["~/notes"] }"#),
            (
                "MEMORY_FILE_PATH",
                "${HOME}/memory.json",
                "`${HOME}/memory.json` would open your home directory or a directory of mcpd",
            ),
            ("MEMORY_FILE_PATH", "memory.json", r#""files""#),
            ("KEY", "/srv/key.json", r#"{ level = "files", read = ["/srv/key.json"] }"#),
            ("SSL_CERT_FILE", "/srv/key.json", r#""files""#),
            ("PATHS", "/srv/repo:/srv/data", r#""files""#),
            ("TOKEN", "${file:~/x}", r#""files""#),
        ] {
            assert_eq!(proposed(memory, &[(variable, value)]), expected, "{variable} {value}");
        }
    }

    #[test]
    fn configuration_of_git_can_be_read_if_it_exists() {
        let mut sources = sources();
        sources.insert("/home/u/.gitconfig", "");
        let args = words("mcp-server-git --repository /srv/repo");
        let line = CommandLine { command: "uvx", args: &args, env: &[], cwd: Some("/srv/repo") };
        let found = proposal(line, &sources).expect("it is proposed");
        assert_eq!(found.sandbox.read, [PathBuf::from("~/.gitconfig")]);
        assert_eq!(found.env, [("GIT_CONFIG_GLOBAL".to_owned(), "${HOME}/.gitconfig".to_owned())]);
        let at_home = proposal(CommandLine { cwd: Some("~"), ..line }, &sources);
        assert_eq!(at_home, Err(FilesObstacle::ProtectedPath("~".to_owned())));
    }
}
