//! Moves secrets of a server's settings into files that only their owner can read.

use std::fmt;
use std::path::{Path, PathBuf};

use super::super::interpolate::{Sources, Template};
use super::super::secret;
use super::super::serialize::Setting;
use super::foreign::{ForeignServer, Prompt, Settings};
use crate::sha256;

/// Maximum size of an existing file that is compared to a secret.
const MAX_FILE: u64 = 1 << 20;
/// Maximum length of a file name, in bytes. File systems accept 255.
const MAX_NAME_LEN: usize = 200;
/// Digits of the digest in a file name.
const DIGEST_LEN: usize = 16;

/// A file with mode 0600, to be written before the configuration that refers to it.
#[derive(Debug)]
pub(crate) struct SecretFile {
    /// An absolute path.
    pub(crate) path: PathBuf,
    /// Its server and key, such as `github: GITHUB_TOKEN`.
    pub(crate) of: String,
    /// Its content.
    pub(crate) content: Content,
}

/// The content of a file. `Debug` does not print it.
pub(crate) enum Content {
    /// This text.
    Known(String),
    /// The answer to a prompt.
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

/// Assigns file names, and remembers them.
pub(super) struct SecretExtractor<'a> {
    directory: PathBuf,
    sources: &'a dyn Sources,
    pub(super) files: Vec<SecretFile>,
}

/// The state of one server.
struct Moving<'m> {
    mover: &'m SecretExtractor<'m>,
    name: &'m str,
    files: Vec<SecretFile>,
}

impl<'a> SecretExtractor<'a> {
    pub(super) fn new(directory: &Path, sources: &'a dyn Sources) -> Self {
        Self { directory: directory.to_owned(), sources, files: Vec::new() }
    }

    /// Replaces every `${input:ID}` in the settings by a reference to the file with the answer.
    pub(super) fn with_inputs(&self, name: &str, server: &ForeignServer) -> Settings {
        let filled = |text: &str| {
            server.prompts.iter().fold(text.to_owned(), |text, prompt| {
                let path = self.answer_path(name, &prompt.id, server);
                text.replace(&format!("$${{input:{}}}", prompt.id), &self.reference(&path))
            })
        };
        server.settings.iter().map(|(key, setting)| (key.clone(), each_text(setting, filled))).collect()
    }

    /// Replaces likely secrets in the settings by references to files. Returns the settings and these files.
    pub(super) fn moved(&self, name: &str, server: &ForeignServer) -> (Settings, Vec<SecretFile>) {
        let mut settings = self.with_inputs(name, server);
        let prompts = server.prompts.iter().map(|prompt| SecretFile {
            path: self.answer_path(name, &prompt.id, server),
            of: format!("{name}: {}", prompt.id),
            content: Content::Prompt(prompt.clone()),
        });
        // The file of an answered prompt exists.
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
    /// It is equal for each import. No other prompt has it, even on file systems that ignore case.
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

    /// The reference to the file. It always exists: the directory can be referred to, and file names are plain.
    fn reference(&self, path: &Path) -> String {
        reference(path, self.sources.home().as_deref()).unwrap_or_default()
    }
}

/// The reference to the file at `path`. `None` if no reference can contain the path.
pub(crate) fn reference(path: &Path, home: Option<&Path>) -> Option<String> {
    let short = home.and_then(|home| path.strip_prefix(home).ok());
    let shown = short.map_or_else(|| path.to_owned(), |path| Path::new("~").join(path));
    let shown = shown.to_str().filter(|path| !path.contains(['}', '$', '\0', '\n']))?;
    Some(format!("${{file:{shown}}}"))
}

impl Moving<'_> {
    fn member(&mut self, key: &str, text: &mut String) {
        match literal(text) {
            Some(value) if secret::is_secret(key, &value) => *text = self.put(key, &value),
            Some(_) => {}
            None => self.between_references(key, text),
        }
    }

    /// Secrets beside references: `postgres://me:X@${HOST}`.
    fn between_references(&mut self, key: &str, text: &mut String) {
        let moved = |part: &str| secret::is_secret_value(part).then(|| self.put(key, part));
        if let Some(new) = Template::parse(text).ok().and_then(|template| template.with_literals(moved)) {
            *text = new;
        }
    }

    /// `--token VALUE`, `--token=VALUE`, and values that are secrets by their form.
    fn args(&mut self, args: &mut [String]) {
        let texts: Vec<_> = args.iter().map(String::as_str).collect();
        let secrets = secret::in_arguments(&texts);
        for index in secrets {
            let option = index.checked_sub(1).map(|before| args[before].clone());
            let option = option.filter(|option| secret::is_secret_name(option));
            let Some(value) = literal(&args[index]) else {
                self.between_references(option.as_deref().unwrap_or("arg"), &mut args[index]);
                continue;
            };
            let named = value.split_once('=').filter(|(name, value)| !value.is_empty() && is_option(name));
            args[index] = match named {
                Some((name, value)) => format!("{name}={}", self.put(name, value)),
                None => self.put(option.as_deref().unwrap_or("arg"), &value),
            };
        }
    }

    /// The reference to a file with `value`: an existing one, or a new one.
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

/// Whether the text before a `=` is a plain key for the value after it. A token can contain a `=`, and must not become the name of its own
/// file.
fn is_option(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.bytes().all(is_plain) && (text.starts_with('-') || secret::is_secret_name(text))
}

/// The file name for the secret `key` of the server `name`: `NAME.KEY` if the key is valid in a file name.
fn file_name_for(name: &str, key: &str) -> String {
    let plain = format!("{name}.{key}");
    let is_plain = !key.is_empty() && !key.starts_with('-') && key.chars().all(is_fitting);
    if is_plain && plain.len() <= MAX_NAME_LEN { plain } else { digested_name(name, key) }
}

/// A file name with a digest after a dot. Plain keys have no dot, so different keys get different files.
fn digested_name(name: &str, key: &str) -> String {
    let digest = &sha256::hexadecimal(format!("{name}.{key}"))[..DIGEST_LEN];
    let shown = key.trim_start_matches('-').chars().map(|c| if is_fitting(c) { c } else { '-' });
    let mut file: String = format!("{name}.").chars().chain(shown).collect();
    file.truncate(MAX_NAME_LEN - digest.len() - 1);
    format!("{file}.{digest}")
}

/// Whether a file name can contain `c` unchanged.
fn is_fitting(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

/// Whether two paths are equal on a file system that ignores case.
fn is_same_ignoring_case(one: &Path, other: &Path) -> bool {
    one.as_os_str().eq_ignore_ascii_case(other)
}

/// The value of a text without references.
fn literal(text: &str) -> Option<String> {
    Template::parse(text).ok()?.as_literal().map(str::to_owned)
}

pub(super) fn each_text(setting: &Setting, with: impl Fn(&str) -> String) -> Setting {
    match setting {
        Setting::Text(text) => Setting::Text(with(text)),
        Setting::Flag(_) | Setting::Sandbox(_) | Setting::Explained(..) => setting.clone(),
        Setting::List(items) => Setting::List(items.iter().map(|item| with(item)).collect()),
        Setting::Table(members) => {
            Setting::Table(members.iter().map(|(key, text)| (key.clone(), with(text))).collect())
        }
    }
}
