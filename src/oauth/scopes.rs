//! Chooses the scopes to request. Pure.
//!
//! Source: MCP 2025-11-25, `basic/authorization`, "Scope Selection Strategy" and "Step-Up Authorization Flow".

/// The scope for refresh tokens. Source: OpenID Connect Core 1.0, 11.
pub(super) const OFFLINE_ACCESS: &str = "offline_access";

/// Sources of scopes.
#[derive(Debug, Default)]
pub(super) struct ScopeSources<'a> {
    /// Scopes in the configuration.
    pub(super) configured: &'a [String],
    /// Scopes in the server's challenge.
    pub(super) challenged: &'a [String],
    /// Scopes of the previous login.
    pub(super) before: &'a [String],
    /// Scopes that the previous login lacked.
    pub(super) missing: &'a [String],
    /// Scopes in the server's metadata.
    pub(super) resource: &'a [String],
    /// Scopes in the authorization server's metadata.
    pub(super) issuer: &'a [String],
}

/// The scopes to request. None leaves the choice to the authorization server.
pub(super) fn choose(sources: &ScopeSources<'_>) -> Vec<String> {
    if !sources.configured.is_empty() {
        return sources.configured.to_vec();
    }
    let mut scopes = Vec::new();
    let first = if sources.challenged.is_empty() { sources.resource } else { sources.challenged };
    // A step-up keeps the scopes that were granted before.
    let before = if sources.missing.is_empty() { &[][..] } else { sources.before };
    add(&mut scopes, before);
    add(&mut scopes, sources.missing);
    add(&mut scopes, first);
    // Alone it would replace the authorization server's default scopes.
    if !scopes.is_empty() && sources.issuer.iter().any(|scope| scope == OFFLINE_ACCESS) {
        add(&mut scopes, &[OFFLINE_ACCESS.to_owned()]);
    }
    scopes
}

/// Adds scopes that are not included yet.
pub(super) fn add(scopes: &mut Vec<String>, more: &[String]) {
    for scope in more {
        if !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn scopes_come_from_the_first_source_that_has_any() {
        // Configured, challenged, before, missing, of the resource, of the issuer.
        for (sources, expected) in [
            (["", "", "", "", "", ""], ""),
            (["c", "w", "b", "m", "r", "offline_access"], "c"),
            (["", "w", "", "", "r", ""], "w"),
            (["", "", "", "", "r s", ""], "r s"),
            (["", "w", "b", "", "r", ""], "w"),
            (["", "w", "b", "m w", "r", ""], "b m w"),
            (["", "", "b", "m", "r", ""], "b m r"),
            (["", "w", "", "", "", "x offline_access"], "w offline_access"),
            (["", "", "", "", "", "offline_access"], ""),
            (["", "w offline_access", "", "", "", "offline_access"], "w offline_access"),
        ] {
            let [configured, challenged, before, missing, resource, issuer] = sources.map(words);
            let sources = ScopeSources {
                configured: &configured,
                challenged: &challenged,
                before: &before,
                missing: &missing,
                resource: &resource,
                issuer: &issuer,
            };
            assert_eq!(choose(&sources), words(expected), "{sources:?}");
        }
    }
}
