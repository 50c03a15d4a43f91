//! Origins of URLs, and public addresses. Pure.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::HeaderValue;
use url::Url;

const INVALID_URL: &str = "an invalid URL";

/// Whether both URLs have the same scheme, host and port. Source: RFC 6454, 5.
#[must_use]
pub fn same(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// The target of a redirect from `from`, checked as by [`within`].
///
/// # Errors
/// Why the redirect is not followed.
pub fn redirect(from: &Url, location: &HeaderValue) -> Result<Url, String> {
    let location = location.to_str().map_err(|_| format!("redirects to {INVALID_URL}"))?;
    within(from, location).map_err(|target| {
        let may_be_configured = from.join(location).is_ok_and(|to| to.has_host() && !has_user(&to));
        let edit = if may_be_configured { "; if it is trusted, write it in `url`" } else { "" };
        format!("redirects to {target}{edit}")
    })
}

/// Resolves `reference`, which a peer at `from` sent. Headers with secrets may be sent to the result.
///
/// # Errors
/// What it is instead: no URL, a URL with a user name, or another origin.
pub fn within(from: &Url, reference: &str) -> Result<Url, String> {
    let to = from.join(reference).map_err(|_| INVALID_URL)?;
    if has_user(&to) {
        return Err("a URL with a user name".to_owned());
    }
    if !same(from, &to) {
        return Err(format!("another origin: {}", shown_origin(&to)));
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
