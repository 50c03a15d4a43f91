//! What is sent to an authorization server: the address of the page on which a person agrees, and the forms behind it. Pure but
//! for chance.
//!
//! Source: OAuth 2.1, 4.1 to 4.3; RFC 7636 (PKCE); RFC 8707 (`resource`); RFC 7009 (revocation); RFC 7591 (registration).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::HeaderValue;
use serde_json::json;
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::Serializer;

use super::application::{Application, Method};
use super::scopes::OFFLINE;
use crate::chance;

/// What nobody else can know: a verifier, or a state.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(String);

impl Secret {
    /// # Errors
    /// If the system has no chance to give.
    pub(super) fn fresh() -> Result<Self, String> {
        chance::fresh().map(Self)
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// What a verifier is known by before it is shown. Source: RFC 7636, 4.2 (`S256`).
    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.0))
    }
}

/// What a person is asked to agree to.
pub(super) struct Asked<'a> {
    pub(super) application: &'a str,
    pub(super) redirect: &'a str,
    pub(super) state: &'a Secret,
    pub(super) verifier: &'a Secret,
    pub(super) scopes: &'a [String],
    pub(super) resource: &'a str,
}

impl Asked<'_> {
    /// The page on which that is asked, below `endpoint`.
    pub(super) fn page(&self, endpoint: &Url) -> Url {
        let mut url = endpoint.clone();
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", self.application)
            .append_pair("redirect_uri", self.redirect)
            .append_pair("state", self.state.text())
            .append_pair("code_challenge", &self.verifier.challenge())
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", self.resource);
        if !self.scopes.is_empty() {
            query.append_pair("scope", &self.scopes.join(" "));
        }
        // Source: OpenID Connect Core 1.0, 11: it is given only to those who ask again.
        if self.scopes.iter().any(|scope| scope == OFFLINE) {
            query.append_pair("prompt", "consent");
        }
        drop(query);
        url
    }
}

/// A form, as it is sent. Without `Debug`: it holds secrets.
pub(super) struct Form {
    pub(super) body: String,
    /// Says who sends it, if the body does not.
    pub(super) authorization: Option<HeaderValue>,
}

impl Form {
    /// Redeems a code.
    pub(super) fn code(
        application: &Application,
        code: &str,
        redirect: &str,
        verifier: &Secret,
        resource: &str,
    ) -> Self {
        let code = ("code", code);
        let pairs = [code, ("redirect_uri", redirect), ("code_verifier", verifier.text()), ("resource", resource)];
        Self::of(application, &[&[("grant_type", "authorization_code")], &pairs[..]].concat())
    }

    /// Asks for a token for `application` itself.
    pub(super) fn own(application: &Application, scopes: &[String], resource: &str) -> Self {
        let (grant, scope) = (("grant_type", "client_credentials"), scopes.join(" "));
        let pairs = [grant, ("resource", resource), ("scope", &scope)];
        Self::of(application, if scopes.is_empty() { &pairs[..2] } else { &pairs })
    }

    /// Renews a token.
    pub(super) fn refresh(application: &Application, token: &str, resource: &str) -> Self {
        let grant = ("grant_type", "refresh_token");
        Self::of(application, &[grant, ("refresh_token", token), ("resource", resource)])
    }

    /// Takes a token back, `kind` of it.
    pub(super) fn revocation(application: &Application, token: &str, kind: &str) -> Self {
        Self::of(application, &[("token", token), ("token_type_hint", kind)])
    }

    fn of(application: &Application, pairs: &[(&str, &str)]) -> Self {
        let mut form = Serializer::new(String::new());
        form.extend_pairs(pairs);
        let authorization = application.sign(&mut form);
        Self { body: form.finish(), authorization }
    }
}

/// Makes mcpd known, to be sent back to `redirect`.
pub(super) fn registration(redirect: &str, method: Method, scopes: &[String]) -> String {
    let mut body = json!({
        "client_name": "mcpd",
        "application_type": "native",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method.word(),
    });
    if !scopes.is_empty() {
        body["scope"] = scopes.join(" ").into();
    }
    body.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn application(method: Method) -> Application {
        Application { id: "me".into(), secret: Some("s".into()), method }
    }

    #[test]
    fn a_secret_is_another_each_time_and_known_by_its_hash() {
        let (one, other) = (Secret::fresh().expect("chance"), Secret::fresh().expect("chance"));
        assert!(one != other && one.text().len() == 43);
        // The example of RFC 7636, appendix B.
        let known = Secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into());
        assert_eq!(known.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn a_person_is_asked_with_all_that_binds_the_answer() {
        let secret = Secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into());
        let scopes = ["a".to_owned(), "offline_access".to_owned()];
        let asked = |scopes| Asked {
            application: "me",
            redirect: "http://127.0.0.1:1/callback",
            state: &secret,
            verifier: &secret,
            scopes,
            resource: "https://a.org/mcp",
        };
        let endpoint = Url::parse("https://b.org/authorize?tenant=1").expect("a URL");
        let page = asked(&scopes).page(&endpoint).to_string();
        assert_eq!(
            page,
            "https://b.org/authorize?tenant=1&response_type=code&client_id=me\
             &redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fcallback\
             &state=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk\
             &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256\
             &resource=https%3A%2F%2Fa.org%2Fmcp&scope=a+offline_access&prompt=consent"
        );
        let page = asked(&[]).page(&endpoint).to_string();
        assert!(!page.contains("scope") && !page.contains("prompt"), "{page}");
    }

    #[test]
    fn forms_say_for_what_a_token_is_and_who_asks() {
        let form = Form::code(&application(Method::Post), "c", "http://x", &Secret("v".into()), "https://a.org");
        let code = "grant_type=authorization_code&code=c&redirect_uri=http%3A%2F%2Fx&code_verifier=v\
                    &resource=https%3A%2F%2Fa.org&client_id=me&client_secret=s";
        assert_eq!((&*form.body, form.authorization), (code, None));
        let form = Form::refresh(&application(Method::Basic), "r", "https://a.org");
        assert_eq!(form.body, "grant_type=refresh_token&refresh_token=r&resource=https%3A%2F%2Fa.org");
        assert!(form.authorization.is_some_and(|header| header.is_sensitive()));
        let form = Form::own(&application(Method::Basic), &["a".into(), "b".into()], "https://a.org");
        assert_eq!(form.body, "grant_type=client_credentials&resource=https%3A%2F%2Fa.org&scope=a+b");
        let form = Form::own(&application(Method::Post), &[], "https://a.org");
        let body = "grant_type=client_credentials&resource=https%3A%2F%2Fa.org&client_id=me&client_secret=s";
        assert_eq!((&*form.body, form.authorization), (body, None));
        let form = Form::revocation(&application(Method::None), "r", "refresh_token");
        assert_eq!(form.body, "token=r&token_type_hint=refresh_token&client_id=me");
        let body = registration("http://x", Method::None, &["a".into(), "b".into()]);
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!((&body["redirect_uris"][0], &body["scope"]), (&"http://x".into(), &"a b".into()));
    }
}
