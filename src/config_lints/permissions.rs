//! Secrets that other users can read, and servers that work in the directories of other users' agents.

use std::path::Path;

use super::Context;
use crate::config::diagnostic::{Correction, Diagnostic};
use crate::config::interpolate::Sources;
use crate::config::notes::{Note, Use};
use crate::config::secret::is_secret;
use crate::config::{Profile, SandboxLevel, ServerConfig};

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let of_literals = context.texts().filter_map(|(_, note, purpose, template)| {
        let (Use::Value(name) | Use::Header(name), Some(text)) = (purpose, template.as_literal()) else { return None };
        if is_secret(name, text) { written_down(name, note, context.sources) } else { None }
    });
    let of_files = context.texts().flat_map(|(_, note, _, template)| {
        let files = template.files(context.sources).into_iter();
        files.filter_map(|path| {
            let who = readers(&path, context.sources)?;
            let shown = path.display();
            let help = format!("write `chmod 600 '{shown}'`");
            let warning = note.warning(format!("the secret in {shown} can be read by {who}"), help);
            Some(warning.corrected(Some(Correction::MakePrivate(path))))
        })
    });
    of_literals.chain(of_files).collect()
}

fn written_down(name: &str, note: &Note<'_>, sources: &dyn Sources) -> Option<Diagnostic> {
    let who = readers(note.file(), sources)?;
    let name = name.escape_debug();
    let message = format!("`{name}` looks like a secret, and this file can be read by {who}");
    let help = "move it to a file of its own with mode 600 and write `\"${file:PATH}\"` here, or `chmod 600` this file";
    Some(note.warning(message, help).corrected(Some(Correction::MakePrivate(note.file().to_owned()))))
}

/// Other users who can read a file, by its mode and the modes of the directories above it.
fn readers(path: &Path, sources: &dyn Sources) -> Option<&'static str> {
    let permissions = sources.permissions(path).ok()?;
    let (file, directories) = permissions.split_first()?;
    let is_open =
        |read: u32, pass: u32| file.mode & read != 0 && directories.iter().all(|directory| directory.mode & pass != 0);
    if is_open(0o004, 0o001) {
        Some("every user of this machine")
    } else {
        (is_open(0o040, 0o011) && !file.has_private_group()).then_some("other users of its group")
    }
}

pub(super) fn guest_directories(context: &Context<'_>) -> Vec<Diagnostic> {
    let profiles = context.loaded.config.profiles.iter().filter(|profile| !profile.allow_uids.is_empty());
    profiles
        .flat_map(|profile| context.servers().iter().filter_map(|server| guest_directory(context, profile, server)))
        .collect()
}

fn guest_directory(context: &Context<'_>, profile: &Profile, server: &ServerConfig) -> Option<Diagnostic> {
    let is_program = server.launch.as_ref().is_ok_and(|launch| launch.program().is_some());
    if profile.policy(server).is_none() || !server.needs_agent_directory() {
        return None;
    }
    let (name, server_name) = (&profile.name, &server.name);
    let remedy = if profile.workspace_roots.is_empty() {
        format!("add `workspace_roots` to `[profiles.{name}]`")
    } else if is_program && server.settings.sandbox.level != SandboxLevel::Files {
        "write `sandbox = \"files\"`".to_owned()
    } else {
        return None;
    };
    let message = format!("agents of other users cannot use `{server_name}`, which works in their directory");
    Some(context.name_of(server)?.warning(message, format!("{remedy}, or leave it out of profile `{name}`")))
}
