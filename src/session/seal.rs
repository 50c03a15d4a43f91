//! Ids of tasks as agents of the modern era know them. Pure but for the key.
//!
//! A request of that era says itself what it is about, on whatever connection: so the id of a task has to lead to the server that
//! made it, and to say for which profile, and who has not been told an id must not be able to make one. Source: extension
//! `io.modelcontextprotocol/tasks`, 2026-07-28, "Security Considerations".

use sha2::{Digest, Sha256};

use crate::chance;

/// Characters of the mark that shows that an id was made here.
const MARK: usize = 32;

/// What leads to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sealed<'a> {
    /// The exposed name of the tool whose call has made it.
    pub(super) tool: &'a str,
    /// The mark of the instance that has, where a server has several.
    pub(super) maker: u64,
    /// The server's own id.
    pub(super) id: &'a str,
}

/// What it takes to make such ids: they hold as long as the daemon runs.
#[derive(Clone)]
pub struct Seal {
    key: String,
}

impl Seal {
    /// One that no other daemon has.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn fresh() -> Result<Self, String> {
        chance::fresh().map(|key| Self { key })
    }

    /// The id that `profile` knows a task by.
    pub(super) fn seal(&self, profile: &str, Sealed { tool, maker, id }: Sealed<'_>) -> String {
        let rest = format!("{tool}.{maker:x}.{id}");
        format!("{}.{rest}", self.mark(profile, &rest))
    }

    /// What was sealed for `profile`.
    pub(super) fn open<'a>(&self, profile: &str, sealed: &'a str) -> Option<Sealed<'a>> {
        let (mark, rest) = sealed.split_once('.')?;
        if mark != self.mark(profile, rest) {
            return None;
        }
        // No exposed name has a dot.
        let (tool, rest) = rest.split_once('.')?;
        let (maker, id) = rest.split_once('.')?;
        Some(Sealed { tool, maker: u64::from_str_radix(maker, 16).ok()?, id })
    }

    /// Twice, so that nothing can be put behind what was marked once.
    fn mark(&self, profile: &str, rest: &str) -> String {
        let inner = Sha256::digest([&self.key, profile, rest].join("\0"));
        let outer = Sha256::new().chain_update(&self.key).chain_update(inner).finalize();
        outer.iter().take(MARK / 2).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Without its key.
impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_is_opened_for_the_same_profile_only() {
        let seal = Seal::fresh().expect("random numbers");
        let task = Sealed { tool: "s__build", maker: u64::MAX, id: "a.b/\"c" };
        let sealed = seal.seal("default", task);
        assert_eq!(seal.open("default", &sealed), Some(task));
        assert_eq!(seal.open("other", &sealed), None);
        assert_eq!(Seal::fresh().expect("random numbers").open("default", &sealed), None);
        let (mark, rest) = sealed.split_once('.').expect("a mark");
        for forged in [
            String::new(),
            rest.to_owned(),
            format!("{mark}.s__other.ffffffffffffffff.a.b/\"c"),
            format!("{mark}.s__build.fffffffffffffffe.a.b/\"c"),
            format!("{mark}.{rest}d"),
            format!(".{rest}"),
            format!("{}.{rest}", &mark[1..]),
            mark.to_owned(),
        ] {
            assert_eq!(seal.open("default", &forged), None, "{forged}");
        }
    }
}
