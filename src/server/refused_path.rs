//! Paths that a program reports as missing or refused, as those are that its sandbox hides. Pure.

use serde::{Deserialize, Serialize};

/// What the error texts of systems and runtimes contain, in lower case.
const REFUSALS: [(&str, Refusal); 7] = [
    ("erofs", Refusal::Change),
    ("read-only file system", Refusal::Change),
    ("eacces", Refusal::Denied),
    ("permission denied", Refusal::Denied),
    ("enoent", Refusal::Missing),
    ("no such file or directory", Refusal::Missing),
    ("cannot find module", Refusal::Missing),
];
/// What they contain if the program has tried to change a directory.
const CHANGES: [&str; 9] =
    ["mkdir", "rmdir", "unlink", "rename", "symlink", "copyfile", "cannot create", "cannot touch", "cannot remove"];
/// The longest path of the system, in bytes.
const MAX_PATH: usize = 4096;

/// A path that a program could not use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RefusedPath {
    /// An absolute path, as the program wrote it.
    pub path: String,
    /// Why it could not be used.
    pub refusal: Refusal,
}

/// Why a program could not use a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// It does not exist for the program.
    Missing,
    /// The system denies access.
    Denied,
    /// The program cannot change it, or what is in its directory.
    Change,
}

/// The paths that a line of an error text reports as missing or refused.
pub(crate) fn refused_paths(line: &str) -> Vec<RefusedPath> {
    let lower = line.to_ascii_lowercase();
    let Some((_, refusal)) = REFUSALS.iter().find(|(text, _)| lower.contains(text)) else { return Vec::new() };
    let refusal = if CHANGES.iter().any(|text| lower.contains(text)) { Refusal::Change } else { *refusal };
    let quoted = |quote: char| line.split(quote).skip(1).step_by(2).filter(|text| text.starts_with('/'));
    let mut paths: Vec<_> = ['\'', '"', '`'].into_iter().flat_map(quoted).collect();
    if paths.is_empty() {
        paths.extend(unquoted(line));
    }
    let is_path = |path: &&str| (2..=MAX_PATH).contains(&path.len());
    paths.into_iter().filter(is_path).map(|path| RefusedPath { path: path.to_owned(), refusal }).collect()
}

/// The first absolute path of a line.
fn unquoted(line: &str) -> Option<&str> {
    let is_start = |(at, _): &(usize, &str)| line[..*at].chars().next_back().is_none_or(|c| " (=:".contains(c));
    let (start, _) = line.match_indices('/').find(is_start)?;
    let path = &line[start..];
    Some(&path[..path.find([' ', ',', ':', ')', ';']).unwrap_or(path.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_paths_are_found_in_the_messages_of_common_runtimes() {
        let (missing, denied, change) = (Refusal::Missing, Refusal::Denied, Refusal::Change);
        let rows: [(&str, &[&str], Refusal); 16] = [
            ("Error: EACCES: permission denied, open '/home/u/my notes/a.md'", &["/home/u/my notes/a.md"], denied),
            ("PermissionError: [Errno 13] Permission denied: '/srv/data'", &["/srv/data"], denied),
            ("cat: /home/u/x: Permission denied", &["/home/u/x"], denied),
            ("bash: line 1: /opt/tool/run: Permission denied", &["/opt/tool/run"], denied),
            ("open /home/u/x: permission denied", &["/home/u/x"], denied),
            ("Error: ENOENT: no such file or directory, open '/home/u/notes'", &["/home/u/notes"], missing),
            ("Error: ENOENT: no such file or directory, mkdir '/home/u/new'", &["/home/u/new"], change),
            ("Error: EROFS: read-only file system, rename '/s/a' -> '/s/b'", &["/s/a", "/s/b"], change),
            ("FileNotFoundError: [Errno 2] No such file or directory: '/d/x'", &["/d/x"], missing),
            ("OSError: [Errno 30] Read-only file system: '/d/x'", &["/d/x"], change),
            ("touch: cannot touch '/d/x': Permission denied", &["/d/x"], change),
            ("Error: Cannot find module '/home/u/s/index.js'", &["/home/u/s/index.js"], missing),
            ("[ERR_MODULE_NOT_FOUND]: Cannot find module '/s/a.js' imported from /s/b.js", &["/s/a.js"], missing),
            ("stat /home/u/x: no such file or directory", &["/home/u/x"], missing),
            ("permission denied", &[], denied),
            ("EACCES and/or something else, in 'a/b'", &[], denied),
        ];
        for (line, paths, refusal) in rows {
            let expected: Vec<_> = paths.iter().map(|path| RefusedPath { path: (*path).to_owned(), refusal }).collect();
            assert_eq!(refused_paths(line), expected, "{line}");
        }
        assert_eq!(refused_paths("cannot open '/home/u/x'"), []);
    }
}
