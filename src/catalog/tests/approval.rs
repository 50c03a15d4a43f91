//! Definitions that are not approved are in no list, and lead nowhere.

use super::*;
use crate::pins::{Approval, ApprovalRule, Definition, PinnedKind, Pins};

/// Only these tools of `server`, as it lists them, are approved.
fn holding(mut server: Server, approved: &[&str]) -> Server {
    let mut pins = Pins::default();
    let items = server.lists[ListKind::Tools].items.iter().filter(|item| approved.contains(&&*item.key));
    items.for_each(|item| pins.approve(PinnedKind::Tool, &item.key, Definition::plain(&item.json)));
    let approval = Approval::new(ApprovalRule::Hold, Arc::new(pins), Arc::default());
    server.policy = server.policy.approved_by(Some(approval));
    server
}

#[test]
fn withheld_tool_is_counted_and_not_listed() {
    let held = holding(server("s", &["denied"], &["a", "b", "denied"]), &["a"]);
    let list = Arc::clone(&held.lists[ListKind::Tools]);
    for (name, expected) in [("a", Offer::Permitted), ("b", Offer::Denied), ("none", Offer::NotListed)] {
        assert_eq!(Offer::of_name(&held.policy, ListKind::Tools, &list, name, Era::Legacy), expected, "{name}");
    }
    let catalog = build(&mut Names::default(), Naming::Prefixed, &[held]);
    assert_eq!(listed(&catalog), ["s__a"]);
    assert!(catalog.route(ListKind::Tools, b"s__a").is_some() && catalog.route(ListKind::Tools, b"s__b").is_none());
    let Exposure { exposed, denied, withheld, .. } = catalog.exposure()[0][ListKind::Tools];
    assert_eq!((exposed, denied, withheld), (1, 1, 1));
}

#[test]
fn name_with_two_definitions_needs_both_approved() {
    let mut twice = holding(server("s", &[], &["a"]), &["a"]);
    let mut list = List::clone(&twice.lists[ListKind::Tools]);
    let json = Bytes::from_static(br#"{"name":"a"}"#);
    list.items.push(Item {
        raw_key: json.slice(8..11),
        json,
        fingerprint: Fingerprint::default(),
        ..list.items[0].clone()
    });
    twice.lists[ListKind::Tools] = Arc::new(list);
    assert_eq!(listed(&build(&mut Names::default(), Naming::Prefixed, &[twice])), Vec::<String>::new());
}

#[test]
fn withheld_tool_takes_no_name_from_another_server() {
    let servers = |approved: &[&str]| [holding(server("one", &[], &["echo"]), approved), server("two", &[], &["echo"])];
    let mut names = Names::default();
    assert_eq!(listed(&build(&mut names, Naming::Bare, &servers(&[]))), ["echo"]);
    assert_eq!(listed(&build(&mut names, Naming::Bare, &servers(&["echo"]))), ["one__echo", "echo"]);
}

#[test]
fn resource_of_a_withheld_template_is_unknown() {
    let templates = |approved| {
        let library = library("s", &[], &["x://{a}"]);
        let mut pins = Pins::default();
        if approved {
            let item = &library.lists[ListKind::Templates].items[0];
            pins.approve(PinnedKind::Template, &item.key, Definition::plain(&item.json));
        }
        let approval = Approval::new(ApprovalRule::Hold, Arc::new(pins), Arc::default());
        Server { policy: Policy::default().approved_by(Some(approval)), ..library }
    };
    for approved in [false, true] {
        let server = templates(approved);
        let offers = ["x://{a}", "x://1"].map(|uri| Offer::of_uri(&server.policy, &server.lists, uri));
        let expected = if approved { [Offer::Permitted; 2] } else { [Offer::Denied, Offer::NotListed] };
        assert_eq!(offers, expected);
        let catalog = build(&mut Names::default(), Naming::Prefixed, &[server]);
        assert_eq!(["x://{a}", "x://1"].map(|uri| catalog.server_of(uri).is_some()), [approved; 2]);
    }
}
