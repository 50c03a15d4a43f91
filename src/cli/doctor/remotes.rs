//! What to do about a server with a URL that is down, by what is said of it. Pure.

/// What a reason holds, and what to do then; the first that fits. The words are those of the system, of rustls and of mcpd
/// itself.
const CURES: [(&str, &str); 17] = [
    // Whatever is wrong there, it is not the server that is.
    (
        "the proxy ",
        "start that proxy, or correct or unset the environment variable that names it; `NO_PROXY` excepts hosts from it",
    ),
    ("CaUsedAsEndEntity", "its certificate is self-signed: save that certificate and name its PEM file as `ca_file`"),
    (
        "UnknownIssuer",
        "its certificate is signed by an authority that is not known here: name that one's PEM file as `ca_file`",
    ),
    (
        "not valid for name",
        "write the name as `url` that its certificate is for, or have it made for the one that is there",
    ),
    (
        "certificate expired",
        "its certificate has expired: whoever runs it has to renew it, unless the clock here is wrong",
    ),
    ("certificate not valid yet", "set the clock here: its certificate is not valid yet"),
    ("invalid peer certificate", "whoever runs it has to mend its certificate"),
    ("no certificates", "install the certificates of the system's authorities (`ca-certificates`)"),
    ("`ca_file`", "write the path of a PEM file with the authority's certificate as `ca_file`"),
    ("lookup address", "look whether the host of its `url` is written right, and whether names are resolved here"),
    ("onnection refused", "nothing listens there: start it, or write another port in its `url`"),
    ("unreachable", "look whether this machine has a network that leads there"),
    ("HTTP 401", "look whether its `headers` hold what lets you in"),
    ("HTTP 403", "look whether its `headers` hold what lets you in"),
    ("HTTP 404", "correct the path of its `url`; many servers have `/mcp`"),
    ("HTTP 405", "correct the path of its `url`; many servers have `/mcp`"),
    ("speaks neither", "correct the path of its `url`; many servers have `/mcp`"),
];

/// What to do about a server at `origin` that is down for this reason.
pub(super) fn cure(reason: &str, origin: &str) -> String {
    let known = CURES.iter().find(|(part, _)| reason.contains(part));
    known.map_or_else(|| look(origin), |(_, cure)| (*cure).to_owned())
}

/// Where mcpd itself knows no more.
pub(super) fn look(origin: &str) -> String {
    format!("look at how {origin} is reached from here")
}

/// The variable that sends requests to `origin` by a proxy, if one does. What `NO_PROXY` excepts is not looked at.
pub(super) fn proxy(origin: &str, is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    let of_scheme =
        if origin.starts_with("https:") { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    of_scheme.into_iter().chain(["ALL_PROXY", "all_proxy"]).find(|name| is_set(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_says_what_to_do() {
        for (reason, part) in [
            ("cannot be reached: invalid peer certificate: UnknownIssuer", "`ca_file`"),
            ("cannot be reached: invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", "is self-signed"),
            (
                "cannot be reached: invalid peer certificate: certificate not valid for name \"a\"; …",
                "the name as `url`",
            ),
            ("cannot be reached: invalid peer certificate: certificate expired: verification time 2 …", "renew it"),
            ("cannot be reached: invalid peer certificate: BadSignature", "mend its certificate"),
            ("cannot be reached: Connection refused (os error 111)", "start it"),
            ("cannot be reached: failed to lookup address information: Name or service not known", "host of its `url`"),
            (
                "cannot be reached: the proxy 127.0.0.1:1 (`ALL_PROXY`) cannot be reached: Connection refused (os error 111)",
                "start that proxy",
            ),
            ("answers with HTTP 404: Not Found", "correct the path"),
            ("answers with HTTP 401", "`headers`"),
            ("answers with HTTP 503", "https://example.org is reached"),
        ] {
            let cure = cure(reason, "https://example.org");
            assert!(cure.contains(part), "{reason}: {cure}");
        }
    }

    #[test]
    fn the_proxy_is_that_of_the_scheme_or_of_all() {
        let proxy = |origin, set: &[&str]| proxy(origin, |name| set.contains(&name));
        assert_eq!(proxy("https://a", &["HTTP_PROXY", "ALL_PROXY"]), Some("ALL_PROXY"));
        assert_eq!(proxy("https://a", &["https_proxy"]), Some("https_proxy"));
        assert_eq!(proxy("http://a", &["HTTP_PROXY"]), Some("HTTP_PROXY"));
        assert_eq!(proxy("http://a", &["HTTPS_PROXY", "NO_PROXY"]), None);
    }
}
