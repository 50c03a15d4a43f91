//! Names that agents see changed: shortened, or prefixed because another server has the name.

use super::{Context, some};
use crate::catalog::{Catalog, Lists, Names, Source};
use crate::config::diagnostic::Diagnostic;
use crate::config::{Profile, ServerConfig};
use crate::list_kind::ListKind;
use crate::naming::{MAX_LENGTH, Naming};
use crate::policy::Policy;

pub(super) fn warnings(context: &Context<'_>) -> Vec<Diagnostic> {
    let mut seen: Vec<Naming> = Vec::new();
    let mut warnings = Vec::new();
    for profile in &context.loaded.config.profiles {
        // Profiles with the same naming most likely have the same findings.
        if !seen.contains(&profile.naming) {
            seen.push(profile.naming);
            warnings.extend(in_profile(context, profile));
        }
    }
    warnings
}

/// A server in a profile.
struct ProfileServer<'a> {
    server: &'a ServerConfig,
    policy: Policy,
    lists: Lists,
}

impl ProfileServer<'_> {
    fn source(&self) -> Source<'_> {
        let ServerConfig { name, settings, tool_overrides, .. } = self.server;
        Source { name, policy: &self.policy, settings, overrides: tool_overrides, lists: &self.lists }
    }
}

fn in_profile(context: &Context<'_>, profile: &Profile) -> Vec<Diagnostic> {
    let seen = context.servers().iter().zip(&context.known).filter_map(|(server, lists)| {
        Some(ProfileServer { server, policy: profile.policy(server)?, lists: lists.clone().unwrap_or_default() })
    });
    let seen: Vec<_> = seen.collect();
    let sources: Vec<_> = seen.iter().map(ProfileServer::source).collect();
    let catalog = Catalog::build(&mut Names::default(), profile.naming, &sources, usize::MAX);
    let of_server = |(index, ProfileServer { server, .. }): (usize, &ProfileServer<'_>)| {
        let note = context.name_of(server)?;
        let (complaint, help) = complaint(&catalog, profile.naming, index, server)?;
        let whole = &*profile.name == Profile::DEFAULT;
        Some(note.warning(complaint, if whole { help } else { format!("in profile `{}` {help}", profile.name) }))
    };
    seen.iter().enumerate().filter_map(of_server).collect()
}

/// Shortened names are reported first, because a user can do more about them.
fn complaint(catalog: &Catalog, naming: Naming, index: usize, server: &ServerConfig) -> Option<(String, String)> {
    let routes = [ListKind::Tools, ListKind::Prompts].into_iter().flat_map(|kind| catalog.routes(kind));
    let routes = routes.filter(|(_, route)| route.server == index);
    let (mut shortened, mut prefixed) = (Vec::new(), Vec::new());
    for (exposed, route) in routes {
        let candidates = naming.whole(&server.name, server.tool_overrides.shown_name(&route.name));
        if candidates.iter().any(|name| *name == exposed) {
            if exposed != candidates[0] {
                prefixed.push(exposed);
            }
        } else {
            shortened.push(exposed);
        }
    }
    if !shortened.is_empty() {
        let names = some(shortened.iter().copied());
        let message = format!(
            "names of `{}` are longer than {MAX_LENGTH} characters, or have others than A-Z a-z 0-9 _ -",
            server.name
        );
        return Some((message, format!("agents see {names}: give the server a shorter name")));
    }
    let shadowed: usize = catalog.exposure()[index].iter().map(|(_, exposure)| exposure.shadowed).sum();
    if !prefixed.is_empty() {
        let message = format!("some tools or prompts of `{}` have a name of another server", server.name);
        return Some((message, format!("agents see {}: this is not an error", some(prefixed.iter().copied()))));
    }
    (shadowed > 0).then(|| {
        let message = format!("`{}`: {}", server.name, shadowed_resources(shadowed));
        (message, DENY_SHADOWED.to_owned())
    })
}

/// Advice for resources that are not listed because of an earlier server.
pub(crate) const DENY_SHADOWED: &str = "hide one of the two with `deny` in its `[servers.NAME.resources]`";

/// The warning about resources that are not listed because of an earlier server.
pub(crate) fn shadowed_resources(count: usize) -> String {
    match count {
        1 => "1 resource is not listed: an earlier server has the same URI or template".to_owned(),
        _ => format!("{count} resources are not listed: an earlier server has the same URIs or templates"),
    }
}
