//! Notifications that wait until their agent has read more. Pure.
//!
//! An agent that has fallen behind is told the newest when it has caught up. Answers never come here.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::server::messages::call::CallKey;

/// Notifications that wait. When there are so many, the oldest is dropped for the newest, and counted.
const PLACES: usize = 256;
/// Their bytes. When there are so many, the oldest are dropped until the newest fits; one that is larger is dropped itself.
const BYTES: usize = 256 << 10;

/// A notification.
pub(super) struct Notice {
    /// The call that it belongs to, if it does to one.
    pub(super) key: Option<CallKey>,
    /// The whole line.
    pub(super) line: Bytes,
}

/// Those that wait, oldest first.
#[derive(Default)]
pub(super) struct Notices {
    waiting: VecDeque<Notice>,
    bytes: usize,
}

impl Notices {
    /// Adds the newest. Tells how many were dropped for it.
    pub(super) fn push(&mut self, notice: Notice) -> u64 {
        if notice.line.len() > BYTES {
            return 1;
        }
        let mut dropped = 0;
        while self.waiting.len() == PLACES || self.bytes + notice.line.len() > BYTES {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.bytes -= oldest.line.len();
            dropped += 1;
        }
        self.bytes += notice.line.len();
        self.waiting.push_back(notice);
        dropped
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Drops those of one call. Tells how many.
    pub(super) fn remove(&mut self, key: CallKey) -> u64 {
        let before = self.waiting.len();
        self.waiting.retain(|notice| notice.key != Some(key));
        self.bytes = self.waiting.iter().map(|notice| notice.line.len()).sum();
        (before - self.waiting.len()) as u64
    }

    /// Takes all of them out.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Notice> + use<> {
        std::mem::take(self).waiting.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn notice(serial: u64, size: usize) -> Notice {
        Notice { key: Some(CallKey { session: 1, serial }), line: vec![b'x'; size].into() }
    }

    #[test]
    fn what_waits_of_a_call_that_has_ended_is_removed_alone() {
        let mut notices = Notices::default();
        for serial in [1, 2, 1, 3] {
            notices.push(notice(serial, 10));
        }
        let ended = CallKey { session: 1, serial: 1 };
        assert_eq!((notices.remove(ended), notices.remove(ended), notices.bytes), (2, 0, 20));
        let left: Vec<_> = notices.take().filter_map(|notice| notice.key).map(|key| key.serial).collect();
        assert!(left == [2, 3] && notices.is_empty());
    }

    proptest! {
        #[test]
        fn the_newest_are_kept_in_order_and_what_is_dropped_is_counted(
            sizes in prop::collection::vec(prop_oneof![9 => 0..9usize, 1 => 0..BYTES + 9], 0..1000),
        ) {
            let (mut notices, mut dropped) = (Notices::default(), 0);
            for (serial, size) in (0..).zip(&sizes) {
                dropped += notices.push(notice(serial, *size));
                prop_assert!(notices.waiting.len() <= PLACES && notices.bytes <= BYTES);
            }
            let kept: Vec<_> = notices.take().filter_map(|notice| notice.key).map(|key| key.serial as usize).collect();
            prop_assert_eq!(kept.len() as u64 + dropped, sizes.len() as u64);
            let fitting: Vec<_> = (0..sizes.len()).filter(|serial| sizes[*serial] <= BYTES).collect();
            prop_assert_eq!(&kept[..], &fitting[fitting.len() - kept.len()..]);
            prop_assert_eq!(notices.bytes, 0);
        }
    }
}
