//! Origins of URLs, which URLs of a peer are used, and public addresses. Pure.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{HeaderMap, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use url::Url;

/// Redirects of one request that are followed.
const MAX_REDIRECTS: usize = 5;

/// Why a URL that a peer has named is not used: what it is instead.
#[derive(Debug, thiserror::Error)]
pub enum ForbiddenUrl {
    /// No URL.
    #[error("an invalid URL")]
    Invalid,
    /// Its scheme is not HTTP.
    #[error("a URL with scheme `{0}`, not HTTP")]
    Scheme(String),
    /// It has a user name or password.
    #[error("a URL with a user name")]
    UserName,
    /// It has another origin than the peer.
    #[error("another origin: {0}")]
    OtherOrigin(String),
    /// Its host is private, and the configured one is public.
    #[error("{0} is not on the public internet, and the configured server is")]
    NotPublic(String),
}

/// Why a redirect is not followed: the rest of a sentence that begins with the server.
#[derive(Debug, thiserror::Error)]
pub enum RefusedRedirect {
    /// It leads to a URL that is not used, but that may be configured.
    #[error("redirects to {0}; if it is trusted, write it in `url`")]
    MayBeConfigured(ForbiddenUrl),
    /// It leads to a URL that is not used.
    #[error("redirects to {0}")]
    Forbidden(ForbiddenUrl),
    /// The server has redirected the request too often.
    #[error("redirects too often")]
    TooMany,
}

/// The redirects of one request. Those within the origin are followed: the request is repeated at the new URL.
#[derive(Debug, Default)]
pub struct Redirects {
    followed: usize,
}

impl Redirects {
    /// Where to repeat a request of this method after a response from `from`; `None` if that is no redirect.
    ///
    /// # Errors
    /// If it is a redirect that is not followed.
    pub fn follow(
        &mut self,
        method: &Method,
        from: &Url,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<Option<Url>, RefusedRedirect> {
        let Some(location) = headers.get(LOCATION).filter(|_| repeats(method, status)) else { return Ok(None) };
        if self.followed == MAX_REDIRECTS {
            return Err(RefusedRedirect::TooMany);
        }
        self.followed += 1;
        redirect(from, location).map(Some)
    }
}

/// Whether a redirect with this status repeats the request. After `303 See Other` to a message, the response is elsewhere, which MCP
/// does not have.
fn repeats(method: &Method, status: StatusCode) -> bool {
    match status {
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => true,
        StatusCode::SEE_OTHER => method == Method::GET,
        _ => false,
    }
}

/// Whether both URLs have the same scheme, host and port. Source: RFC 6454, 5.
#[must_use]
pub fn same(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// The target of a redirect from `from`, checked as by [`within`].
fn redirect(from: &Url, location: &HeaderValue) -> Result<Url, RefusedRedirect> {
    let location = location.to_str().map_err(|_| RefusedRedirect::Forbidden(ForbiddenUrl::Invalid))?;
    within(from, location).map_err(|target| {
        let may_be_configured = from.join(location).is_ok_and(|to| to.has_host() && !has_user(&to));
        if may_be_configured { RefusedRedirect::MayBeConfigured(target) } else { RefusedRedirect::Forbidden(target) }
    })
}

/// Resolves `reference`, which a peer at `from` sent. Headers with secrets may be sent to the result.
///
/// # Errors
/// If it is no URL, a URL with a user name, or has another origin.
pub fn within(from: &Url, reference: &str) -> Result<Url, ForbiddenUrl> {
    let to = from.join(reference).map_err(|_| ForbiddenUrl::Invalid)?;
    if has_user(&to) {
        return Err(ForbiddenUrl::UserName);
    }
    if !same(from, &to) {
        return Err(ForbiddenUrl::OtherOrigin(shown_origin(&to)));
    }
    Ok(to)
}

/// Whether the URL contains a user name or password.
pub(super) fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// The origin of a URL from a peer, safe to print. The rest of the URL may contain a secret.
pub(crate) fn shown_origin(url: &Url) -> String {
    /// Limit of host names. Source: RFC 1035, 2.3.4.
    const MAX_LEN: usize = 255 + "https://:65535".len();
    let origin = url.origin().ascii_serialization();
    if origin.len() > MAX_LEN { "an overlong host name".to_owned() } else { origin }
}

/// Whether an address is on the public internet: not this machine, not its network, not reserved for another purpose.
/// Source: the IANA special-purpose address registries (RFC 6890).
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let is_reserved = match address.octets() {
        // This network; carrier-grade NAT; protocol assignments; 6to4 relays; benchmarks; reserved.
        [0 | 240..=255, ..] | [100, 64..=127, ..] | [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] => true,
        _ => false,
    };
    !(is_reserved
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast())
}

/// An address that embeds an IPv4 address is judged by that.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let inner = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // Mapped, compatible (which includes `::` and `::1`), NAT64.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
        [0x2002, high, low, ..] => inner(high, low),
        // Protocol assignments such as Teredo; documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast. Local, private and multicast addresses lie outside it.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}
