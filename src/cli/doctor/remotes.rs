//! The remedy for a server with a URL that is down, by the code of its error. Pure.

/// Begins the origin of a Unix socket.
const UNIX: &str = "unix:";

/// Whether the code is about a connection or an answer over HTTP, not about a program.
pub(super) fn is_about_http(code: &str) -> bool {
    let others =
        ["connection_refused", "event_stream_closed", "foreign_listener", "not_plain", "not_tls", "protocol_violation"];
    code.starts_with("http_")
        || others.contains(&code)
        || ["redirect", "session_ended", "unknown_coding"].contains(&code)
}

/// What to do about a server at `origin` that is down with an error of this code.
pub(super) fn remedy(code: &str, origin: &str) -> String {
    let remedy = match code {
        "proxy" => {
            "start that proxy, or correct or unset the environment variable that names it; `NO_PROXY` excludes hosts from it"
        }
        "certificate_self_signed" => {
            "its certificate is self-signed: save that certificate and name its PEM file as `ca_file`"
        }
        "certificate_unknown_issuer" => {
            "its certificate is signed by an unknown authority: name the PEM file of that authority as `ca_file`"
        }
        "certificate_wrong_name" => {
            "use the name in its certificate as `url`, or get a certificate for the present name"
        }
        "certificate_expired" => {
            "its certificate has expired: compare the clock here (`date`) with the right time; if it is right, its operator has to renew the certificate"
        }
        "certificate_not_yet_valid" => {
            "its certificate is not valid yet: compare the clock here (`date`) with the right time; if it is right, its operator has to replace the certificate"
        }
        "certificate_invalid" => "its operator has to repair its certificate",
        "no_certificate_authorities" => "install the certificates of the system's authorities (`ca-certificates`)",
        "ca_file" => "write the path of a PEM file with the authority's certificate as `ca_file`",
        "name_lookup" => "check the host of its `url`, and whether this machine can resolve names",
        "connection_refused" if origin.starts_with(UNIX) => {
            "nothing listens there: start it, or correct the path of the socket in its `url`"
        }
        "connection_refused" => "nothing listens there: start it, or write another port in its `url`",
        "foreign_listener" if origin.starts_with(UNIX) => {
            "if it is the right server, have this user run it; else write another path in its `url`"
        }
        "foreign_listener" => "stop that process, or write another port in its `url`",
        "network_unreachable" => "check whether this machine has a network that leads there",
        "http_unauthorized" | "http_forbidden" => "check the credentials in its `headers`",
        "http_not_found" | "http_method_not_allowed" => "correct the path of its `url`; many servers have `/mcp`",
        "not_tls" => "write `http://` in its `url`, if it serves plain HTTP, or its port for HTTPS",
        "redirect" => "write the origin that it redirects to in its `url`, if you trust it",
        "initialize_timeout" | "discover_timeout" | "start_timeout" => {
            return format!("{}, and give the server more time with `handshake_timeout` if it needs it", check(origin));
        }
        "not_plain" => {
            return format!("{}; if it serves HTTPS, write `https://` in its `url`", check(origin));
        }
        "unreachable" => return check(origin),
        "session_ended" | "event_stream_closed" | "unanswered" => {
            return format!("{origin} is reached, and does not keep the connection: its operator's log may show why");
        }
        // The server itself has answered.
        _ => {
            return format!(
                "{origin} is reached, but does not answer as an MCP server: correct the path of its `url`, or report it to its operator"
            );
        }
    };
    remedy.to_owned()
}

/// The remedy where the code shows no more.
pub(super) fn check(origin: &str) -> String {
    format!("check how this machine reaches {origin}")
}

/// The variable that sends requests to `origin` through a proxy, if one does. Ignores `NO_PROXY`.
pub(super) fn proxy(origin: &str, is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    if origin.starts_with(UNIX) {
        return None;
    }
    let of_scheme =
        if origin.starts_with("https:") { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    of_scheme.into_iter().chain(["ALL_PROXY", "all_proxy"]).find(|name| is_set(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedy_follows_from_the_code() {
        for (code, part) in [
            ("certificate_unknown_issuer", "`ca_file`"),
            ("certificate_self_signed", "is self-signed"),
            ("certificate_wrong_name", "as `url`"),
            ("certificate_expired", "renew the certificate"),
            ("certificate_not_yet_valid", "`date`"),
            ("certificate_invalid", "repair its certificate"),
            ("connection_refused", "start it"),
            ("name_lookup", "host of its `url`"),
            ("proxy", "start that proxy"),
            ("http_not_found", "correct the path"),
            ("http_unauthorized", "`headers`"),
            ("redirect", "in its `url`"),
            ("http_status", "https://example.org is reached"),
            ("unreachable", "reaches https://example.org"),
            ("unanswered", "https://example.org is reached"),
            ("initialize_timeout", "`handshake_timeout`"),
            ("not_tls", "write `http://`"),
            ("not_plain", "write `https://`"),
        ] {
            let remedy = remedy(code, "https://example.org");
            assert!(remedy.contains(part), "{code}: {remedy}");
        }
    }

    #[test]
    fn the_proxy_is_that_of_the_scheme_or_of_all() {
        let proxy = |origin, set: &[&str]| proxy(origin, |name| set.contains(&name));
        assert_eq!(proxy("https://a", &["HTTP_PROXY", "ALL_PROXY"]), Some("ALL_PROXY"));
        assert_eq!(proxy("https://a", &["https_proxy"]), Some("https_proxy"));
        assert_eq!(proxy("http://a", &["HTTP_PROXY"]), Some("HTTP_PROXY"));
        assert_eq!(proxy("http://a", &["HTTPS_PROXY", "NO_PROXY"]), None);
        assert_eq!(proxy("unix:/a", &["HTTP_PROXY", "ALL_PROXY"]), None);
    }
}
