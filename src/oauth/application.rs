//! As what mcpd is known to an authorization server, and how it says so. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderValue;
use serde::{Deserialize, Serialize};
use url::form_urlencoded::{Serializer, byte_serialize};

/// As what mcpd is known to one authorization server. Without `Debug`: it may hold a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Application {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    pub(super) method: Method,
}

/// How an application says at the token endpoint who it is. Source: RFC 7591, 2 (`token_endpoint_auth_method`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Method {
    /// In a header, with its secret.
    #[serde(rename = "client_secret_basic")]
    Basic,
    /// In the body, with its secret.
    #[serde(rename = "client_secret_post")]
    Post,
    /// By its name alone.
    #[serde(rename = "none")]
    None,
}

impl Method {
    /// As it is written.
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

    /// What an application with a secret, or without, uses at a server that knows these. One that does not say knows
    /// `client_secret_basic`. Source: RFC 8414, 2.
    pub(super) fn fitting(has_secret: bool, known: Option<&[String]>) -> Self {
        if !has_secret {
            return Self::None;
        }
        let knows = |method: &Self| known.is_some_and(|known| known.iter().any(|word| word == method.word()));
        [Self::Basic, Self::Post].into_iter().find(knows).unwrap_or(Self::Basic)
    }

    /// What one asks for that has no secret yet: none, if it can do without.
    pub(super) fn wished(known: Option<&[String]>) -> Self {
        let is_free = known.is_none_or(|known| known.is_empty() || known.iter().any(|word| word == Self::None.word()));
        if is_free { Self::None } else { Self::fitting(true, known) }
    }
}

impl Application {
    /// Signs a form: adds to it who this is, or gives the header that says so.
    pub(super) fn sign(&self, form: &mut Serializer<'_, String>) -> Option<HeaderValue> {
        match (self.method, &self.secret) {
            (Method::Basic, Some(secret)) => {
                // Source: RFC 6749, 2.3.1: both are encoded as in a form first.
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = STANDARD.encode(format!("{}:{}", encoded(&self.id), encoded(secret)));
                let mut header = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
                header.set_sensitive(true);
                Some(header)
            }
            (Method::Post, Some(secret)) => {
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

    fn signed(method: Method, secret: Option<&str>) -> (String, Option<String>) {
        let application = Application { id: "a b".into(), secret: secret.map(str::to_owned), method };
        let mut form = Serializer::new(String::new());
        let header = application.sign(&mut form);
        (form.finish(), header.map(|header| header.to_str().expect("text").to_owned()))
    }

    #[test]
    fn who_asks_stands_where_the_server_looks() {
        assert_eq!(signed(Method::None, None), ("client_id=a+b".into(), None));
        assert_eq!(signed(Method::Post, Some("s&")), ("client_id=a+b&client_secret=s%26".into(), None));
        let basic = format!("Basic {}", STANDARD.encode("a+b:s%26"));
        assert_eq!(signed(Method::Basic, Some("s&")), (String::new(), Some(basic)));
        assert_eq!(signed(Method::Basic, None), ("client_id=a+b".into(), None));
    }

    #[test]
    fn the_method_is_one_that_the_server_knows() {
        let known = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        for (words, with_secret, wished) in [
            (None, Method::Basic, Method::None),
            (known(&[]), Method::Basic, Method::None),
            (known(&["client_secret_post"]), Method::Post, Method::Post),
            (known(&["client_secret_post", "client_secret_basic"]), Method::Basic, Method::Basic),
            (known(&["client_secret_post", "none"]), Method::Post, Method::None),
            (known(&["private_key_jwt"]), Method::Basic, Method::Basic),
        ] {
            assert_eq!(Method::fitting(true, words.as_deref()), with_secret, "{words:?}");
            assert_eq!(Method::fitting(false, words.as_deref()), Method::None, "{words:?}");
            assert_eq!(Method::wished(words.as_deref()), wished, "{words:?}");
        }
        let methods = [Method::Basic, Method::Post, Method::None];
        assert_eq!(methods.map(|method| Method::named(method.word())), methods.map(Some));
    }
}
