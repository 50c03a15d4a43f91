//! The lists that a server's instances have told: what several tell word for word, or one tells again, is kept once.
//!
//! So a thousand instances that offer the same take the memory of one list, and whoever builds catalogs sees at a glance that
//! it is the same.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

use crate::catalog::List;
use crate::kind::{Kind, PerKind};

/// Lists of a kind that a new one is compared with: those told last. What was last told before them, and is told again, is kept twice.
const COMPARED: usize = 64;

/// Those of one server; cheap to clone. Kept apart by kind, since what a thing is known by depends on that: a tool may have a
/// `uri` too.
#[derive(Debug, Clone, Default)]
pub(super) struct Told(watch::Sender<PerKind<Vec<Weak<List>>>>);

impl Told {
    /// The list that is kept, if there is one that says the same; else this one, from now on.
    pub(super) fn once(&self, kind: Kind, list: Arc<List>) -> Arc<List> {
        let mut kept = list;
        self.0.send_if_modified(|told| {
            let told = &mut told[kind];
            told.retain(|known| match known.upgrade() {
                Some(known) if known == kept => {
                    kept = known;
                    false
                }
                known => known.is_some(),
            });
            told.drain(..(told.len() + 1).saturating_sub(COMPARED));
            told.push(Arc::downgrade(&kept));
            false
        });
        kept
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::catalog::Item;

    fn list(name: &str, truncated: bool) -> Arc<List> {
        let definition = Bytes::from(format!("{{\"name\":{name:?}}}"));
        let item =
            Item { key: name.into(), raw_key: definition.slice(8..definition.len() - 1), definition, passed_on: 0 };
        Arc::new(List { items: vec![item], truncated, ..List::default() })
    }

    #[test]
    fn what_is_told_again_is_what_was_told_as_long_as_somebody_has_it() {
        let told = Told::default();
        let once = |list| told.clone().once(Kind::Tools, list);
        let first = once(list("a", false));
        assert!(Arc::ptr_eq(&once(list("a", false)), &first));
        assert!(!Arc::ptr_eq(&once(list("a", true)), &first), "a list that was cut is another one");
        let as_prompt = told.once(Kind::Prompts, list("a", false));
        assert!(!Arc::ptr_eq(&as_prompt, &first), "of another kind the same may be something else");
        let forgotten = Arc::downgrade(&once(list("b", false)));
        assert!(forgotten.upgrade().is_none());
        for n in 0..2 * COMPARED {
            drop(once(list(&n.to_string(), false)));
        }
        assert!(Arc::ptr_eq(&once(list("a", false)), &first), "what nobody has takes no place");
        let others: Vec<_> = (1..COMPARED).map(|n| once(list(&n.to_string(), false))).collect();
        assert!(Arc::ptr_eq(&once(list("a", false)), &first) && others.len() + 1 == COMPARED);
        let one_more = once(list("one more", false));
        assert!(Arc::ptr_eq(&once(list("a", false)), &first), "it was told later than the others");
        assert!(!Arc::ptr_eq(&once(list("1", false)), &others[0]) && one_more.items.len() == 1);
        assert_eq!(told.0.borrow()[Kind::Tools].len(), COMPARED);
    }
}
