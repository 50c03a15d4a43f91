//! Single steps of URI parsers.

use std::ops::RangeInclusive;

use percent_encoding::percent_decode_str;
use url::Url;

/// Placeholders for wildcards and expressions: characters of a private use area.
pub(super) const PLACEHOLDERS: RangeInclusive<char> = '\u{f0000}'..='\u{ffffd}';

/// One step. `None` if it does not apply.
pub(super) type Step = fn(&Text<'_>) -> Option<String>;

/// Steps that simplify the spelling of a URI. They also apply to patterns.
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

/// Steps of tolerant parsers, and of parsers that omit parts.
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

/// A URI, split as in RFC 3986.
pub(super) struct Text<'a> {
    pub(super) text: &'a str,
    /// Without its `:`. Empty if there is none.
    scheme: &'a str,
    authority: Option<&'a str>,
    /// Everything after the authority, including query and fragment.
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

    /// Splits a text with placeholders.
    pub(super) fn masked(text: &'a str) -> Self {
        Self::parse(text, true)
    }

    /// Splits `text`, which has placeholders if `self` has.
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
            // Without a delimiter, a wildcard may reach beyond the authority.
            rest.find(|c| self.is_masked && is_placeholder(c)).unwrap_or(rest.len())
        });
        let (authority, rest) = rest.split_at(end);
        Self { scheme, authority: Some(authority), rest, ..self }
    }

    /// This URI with another path, query and fragment.
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

    /// Puts scheme and host in lower case, and writes local `file:` URIs with `file:///` (RFC 3986, 6.2.2.1; RFC 8089).
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

    /// Percent-decodes `text`. `None` if the result contains placeholder characters.
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

/// Undoes one level of percent-encoding. Invalid escapes stay.
fn decoded(uri: &Text<'_>) -> Option<String> {
    uri.text.contains('%').then(|| uri.decode(uri.text)).flatten()
}

fn forward_slashes(uri: &Text<'_>) -> Option<String> {
    uri.text.contains('\\').then(|| uri.text.replace('\\', "/"))
}

/// Merges slashes, as file systems and `posixpath.normpath` do.
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

/// Removes dot segments from the path (RFC 3986, 5.2.4).
fn resolved_path(uri: &Text<'_>) -> Option<String> {
    let (path, query) = uri.rest.split_at(uri.rest.find(['?', '#']).unwrap_or(uri.rest.len()));
    Some(uri.with_rest(&[&resolved(path, uri.is_masked)?, query].concat()))
}

/// Like [`resolved_path`], for parsers that treat `?` and `#` as parts of the path.
fn resolved_whole(uri: &Text<'_>) -> Option<String> {
    Some(uri.with_rest(&resolved(uri.rest, uri.is_masked)?))
}

/// Like [`resolved_path`], for parsers that strip `scheme://` and treat the host as the first directory.
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
    let mut segments = Vec::new();
    for segment in path[root.len()..].split('/') {
        match segment {
            "." => {}
            ".." => {
                let left = segments.pop();
                if is_masked && left.is_some_and(|left: &str| left.contains(is_placeholder)) {
                    return None;
                }
            }
            segment => segments.push(segment),
        }
    }
    let end = if !segments.is_empty() && path.rsplit('/').next().is_some_and(is_dots) { "/" } else { "" };
    Some([root, &segments.join("/"), end].concat())
}

/// Makes the path of `file:a/b` absolute, as WHATWG defines.
fn absolute_file(uri: &Text<'_>) -> Option<String> {
    let is_relative = uri.is_file() && uri.authority.is_none() && !uri.rest.starts_with('/');
    is_relative.then(|| ["file:///", uri.rest].concat())
}

/// The result of `new URL`, without the escapes that it adds.
fn whatwg_form(uri: &Text<'_>) -> Option<String> {
    let parsed = Url::parse(uri.text).ok()?;
    if parsed.as_str() == uri.text {
        return None;
    }
    uri.decode(parsed.as_str())
}

/// Removes the port. `without_user_and_dot` removes the user name.
fn without_port(uri: &Text<'_>) -> Option<String> {
    let (host, port) = uri.authority?.rsplit_once(':')?;
    let is_port = port.bytes().all(|digit| digit.is_ascii_digit());
    is_port.then(|| uri.with_authority(host))
}

/// `note:///a` as `note://a`, for parsers that strip the scheme and all slashes.
fn without_empty_host(uri: &Text<'_>) -> Option<String> {
    let is_empty = !uri.is_file() && uri.authority == Some("") && uri.rest.starts_with('/');
    is_empty.then(|| [uri.scheme, "://", uri.rest.trim_start_matches('/')].concat())
}

fn without_fragment(uri: &Text<'_>) -> Option<String> {
    uri.rest.split_once('#').map(|(rest, _)| uri.with_rest(rest))
}

/// Removes the query. For parsers without fragments, the query includes the fragment.
fn without_query(uri: &Text<'_>) -> Option<String> {
    uri.rest.split_once('?').map(|(rest, _)| uri.with_rest(rest))
}

/// Removes the last `;…` of a segment, as `urllib.parse.urlparse` and servlets do.
fn without_parameters(uri: &Text<'_>) -> Option<String> {
    let last = uri.rest.rfind(';')?;
    let segment = uri.rest[..last].rfind('/').map_or(0, |slash| slash + 1);
    let begin = segment + uri.rest[segment..].find(';')?;
    let end = uri.rest[last..].find('/').map_or(uri.rest.len(), |slash| last + slash);
    Some(uri.with_rest(&[&uri.rest[..begin], &uri.rest[end..]].concat()))
}

/// Removes the host of a `file:` URI, as `urlsplit(uri).path` does.
fn without_file_host(uri: &Text<'_>) -> Option<String> {
    let has_host = uri.is_file() && uri.authority.is_some_and(|host| !host.is_empty());
    has_host.then(|| uri.with_authority(""))
}

/// Makes the host the first directory, for parsers that strip `file://`.
fn file_host_as_directory(uri: &Text<'_>) -> Option<String> {
    let host = uri.authority.filter(|host| uri.is_file() && !host.is_empty())?;
    Some(["file:///", host, uri.rest].concat())
}

/// Removes the user name and the final dot of the host.
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
