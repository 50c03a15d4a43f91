//! Extensions of MCP: which methods belong to one, and which of them mcpd bridges between the eras. Pure.
//!
//! Source: MCP 2026-07-28, `basic/versioning`, "Extension Negotiation"; SEP-2133.

use std::sync::Arc;

/// Agent Skills (SEP-2640).
pub const SKILLS: &str = "io.modelcontextprotocol/skills";
/// MCP Apps (SEP-1865).
pub const UI: &str = "io.modelcontextprotocol/ui";
/// The method of the skills extension that a server may lack.
pub const DIRECTORY_READ: &str = "resources/directory/read";

/// Extensions that mcpd knows, each with the scheme of its resources.
///
/// Their messages have the same form in both eras, apart from members that every result of the modern era has. So a server of one
/// era can serve agents of the other.
const KNOWN: [Descriptor; 2] = [
    Descriptor { id: SKILLS, scheme: "skill", methods: &[DIRECTORY_READ], cached_methods: &["skills/get"] },
    Descriptor { id: UI, scheme: "ui", methods: &[], cached_methods: &[] },
];

struct Descriptor {
    id: &'static str,
    scheme: &'static str,
    /// Methods that do not begin with the name.
    methods: &'static [&'static str],
    /// Methods whose results have cache hints in the modern era.
    cached_methods: &'static [&'static str],
}

/// Whether `method` belongs to the extension `id`: it is the id, or begins with the id or the last segment of the id and `/`.
/// Notifications have `notifications/` before that. The last segment of a known extension belongs to that extension alone, because mcpd
/// filters its results.
#[must_use]
pub fn owns(id: &str, method: &str) -> bool {
    let method = method.strip_prefix("notifications/").unwrap_or(method);
    let begins_with = |prefix: &str| method.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
    method == id
        || begins_with(id)
        || (begins_with(segment(id)) && KNOWN.iter().all(|known| known.id == id || segment(known.id) != segment(id)))
        || KNOWN.iter().any(|known| known.id == id && known.methods.contains(&method))
}

/// Whether agents of one era can use the extension at a server of the other.
#[must_use]
pub fn is_bridged(id: &str) -> bool {
    KNOWN.iter().any(|known| known.id == id)
}

/// Whether the results of this method have cache hints in the modern era.
#[must_use]
pub fn has_cache_hints(method: &[u8]) -> bool {
    KNOWN.iter().any(|known| known.cached_methods.iter().any(|cached| cached.as_bytes() == method))
}

/// The extension whose resources have the scheme of this URI.
#[must_use]
pub fn of_uri(uri: &str) -> Option<&'static str> {
    let (scheme, _) = uri.split_once("://")?;
    KNOWN.iter().find(|known| known.scheme.eq_ignore_ascii_case(scheme)).map(|known| known.id)
}

/// The id for a name in the configuration: the short name of a known extension, or an id.
#[must_use]
pub fn id_of_short_name(short_name: &str) -> Option<Arc<str>> {
    match KNOWN.iter().find(|known| segment(known.id) == short_name) {
        Some(known) => Some(Arc::from(known.id)),
        None => is_id(short_name).then(|| Arc::from(short_name)),
    }
}

/// The short names of known extensions.
pub fn short_names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| segment(known.id))
}

/// The short name of a known extension, else its id.
#[must_use]
pub fn short_name(id: &str) -> &str {
    if is_bridged(id) { segment(id) } else { id }
}

fn segment(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

/// Whether `text` has the form of an id: a prefix and a name.
fn is_id(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
    };
    text.split_once('/').is_some_and(|(prefix, name)| is_part(prefix) && is_part(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_belongs_to_the_extension_that_it_begins_with() {
        for (id, method, expected) in [
            ("a.b/x", "a.b/x", true),
            ("a.b/x", "a.b/x/list", true),
            ("a.b/x", "x/list", true),
            ("a.b/x", "notifications/x/changed", true),
            ("a.b/x", "notifications/a.b/x/changed", true),
            ("a.b/x", "x", false),
            ("a.b/x", "xy/list", false),
            ("a.b/x", "y/x/list", false),
            ("a.b/x", "a.b/xy", false),
            (SKILLS, "skills/get", true),
            (SKILLS, "resources/directory/read", true),
            ("com.example/skills", "resources/directory/read", false),
            ("com.example/skills", "skills/list", false),
            ("com.example/skills", "com.example/skills/list", true),
            (UI, "ui/open", true),
        ] {
            assert_eq!(owns(id, method), expected, "{id} {method}");
        }
    }

    #[test]
    fn short_name_or_id_names_an_extension() {
        for (short_name, expected) in [
            ("skills", Some(SKILLS)),
            ("ui", Some(UI)),
            (SKILLS, Some(SKILLS)),
            ("io.example/x", Some("io.example/x")),
            ("skill", None),
            ("x", None),
            ("/x", None),
            ("a/", None),
            ("a/b/c", None),
            ("a b/c", None),
        ] {
            assert_eq!(id_of_short_name(short_name).as_deref(), expected, "{short_name}");
        }
        assert_eq!((short_name(SKILLS), short_name("io.example/x")), ("skills", "io.example/x"));
    }

    #[test]
    fn scheme_of_a_uri_names_its_extension() {
        assert_eq!((of_uri("skill://a/SKILL.md"), of_uri("UI://x")), (Some(SKILLS), Some(UI)));
        assert_eq!((of_uri("skills://a"), of_uri("file:///skill://a")), (None, None));
    }
}
