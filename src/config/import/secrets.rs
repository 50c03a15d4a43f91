//! What is secret in a server's settings, moved into files that only their owner can read.

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::super::edit::Setting;
use super::super::interpolate::{Sources, Template};
use super::super::secret;
use super::{ForeignServer, Prompt, Settings};

/// Largest file that is looked into to see whether it holds the same.
const MAX_FILE: u64 = 1 << 20;
/// Longest name of a file, in bytes; file systems take 255.
const MAX_NAME_LEN: usize = 200;
/// Bytes of a digest in the name of a file.
const DIGEST_BYTES: usize = 8;

/// A file to be written for its owner alone, before the configuration that refers to it.
#[derive(Debug)]
pub(crate) struct SecretFile {
    /// An absolute path.
    pub(crate) path: PathBuf,
    /// Whose it is, such as `github: GITHUB_TOKEN`.
    pub(crate) of: String,
    /// What it is to hold.
    pub(crate) content: Content,
}

/// What a file is to hold. `Debug` does not show it.
pub(crate) enum Content {
    /// This.
    Known(String),
    /// What a person answers.
    Prompt(Prompt),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Known(_) => "Known(…)",
            Self::Prompt(_) => "Prompt(…)",
        })
    }
}

/// Names files, and knows those it has named.
pub(super) struct SecretExtractor<'a> {
    directory: PathBuf,
    sources: &'a dyn Sources,
    pub(super) files: Vec<SecretFile>,
}

/// One server on its way.
struct Moving<'m> {
    mover: &'m SecretExtractor<'m>,
    name: &'m str,
    files: Vec<SecretFile>,
}

impl<'a> SecretExtractor<'a> {
    pub(super) fn new(directory: &Path, sources: &'a dyn Sources) -> Self {
        Self { directory: directory.to_owned(), sources, files: Vec::new() }
    }

    /// The settings with every `${input:ID}` as the file that holds the answer.
    pub(super) fn with_inputs(&self, name: &str, server: &ForeignServer) -> Settings {
        let filled = |text: &str| {
            server.prompts.iter().fold(text.to_owned(), |text, prompt| {
                let path = self.answer_path(name, &prompt.id, server);
                text.replace(&format!("$${{input:{}}}", prompt.id), &self.reference(&path))
            })
        };
        server.settings.iter().map(|(key, setting)| (key.clone(), each_text(setting, filled))).collect()
    }

    /// The same with what looks like a secret as the file that will hold it, and those files.
    pub(super) fn moved(&self, name: &str, server: &ForeignServer) -> (Settings, Vec<SecretFile>) {
        let mut settings = self.with_inputs(name, server);
        let prompts = server.prompts.iter().map(|prompt| SecretFile {
            path: self.answer_path(name, &prompt.id, server),
            of: format!("{name}: {}", prompt.id),
            content: Content::Prompt(prompt.clone()),
        });
        // One that is there has been answered.
        let files = prompts.filter(|file| !self.is_there(&file.path)).collect();
        let mut moving = Moving { mover: self, name, files };
        for (key, setting) in &mut settings {
            match (key.as_str(), setting) {
                ("env" | "headers", Setting::Table(members)) => {
                    members.iter_mut().for_each(|(key, text)| moving.member(key, text));
                }
                ("args", Setting::List(args)) => moving.args(args),
                ("url", Setting::Text(url)) => moving.member("url", url),
                _ => {}
            }
        }
        (settings, moving.files)
    }

    pub(super) fn keep(&mut self, files: Vec<SecretFile>) {
        self.files.extend(files);
    }

    /// The file for the answer to the prompt `id` of `server`, which is imported as `name`.
    ///
    /// It is the same at each import. No other prompt has it, not even where file names differ only in case.
    fn answer_path(&self, name: &str, id: &str, server: &ForeignServer) -> PathBuf {
        let path = self.directory.join(file_name_for(name, id));
        let is_alike = |other: &Prompt| other.id != id && other.id.eq_ignore_ascii_case(id);
        let differs_in_case = |other: &SecretFile| other.path != path && is_same_ignoring_case(&other.path, &path);
        if server.prompts.iter().any(is_alike) || self.files.iter().any(differs_in_case) {
            return self.directory.join(digested_name(name, id));
        }
        path
    }

    fn is_there(&self, path: &Path) -> bool {
        self.sources.read(path, MAX_FILE).is_ok()
            || self.files.iter().any(|file| is_same_ignoring_case(&file.path, path))
    }

    /// How a text refers to the file. The directory is one to which a text can, and names of files are plain.
    fn reference(&self, path: &Path) -> String {
        reference(path, self.sources.home().as_deref()).unwrap_or_default()
    }
}

/// What stands for the file at `path` in a configuration; nothing, if no text can.
pub(crate) fn reference(path: &Path, home: Option<&Path>) -> Option<String> {
    let short = home.and_then(|home| path.strip_prefix(home).ok());
    let shown = short.map_or_else(|| path.to_owned(), |path| Path::new("~").join(path));
    let shown = shown.to_str().filter(|path| !path.contains(['}', '$', '\0', '\n']))?;
    Some(format!("${{file:{shown}}}"))
}

impl Moving<'_> {
    fn member(&mut self, key: &str, text: &mut String) {
        if let Some(value) = literal(text).filter(|value| secret::is_secret(key, value)) {
            *text = self.put(key, &value);
        }
    }

    /// `--token VALUE`, `--token=VALUE`, and values that are secrets whatever is before them.
    fn args(&mut self, args: &mut [String]) {
        let texts: Vec<_> = args.iter().map(String::as_str).collect();
        let secrets = secret::in_arguments(&texts);
        for index in secrets {
            let Some(value) = literal(&args[index]) else { continue };
            let option = index.checked_sub(1).map(|before| args[before].clone());
            let option = option.filter(|option| secret::is_secret_name(option));
            let named = value.split_once('=').filter(|(name, value)| !value.is_empty() && is_option(name));
            args[index] = match named {
                Some((name, value)) => format!("{name}={}", self.put(name, value)),
                None => self.put(option.as_deref().unwrap_or("arg"), &value),
            };
        }
    }

    /// The reference to a file that holds `value`: one that does already, or one that is not there.
    fn put(&mut self, key: &str, value: &str) -> String {
        let content = format!("{value}\n");
        let file = file_name_for(self.name, key.trim_start_matches('-'));
        let first = self.mover.directory.join(&file);
        let numbered = (2..).map(|number| first.with_file_name(format!("{file}.{number}")));
        let holds_it = |path: &Path| self.mover.sources.read(path, MAX_FILE).is_ok_and(|found| found == content);
        let is_planned = |path: &Path| self.files.iter().any(|file| is_same_ignoring_case(&file.path, path));
        let is_new = |path: &Path| !self.mover.is_there(path) && !is_planned(path);
        let mut candidates = std::iter::once(first.clone()).chain(numbered);
        let path = candidates.find(|path| holds_it(path) || is_new(path)).unwrap_or_else(|| first.clone());
        if !holds_it(&path) {
            let of = format!("{}: {key}", self.name);
            self.files.push(SecretFile { path: path.clone(), of, content: Content::Known(content) });
        }
        self.mover.reference(&path)
    }
}

/// Whether what is before a `=` names what is behind it, and can be written as it stands. A token may have a `=` in it, and
/// must not become the name of its own file.
fn is_option(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.bytes().all(is_plain) && (text.starts_with('-') || secret::is_secret_name(text))
}

/// The name of the file for the secret `key` of the server `name`: `NAME.KEY` where a file name can hold the key as it is.
fn file_name_for(name: &str, key: &str) -> String {
    let plain = format!("{name}.{key}");
    let is_plain = !key.is_empty() && !key.starts_with('-') && key.chars().all(is_fitting);
    if is_plain && plain.len() <= MAX_NAME_LEN { plain } else { digested_name(name, key) }
}

/// The same with a digest of the whole name, behind a dot, which no plain key has. So different keys get different files.
fn digested_name(name: &str, key: &str) -> String {
    let digest = Sha256::digest(format!("{name}.{key}"));
    let digest: String = digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let shown = key.trim_start_matches('-').chars().map(|c| if is_fitting(c) { c } else { '-' });
    let mut file: String = format!("{name}.").chars().chain(shown).collect();
    file.truncate(MAX_NAME_LEN - digest.len() - 1);
    format!("{file}.{digest}")
}

/// Whether a name of a file holds `c` as it is.
fn is_fitting(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// Whether two paths are one on a file system that ignores case.
fn is_same_ignoring_case(one: &Path, other: &Path) -> bool {
    one.as_os_str().eq_ignore_ascii_case(other)
}

/// What a text stands for, if it refers to nothing.
fn literal(text: &str) -> Option<String> {
    Template::parse(text).ok()?.as_literal().map(str::to_owned)
}

fn each_text(setting: &Setting, with: impl Fn(&str) -> String) -> Setting {
    match setting {
        Setting::Text(text) => Setting::Text(with(text)),
        Setting::Flag(truth) => Setting::Flag(*truth),
        Setting::List(items) => Setting::List(items.iter().map(|item| with(item)).collect()),
        Setting::Table(members) => {
            Setting::Table(members.iter().map(|(key, text)| (key.clone(), with(text))).collect())
        }
    }
}
