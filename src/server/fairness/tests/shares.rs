//! Shares of users and of their sessions.

use proptest::prelude::*;

use super::super::*;

const CAPACITY: usize = 32;

/// Admits as an instance does.
fn is_admitted(used: &[Payer], payer: Payer) -> bool {
    used.len() < CAPACITY || Shares::of(used.iter().map(|of| (*of, 1))).is_below_share(CAPACITY, payer, 1)
}

fn count(used: &[Payer], is_it: impl Fn(&Payer) -> bool) -> usize {
    used.iter().filter(|of| is_it(of)).count()
}

fn payer(uid: u32, session: u64) -> Payer {
    Payer { uid: Some(uid), session }
}

/// How many calls each of these has after it has sent as many as possible, one after the other.
fn shares(payers: &[Payer]) -> Vec<usize> {
    let mut used = Vec::new();
    for payer in payers {
        while is_admitted(&used, *payer) {
            used.push(*payer);
        }
    }
    payers.iter().map(|payer| count(&used, |of| of == payer)).collect()
}

#[test]
fn one_alone_gets_the_whole_capacity_and_beside_others_its_share() {
    let expected = [32, 16, 10, 8];
    assert_eq!(shares(&[1, 2, 3, 4].map(|session| payer(1, session))), expected, "sessions of one user");
    assert_eq!(shares(&[1, 2, 3, 4].map(|uid| payer(uid, uid.into()))), expected, "users");
}

#[test]
fn many_sessions_of_a_user_leave_another_user_its_share() {
    let own = (0..CAPACITY as u64).map(|session| payer(1, session));
    let all: Vec<_> = own.chain([payer(2, 100), payer(2, 101)]).collect();
    assert_eq!(shares(&all)[CAPACITY..], [CAPACITY / 2, CAPACITY / 4]);
}

#[test]
fn share_is_counted_in_bytes_as_well() {
    let greedy = [(payer(1, 1), 900), (payer(1, 1), 100)];
    let is_admitted = |payer, size| Shares::of(greedy.into_iter()).is_below_share(1000, payer, size);
    assert!(!is_admitted(payer(1, 1), 1) && is_admitted(payer(1, 2), 500) && !is_admitted(payer(1, 2), 501));
    assert!(is_admitted(payer(2, 2), 500) && !is_admitted(payer(2, 2), 501));
}

#[test]
fn session_that_takes_the_whole_capacity_at_once_keeps_no_other_from_its_share() {
    for [greedy, other] in [[payer(1, 0), payer(1, 1)], [payer(1, 0), payer(2, 1)]] {
        let mut used = vec![greedy; CAPACITY];
        for _ in 0..10 * CAPACITY {
            // The oldest call is answered.
            used.remove(0);
            for payer in [greedy, greedy, greedy, other] {
                if is_admitted(&used, payer) {
                    used.push(payer);
                }
            }
        }
        assert!(count(&used, |of| *of == other) >= CAPACITY / 2 - 1, "{used:?}");
    }
}

proptest! {
    #[test]
    fn nobody_is_shut_out_and_all_together_stay_bounded(
        operations in prop::collection::vec((0..4u8, 0..5u32, 0..12u64, 0..1000usize), 0..600),
    ) {
        let mut used: Vec<Payer> = Vec::new();
        for (kind, uid, session, which) in operations {
            // Some sessions call far more often than others.
            let session = if kind == 0 { session } else { session % 3 };
            let own = payer(uid, u64::from(uid) * 100 + session);
            if kind == 3 && !used.is_empty() {
                used.swap_remove(which % used.len());
                continue;
            }
            let is_admitted = is_admitted(&used, own);
            let users = (0..5).filter(|user| *user == uid || used.iter().any(|of| of.uid == Some(*user))).count();
            let of_user = count(&used, |of| of.uid == own.uid);
            prop_assert!(is_admitted || count(&used, |of| *of == own) > 0, "no session is shut out");
            prop_assert!(is_admitted || users == 1 || of_user + 1 > CAPACITY / users, "a user has its share: {used:?}");
            prop_assert!(is_admitted || used.len() >= CAPACITY, "nobody is refused while there is room");
            if is_admitted {
                used.push(own);
            }
            for uid in 0..5 {
                let sessions = (0..12).map(|session| payer(uid, u64::from(uid) * 100 + session));
                let mut counts: Vec<_> = sessions.map(|one| count(&used, |of| *of == one)).collect();
                counts.sort_unstable_by(|a, b| b.cmp(a));
                for (before, count) in counts.iter().enumerate() {
                    prop_assert!(*count <= (CAPACITY / (before + 1)).max(1), "{counts:?}");
                }
            }
        }
    }
}
