//! The exposed names of tools and prompts.
//!
//! Implements the naming schemes, the length limit and the short form. The catalog assigns names in its own order. Exposed names
//! are never parsed: routes are looked up.
//!
//! Pure: no I/O and no clock.

use crate::sha256;

/// Maximum length of an exposed name, in characters. Model APIs accept 64, and clients add a prefix of up to 11 such as `mcp__mcpd__`.
pub const MAX_LENGTH: usize = 53;
const HASH_CHARS: usize = 10;

/// How server and tool name are joined.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// `{server}__{tool}`
    #[default]
    Prefixed,
    /// `mcp__{server}__{tool}`
    McpPrefixed,
    /// `{tool}`. A name that an earlier server uses gets the prefixed form, and so does one that begins with the name of another server
    /// and `__`.
    Bare,
    /// The server's own name, unchanged. Only for the face of one server, so it cannot be configured.
    #[doc(hidden)]
    Own,
}

impl Naming {
    /// What a configuration can select, each with its text.
    pub const ALL: [(&'static str, Self); 3] =
        [("{server}__{tool}", Self::Prefixed), ("mcp__{server}__{tool}", Self::McpPrefixed), ("{tool}", Self::Bare)];

    /// The possible exposed names of a tool, best first. The catalog assigns the first free one.
    ///
    /// The last one contains a hash of the full name, so it fits only this server and tool.
    pub fn candidates(self, server: &str, tool: &str) -> impl Iterator<Item = String> + use<> {
        let whole = self.whole(server, tool);
        let full = whole.last().cloned().unwrap_or_default();
        let fitting = whole.into_iter().map(move |name| self.fit(&name));
        // The hash is expensive and rarely needed, so compute it lazily.
        fitting.chain(std::iter::once_with(move || short_form(&full)))
    }

    /// The unshortened names of a tool, best first.
    #[must_use]
    pub fn whole(self, server: &str, tool: &str) -> Vec<String> {
        let full = match self {
            Self::Own => tool.to_owned(),
            Self::McpPrefixed => format!("mcp__{server}__{tool}"),
            Self::Prefixed | Self::Bare => format!("{server}__{tool}"),
        };
        let bare = (self == Self::Bare).then(|| tool.to_owned());
        bare.into_iter().chain([full]).collect()
    }

    /// Whether a tool of `server` can be exposed as `name`. The route is not checked.
    #[must_use]
    pub fn may_be_of(self, server: &str, name: &[u8]) -> bool {
        let first = match self {
            Self::Bare | Self::Own => return true,
            Self::Prefixed => "",
            Self::McpPrefixed => "mcp__",
        };
        let prefix = first.bytes().chain(server.bytes()).chain("__".bytes());
        let mut name = name.iter().copied();
        // A short form contains only a part of the prefix.
        prefix.take(MAX_LENGTH - HASH_CHARS - 1).all(|byte| name.next() == Some(byte))
    }

    fn fit(self, name: &str) -> String {
        let fits = !name.is_empty() && name.len() <= MAX_LENGTH && name.bytes().all(is_name_byte);
        if fits || self == Self::Own { name.to_owned() } else { short_form(name) }
    }
}

/// A function of the name only, so it is equal on every machine and after every restart.
fn short_form(name: &str) -> String {
    let hash = sha256::hexadecimal(name);
    let replaced = name.chars().map(|c| if c.is_ascii() && is_name_byte(c as u8) { c } else { '_' });
    let head: String = replaced.take(MAX_LENGTH - HASH_CHARS - 1).collect();
    format!("{head}_{}", &hash[..HASH_CHARS])
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Whether `name` may name a server: `[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*`.
///
/// Without `__` and without `_` at either end, the first `__` of `{server}__{tool}` always ends the server's name. So no two pairs of
/// server and tool share a name.
#[must_use]
pub fn is_server_name(name: &str) -> bool {
    name.split('_').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(naming: Naming, server: &str, tool: &str) -> String {
        naming.candidates(server, tool).next().expect("a candidate")
    }

    #[test]
    fn each_scheme_spells_the_name_its_way() {
        assert_eq!(first(Naming::Prefixed, "files", "read"), "files__read");
        assert_eq!(first(Naming::McpPrefixed, "files", "read"), "mcp__files__read");
        assert_eq!(first(Naming::Bare, "files", "read"), "read");
    }

    #[test]
    fn a_taken_bare_name_falls_back_to_the_prefixed_form() {
        let names: Vec<_> = Naming::Bare.candidates("b", "echo").collect();
        assert_eq!(names[..2], ["echo", "b__echo"]);
    }

    #[test]
    fn a_long_or_odd_name_gets_the_same_short_form_every_time() {
        let long = first(Naming::Prefixed, "files", &"x".repeat(60));
        assert_eq!(long.len(), 53);
        assert_eq!(long, first(Naming::Prefixed, "files", &"x".repeat(60)));
        assert_ne!(long, first(Naming::Prefixed, "files", &"x".repeat(61)));
        let odd = first(Naming::Prefixed, "files", "a.b é");
        assert!(odd.starts_with("files__a_b___"), "{odd}");
    }

    #[test]
    fn server_names_follow_the_grammar() {
        for good in ["a", "files", "my-server", "a_b_c", "7"] {
            assert!(is_server_name(good), "{good}");
        }
        for bad in ["", "_a", "a_", "a__b", "a.b", "a b", "é", "a/b"] {
            assert!(!is_server_name(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_candidate_is_a_name_clients_accept(server in "[a-z0-9-]{1,60}", tool in ".{0,200}", naming in 0..3usize) {
            let naming = Naming::ALL[naming].1;
            for name in naming.candidates(&server, &tool) {
                prop_assert!(!name.is_empty() && name.len() <= MAX_LENGTH && name.bytes().all(is_name_byte), "{}", name);
            }
        }

        #[test]
        fn every_candidate_may_be_of_its_server(server in "[a-z0-9-]{1,60}", tool in ".{0,200}", naming in 0..3usize) {
            let naming = Naming::ALL[naming].1;
            for name in naming.candidates(&server, &tool) {
                prop_assert!(naming.may_be_of(&server, name.as_bytes()), "{}", name);
            }
            prop_assert_eq!(naming.may_be_of(&server, b"/"), naming == Naming::Bare);
        }

        #[test]
        fn prefixed_names_of_different_tools_differ(
            a in ("[a-c-]{1,3}(_[a-c-]{1,2}){0,2}", "[a-c_]{0,6}"),
            b in ("[a-c-]{1,3}(_[a-c-]{1,2}){0,2}", "[a-c_]{0,6}"),
        ) {
            prop_assume!(a != b);
            prop_assert_ne!(first(Naming::Prefixed, &a.0, &a.1), first(Naming::Prefixed, &b.0, &b.1));
        }
    }
}
