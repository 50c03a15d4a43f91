//! Requests to an authorization server, how mcpd authenticates in them, and their responses: tokens, registrations, and errors with whether
//! a retry may succeed. Pure except for random numbers.
//!
//! Source: OAuth 2.1, 4.1 to 4.3; RFC 6749, 5.1 and 5.2; RFC 7636 (PKCE); RFC 8707 (`resource`); RFC 7009 (revocation); RFC 7591 (registration).

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::challenge::OFFLINE_ACCESS;
use super::error::LoginError;
use crate::printable::excerpt;
use crate::random::{self, NoRandomNumbers};

/// An unguessable value: a verifier or a state.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(String);

impl Secret {
    /// # Errors
    /// If the system provides no random bytes.
    pub(super) fn fresh() -> Result<Self, NoRandomNumbers> {
        random::token().map(Self)
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// The code challenge of a verifier. Source: RFC 7636, 4.2 (`S256`).
    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.0))
    }
}

/// An authorization request, to which a person consents.
pub(super) struct AuthorizationRequest<'a> {
    pub(super) registration: &'a str,
    pub(super) redirect: &'a str,
    pub(super) state: &'a Secret,
    pub(super) verifier: &'a Secret,
    pub(super) scopes: &'a [String],
    pub(super) resource: &'a str,
}

impl AuthorizationRequest<'_> {
    /// The URL of the consent page, at `endpoint`.
    pub(super) fn page(&self, endpoint: &Url) -> Url {
        let mut url = endpoint.clone();
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", self.registration)
            .append_pair("redirect_uri", self.redirect)
            .append_pair("state", self.state.text())
            .append_pair("code_challenge", &self.verifier.challenge())
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", self.resource);
        if !self.scopes.is_empty() {
            query.append_pair("scope", &self.scopes.join(" "));
        }
        // Source: OpenID Connect Core 1.0, 11: `offline_access` requires a new consent.
        if self.scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
            query.append_pair("prompt", "consent");
        }
        drop(query);
        url
    }
}

/// A form body. Without `Debug`: it contains secrets.
pub(super) struct Form {
    pub(super) body: String,
    /// Authenticates the client, if the body does not.
    pub(super) authorization: Option<HeaderValue>,
}

impl Form {
    /// Exchanges a code for a token.
    pub(super) fn code(
        registration: &ClientRegistration,
        code: &str,
        redirect: &str,
        verifier: &Secret,
        resource: &str,
    ) -> Self {
        let code = ("code", code);
        let pairs = [code, ("redirect_uri", redirect), ("code_verifier", verifier.text()), ("resource", resource)];
        Self::of(registration, &[&[("grant_type", "authorization_code")], &pairs[..]].concat())
    }

    /// Requests a token with client credentials.
    pub(super) fn client_credentials(registration: &ClientRegistration, scopes: &[String], resource: &str) -> Self {
        let (grant, scope) = (("grant_type", "client_credentials"), scopes.join(" "));
        let pairs = [grant, ("resource", resource), ("scope", &scope)];
        Self::of(registration, if scopes.is_empty() { &pairs[..2] } else { &pairs })
    }

    /// Requests a token with a refresh token.
    pub(super) fn refresh(registration: &ClientRegistration, token: &str, resource: &str) -> Self {
        let grant = ("grant_type", "refresh_token");
        Self::of(registration, &[grant, ("refresh_token", token), ("resource", resource)])
    }

    /// Revokes a token of this `kind`.
    pub(super) fn revocation(registration: &ClientRegistration, token: &str, kind: &str) -> Self {
        Self::of(registration, &[("token", token), ("token_type_hint", kind)])
    }

    fn of(registration: &ClientRegistration, pairs: &[(&str, &str)]) -> Self {
        let mut form = Serializer::new(String::new());
        form.extend_pairs(pairs);
        let authorization = registration.sign(&mut form);
        Self { body: form.finish(), authorization }
    }
}

/// A dynamic registration with this redirect URI.
pub(super) fn registration_request(redirect: &str, method: AuthMethod, scopes: &[String]) -> String {
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

/// mcpd's registration at one authorization server. Without `Debug`: it may contain a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClientRegistration {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    pub(super) method: AuthMethod,
}

/// How a client authenticates at the token endpoint. Source: RFC 7591, 2 (`token_endpoint_auth_method`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AuthMethod {
    /// By a header with its secret.
    #[serde(rename = "client_secret_basic")]
    Basic,
    /// By the form with its secret.
    #[serde(rename = "client_secret_post")]
    Post,
    /// By its id alone.
    #[serde(rename = "none")]
    None,
}

impl AuthMethod {
    /// The name in metadata.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::None => "none",
        }
    }

    pub(super) fn named(word: &str) -> Option<Self> {
        [Self::Basic, Self::Post, Self::None].into_iter().find(|method| method.word() == word)
    }

    /// The method of a client with or without a secret, at a server that supports `known` methods. The default is
    /// `client_secret_basic`. Source: RFC 8414, 2.
    pub(super) fn supported(has_secret: bool, known: Option<&[String]>) -> Self {
        if !has_secret {
            return Self::None;
        }
        let knows = |method: &Self| known.is_some_and(|known| known.iter().any(|word| word == method.word()));
        [Self::Basic, Self::Post].into_iter().find(knows).unwrap_or(Self::Basic)
    }

    /// The method to register for: without a secret if possible.
    pub(super) fn preferred(known: Option<&[String]>) -> Self {
        let is_free = known.is_none_or(|known| known.is_empty() || known.iter().any(|word| word == Self::None.word()));
        if is_free { Self::None } else { Self::supported(true, known) }
    }
}

impl ClientRegistration {
    /// Authenticates a form: adds the client to it, or returns a header with it.
    pub(super) fn sign(&self, form: &mut Serializer<'_, String>) -> Option<HeaderValue> {
        match (self.method, &self.secret) {
            (AuthMethod::Basic, Some(secret)) => {
                // Source: RFC 6749, 2.3.1: both are form-encoded first.
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = STANDARD.encode(format!("{}:{}", encoded(&self.id), encoded(secret)));
                let mut header = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
                header.set_sensitive(true);
                Some(header)
            }
            (AuthMethod::Post, Some(secret)) => {
                form.append_pair("client_id", &self.id).append_pair("client_secret", secret);
                None
            }
            _ => {
                form.append_pair("client_id", &self.id);
                None
            }
        }
    }
}

/// Longest quote of a peer's text, in characters.
const MAX_QUOTE_LEN: usize = 200;

/// A token with its attributes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct TokenResponse {
    pub(super) access_token: String,
    /// Obtains the next token.
    pub(super) refresh_token: Option<String>,
    /// Lifetime in seconds.
    pub(super) expires_in: Option<u64>,
    /// The granted scopes, if they differ from the requested ones.
    pub(super) scopes: Option<Vec<String>>,
}

/// Why there is no token or registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ErrorResponse {
    /// The error code, if there is one.
    pub(super) error: Option<String>,
    /// For a person, on one line.
    pub(super) reason: String,
}

#[derive(Deserialize)]
struct Token {
    access_token: String,
    token_type: Option<String>,
    refresh_token: Option<String>,
    expires_in: Option<Value>,
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Registration {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

#[derive(Deserialize)]
struct Error {
    error: String,
    error_description: Option<String>,
}

/// Parses the response of a token endpoint. Some send errors with status 200.
pub(super) fn parse_token(status: u16, body: &[u8]) -> Result<TokenResponse, ErrorResponse> {
    let token: Token = read(status, body)?;
    let unfit = |what: &str| ErrorResponse { error: None, reason: format!("sends a token that {what}") };
    if token.token_type.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(unfit("is not a bearer token"));
    }
    if token.access_token.is_empty() || !token.access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(unfit("is not valid in a header"));
    }
    let seconds = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok()).or_else(|| read_whole(value));
    Ok(TokenResponse {
        access_token: token.access_token,
        refresh_token: token.refresh_token.filter(|token| !token.is_empty()),
        // A lifetime of zero counts as none.
        expires_in: token.expires_in.as_ref().and_then(seconds).filter(|seconds| *seconds > 0),
        scopes: token.scope.map(|scope| scope.split_ascii_whitespace().map(str::to_owned).collect()),
    })
}

/// Accepts `3600.0` as a number of seconds.
fn read_whole(value: &Value) -> Option<u64> {
    let seconds = value.as_f64().filter(|seconds| (0.0..1e15).contains(seconds))?;
    format!("{seconds:.0}").parse().ok()
}

/// Parses the response of a registration endpoint to a request for `method`.
pub(super) fn parse_registration(
    status: u16,
    body: &[u8],
    method: AuthMethod,
) -> Result<ClientRegistration, ErrorResponse> {
    let Registration { client_id, client_secret, token_endpoint_auth_method } = read(status, body)?;
    let named = token_endpoint_auth_method.as_deref().and_then(AuthMethod::named);
    let secret = client_secret.filter(|secret| !secret.is_empty());
    let method = match (named.unwrap_or(method), &secret) {
        (_, None) => AuthMethod::None,
        // A client with a secret must use it.
        (AuthMethod::None, Some(_)) if named.is_none() => AuthMethod::Basic,
        (method, Some(_)) => method,
    };
    Ok(ClientRegistration { id: client_id, secret, method })
}

fn read<'a, T: Deserialize<'a>>(status: u16, body: &'a [u8]) -> Result<T, ErrorResponse> {
    let read = serde_json::from_slice(body);
    match read {
        Ok(response) if (200..300).contains(&status) => Ok(response),
        _ => Err(error_response(status, body)),
    }
}

fn error_response(status: u16, body: &[u8]) -> ErrorResponse {
    match serde_json::from_slice(body) {
        Ok(Error { error, error_description }) => {
            let description = error_description.map(|text| format!(" ({})", quoted(&text))).unwrap_or_default();
            ErrorResponse { reason: format!("answers {}{description}", quoted(&error)), error: Some(error) }
        }
        Err(_) => ErrorResponse { error: None, reason: format!("answers with status {status} and an invalid body") },
    }
}

/// Text of an authorization server for a message.
pub(super) fn quoted(text: &str) -> String {
    excerpt(text, MAX_QUOTE_LEN)
}

/// A token as a header value. It is sensitive: `Debug` does not show it.
pub(super) fn bearer(access_token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {access_token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Error codes for a grant or client that will never be accepted again. Source: RFC 6749, 5.2.
const PERMANENT: [&str; 3] = ["invalid_grant", "invalid_client", "unauthorized_client"];
/// Error codes for temporary failures. Source: RFC 6749, 4.1.2.1; RFC 8628, 3.5.
const TRANSIENT: [&str; 3] = ["server_error", "temporarily_unavailable", "slow_down"];

/// Why there is no token, and whether a later request may succeed.
#[derive(Debug)]
pub(super) enum TokenError {
    /// This grant is invalid for good.
    Permanent(LoginError),
    /// The request was refused.
    Refused(LoginError),
    /// A later request may succeed.
    Temporary(LoginError),
}

impl TokenError {
    /// The meaning of an error response, described as `why`.
    pub(super) fn of(status: u16, refused: &ErrorResponse, why: LoginError) -> Self {
        match refused.error.as_deref() {
            Some(error) if PERMANENT.contains(&error) => Self::Permanent(why),
            Some(error) if !TRANSIENT.contains(&error) && !is_transient(status) => Self::Refused(why),
            // The client was refused, not the request.
            None if status == 401 => Self::Refused(why),
            _ => Self::Temporary(why),
        }
    }
}

/// Without whether a later request may succeed.
impl From<TokenError> for LoginError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Permanent(why) | TokenError::Refused(why) | TokenError::Temporary(why) => why,
        }
    }
}

/// Whether a status is temporary. Source: RFC 9110, 15.5.9 and 15.6; RFC 6585, 4.
fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(method: AuthMethod) -> ClientRegistration {
        ClientRegistration { id: "me".into(), secret: Some("s".into()), method }
    }

    #[test]
    fn secrets_are_unique_and_hashed_as_challenges() {
        let (one, other) = (Secret::fresh().expect("a random token"), Secret::fresh().expect("a random token"));
        assert!(one != other && one.text().len() == 43);
        // The example of RFC 7636, appendix B.
        let known = Secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into());
        assert_eq!(known.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn consent_page_has_all_parameters() {
        let secret = Secret("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into());
        let scopes = ["a".to_owned(), "offline_access".to_owned()];
        let request = |scopes| AuthorizationRequest {
            registration: "me",
            redirect: "http://127.0.0.1:1/callback",
            state: &secret,
            verifier: &secret,
            scopes,
            resource: "https://a.org/mcp",
        };
        let endpoint = Url::parse("https://b.org/authorize?tenant=1").expect("a URL");
        let page = request(&scopes).page(&endpoint).to_string();
        assert_eq!(
            page,
            "https://b.org/authorize?tenant=1&response_type=code&client_id=me\
             &redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Fcallback\
             &state=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk\
             &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256\
             &resource=https%3A%2F%2Fa.org%2Fmcp&scope=a+offline_access&prompt=consent"
        );
        let page = request(&[]).page(&endpoint).to_string();
        assert!(!page.contains("scope") && !page.contains("prompt"), "{page}");
    }

    #[test]
    fn forms_have_the_resource_and_the_client() {
        let form = Form::code(&client(AuthMethod::Post), "c", "http://x", &Secret("v".into()), "https://a.org");
        let code = "grant_type=authorization_code&code=c&redirect_uri=http%3A%2F%2Fx&code_verifier=v\
                    &resource=https%3A%2F%2Fa.org&client_id=me&client_secret=s";
        assert_eq!((&*form.body, form.authorization), (code, None));
        let form = Form::refresh(&client(AuthMethod::Basic), "r", "https://a.org");
        assert_eq!(form.body, "grant_type=refresh_token&refresh_token=r&resource=https%3A%2F%2Fa.org");
        assert!(form.authorization.is_some_and(|header| header.is_sensitive()));
        let form = Form::client_credentials(&client(AuthMethod::Basic), &["a".into(), "b".into()], "https://a.org");
        assert_eq!(form.body, "grant_type=client_credentials&resource=https%3A%2F%2Fa.org&scope=a+b");
        let form = Form::client_credentials(&client(AuthMethod::Post), &[], "https://a.org");
        let body = "grant_type=client_credentials&resource=https%3A%2F%2Fa.org&client_id=me&client_secret=s";
        assert_eq!((&*form.body, form.authorization), (body, None));
        let form = Form::revocation(&client(AuthMethod::None), "r", "refresh_token");
        assert_eq!(form.body, "token=r&token_type_hint=refresh_token&client_id=me");
        let body = registration_request("http://x", AuthMethod::None, &["a".into(), "b".into()]);
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!((&body["redirect_uris"][0], &body["scope"]), (&"http://x".into(), &"a b".into()));
    }

    fn signed(method: AuthMethod, secret: Option<&str>) -> (String, Option<String>) {
        let registration = ClientRegistration { id: "a b".into(), secret: secret.map(str::to_owned), method };
        let mut form = Serializer::new(String::new());
        let header = registration.sign(&mut form);
        (form.finish(), header.map(|header| header.to_str().expect("text").to_owned()))
    }

    #[test]
    fn client_is_authenticated_by_its_method() {
        assert_eq!(signed(AuthMethod::None, None), ("client_id=a+b".into(), None));
        assert_eq!(signed(AuthMethod::Post, Some("s&")), ("client_id=a+b&client_secret=s%26".into(), None));
        let basic = format!("Basic {}", STANDARD.encode("a+b:s%26"));
        assert_eq!(signed(AuthMethod::Basic, Some("s&")), (String::new(), Some(basic)));
        assert_eq!(signed(AuthMethod::Basic, None), ("client_id=a+b".into(), None));
    }

    #[test]
    fn method_is_one_that_the_server_supports() {
        let known = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        for (words, with_secret, preferred) in [
            (None, AuthMethod::Basic, AuthMethod::None),
            (known(&[]), AuthMethod::Basic, AuthMethod::None),
            (known(&["client_secret_post"]), AuthMethod::Post, AuthMethod::Post),
            (known(&["client_secret_post", "client_secret_basic"]), AuthMethod::Basic, AuthMethod::Basic),
            (known(&["client_secret_post", "none"]), AuthMethod::Post, AuthMethod::None),
            (known(&["private_key_jwt"]), AuthMethod::Basic, AuthMethod::Basic),
        ] {
            assert_eq!(AuthMethod::supported(true, words.as_deref()), with_secret, "{words:?}");
            assert_eq!(AuthMethod::supported(false, words.as_deref()), AuthMethod::None, "{words:?}");
            assert_eq!(AuthMethod::preferred(words.as_deref()), preferred, "{words:?}");
        }
        let methods = [AuthMethod::Basic, AuthMethod::Post, AuthMethod::None];
        assert_eq!(methods.map(|method| AuthMethod::named(method.word())), methods.map(Some));
    }

    #[test]
    fn token_response_has_the_token_and_its_attributes() {
        let plain = TokenResponse { access_token: "t".into(), refresh_token: None, expires_in: None, scopes: None };
        for (body, expected) in [
            (r#"{"access_token":"t","token_type":"Bearer"}"#, plain.clone()),
            (r#"{"access_token":"t","refresh_token":"","expires_in":"x","y":1}"#, plain.clone()),
            (
                r#"{"access_token":"t","token_type":"bearer","refresh_token":"r","expires_in":"60","scope":"a  b"}"#,
                TokenResponse {
                    refresh_token: Some("r".into()),
                    expires_in: Some(60),
                    scopes: Some(vec!["a".into(), "b".into()]),
                    ..plain.clone()
                },
            ),
            (r#"{"access_token":"t","expires_in":3599.6}"#, TokenResponse { expires_in: Some(3600), ..plain.clone() }),
            (r#"{"access_token":"t","expires_in":-1}"#, plain.clone()),
            (r#"{"access_token":"t","expires_in":0}"#, plain.clone()),
        ] {
            assert!(parse_token(200, body.as_bytes()) == Ok(expected), "{body}");
        }
    }

    #[test]
    fn error_texts_contain_no_control_characters() {
        let long = format!(r#"{{"error":"x","error_description":"{}"}}"#, "y".repeat(MAX_QUOTE_LEN + 1));
        for (status, body, error, reason) in [
            (400, r#"{"error":"invalid_grant"}"#, Some("invalid_grant"), "answers invalid_grant"),
            (
                200,
                r#"{"error":"bad","error_description":"no\u001b[2J\u202e!"}"#,
                Some("bad"),
                "answers bad (no\\u{1b}[2J\\u{202e}!)",
            ),
            (400, &*long, Some("x"), &*format!("answers x ({}…)", "y".repeat(MAX_QUOTE_LEN))),
            (502, "<html>", None, "answers with status 502 and an invalid body"),
            (200, "{}", None, "answers with status 200 and an invalid body"),
            (500, r#"{"access_token":"t"}"#, None, "answers with status 500 and an invalid body"),
            (200, r#"{"access_token":"t","token_type":"mac"}"#, None, "sends a token that is not a bearer token"),
            (200, r#"{"access_token":"a\nb"}"#, None, "sends a token that is not valid in a header"),
            (200, r#"{"access_token":""}"#, None, "sends a token that is not valid in a header"),
        ] {
            let Err(refused) = parse_token(status, body.as_bytes()) else { panic!("{body} is a token") };
            assert_eq!((refused.error.as_deref(), &*refused.reason), (error, reason), "{body}");
        }
    }

    #[test]
    fn registration_decides_the_authentication_method() {
        for (body, requested, expected) in [
            (r#"{"client_id":"c"}"#, AuthMethod::Basic, AuthMethod::None),
            (r#"{"client_id":"c","client_secret":"s"}"#, AuthMethod::None, AuthMethod::Basic),
            (r#"{"client_id":"c","client_secret":"s"}"#, AuthMethod::Post, AuthMethod::Post),
            (
                r#"{"client_id":"c","client_secret":"s","token_endpoint_auth_method":"client_secret_post"}"#,
                AuthMethod::Basic,
                AuthMethod::Post,
            ),
            (
                r#"{"client_id":"c","client_secret":"s","token_endpoint_auth_method":"none"}"#,
                AuthMethod::Basic,
                AuthMethod::None,
            ),
        ] {
            let Ok(registration) = parse_registration(201, body.as_bytes(), requested) else {
                panic!("{body} is none")
            };
            assert_eq!((&*registration.id, registration.method), ("c", expected), "{body}");
        }
        assert!(parse_registration(400, br#"{"error":"invalid_redirect_uri"}"#, AuthMethod::None).is_err());
    }

    #[test]
    fn error_codes_decide_whether_a_retry_may_succeed() {
        let (permanent, refused, temporary) = ("permanent", "refused", "temporary");
        for (status, error, expected) in [
            (400, Some("invalid_grant"), permanent),
            (401, Some("invalid_client"), permanent),
            (500, Some("unauthorized_client"), permanent),
            (400, Some("invalid_scope"), refused),
            (400, Some("unsupported_grant_type"), refused),
            (401, None, refused),
            (429, Some("invalid_scope"), temporary),
            (503, Some("invalid_scope"), temporary),
            (400, Some("slow_down"), temporary),
            (400, None, temporary),
            (502, None, temporary),
            (200, None, temporary),
        ] {
            let response = ErrorResponse { error: error.map(str::to_owned), reason: String::new() };
            let kind = match TokenError::of(status, &response, LoginError::NoClientId) {
                TokenError::Permanent(_) => permanent,
                TokenError::Refused(_) => refused,
                TokenError::Temporary(_) => temporary,
            };
            assert_eq!(kind, expected, "{status} {error:?}");
        }
    }
}
