//! What mcpd asks to be allowed. Pure.
//!
//! Source: MCP 2025-11-25, `basic/authorization`, "Scope Selection Strategy" and "Step-Up Authorization Flow".

/// What has a token be renewed while nobody is there. Source: OpenID Connect Core 1.0, 11.
pub(super) const OFFLINE: &str = "offline_access";

/// What there is to choose from.
#[derive(Debug, Default)]
pub(super) struct Offered<'a> {
    /// What a person has configured.
    pub(super) configured: &'a [String],
    /// What the server has said when it refused a request.
    pub(super) challenged: &'a [String],
    /// What the login before was for.
    pub(super) before: &'a [String],
    /// What that one was too little for.
    pub(super) missing: &'a [String],
    /// What the server says that it knows.
    pub(super) of_resource: &'a [String],
    /// What the authorization server says that it knows.
    pub(super) of_issuer: &'a [String],
}

/// What is asked for. Nothing leaves it to the authorization server.
pub(super) fn chosen(offered: &Offered<'_>) -> Vec<String> {
    if !offered.configured.is_empty() {
        return offered.configured.to_vec();
    }
    let mut scopes = Vec::new();
    let first = if offered.challenged.is_empty() { offered.of_resource } else { offered.challenged };
    // What was allowed once is not given back for what is missing.
    let before = if offered.missing.is_empty() { &[][..] } else { offered.before };
    add(&mut scopes, before);
    add(&mut scopes, offered.missing);
    add(&mut scopes, first);
    // Alone it would stand in the place of all that the authorization server would give by itself.
    if !scopes.is_empty() && offered.of_issuer.iter().any(|scope| scope == OFFLINE) {
        add(&mut scopes, &[OFFLINE.to_owned()]);
    }
    scopes
}

/// Adds what is not there yet.
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
    fn the_first_that_says_something_is_heard() {
        // Configured, challenged, before, missing, of the resource, of the issuer.
        for (said, expected) in [
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
            let [configured, challenged, before, missing, of_resource, of_issuer] = said.map(words);
            let offered = Offered {
                configured: &configured,
                challenged: &challenged,
                before: &before,
                missing: &missing,
                of_resource: &of_resource,
                of_issuer: &of_issuer,
            };
            assert_eq!(chosen(&offered), words(expected), "{said:?}");
        }
    }
}
