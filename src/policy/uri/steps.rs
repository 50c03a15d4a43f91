//! What single steps of parsers make of a URI.

use std::ops::RangeInclusive;

use percent_encoding::percent_decode_str;
use url::Url;

/// What stands for the wildcards of a pattern and the expressions of a template: a private use area.
pub(super) const PLACEHOLDERS: RangeInclusive<char> = '\u{f0000}'..='\u{ffffd}';

/// One step. `None` where it has nothing to do.
pub(super) type Step = fn(&Text<'_>) -> Option<String>;

/// Steps that bring a URI into a simpler spelling; patterns go through them as well.
pub(super) const NORMALIZING: &[Step] = &[
    decoded,
    forward_slashes,
    single_slashes,
    resolved_path,
    absolute_file,
    whatwg_form,
    without_port,
    without_empty_host,
];

/// Steps of readers that are tolerant, or leave something out.
pub(super) const LENIENT: &[Step] = &[
    resolved_whole,
    resolved_from_host,
    without_fragment,
    without_query,
    without_parameters,
    without_file_host,
    file_host_as_directory,
    without_user_and_dot,
    trimmed,
];

/// A URI, taken apart as RFC 3986 does.
pub(super) struct Text<'a> {
    pub(super) text: &'a str,
    /// Without its `:`. Empty if there is none.
    scheme: &'a str,
    authority: Option<&'a str>,
    /// All that follows, query and fragment included.
    rest: &'a str,
    is_masked: bool,
}

pub(super) fn is_placeholder(c: char) -> bool {
    PLACEHOLDERS.contains(&c)
}

impl<'a> Text<'a> {
    pub(super) fn plain(text: &'a str) -> Self {
        Self::parse(text, false)
    }

    /// One with placeholders.
    pub(super) fn masked(text: &'a str) -> Self {
        Self::parse(text, true)
    }

    /// Another text that has placeholders if this one has.
    pub(super) fn with<'b>(&self, text: &'b str) -> Text<'b> {
        Text::parse(text, self.is_masked)
    }

    fn parse(text: &'a str, is_masked: bool) -> Self {
        let whole = Self { text, scheme: "", authority: None, rest: text, is_masked };
        let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
            // The scheme of a pattern may contain a wildcard; the `://` after it shows that it is a scheme.
            return match text.split_once("://").filter(|(scheme, _)| is_masked && is_masked_scheme(scheme)) {
                Some((scheme, rest)) => whole.hierarchical(scheme, rest),
                None => whole,
            };
        };
        match rest.strip_prefix("//") {
            Some(rest) => whole.hierarchical(scheme, rest),
            None => Self { scheme, rest, ..whole },
        }
    }

    fn hierarchical(self, scheme: &'a str, rest: &'a str) -> Self {
        let end = rest.find(['/', '?', '#']).unwrap_or_else(|| {
            // Without an end in sight a wildcard may reach beyond the authority.
            rest.find(|c| self.is_masked && is_placeholder(c)).unwrap_or(rest.len())
        });
        let (authority, rest) = rest.split_at(end);
        Self { scheme, authority: Some(authority), rest, ..self }
    }

    /// The same with another path, query and fragment.
    fn with_rest(&self, rest: &str) -> String {
        let before = &self.text[..self.text.len() - self.rest.len()];
        [before, rest].concat()
    }

    fn with_authority(&self, authority: &str) -> String {
        [self.scheme, "://", authority, self.rest].concat()
    }

    fn is_file(&self) -> bool {
        self.scheme.eq_ignore_ascii_case("file")
    }

    /// With scheme and host in lower case, and `file:///` for a `file:` URI of this machine (RFC 3986, 6.2.2.1; RFC 8089).
    pub(super) fn normalized(&self) -> String {
        let scheme = self.scheme.to_ascii_lowercase();
        match self.authority {
            Some(authority) if self.is_file() && authority.eq_ignore_ascii_case("localhost") => {
                ["file://", self.rest].concat()
            }
            Some(authority) => [&scheme, "://", &authority.to_ascii_lowercase(), self.rest].concat(),
            None if self.is_file() && self.rest.starts_with('/') => ["file://", self.rest].concat(),
            None if scheme.is_empty() => self.text.to_owned(),
            None => [&scheme, ":", self.rest].concat(),
        }
    }

    /// Whether the text contains something that parsers treat differently (drop, keep or stop at): control characters,
    /// escapes that are not valid UTF-8, or `%uXXXX`.
    pub(super) fn is_disputed(&self) -> bool {
        let has_wide_escape = || {
            let mut escapes = self.text.split("%u").skip(1).chain(self.text.split("%U").skip(1));
            escapes.any(|rest| rest.len() >= 4 && rest.bytes().take(4).all(|digit| digit.is_ascii_hexdigit()))
        };
        self.text.chars().any(char::is_control)
            || (self.text.contains('%') && (has_wide_escape() || percent_decode_str(self.text).decode_utf8().is_err()))
    }

    /// What decoding makes of `text`, unless that makes placeholders.
    fn decode(&self, text: &str) -> Option<String> {
        let decoded = percent_decode_str(text).decode_utf8().ok()?;
        let placeholders = |text: &str| text.chars().filter(|c| is_placeholder(*c)).count();
        (!self.is_masked || placeholders(&decoded) == placeholders(self.text)).then(|| decoded.into_owned())
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn is_masked_scheme(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| is_placeholder(c) || c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Without percent-encoding, undone once. What is no escape stays.
fn decoded(uri: &Text<'_>) -> Option<String> {
    uri.text.contains('%').then(|| uri.decode(uri.text)).flatten()
}

fn forward_slashes(uri: &Text<'_>) -> Option<String> {
    uri.text.contains('\\').then(|| uri.text.replace('\\', "/"))
}

/// As file systems do, and `posixpath.normpath`.
fn single_slashes(uri: &Text<'_>) -> Option<String> {
    if !uri.rest.contains("//") {
        return None;
    }
    let mut rest = String::with_capacity(uri.rest.len());
    for c in uri.rest.chars() {
        if c != '/' || !rest.ends_with('/') {
            rest.push(c);
        }
    }
    Some(uri.with_rest(&rest))
}

/// Without dot segments in its path (RFC 3986, 5.2.4).
fn resolved_path(uri: &Text<'_>) -> Option<String> {
    let (path, query) = uri.rest.split_at(uri.rest.find(['?', '#']).unwrap_or(uri.rest.len()));
    Some(uri.with_rest(&[&resolved(path, uri.is_masked)?, query].concat()))
}

/// The same for readers that take `?` and `#` for parts of the path.
fn resolved_whole(uri: &Text<'_>) -> Option<String> {
    Some(uri.with_rest(&resolved(uri.rest, uri.is_masked)?))
}

/// The same for readers that take the host for the first directory, as those do that cut `scheme://` off.
fn resolved_from_host(uri: &Text<'_>) -> Option<String> {
    let authority = uri.authority?;
    let resolved = resolved(&[authority, uri.rest].concat(), uri.is_masked)?;
    Some([uri.scheme, "://", &resolved].concat())
}

/// `None` if there are no dot segments, or if a `..` would remove a segment that contains a placeholder.
fn resolved(path: &str, is_masked: bool) -> Option<String> {
    let is_dots = |segment: &str| matches!(segment, "." | "..");
    if !path.split('/').any(is_dots) {
        return None;
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    let mut kept = Vec::new();
    for segment in path[root.len()..].split('/') {
        match segment {
            "." => {}
            ".." => {
                let left = kept.pop();
                if is_masked && left.is_some_and(|left: &str| left.contains(is_placeholder)) {
                    return None;
                }
            }
            segment => kept.push(segment),
        }
    }
    let end = if !kept.is_empty() && path.rsplit('/').next().is_some_and(is_dots) { "/" } else { "" };
    Some([root, &kept.join("/"), end].concat())
}

/// `file:a/b` as an absolute path, as WHATWG has it.
fn absolute_file(uri: &Text<'_>) -> Option<String> {
    let is_relative = uri.is_file() && uri.authority.is_none() && !uri.rest.starts_with('/');
    is_relative.then(|| ["file:///", uri.rest].concat())
}

/// As `new URL` has it, without the escapes that it adds.
fn whatwg_form(uri: &Text<'_>) -> Option<String> {
    let parsed = Url::parse(uri.text).ok()?;
    if parsed.as_str() == uri.text {
        return None;
    }
    uri.decode(parsed.as_str())
}

/// The authority without its port. A user name is kept; `without_user_and_dot` removes it.
fn without_port(uri: &Text<'_>) -> Option<String> {
    let (host, port) = uri.authority?.rsplit_once(':')?;
    let is_port = port.bytes().all(|digit| digit.is_ascii_digit());
    is_port.then(|| uri.with_authority(host))
}

/// `note:///a` as `note://a`, as readers have it that cut the scheme and all slashes off.
fn without_empty_host(uri: &Text<'_>) -> Option<String> {
    let is_empty = !uri.is_file() && uri.authority == Some("") && uri.rest.starts_with('/');
    is_empty.then(|| [uri.scheme, "://", uri.rest.trim_start_matches('/')].concat())
}

fn without_fragment(uri: &Text<'_>) -> Option<String> {
    uri.rest.split_once('#').map(|(rest, _)| uri.with_rest(rest))
}

/// A reader that knows no fragments has them in the query.
fn without_query(uri: &Text<'_>) -> Option<String> {
    uri.rest.split_once('?').map(|(rest, _)| uri.with_rest(rest))
}

/// Without the last `;…` of a segment, as `urllib.parse.urlparse` and servlets have it.
fn without_parameters(uri: &Text<'_>) -> Option<String> {
    let last = uri.rest.rfind(';')?;
    let segment = uri.rest[..last].rfind('/').map_or(0, |slash| slash + 1);
    let begin = segment + uri.rest[segment..].find(';')?;
    let end = uri.rest[last..].find('/').map_or(uri.rest.len(), |slash| last + slash);
    Some(uri.with_rest(&[&uri.rest[..begin], &uri.rest[end..]].concat()))
}

/// The path of a `file:` URI, whatever its host, as `urlsplit(uri).path` has it.
fn without_file_host(uri: &Text<'_>) -> Option<String> {
    let has_host = uri.is_file() && uri.authority.is_some_and(|host| !host.is_empty());
    has_host.then(|| uri.with_authority(""))
}

/// All that follows `file://`, as readers have it that cut the beginning off.
fn file_host_as_directory(uri: &Text<'_>) -> Option<String> {
    let host = uri.authority.filter(|host| uri.is_file() && !host.is_empty())?;
    Some(["file:///", host, uri.rest].concat())
}

/// The authority without user and without the final dot of the host.
fn without_user_and_dot(uri: &Text<'_>) -> Option<String> {
    let authority = uri.authority?;
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let (host, port) = host.split_at(host.rfind(':').unwrap_or(host.len()));
    let bare = [host.strip_suffix('.').unwrap_or(host), port].concat();
    (bare != authority).then(|| uri.with_authority(&bare))
}

fn trimmed(uri: &Text<'_>) -> Option<String> {
    let trimmed = uri.text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    (trimmed != uri.text).then(|| trimmed.to_owned())
}
