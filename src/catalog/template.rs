//! Matches URIs against URI templates.
//!
//! Source: RFC 6570, which defines expansion only. Matching is permissive, since the server checks the URI again: `{x}` matches one or more
//! characters except `/`. The operators `+ # / ? & . ;` match any characters.

/// Maximum length of a URI, in bytes.
const MAX_URI_LEN: usize = 8 << 10;

/// A URI template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UriTemplate(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Box<str>),
    /// One or more characters except `/`.
    Segment,
    /// Any number of any characters.
    Any,
}

impl UriTemplate {
    /// Parses a template. Malformed parts are literal text.
    pub(super) fn parse(text: &str) -> Self {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((literal, (expression, behind))) =
            rest.split_once('{').and_then(|(literal, behind)| Some((literal, behind.split_once('}')?)))
        {
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.into()));
            }
            let is_plain = expression.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '%');
            parts.push(if is_plain && !expression.contains('*') { Part::Segment } else { Part::Any });
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.into()));
        }
        Self(parts)
    }

    /// Whether `uri` matches. Takes time proportional to both lengths. URIs above the maximum length never match.
    pub(super) fn matches(&self, uri: &str) -> bool {
        if uri.len() > MAX_URI_LEN {
            return false;
        }
        // The offsets in the URI where the parts so far can end.
        let mut ends = vec![false; uri.len() + 1];
        ends[0] = true;
        for part in &self.0 {
            ends = part.step(&ends, uri);
        }
        ends[uri.len()]
    }
}

impl Part {
    fn step(&self, from: &[bool], uri: &str) -> Vec<bool> {
        let mut to = vec![false; from.len()];
        match self {
            Self::Literal(literal) => {
                for start in (0..from.len()).filter(|&start| from[start]) {
                    if uri.as_bytes()[start..].starts_with(literal.as_bytes()) {
                        to[start + literal.len()] = true;
                    }
                }
            }
            Self::Segment => {
                let mut open = false;
                for (index, byte) in uri.bytes().enumerate() {
                    open = (open || from[index]) && byte != b'/';
                    to[index + 1] = open;
                }
            }
            Self::Any => {
                let mut open = false;
                for (index, end) in to.iter_mut().enumerate() {
                    open |= from[index];
                    *end = open;
                }
            }
        }
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_matches_what_an_expression_may_have_been() {
        for (template, matching, other) in [
            (
                "demo://{id}",
                &["demo://1", "demo://a%20b"][..],
                &["demo://", "demo://a/b", "demos://a", "xdemo://1"][..],
            ),
            ("file:///{+path}", &["file:///a/b.txt", "file:///"], &["file://a", "http:///a"]),
            ("db://{table}/rows/{id}", &["db://t/rows/7"], &["db://t/rows/", "db://t/x/7", "db:///rows/7"]),
            ("q://s{?q,lang}", &["q://s", "q://s?q=a&lang=b/c"], &["q://", "r://s"]),
            ("{a}-{b}", &["x-y", "x-y-z"], &["-", "x-", "-y", "x/-y"]),
            ("plain://x", &["plain://x"], &["plain://", "plain://xy"]),
            ("odd://{x", &["odd://{x"], &["odd://y"]),
            ("p://{path*}", &["p://a/b"], &["p:/"]),
        ] {
            let parsed = UriTemplate::parse(template);
            for uri in matching {
                assert!(parsed.matches(uri), "{template} {uri}");
            }
            for uri in other {
                assert!(!parsed.matches(uri), "{template} {uri}");
            }
        }
    }

    #[test]
    fn many_expressions_and_a_long_uri_are_decided_without_trying_every_split() {
        let template = UriTemplate::parse(&"{a}x".repeat(100));
        assert!(template.matches(&"ax".repeat(100)));
        assert!(!template.matches(&"ax".repeat(99)));
        assert!(!template.matches(&"y".repeat(8000)));
        assert!(!UriTemplate::parse("{+all}").matches(&"y".repeat(MAX_URI_LEN + 1)));
    }
}
