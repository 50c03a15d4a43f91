//! The offer of `mcpd add` and `mcpd import`: a new server gets the version that the user's own cache has.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use crate::cli::prompt;
use crate::config::import::{command_line, set_args};
use crate::config::interpolate::{Process, Sources};
use crate::config::known_commands::{PackageWord, Requirement, package_words};
use crate::config::serialize::Setting;
use crate::config::{Launch, ServerConfig, environment};
use crate::packages::installed_packages;
use crate::printable;

/// The versions of a new server.
struct Proposal {
    args: Vec<String>,
    /// Each package with its version.
    words: Vec<String>,
}

/// Why a new server got no version.
pub(in crate::cli) enum Unlocked {
    /// Nobody can be asked: the packages with the versions that `--yes` writes.
    Unanswered(Vec<String>),
    /// The cache does not have it, or the user declined.
    Newest,
}

impl Unlocked {
    /// The note for the user.
    pub(in crate::cli) fn note(&self, name: &str) -> String {
        match self {
            Self::Unanswered(words) => format!(
                "note: `--yes` writes `{}`, the version that your cache has, so that no other version of {name} runs",
                printable::one_line(&words.join(" "))
            ),
            Self::Newest => format!(
                "note: {name} runs the newest version at each start: `mcpd lock {name}` writes the version that runs, after its \
                 first start"
            ),
        }
    }
}

/// Writes the versions that the user's cache has into these settings of the server `name`, if the user agrees.
pub(in crate::cli) fn propose(
    name: &str,
    yes: bool,
    settings: &mut Vec<(String, Setting)>,
) -> io::Result<Option<Unlocked>> {
    if !is_unlocked(settings) {
        return Ok(None);
    }
    let Some(Proposal { args, words }) = proposal(settings) else { return Ok(Some(Unlocked::Newest)) };
    if !yes && !prompt::is_possible() {
        return Ok(Some(Unlocked::Unanswered(words)));
    }
    let question =
        format!("Lock {name} at the version that your cache has, `{}`?", printable::one_line(&words.join(" ")));
    if yes || prompt::confirm_default(&question)? {
        set_args(args, settings);
        return Ok(None);
    }
    Ok(Some(Unlocked::Newest))
}

/// The arguments of a new server with the versions that the user's cache has.
pub(in crate::cli) fn locked_args(settings: &[(String, Setting)]) -> Option<Vec<String>> {
    proposal(settings).map(|proposal| proposal.args)
}

/// Whether a server runs a package without an exact version.
pub(in crate::cli) fn runs_any_version(server: &ServerConfig) -> bool {
    let program = server.launch.as_ref().ok().and_then(Launch::program);
    program.is_some_and(|program| package_words(&program.command, &program.args).iter().any(is_open))
}

fn is_open(word: &PackageWord) -> bool {
    matches!(word.requirement, Requirement::Newest | Requirement::Range(_))
}

/// Whether these settings run a package without an exact version.
fn is_unlocked(settings: &[(String, Setting)]) -> bool {
    let words = command_line(settings).map(|(command, args)| package_words(command, args));
    words.is_some_and(|words| words.iter().any(is_open))
}

fn proposal(settings: &[(String, Setting)]) -> Option<Proposal> {
    let (command, args) = command_line(settings)?;
    if !is_unlocked(settings) {
        return None;
    }
    let mut env = environment::passed(Process.variables("").into_iter(), &[]);
    env.extend(configured_env(settings));
    let home = || Process.home().unwrap_or_else(|| PathBuf::from("/"));
    let cwd = settings.iter().find_map(|(key, setting)| match setting {
        Setting::Text(cwd) if key == "cwd" && !cwd.contains("${") => Some(PathBuf::from(cwd)),
        _ => None,
    });
    let (mut args, mut words) = (args.to_vec(), Vec::new());
    for (word, found) in installed_packages(command, &args.clone(), &env, &cwd.unwrap_or_else(home)) {
        if word.version().is_some() {
            continue;
        }
        let version = found.ok()?.version;
        args[word.index] = word.with_version(&version);
        words.push(args[word.index].clone());
    }
    Some(Proposal { args, words })
}

/// The variables of these settings whose values have no references.
fn configured_env(settings: &[(String, Setting)]) -> BTreeMap<String, String> {
    let tables = settings.iter().filter(|(key, _)| key == "env").filter_map(|(_, setting)| match setting {
        Setting::Table(env) => Some(env),
        _ => None,
    });
    tables.flatten().filter(|(_, value)| !value.contains("${")).cloned().collect()
}
