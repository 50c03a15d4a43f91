//! How mcpd is registered at an authorization server, and authenticates there. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderValue;
use serde::{Deserialize, Serialize};
use url::form_urlencoded::{Serializer, byte_serialize};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
