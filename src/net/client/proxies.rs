//! The proxies of the environment, which resolve names for themselves.

use std::env;
use std::fmt;
use std::net::IpAddr;

use http::header::HeaderValue;
use http::uri::{Scheme, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use url::Url;

const ALL: [&str; 2] = ["ALL_PROXY", "all_proxy"];
const HTTPS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const HTTP: [&str; 2] = ["HTTP_PROXY", "http_proxy"];

/// By which requests go, and which go by none.
pub(super) struct Proxies {
    matcher: Matcher,
    /// Names of their hosts.
    hosts: Vec<String>,
}

/// The proxy of one request.
pub(super) struct Proxy {
    intercept: Intercept,
    /// The environment variable that names it.
    variable: &'static str,
}

impl Proxies {
    /// Those that the variables name.
    pub(super) fn of_environment() -> Self {
        let values = [ALL, HTTPS, HTTP].into_iter().flatten().filter_map(|name| env::var(name).ok());
        let hosts = values.filter_map(|value| host_of_proxy(&value)).collect();
        let matcher = if excepts_all() { Matcher::builder().build() } else { Matcher::from_env() };
        Self { matcher, hosts }
    }

    /// By which one connections to this place are made.
    pub(super) fn of(&self, place: &Uri) -> Option<Proxy> {
        let intercept = self.matcher.intercept(place)?;
        let of_scheme = if place.scheme() == Some(&Scheme::HTTPS) { HTTPS } else { HTTP };
        Some(Proxy { intercept, variable: variable(of_scheme) })
    }

    /// Whether a host of this name is one of them.
    pub(super) fn has(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }

    /// Whether the name in this URL is resolved by a proxy, and not here.
    pub(super) fn resolve_host_of(&self, url: &Url) -> bool {
        let proxy = Uri::try_from(url.as_str()).ok().and_then(|place| self.of(&place));
        proxy.is_some_and(|proxy| proxy.resolves())
    }
}

impl Proxy {
    pub(super) fn uri(&self) -> &Uri {
        self.intercept.uri()
    }

    pub(super) fn is_socks(&self) -> bool {
        self.scheme().starts_with("socks")
    }

    /// Whether it is sent names, as curl has it for each scheme.
    pub(super) fn resolves(&self) -> bool {
        !self.is_socks() || self.scheme().ends_with(['a', 'h'])
    }

    pub(super) fn scheme(&self) -> &str {
        self.uri().scheme_str().unwrap_or_default()
    }

    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        self.intercept.basic_auth()
    }

    pub(super) fn user(&self) -> Option<(&str, &str)> {
        self.intercept.raw_auth()
    }

    /// Whether it is sent the request itself. One that makes a tunnel sees nothing of the request.
    pub(super) fn is_sent(&self, place: &Uri) -> bool {
        !self.is_socks() && place.scheme() == Some(&Scheme::HTTP)
    }
}

/// As it is named to a person: without its user and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = if self.is_socks() {
            1080
        } else if self.scheme() == "https" {
            443
        } else {
            80
        };
        let (host, port) = (self.uri().host().unwrap_or_default(), self.uri().port_u16().unwrap_or(default));
        write!(f, "the proxy {host}:{port} (`{}`)", self.variable)
    }
}

/// The variable that the matcher took the proxy from: the one for the scheme if it names a proxy, else the one for all schemes.
fn variable(of_scheme: [&'static str; 2]) -> &'static str {
    let first =
        |names: [&'static str; 2]| names.into_iter().find_map(|name| env::var(name).ok().map(|value| (name, value)));
    let is_proxy = |value: &str| {
        Matcher::builder().all(value.to_owned()).build().intercept(&Uri::from_static("http://host.invalid/")).is_some()
    };
    let own = first(of_scheme).filter(|(_, value)| is_proxy(value));
    own.or_else(|| first(ALL)).map_or(ALL[0], |(name, _)| name)
}

/// Whether no request is to go by a proxy. The matcher takes `*` for all names, but not for addresses.
fn excepts_all() -> bool {
    let excepted = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| env::var(name).ok());
    excepted.is_some_and(|hosts| hosts.split(',').any(|host| host.trim() == "*"))
}

/// The name of a proxy's host, if it has one, as its variable has it: without a scheme it is one over HTTP.
fn host_of_proxy(text: &str) -> Option<String> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&with_scheme).ok()?;
    let host = url.host_str()?;
    host.parse::<IpAddr>().is_err().then(|| host.to_owned())
}
