//! The proxies of the environment, which resolve names for themselves.

use std::env;
use std::net::IpAddr;

use http::header::HeaderValue;
use http::uri::{Scheme, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use url::Url;

/// The variables that name proxies, which are read in either case.
const PROXIES: [&str; 3] = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"];

/// By which requests go, and which go by none.
pub(super) struct Proxies {
    matcher: Matcher,
    /// Names of their hosts.
    hosts: Vec<String>,
}

impl Proxies {
    /// Those that the variables name.
    pub(super) fn of_environment() -> Self {
        let both = PROXIES.iter().flat_map(|name| [(*name).to_owned(), name.to_ascii_lowercase()]);
        let hosts = both.filter_map(|name| host_of_proxy(&env::var(name).ok()?)).collect();
        let matcher = if excepts_all() { Matcher::builder().build() } else { Matcher::from_env() };
        Self { matcher, hosts }
    }

    /// By which one connections to this place are made.
    pub(super) fn of(&self, place: &Uri) -> Option<Intercept> {
        self.matcher.intercept(place)
    }

    /// What is shown to the one that a request itself is sent to. One that is asked for a tunnel is shown it then.
    pub(super) fn authorization(&self, place: &Uri) -> Option<HeaderValue> {
        let is_sent_there = place.scheme() == Some(&Scheme::HTTP);
        self.of(place).filter(|_| is_sent_there)?.basic_auth().cloned()
    }

    /// Whether a host of this name is one of them.
    pub(super) fn has(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }
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
