//! Ids of tasks as agents of the modern era know them. Pure but for the key.
//!
//! A request of that era says itself what it is about, on whatever connection: so the id of a task has to lead to the server that
//! made it, and to say for which profile, and who has not been told an id must not be able to make one. Source: extension
//! `io.modelcontextprotocol/tasks`, 2026-07-28, "Security Considerations".

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::chance;

/// Bytes of the authentication code in an id.
const CODE_BYTES: usize = 16;

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
    /// Keyed, and without any data yet.
    mac: Hmac<Sha256>,
}

impl Seal {
    /// One that no other daemon has.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn fresh() -> Result<Self, String> {
        let mac = Hmac::new_from_slice(chance::fresh()?.as_bytes());
        mac.map(|mac| Self { mac }).map_err(|error| error.to_string())
    }

    /// The id that `profile` knows a task by.
    pub(super) fn seal(&self, profile: &str, Sealed { tool, maker, id }: Sealed<'_>) -> String {
        let rest = format!("{tool}.{maker:x}.{id}");
        let code = self.mac(profile, &rest).finalize().into_bytes();
        format!("{}.{rest}", URL_SAFE_NO_PAD.encode(&code[..CODE_BYTES]))
    }

    /// What was sealed for `profile`.
    pub(super) fn open<'a>(&self, profile: &str, sealed: &'a str) -> Option<Sealed<'a>> {
        let (code, rest) = sealed.split_once('.')?;
        let code = URL_SAFE_NO_PAD.decode(code).ok().filter(|code| code.len() == CODE_BYTES)?;
        // In constant time.
        self.mac(profile, rest).verify_truncated_left(&code).ok()?;
        // No exposed name has a dot.
        let (tool, rest) = rest.split_once('.')?;
        let (maker, id) = rest.split_once('.')?;
        Some(Sealed { tool, maker: u64::from_str_radix(maker, 16).ok()?, id })
    }

    fn mac(&self, profile: &str, rest: &str) -> Hmac<Sha256> {
        // No name of a profile has a NUL.
        self.mac.clone().chain_update(profile).chain_update([0]).chain_update(rest)
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
