//! Checks the callback of an authorization server. Pure.
//!
//! Source: RFC 6749, 4.1.2; RFC 9207 (`iss`).

use url::form_urlencoded::parse;

use super::request::Secret;
use super::token_response::quoted;

/// The expected callback of one login.
#[derive(Clone)]
pub(super) struct ExpectedCallback {
    pub(super) state: Secret,
    pub(super) issuer: String,
    /// Whether the callback must name its issuer.
    pub(super) names_issuer: bool,
}

/// Why a callback has no code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CallbackError {
    /// It belongs to another login. The right one may still come.
    OtherLogin,
    /// The login was refused. For a person, on one line.
    Refused(String),
}

impl ExpectedCallback {
    /// The code in the `query` of a callback.
    pub(super) fn code(&self, query: &str) -> Result<String, CallbackError> {
        let one =
            |name: &str| parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        if one("state").as_deref() != Some(self.state.text()) {
            return Err(CallbackError::OtherLogin);
        }
        let refused = |reason: &str| CallbackError::Refused(reason.to_owned());
        match one("iss") {
            Some(issuer) if issuer != self.issuer => {
                return Err(refused("the response is from another authorization server"));
            }
            None if self.names_issuer => {
                return Err(refused("the response does not name its authorization server"));
            }
            _ => {}
        }
        if let Some(error) = one("error") {
            let description = one("error_description").map(|text| format!(" ({})", quoted(&text))).unwrap_or_default();
            return Err(CallbackError::Refused(format!(
                "the authorization server answers {}{description}",
                quoted(&error)
            )));
        }
        one("code").filter(|code| !code.is_empty()).ok_or_else(|| refused("the response has no code"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_accepted_only_from_the_expected_callback() {
        let state = Secret::fresh().expect("a random token");
        let expected =
            |names_issuer| ExpectedCallback { state: state.clone(), issuer: "https://b.org".into(), names_issuer };
        let refused = |reason: &str| Err(CallbackError::Refused(reason.into()));
        for (query, names_issuer, result) in [
            ("code=c%2F1&state=S", false, Ok("c/1".to_owned())),
            ("code=c&state=S&iss=https%3A%2F%2Fb.org", true, Ok("c".to_owned())),
            ("code=c", false, Err(CallbackError::OtherLogin)),
            ("code=c&state=other", false, Err(CallbackError::OtherLogin)),
            ("code=c&state=other&state=S", false, Err(CallbackError::OtherLogin)),
            ("error=access_denied&state=other", false, Err(CallbackError::OtherLogin)),
            ("", false, Err(CallbackError::OtherLogin)),
            ("state=S", false, refused("the response has no code")),
            ("code=&state=S", false, refused("the response has no code")),
            (
                "code=c&state=S&iss=https://evil.org",
                false,
                refused("the response is from another authorization server"),
            ),
            ("code=c&state=S&iss=https://b.org/", false, refused("the response is from another authorization server")),
            ("code=c&state=S", true, refused("the response does not name its authorization server")),
            (
                "error=access_denied&error_description=not%0Anow&state=S",
                false,
                refused("the authorization server answers access_denied (not\\nnow)"),
            ),
        ] {
            let query = query.replace("=S", &format!("={}", state.text()));
            assert_eq!(expected(names_issuer).code(&query), result, "{query}");
        }
    }
}
