//! Notifications for an agent that has fallen behind; they are sent when it has caught up. Pure.
//!
//! The queue drops the oldest for the newest. Responses are never queued here.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::server::messages::call::CallKey;

/// One more drops the oldest, which is counted.
const CAPACITY: usize = 256;
/// The oldest are dropped until the newest fits; a larger one is dropped itself.
const MAX_BYTES: usize = 256 << 10;

pub(super) struct OutgoingNotification {
    /// The call or subscription that it belongs to, if any.
    pub(super) key: Option<CallKey>,
    /// The whole line.
    pub(super) line: Bytes,
}

#[derive(Default)]
pub(super) struct NotificationQueue {
    /// Oldest first.
    waiting: VecDeque<OutgoingNotification>,
    bytes: usize,
}

impl NotificationQueue {
    /// Returns how many were dropped.
    pub(super) fn push(&mut self, notification: OutgoingNotification) -> u64 {
        if notification.line.len() > MAX_BYTES {
            return 1;
        }
        let mut dropped = 0;
        while self.waiting.len() == CAPACITY || self.bytes + notification.line.len() > MAX_BYTES {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.bytes -= oldest.line.len();
            dropped += 1;
        }
        self.bytes += notification.line.len();
        self.waiting.push_back(notification);
        dropped
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Drops the notifications of one call. Returns how many.
    pub(super) fn remove(&mut self, key: CallKey) -> u64 {
        let before = self.waiting.len();
        self.waiting.retain(|notification| notification.key != Some(key));
        self.bytes = self.waiting.iter().map(|notification| notification.line.len()).sum();
        (before - self.waiting.len()) as u64
    }

    pub(super) fn take(&mut self) -> impl Iterator<Item = OutgoingNotification> + use<> {
        std::mem::take(self).waiting.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn notification(serial: u64, size: usize) -> OutgoingNotification {
        OutgoingNotification { key: Some(CallKey { session: 1, serial }), line: vec![b'x'; size].into() }
    }

    #[test]
    fn only_notifications_of_the_call_are_removed() {
        let mut queue = NotificationQueue::default();
        for serial in [1, 2, 1, 3] {
            queue.push(notification(serial, 10));
        }
        let ended = CallKey { session: 1, serial: 1 };
        assert_eq!((queue.remove(ended), queue.remove(ended), queue.bytes), (2, 0, 20));
        let left: Vec<_> = queue.take().filter_map(|notification| notification.key).map(|key| key.serial).collect();
        assert!(left == [2, 3] && queue.is_empty());
    }

    proptest! {
        #[test]
        fn newest_notifications_stay_in_order_and_dropped_ones_are_counted(
            sizes in prop::collection::vec(prop_oneof![9 => 0..9usize, 1 => 0..MAX_BYTES + 9], 0..1000),
        ) {
            let (mut queue, mut dropped) = (NotificationQueue::default(), 0);
            for (serial, size) in (0..).zip(&sizes) {
                dropped += queue.push(notification(serial, *size));
                prop_assert!(queue.waiting.len() <= CAPACITY && queue.bytes <= MAX_BYTES);
            }
            let queued: Vec<_> = queue.take().filter_map(|notification| notification.key).map(|key| key.serial as usize).collect();
            prop_assert_eq!(queued.len() as u64 + dropped, sizes.len() as u64);
            let fitting: Vec<_> = (0..sizes.len()).filter(|serial| sizes[*serial] <= MAX_BYTES).collect();
            prop_assert_eq!(&queued[..], &fitting[fitting.len() - queued.len()..]);
            prop_assert_eq!(queue.bytes, 0);
        }
    }
}
