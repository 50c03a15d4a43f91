//! What a server requires of a refused request: its `WWW-Authenticate` header, and the scopes to request for it. Pure.
//!
//! Source: RFC 9110, 11.6.1 (syntax); RFC 6750, 3 (`Bearer`, `scope`, `error`); RFC 9728, 5.1 (`resource_metadata`); MCP
//! 2025-11-25, `basic/authorization`, "Scope Selection Strategy" and "Step-Up Authorization Flow".

use http::header::{HeaderMap, WWW_AUTHENTICATE};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The error code for missing scopes.
const INSUFFICIENT: &str = "insufficient_scope";
/// Longest accepted value, in bytes: it comes from a peer, and is stored in a file.
const MAX_VALUE_LEN: usize = 4096;

/// What a server requires of a refused request.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Challenge {
    /// The URL of its metadata.
    pub(crate) resource_metadata: Option<String>,
    /// The required scopes, separated by spaces.
    pub(crate) scope: Option<String>,
    /// The error code.
    pub(crate) error: Option<String>,
}

impl Challenge {
    /// The first bearer challenge in the headers of a response; empty if there is none.
    #[must_use]
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        values.into_iter().find_map(Self::read).unwrap_or_default()
    }

    /// The first bearer challenge in one header.
    fn read(text: &str) -> Option<Self> {
        let mut rest = text;
        let mut challenge: Option<Self> = None;
        while let Some((name, behind)) = token(rest.trim_start_matches([' ', '\t', ','])) {
            let Some(value) = behind.trim_start_matches([' ', '\t']).strip_prefix('=') else {
                if challenge.is_some() {
                    break;
                }
                challenge = name.eq_ignore_ascii_case("bearer").then(Self::default);
                rest = behind;
                continue;
            };
            let (value, behind) = value_of(value.trim_start_matches([' ', '\t']));
            rest = behind;
            if let Some(challenge) = &mut challenge {
                challenge.set(name, value);
            }
        }
        challenge
    }

    fn set(&mut self, name: &str, value: String) {
        let target = match &*name.to_ascii_lowercase() {
            "resource_metadata" => &mut self.resource_metadata,
            "scope" => &mut self.scope,
            "error" => &mut self.error,
            _ => return,
        };
        if target.is_none() && !value.is_empty() && value.len() <= MAX_VALUE_LEN {
            *target = Some(value);
        }
    }

    /// Whether the token was valid but lacks scopes.
    pub(super) fn needs_more_scopes(&self) -> bool {
        self.error.as_deref() == Some(INSUFFICIENT)
    }

    /// The required scopes.
    pub(super) fn scopes(&self) -> Vec<String> {
        self.scope.as_deref().unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect()
    }
}

/// The token at the beginning, and the rest.
fn token(text: &str) -> Option<(&str, &str)> {
    let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, ',' | '=' | '"');
    let (token, behind) = text.split_at(text.find(is_end).unwrap_or(text.len()));
    (!token.is_empty()).then_some((token, behind))
}

/// The value at the beginning, quoted or not, and the rest.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, behind) = text.split_at(text.find([',', ' ', '\t']).unwrap_or(text.len()));
        return (value.to_owned(), behind);
    };
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, c) in quoted.char_indices() {
        match c {
            '\\' if !is_escaped => is_escaped = true,
            '"' if !is_escaped => return (value, &quoted[at + 1..]),
            c => {
                is_escaped = false;
                value.push(c);
            }
        }
    }
    (value, "")
}

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
pub(super) fn choose_scopes(sources: &ScopeSources<'_>) -> Vec<String> {
    if !sources.configured.is_empty() {
        return sources.configured.to_vec();
    }
    let mut scopes = Vec::new();
    let first = if sources.challenged.is_empty() { sources.resource } else { sources.challenged };
    // A step-up keeps the scopes that were granted before.
    let before = if sources.missing.is_empty() { &[][..] } else { sources.before };
    add_scopes(&mut scopes, before);
    add_scopes(&mut scopes, sources.missing);
    add_scopes(&mut scopes, first);
    // Alone it would replace the authorization server's default scopes.
    if !scopes.is_empty() && sources.issuer.iter().any(|scope| scope == OFFLINE_ACCESS) {
        add_scopes(&mut scopes, &[OFFLINE_ACCESS.to_owned()]);
    }
    scopes
}

/// Adds scopes that are not included yet.
pub(super) fn add_scopes(scopes: &mut Vec<String>, more: &[String]) {
    for scope in more {
        if !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[&str]) -> Challenge {
        let values = headers.iter().map(|text| (WWW_AUTHENTICATE, text.parse().expect("a header")));
        Challenge::of(&values.collect())
    }

    #[test]
    fn challenge_is_read_in_every_notation() {
        let full = Challenge {
            resource_metadata: Some("https://a.org/x?y=1,2".into()),
            scope: Some("a b".into()),
            error: Some("invalid_token".into()),
        };
        let written =
            r#"Bearer realm="x", resource_metadata="https://a.org/x?y=1,2", scope="a b", error="invalid_token""#;
        for headers in [
            &[written][..],
            &["Basic realm=\"Bearer scope=c\"", written],
            &["Negotiate abc==", written],
            &[
                r#"Basic realm="x", bearer  Error = invalid_token , SCOPE="a b",resource_metadata="https://a.org/x?y=1,2",Basic scope=z"#,
            ],
            &[r#"Bearer error="invalid_token" scope="a b" resource_metadata="https://a.org/x?y=1,2" scope="other""#],
            &[r#"Bearer error="invalid\_token",,scope="a\ b",resource_metadata="https://a.org/x?y=1,2"#],
        ] {
            assert_eq!(of(headers), full, "{headers:?}");
        }
        assert_eq!(full.scopes(), ["a", "b"]);
    }

    #[test]
    fn other_challenges_are_empty() {
        let long = format!("Bearer scope=\"{}\"", "x".repeat(MAX_VALUE_LEN + 1));
        for headers in
            [&[][..], &["Bearer"], &["Basic scope=a"], &[""], &["=x"], &["\"Bearer"], &["Bearer =,=\""], &[&long]]
        {
            assert_eq!(of(headers), Challenge::default(), "{headers:?}");
        }
    }

    #[test]
    fn missing_scopes_are_recognized() {
        for (text, expected) in [("Bearer error=insufficient_scope", true), ("Bearer error=invalid_token", false)] {
            assert_eq!(of(&[text]).needs_more_scopes(), expected);
        }
    }

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
            assert_eq!(choose_scopes(&sources), words(expected), "{sources:?}");
        }
    }
}
