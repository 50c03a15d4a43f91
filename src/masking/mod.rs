//! The secrets that this process has used, and their removal from texts.
//!
//! A server's secrets are added to [`KnownSecrets`] before it starts, and tokens before they are sent. A replaced secret stays, because a server
//! may repeat it later. Of tokens, only the newest stay. [`mask`] removes secrets from a text. [`views`] decodes the text, and [`members`] finds
//! more secrets by the names of members.

#![expect(clippy::disallowed_types, reason = "servers add and operators read; nothing waits while it is locked")]

pub(crate) mod mask;
mod members;
mod views;

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::mask::Mask;

/// Maximum number of secrets of launches. Beyond it, requests for masked text are refused.
const MAX_VALUES: usize = 4096;
/// Bytes of all secrets of launches.
const MAX_BYTES: usize = 4 << 20;
/// Maximum number of login tokens; the oldest are dropped. Tokens expire, and new ones arrive for as long as the process runs.
const MAX_TOKENS: usize = 1024;

/// Not all secrets are known, so none can be masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this daemon has used over {MAX_VALUES} secrets or {} MiB of them, so it cannot mask all: restart it", MAX_BYTES >> 20)]
pub(crate) struct TooManySecrets;

/// The secrets that a process has used. A clone is the same set. `Debug` prints their number.
#[derive(Clone, Default)]
pub struct KnownSecrets(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Counts changes.
    generation: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    values: HashSet<String>,
    bytes: usize,
    has_too_many: bool,
    /// Oldest first.
    tokens: VecDeque<String>,
    /// Of these secrets, once it is needed.
    mask: Option<Arc<Mask>>,
}

impl KnownSecrets {
    /// Adds secrets of a launch, before it is used.
    pub(crate) fn add(&self, values: impl IntoIterator<Item = String>) {
        self.change(|state| {
            let before = state.values.len();
            for value in values.into_iter().filter(|value| !value.is_empty()) {
                let fits = state.values.len() < MAX_VALUES && state.bytes + value.len() <= MAX_BYTES;
                match (state.values.contains(&value), fits) {
                    (true, _) => {}
                    (false, true) => {
                        state.bytes += value.len();
                        state.values.insert(value);
                    }
                    (false, false) => state.has_too_many = true,
                }
            }
            state.values.len() > before || state.has_too_many
        });
    }

    /// Adds tokens of a login, before they are sent.
    pub(crate) fn add_tokens<'a>(&self, tokens: impl IntoIterator<Item = &'a str>) {
        self.change(|state| {
            let mut has_new = false;
            for token in tokens.into_iter().filter(|token| !token.is_empty()) {
                if !state.tokens.iter().any(|known| known == token) {
                    state.tokens.push_back(token.to_owned());
                    has_new = true;
                }
            }
            state.tokens.drain(..state.tokens.len().saturating_sub(MAX_TOKENS));
            has_new
        });
    }

    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        let mut state = self.state();
        if change(&mut state) {
            state.mask = None;
            self.0.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// A mask that follows the set.
    pub(crate) fn masking(&self) -> Result<Masking, TooManySecrets> {
        let generation = self.generation();
        Ok(Masking { known: self.clone(), generation, mask: self.mask()? })
    }

    fn mask(&self) -> Result<Arc<Mask>, TooManySecrets> {
        if self.state().has_too_many { Err(TooManySecrets) } else { Ok(self.mask_of_known()) }
    }

    /// The mask of the secrets that are known by now, even if there are too many to know all. For texts that mcpd writes itself.
    pub(crate) fn mask_of_known(&self) -> Arc<Mask> {
        let State { values, tokens, mask, .. } = &mut *self.state();
        Arc::clone(mask.get_or_insert_with(|| Arc::new(Mask::new(values.iter().chain(&*tokens).cloned()))))
    }

    fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KnownSecrets").field(&self.state().values.len()).finish()
    }
}

/// The mask of all secrets that are known by now.
#[derive(Debug, Clone)]
pub(crate) struct Masking {
    known: KnownSecrets,
    generation: u64,
    mask: Arc<Mask>,
}

impl Masking {
    /// The mask for a text of this moment.
    pub(crate) fn current(&mut self) -> Result<&Arc<Mask>, TooManySecrets> {
        let generation = self.known.generation();
        if generation != self.generation {
            (self.generation, self.mask) = (generation, self.known.mask()?);
        }
        Ok(&self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(masking: &mut Masking, text: &str) -> String {
        masking.current().expect("not full").apply(text).text
    }

    #[test]
    fn mask_follows_the_set_and_keeps_replaced_secrets() {
        let known = KnownSecrets::default();
        let mut masking = known.masking().expect("not full");
        assert_eq!(masked(&mut masking, "first second"), "first second");
        known.add(["first".to_owned(), String::new()]);
        assert_eq!(masked(&mut masking, "first second"), "… second");
        known.clone().add(["second".to_owned(), "first".to_owned()]);
        known.add_tokens(["token-1"]);
        assert_eq!(masked(&mut masking, "first second token-1"), "… … …");
        assert_eq!(format!("{known:?}"), "KnownSecrets(2)");
    }

    #[test]
    fn full_set_refuses_to_mask() {
        let known = KnownSecrets::default();
        let mut masking = known.masking().expect("not full");
        known.add((0..MAX_VALUES).map(|number| format!("secret-{number}")));
        assert!(masking.current().is_ok());
        known.add(["secret-1".to_owned()]);
        assert!(known.masking().is_ok(), "a known secret needs no place");
        known.add(["one more".to_owned()]);
        assert_eq!((masking.current().err(), known.masking().err()), (Some(TooManySecrets), Some(TooManySecrets)));
        assert_eq!(known.mask_of_known().apply("secret-7- one more").text, "…- one more");
        let known = KnownSecrets::default();
        known.add(["x".repeat(MAX_BYTES + 1)]);
        assert!(known.masking().is_err());
    }

    #[test]
    fn newest_tokens_are_known() {
        let known = KnownSecrets::default();
        (0..=MAX_TOKENS).for_each(|number| known.add_tokens([&*format!("token-{number}-")]));
        let mut masking = known.masking().expect("not full");
        let newest = format!("token-{MAX_TOKENS}-");
        assert_eq!(masked(&mut masking, &format!("token-0- token-1- {newest}")), "token-0- … …");
    }
}
