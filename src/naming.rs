//! Under which name a server's tool is exposed.
//!
//! Pure. Knows the three schemes, the length limit and the short form; the order in which names are given out is the
//! catalog's. Nothing here, or anywhere, takes an exposed name apart: routes are looked up.

use sha2::{Digest, Sha256};

/// The naming scheme and the length limit of exposed names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// How server and tool name are joined.
    pub scheme: Scheme,
    /// Longest exposed name, in characters. Model APIs stop at 64, and clients add a prefix of their own.
    pub max_length: usize,
}

impl Default for Naming {
    fn default() -> Self {
        Self { scheme: Scheme::Prefixed, max_length: 53 }
    }
}

/// How server and tool name are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `{server}__{tool}`
    Prefixed,
    /// `mcp__{server}__{tool}`
    McpPrefixed,
    /// `{tool}`; a name that an earlier server has already taken gets the prefixed form.
    Bare,
}

impl Scheme {
    /// The three schemes with the text that selects each in a configuration.
    pub const ALL: [(&'static str, Self); 3] =
        [("{server}__{tool}", Self::Prefixed), ("mcp__{server}__{tool}", Self::McpPrefixed), ("{tool}", Self::Bare)];
}

/// Shortest `max_length` that leaves room for the hash of a short form and something to read before it.
pub const MIN_LENGTH: usize = 24;
const HASH_CHARS: usize = 10;

impl Naming {
    /// The names a tool may be exposed under, best first; the catalog takes the first that is free.
    ///
    /// The last one carries a hash of the full name, so that only the same server and tool can claim it.
    pub fn candidates(&self, server: &str, tool: &str) -> impl Iterator<Item = String> + use<> {
        let whole = self.whole(server, tool);
        let full = whole.last().cloned().unwrap_or_default();
        let naming = self.clone();
        let fitting = whole.into_iter().map(move |name| naming.fit(&name));
        let naming = self.clone();
        // A hash costs more than all the rest, and is seldom asked for.
        fitting.chain(std::iter::once_with(move || naming.short_form(&full)))
    }

    /// The names that a tool may be exposed under if each is fit to be one, best first.
    #[must_use]
    pub fn whole(&self, server: &str, tool: &str) -> Vec<String> {
        let full = match self.scheme {
            Scheme::McpPrefixed => format!("mcp__{server}__{tool}"),
            Scheme::Prefixed | Scheme::Bare => format!("{server}__{tool}"),
        };
        let bare = (self.scheme == Scheme::Bare).then(|| tool.to_owned());
        bare.into_iter().chain([full]).collect()
    }

    /// Whether a tool of `server` may be exposed as `name`. It says nothing about where a name leads.
    #[must_use]
    pub fn may_be_of(&self, server: &str, name: &[u8]) -> bool {
        let prefix = match self.scheme {
            Scheme::Bare => return true,
            Scheme::Prefixed => format!("{server}__"),
            Scheme::McpPrefixed => format!("mcp__{server}__"),
        };
        // A short form has less of it.
        let length = prefix.len().min(self.max_length - HASH_CHARS - 1);
        name.starts_with(&prefix.as_bytes()[..length])
    }

    fn fit(&self, name: &str) -> String {
        let fits = !name.is_empty() && name.len() <= self.max_length && name.bytes().all(is_name_byte);
        if fits { name.to_owned() } else { self.short_form(name) }
    }

    /// Depends on nothing but the name itself, so it is the same on every machine and after every restart.
    fn short_form(&self, name: &str) -> String {
        let hash: String = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let kept = name.chars().map(|c| if c.is_ascii() && is_name_byte(c as u8) { c } else { '_' });
        let head: String = kept.take(self.max_length - HASH_CHARS - 1).collect();
        format!("{head}_{}", &hash[..HASH_CHARS])
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Whether `name` may name a server: `[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*`.
///
/// No `__` and no `_` at an edge: then the first `__` of `{server}__{tool}` always ends the server, and no two pairs
/// share a name.
#[must_use]
pub fn is_server_name(name: &str) -> bool {
    name.split('_').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(scheme: Scheme, server: &str, tool: &str) -> String {
        Naming { scheme, ..Naming::default() }.candidates(server, tool).next().expect("a candidate")
    }

    #[test]
    fn each_scheme_spells_the_name_its_way() {
        assert_eq!(first(Scheme::Prefixed, "files", "read"), "files__read");
        assert_eq!(first(Scheme::McpPrefixed, "files", "read"), "mcp__files__read");
        assert_eq!(first(Scheme::Bare, "files", "read"), "read");
    }

    #[test]
    fn a_taken_bare_name_falls_back_to_the_prefixed_form() {
        let naming = Naming { scheme: Scheme::Bare, ..Naming::default() };
        let names: Vec<_> = naming.candidates("b", "echo").collect();
        assert_eq!(names[..2], ["echo", "b__echo"]);
    }

    #[test]
    fn a_long_or_odd_name_gets_the_same_short_form_every_time() {
        let long = first(Scheme::Prefixed, "files", &"x".repeat(60));
        assert_eq!(long.len(), 53);
        assert_eq!(long, first(Scheme::Prefixed, "files", &"x".repeat(60)));
        assert_ne!(long, first(Scheme::Prefixed, "files", &"x".repeat(61)));
        let odd = first(Scheme::Prefixed, "files", "a.b é");
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
        fn every_candidate_is_a_name_clients_accept(server in "[a-z0-9-]{1,60}", tool in ".{0,200}", scheme in 0..3usize) {
            let naming = Naming { scheme: Scheme::ALL[scheme].1, ..Naming::default() };
            for name in naming.candidates(&server, &tool) {
                prop_assert!(!name.is_empty() && name.len() <= 53 && name.bytes().all(is_name_byte), "{}", name);
            }
        }

        #[test]
        fn every_candidate_may_be_of_its_server(server in "[a-z0-9-]{1,60}", tool in ".{0,200}", scheme in 0..3usize) {
            let naming = Naming { scheme: Scheme::ALL[scheme].1, ..Naming::default() };
            for name in naming.candidates(&server, &tool) {
                prop_assert!(naming.may_be_of(&server, name.as_bytes()), "{}", name);
            }
            prop_assert_eq!(naming.may_be_of(&server, b"/"), naming.scheme == Scheme::Bare);
        }

        #[test]
        fn prefixed_names_of_different_tools_differ(
            a in ("[a-c-]{1,3}(_[a-c-]{1,2}){0,2}", "[a-c_]{0,6}"),
            b in ("[a-c-]{1,3}(_[a-c-]{1,2}){0,2}", "[a-c_]{0,6}"),
        ) {
            prop_assume!(a != b);
            prop_assert_ne!(first(Scheme::Prefixed, &a.0, &a.1), first(Scheme::Prefixed, &b.0, &b.1));
        }
    }
}
