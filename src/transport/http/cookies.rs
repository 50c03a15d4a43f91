//! The cookies of one connection's origin. A load balancer finds the machine of a session by them.
//!
//! They last as long as the connection, and are sent to the origin that has set them: requests go to no other one.

#[expect(
    clippy::disallowed_types,
    reason = "a cell: each lock lasts for one response or request, without waiting"
)]
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};

use cookie_store::{Cookie, CookieStore};
use http::header::{COOKIE, HeaderMap, HeaderValue, SET_COOKIE};
use url::Url;

/// Cookies that are kept; further ones are ignored. Source: RFC 6265, 6.1, for both limits.
const MAX_COOKIES: usize = 50;
/// Largest cookie with its attributes, in bytes.
const MAX_COOKIE: usize = 4096;

/// The cookies of one connection. Clones share them.
#[derive(Clone, Default)]
#[expect(clippy::disallowed_types, reason = "see the import")]
pub(super) struct Cookies(Arc<Mutex<CookieStore>>);

impl Cookies {
    /// Keeps the cookies of a response from `url`.
    pub(super) fn keep(&self, url: &Url, headers: &HeaderMap) {
        for cookie in headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok()) {
            if cookie.len() > MAX_COOKIE {
                continue;
            }
            let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if store.iter_any().count() >= MAX_COOKIES {
                let valid = store.iter_unexpired().cloned().map(Ok::<_, std::convert::Infallible>).collect::<Vec<_>>();
                *store = CookieStore::from_cookies(valid, false).unwrap_or_default();
            }
            // An invalid cookie, or one of another domain, is ignored, as browsers do.
            let Ok(cookie) = Cookie::parse(cookie, url).map(Cookie::into_owned) else { continue };
            let is_same = |known: &Cookie<'_>| {
                (known.name(), &known.path, &known.domain) == (cookie.name(), &cookie.path, &cookie.domain)
            };
            if store.iter_any().any(is_same) || store.iter_any().count() < MAX_COOKIES {
                let _ = store.insert(cookie, url);
            }
        }
    }

    /// Adds the cookies for `url` to those of the configuration.
    pub(super) fn add_to(&self, url: &Url, headers: &mut HeaderMap) {
        let store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own: Vec<_> = store.get_request_values(url).map(|(name, value)| format!("{name}={value}")).collect();
        if own.is_empty() {
            return;
        }
        let configured = headers.get(COOKIE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let all: Vec<_> = configured.into_iter().chain(own).collect();
        if let Ok(mut value) = HeaderValue::try_from(all.join("; ")) {
            value.set_sensitive(true);
            headers.insert(COOKIE, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(cookies: &Cookies, url: &str, configured: Option<&'static str>) -> String {
        let mut headers = HeaderMap::from_iter(configured.map(|value| (COOKIE, HeaderValue::from_static(value))));
        cookies.add_to(&Url::parse(url).expect("a URL"), &mut headers);
        assert!(headers.get_all(COOKIE).iter().count() <= 1);
        headers.get(COOKIE).map(|value| value.to_str().expect("text").to_owned()).unwrap_or_default()
    }

    fn keep(cookies: &Cookies, url: &str, set: &str) {
        let headers = HeaderMap::from_iter([(SET_COOKIE, HeaderValue::try_from(set).expect("a header"))]);
        cookies.keep(&Url::parse(url).expect("a URL"), &headers);
    }

    #[test]
    fn cookies_are_sent_where_their_attributes_permit_it() {
        const URL: &str = "http://a.example.org/mcp";
        for (set, url, expected) in [
            ("a=1", URL, "a=1"),
            ("a=1; Path=/; HttpOnly; SameSite=Lax", URL, "a=1"),
            ("a=\"1 2\"; Path=/mcp", URL, "a=\"1 2\""),
            ("a=1; Path=/other", URL, ""),
            ("a=1; Domain=example.org", URL, "a=1"),
            ("a=1; Domain=other.org", URL, ""),
            ("a=1; Secure", URL, ""),
            ("a=1; Secure", "http://127.0.0.1/mcp", "a=1"),
            ("a=1; Secure", "https://a.example.org/mcp", "a=1"),
            ("a=1; Max-Age=0", URL, ""),
            ("a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT", URL, ""),
            ("a=", URL, "a="),
            ("nothing", URL, ""),
        ] {
            let cookies = Cookies::default();
            keep(&cookies, url, set);
            assert_eq!(sent(&cookies, url, None), expected, "{set} from {url}");
        }
    }

    #[test]
    fn cookies_are_replaced_removed_and_added_to_configured_ones() {
        const URL: &str = "https://example.org/mcp";
        let cookies = Cookies::default();
        assert_eq!(sent(&cookies, URL, Some("c=0")), "c=0");
        keep(&cookies, URL, "a=1");
        keep(&cookies, URL, "a=2");
        assert_eq!(sent(&cookies, URL, Some("c=0")), "c=0; a=2");
        keep(&cookies, URL, "a=3; Max-Age=0");
        assert_eq!(sent(&cookies, URL, None), "");
    }

    #[test]
    fn number_and_size_of_cookies_are_limited() {
        const URL: &str = "https://example.org/mcp";
        let cookies = Cookies::default();
        keep(&cookies, URL, &format!("large={}", "x".repeat(MAX_COOKIE)));
        // Those that have expired make room for others.
        (0..MAX_COOKIES).for_each(|n| keep(&cookies, URL, &format!("old{n}=1")));
        (0..MAX_COOKIES).for_each(|n| keep(&cookies, URL, &format!("old{n}=1; Max-Age=0")));
        (0..2 * MAX_COOKIES).for_each(|n| keep(&cookies, URL, &format!("new{n}=1")));
        let sent = sent(&cookies, URL, None);
        assert!(
            sent.split("; ").count() == MAX_COOKIES && sent.contains("new0=1") && !sent.contains("large"),
            "{sent}"
        );
    }
}
