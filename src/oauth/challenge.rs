//! What a refusal says of how to be let in: the `WWW-Authenticate` of a 401 or 403. Pure.
//!
//! Source: RFC 9110, 11.6.1 (its form); RFC 6750, 3 (`Bearer`, `scope`, `error`); RFC 9728, 5.1 (`resource_metadata`).

use http::header::{HeaderMap, WWW_AUTHENTICATE};
use serde::{Deserialize, Serialize};

/// What is for a token that allows too little.
const INSUFFICIENT: &str = "insufficient_scope";
/// Longest value that is kept, in bytes: it comes from a peer, and goes into a file.
const LONGEST: usize = 4096;

/// What a server has said when it refused a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Challenge {
    /// Where its metadata is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resource_metadata: Option<String>,
    /// What a token has to allow, with blanks between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl Challenge {
    /// The first that is about tokens in the headers of a response. Empty if there is none: then the status says all.
    #[must_use]
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        values.into_iter().find_map(Self::read).unwrap_or_default()
    }

    /// The first that is about tokens in one header.
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
                challenge.keep(name, value);
            }
        }
        challenge
    }

    fn keep(&mut self, name: &str, value: String) {
        let place = match &*name.to_ascii_lowercase() {
            "resource_metadata" => &mut self.resource_metadata,
            "scope" => &mut self.scope,
            "error" => &mut self.error,
            _ => return,
        };
        if place.is_none() && !value.is_empty() && value.len() <= LONGEST {
            *place = Some(value);
        }
    }

    /// Whether the token was good and allows too little.
    pub(super) fn wants_more(&self) -> bool {
        self.error.as_deref() == Some(INSUFFICIENT)
    }

    /// What a token has to allow.
    pub(super) fn scopes(&self) -> Vec<String> {
        self.scope.as_deref().unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect()
    }
}

/// The token at the beginning, and what is behind it.
fn token(text: &str) -> Option<(&str, &str)> {
    let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, ',' | '=' | '"');
    let (token, behind) = text.split_at(text.find(is_end).unwrap_or(text.len()));
    (!token.is_empty()).then_some((token, behind))
}

/// The value at the beginning, quoted or not, and what is behind it.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[&str]) -> Challenge {
        let values = headers.iter().map(|text| (WWW_AUTHENTICATE, text.parse().expect("a header")));
        Challenge::of(&values.collect())
    }

    #[test]
    fn what_a_server_wants_is_read_however_it_is_written() {
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
    fn what_says_nothing_of_tokens_is_empty() {
        let long = format!("Bearer scope=\"{}\"", "x".repeat(LONGEST + 1));
        for headers in
            [&[][..], &["Bearer"], &["Basic scope=a"], &[""], &["=x"], &["\"Bearer"], &["Bearer =,=\""], &[&long]]
        {
            assert_eq!(of(headers), Challenge::default(), "{headers:?}");
        }
    }

    #[test]
    fn a_token_that_allows_too_little_is_known() {
        for (text, expected) in [("Bearer error=insufficient_scope", true), ("Bearer error=invalid_token", false)] {
            assert_eq!(of(&[text]).wants_more(), expected);
        }
    }
}
