//! Proxies of the environment. They resolve names for themselves.

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

/// The configured proxies and their exceptions.
pub(super) struct Proxies {
    matcher: Matcher,
    /// Host names of the proxies.
    hosts: Vec<String>,
}

/// The proxy of one request.
pub(super) struct Proxy {
    intercept: Intercept,
    /// The environment variable that names it.
    variable: &'static str,
}

impl Proxies {
    /// Reads the proxy variables.
    pub(super) fn of_environment() -> Self {
        let values = [ALL, HTTPS, HTTP].into_iter().flatten().filter_map(|name| env::var(name).ok());
        let hosts = values.filter_map(|value| host_of_proxy(&value)).collect();
        let matcher = if exempts_all() { Matcher::builder().build() } else { Matcher::from_env() };
        Self { matcher, hosts }
    }

    /// No proxy, for servers of this machine.
    pub(super) fn none() -> Self {
        Self { matcher: Matcher::builder().build(), hosts: Vec::new() }
    }

    /// The proxy for connections to this URI.
    pub(super) fn of(&self, uri: &Uri) -> Option<Proxy> {
        let intercept = self.matcher.intercept(uri)?;
        let of_scheme = if uri.scheme() == Some(&Scheme::HTTPS) { HTTPS } else { HTTP };
        Some(Proxy { intercept, variable: variable(of_scheme) })
    }

    /// Whether a proxy has this host name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }

    /// Whether a proxy resolves the host name of this URL.
    pub(super) fn resolve_host_of(&self, url: &Url) -> bool {
        let proxy = Uri::try_from(url.as_str()).ok().and_then(|uri| self.of(&uri));
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

    /// Whether the proxy resolves names, by its scheme as in curl.
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

    /// Whether the proxy receives the request itself. Through a tunnel it sees only encrypted bytes.
    pub(super) fn is_sent(&self, uri: &Uri) -> bool {
        !self.is_socks() && uri.scheme() == Some(&Scheme::HTTP)
    }
}

/// For messages: without user and password.
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
    let first = |variables: [&'static str; 2]| {
        variables.into_iter().find_map(|name| env::var(name).ok().map(|value| (name, value)))
    };
    let is_proxy = |value: &str| {
        Matcher::builder().all(value.to_owned()).build().intercept(&Uri::from_static("http://host.invalid/")).is_some()
    };
    let specific = first(of_scheme).filter(|(_, value)| is_proxy(value));
    specific.or_else(|| first(ALL)).map_or(ALL[0], |(name, _)| name)
}

/// Whether `NO_PROXY` is `*`. The matcher applies `*` to names, but not to addresses.
fn exempts_all() -> bool {
    let exempted = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| env::var(name).ok());
    exempted.is_some_and(|hosts| hosts.split(',').any(|host| host.trim() == "*"))
}

/// The host name in a proxy variable, if it is no IP address. Without a scheme it is an HTTP proxy.
fn host_of_proxy(text: &str) -> Option<String> {
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&with_scheme).ok()?;
    let host = url.host_str()?;
    host.parse::<IpAddr>().is_err().then(|| host.to_owned())
}
