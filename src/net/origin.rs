//! Which URLs belong together, and which addresses are everybody's. Pure.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::HeaderValue;
use url::Url;

const NO_URL: &str = "what is no URL";

/// Whether both have the same scheme, host and port. Source: RFC 6454, 5.
#[must_use]
pub fn same(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// Where an answer to a request to `from` sends it on to, as [`within`] does.
///
/// # Errors
/// Says why it is not followed.
pub fn redirect(from: &Url, location: &HeaderValue) -> Result<Url, String> {
    let location = location.to_str().map_err(|_| NO_URL.to_owned());
    location.and_then(|location| within(from, location)).map_err(|place| format!("redirects to {place}"))
}

/// Where `reference`, which somebody at `from` has written, leads to: headers that hold secrets may go there as well.
///
/// # Errors
/// Says what it is instead: no URL, one with a user name, or one of another origin.
pub fn within(from: &Url, reference: &str) -> Result<Url, String> {
    let to = from.join(reference).map_err(|_| NO_URL)?;
    if has_user(&to) {
        return Err("a URL with a user name in it".to_owned());
    }
    if !same(from, &to) {
        return Err(format!("another origin: {}", told(&to)));
    }
    Ok(to)
}

/// Whether it carries a user name or a password.
pub(super) fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// The origin of a URL that a peer has written, fit to be printed: the rest of it may hold a secret.
pub(crate) fn told(url: &Url) -> String {
    /// No name of a host is longer. Source: RFC 1035, 2.3.4.
    const MOST: usize = 255 + "https://:65535".len();
    let origin = url.origin().ascii_serialization();
    if origin.len() > MOST { "a very long one".to_owned() } else { origin }
}

/// Whether an address is one of the public internet: neither this machine, nor its network, nor set apart for something else.
/// Source: the IANA special-purpose address registries (RFC 6890).
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let set_apart = match address.octets() {
        // Of this network; shared between a provider and its customers; of protocols; relays for 6to4; benchmarks; reserved.
        [0 | 240..=255, ..] | [100, 64..=127, ..] | [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] => true,
        _ => false,
    };
    !(set_apart
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast())
}

/// Those that hold an IPv4 address lead to it.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let inner = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        // Mapped, compatible (which `::` and `::1` look like as well), NAT64.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
        [0x2002, high, low, ..] => inner(high, low),
        // Of protocols, such as Teredo; documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // All others that were ever given out: local ones, private ones and multicast are not among them.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}
