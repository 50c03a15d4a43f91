//! Servers that work in the directory of their agent, in profiles for other users.

use super::Context;
use crate::config::diagnostic::Diagnostic;
use crate::config::{Profile, SandboxLevel, ServerConfig};

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let profiles = context.loaded.config.profiles.iter().filter(|profile| !profile.allow_uids.is_empty());
    profiles
        .flat_map(|profile| context.servers().iter().filter_map(|server| warning(context, profile, server)))
        .collect()
}

fn warning(context: &Context<'_>, profile: &Profile, server: &ServerConfig) -> Option<Diagnostic> {
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
