//! Where the requests to a server at a URL go: to a host, or to a Unix socket. Pure.
//!
//! `unix:/run/x.sock#/mcp` and `unix:///run/x.sock#/mcp` name a socket and the path of the requests there, as in VS Code. Without a
//! path it is `/`.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use url::{Host, Url};

/// Longest path of a socket, in bytes. Source: unix(7), `sun_path`.
const MAX_SOCKET_PATH: usize = 107;

/// Why a URL does not go with a command.
pub(super) const NOT_LOCAL: &str = "leads to another machine, and the `command` of this server runs on this one";

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    url: Url,
    socket: Option<PathBuf>,
}

impl Address {
    /// The address in the `url` of a server.
    ///
    /// # Errors
    /// Why the text is no valid URL: the rest of a sentence that begins with it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if is_unix(text) {
            return Self::of_socket(text);
        }
        let Some(rest) = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme)) else {
            return Err("does not begin with `http://`, `https://` or `unix:`");
        };
        if rest.is_empty() {
            return Err("has no host: write one after `//`, as in `https://example.org/mcp`");
        }
        let url = parsed(text)?;
        // A user name would print a secret, and a fragment is never sent.
        if !url.username().is_empty() || url.password().is_some() {
            return Err("has a user name or a password");
        }
        if url.fragment().is_some() {
            return Err("has a `#`");
        }
        Ok(Self { url, socket: None })
    }

    fn of_socket(text: &str) -> Result<Self, &'static str> {
        let url = parsed(text)?;
        if url.host_str().is_some_and(|host| !host.is_empty()) || !url.path().starts_with('/') {
            return Err("has no absolute path: write one after `unix:`, as in `unix:/run/user/1000/x.sock#/mcp`");
        }
        let socket = PathBuf::from(OsString::from_vec(percent_decode_str(url.path()).collect()));
        if socket.as_os_str().len() > MAX_SOCKET_PATH {
            return Err("has a path of more than 107 bytes, the limit of Unix sockets");
        }
        let path = url.fragment().unwrap_or_default();
        if !path.is_empty() && !path.starts_with('/') {
            return Err("has no `/` after its `#`: the path of the requests begins there, as in `#/mcp`");
        }
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        Ok(Self { url: parsed(&format!("http://localhost{path}{query}"))?, socket: Some(socket) })
    }

    /// The HTTP URL that requests name.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// The socket, if it is one.
    pub(crate) fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// The addresses of this machine that it means; none for a socket and for any other host.
    pub(crate) fn loopback(&self) -> Vec<IpAddr> {
        let mut all: Vec<IpAddr> = match self.url.host() {
            Some(Host::Domain("localhost")) => vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()],
            Some(Host::Ipv4(address)) => vec![address.into()],
            Some(Host::Ipv6(address)) => vec![address.into()],
            Some(Host::Domain(_)) | None => Vec::new(),
        };
        all.retain(|address| self.socket.is_none() && address.is_loopback());
        all
    }

    /// Whether only programs of this machine can receive requests there.
    pub(crate) fn is_local(&self) -> bool {
        self.socket.is_some() || !self.loopback().is_empty()
    }

    /// Scheme, host and port, or the socket: what messages show of it. The rest may be secret.
    pub(super) fn origin(&self) -> String {
        match &self.socket {
            Some(socket) => format!("unix:{}", socket.display()),
            None => self.url.origin().ascii_serialization(),
        }
    }
}

/// Whether this text names a socket, if it is a URL.
pub(crate) fn is_unix(text: &str) -> bool {
    text.starts_with("unix:")
}

/// Why a text is not a valid URL of a server, whose program mcpd starts if it `is_served`.
pub(crate) fn url_complaint(text: &str, is_served: bool) -> Option<&'static str> {
    match Address::parse(text) {
        Err(complaint) => Some(complaint),
        Ok(address) if is_served && !address.is_local() => Some(NOT_LOCAL),
        Ok(_) => None,
    }
}

fn parsed(text: &str) -> Result<Url, &'static str> {
    if text.contains(|c: char| c.is_control() || c == ' ') {
        return Err("has a space or a control character");
    }
    Url::parse(text).map_err(|error| match error {
        url::ParseError::InvalidPort => "has an invalid port: the highest is 65535",
        _ => "is no URL",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_and_path_stand_before_and_after_the_number_sign() {
        for (text, socket, url) in [
            ("unix:/run/x.sock#/mcp", "/run/x.sock", "http://localhost/mcp"),
            ("unix:///run/x.sock#/mcp/a?b=c", "/run/x.sock", "http://localhost/mcp/a?b=c"),
            ("unix:/run/x.sock?b=c#/mcp", "/run/x.sock", "http://localhost/mcp?b=c"),
            ("unix:/run/x.sock", "/run/x.sock", "http://localhost/"),
            ("unix:///run/x.sock#", "/run/x.sock", "http://localhost/"),
            ("unix:/a%20b%23c%C3%A4/s#/", "/a b#cä/s", "http://localhost/"),
        ] {
            let address = Address::parse(text).expect("it is valid");
            assert_eq!((address.socket(), address.url().as_str()), (Some(Path::new(socket)), url), "{text}");
            assert_eq!((address.is_local(), address.origin()), (true, format!("unix:{socket}")));
        }
        let long = format!("unix:/{}", "x".repeat(MAX_SOCKET_PATH));
        for (text, complaint) in [
            ("unix:", "has no absolute path"),
            ("unix:x.sock", "has no absolute path"),
            ("unix://run/x.sock", "has no absolute path"),
            ("unix:/x.sock#mcp", "has no `/` after its `#`"),
            ("unix:/x y", "has a space"),
            (&long, "has a path of more than 107 bytes"),
        ] {
            let found = Address::parse(text).expect_err("it is not valid");
            assert!(found.starts_with(complaint), "{text}: {found}");
        }
    }

    #[test]
    fn only_loopback_addresses_and_sockets_are_local() {
        for (text, count) in [
            ("http://127.0.0.1:1/mcp", 1),
            ("http://127.1.2.3", 1),
            ("https://[::1]:1", 1),
            ("http://localhost:1/mcp", 2),
            ("http://x.localhost/mcp", 0),
            ("http://0.0.0.0:1", 0),
            ("http://[::]:1", 0),
            ("http://10.0.0.1", 0),
            ("https://example.org", 0),
        ] {
            let address = Address::parse(text).expect("it is valid");
            assert_eq!((address.loopback().len(), address.is_local()), (count, count > 0), "{text}");
        }
    }
}
