//! Which items of a joined list fit into one message. Pure.

use std::collections::HashMap;

use super::{Item, Source};
use crate::list_kind::ListKind;

/// Bytes that an item may have beside its definition: a separator, and what an exposed name adds.
const BESIDE: usize = 64;

/// What is left of each server's part of a list.
#[derive(Debug)]
pub(super) struct Parts {
    left: Vec<usize>,
}

impl Parts {
    /// The parts of a list of `total` bytes. `hidden` has the keys of each server that policy hides.
    pub(super) fn of<T>(kind: ListKind, sources: &[Source<'_>], hidden: &[HashMap<&str, T>], total: usize) -> Self {
        let all = sources.iter().flat_map(|source| &source.lists[kind].items);
        if all.map(size).sum::<usize>() <= total {
            return Self { left: vec![total; sources.len()] };
        }
        let needs = sources.iter().zip(hidden).map(|(source, hidden)| {
            source.lists[kind].items.iter().filter(|item| !hidden.contains_key(&*item.key)).map(size).sum()
        });
        Self { left: fair_parts(&needs.collect::<Vec<_>>(), total) }
    }

    /// Takes the bytes of an item. Returns whether they were left.
    pub(super) fn take(&mut self, server: usize, item: &Item) -> bool {
        let left = self.left[server].checked_sub(size(item));
        self.left[server] = left.unwrap_or(self.left[server]);
        left.is_some()
    }
}

/// The bytes of an item in the list of either era, at most.
fn size(item: &Item) -> usize {
    item.json.len() + item.validity.growth() + BESIDE
}

/// The parts of `total` bytes for these needs: each gets what it needs, or at least an equal part of what the smaller ones leave.
fn fair_parts(needs: &[usize], total: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|index| needs[*index]);
    let (mut parts, mut left) = (vec![0; needs.len()], total);
    for (served, index) in order.into_iter().enumerate() {
        parts[index] = needs[index].min(left / (needs.len() - served));
        left -= parts[index];
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_needs_are_cut_alike_and_small_ones_are_met() {
        for (needs, total, parts) in
            [(&[][..], 10, &[][..]), (&[3, 4], 10, &[3, 4]), (&[100], 10, &[10]), (&[1, 100, 2, 50], 13, &[1, 5, 2, 5])]
        {
            assert_eq!(fair_parts(needs, total), parts, "{needs:?}");
        }
    }
}
