//! What the browser brings back from the authorization server. Pure.
//!
//! Source: RFC 6749, 4.1.2; RFC 9207 (`iss`).

use url::form_urlencoded::parse;

use super::answer::quoted;
use super::request::Secret;

/// What an answer to one question looks like.
#[derive(Clone)]
pub(super) struct Expected {
    pub(super) state: Secret,
    pub(super) issuer: String,
    /// Whether each answer says who gives it.
    pub(super) names_issuer: bool,
}

/// Why an answer has no code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoCode {
    /// It is none to this question: whoever sends it, the right one may still come.
    Foreign,
    /// It is, and ends the login. For a person, on one line.
    Refused(String),
}

impl Expected {
    /// The code in the `query` of an answer.
    pub(super) fn code(&self, query: &str) -> Result<String, NoCode> {
        let one =
            |name: &str| parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        if one("state").as_deref() != Some(self.state.text()) {
            return Err(NoCode::Foreign);
        }
        let refused = |reason: &str| NoCode::Refused(reason.to_owned());
        match one("iss") {
            Some(issuer) if issuer != self.issuer => {
                return Err(refused("the answer is that of another authorization server"));
            }
            None if self.names_issuer => {
                return Err(refused("the answer does not say which authorization server gives it"));
            }
            _ => {}
        }
        if let Some(error) = one("error") {
            let description = one("error_description").map(|text| format!(" ({})", quoted(&text))).unwrap_or_default();
            return Err(NoCode::Refused(format!("the authorization server says {}{description}", quoted(&error))));
        }
        one("code").filter(|code| !code.is_empty()).ok_or_else(|| refused("the answer has no code in it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_taken_only_from_an_answer_to_the_question() {
        let state = Secret::fresh().expect("chance");
        let expected = |names_issuer| Expected { state: state.clone(), issuer: "https://b.org".into(), names_issuer };
        let refused = |reason: &str| Err(NoCode::Refused(reason.into()));
        for (query, names_issuer, result) in [
            ("code=c%2F1&state=S", false, Ok("c/1".to_owned())),
            ("code=c&state=S&iss=https%3A%2F%2Fb.org", true, Ok("c".to_owned())),
            ("code=c", false, Err(NoCode::Foreign)),
            ("code=c&state=other", false, Err(NoCode::Foreign)),
            ("code=c&state=other&state=S", false, Err(NoCode::Foreign)),
            ("error=access_denied&state=other", false, Err(NoCode::Foreign)),
            ("", false, Err(NoCode::Foreign)),
            ("state=S", false, refused("the answer has no code in it")),
            ("code=&state=S", false, refused("the answer has no code in it")),
            (
                "code=c&state=S&iss=https://evil.org",
                false,
                refused("the answer is that of another authorization server"),
            ),
            ("code=c&state=S&iss=https://b.org/", false, refused("the answer is that of another authorization server")),
            ("code=c&state=S", true, refused("the answer does not say which authorization server gives it")),
            (
                "error=access_denied&error_description=not%0Anow&state=S",
                false,
                refused("the authorization server says access_denied (not\\nnow)"),
            ),
        ] {
            let query = query.replace("=S", &format!("={}", state.text()));
            assert_eq!(expected(names_issuer).code(&query), result, "{query}");
        }
    }
}
