//! Single items against the lists and policy of one server.

use std::sync::Arc;

use bytes::Bytes;

use super::super::*;
use crate::pins::Fingerprint;
use crate::policy::pattern;
use crate::validity::Validity;

fn list(items: &[(&str, &'static str)]) -> List {
    let item = |(key, definition): &(&str, &'static str)| Item {
        key: (*key).into(),
        raw_key: Bytes::new(),
        json: Bytes::from_static(definition.as_bytes()),
        model_bytes: 0,
        validity: Validity::default(),
        fingerprint: Fingerprint::default(),
    };
    List { items: items.iter().map(item).collect(), ..List::default() }
}

#[test]
fn a_name_is_offered_as_its_definitions_permit() {
    const READS: &str = r#"{"annotations":{"readOnlyHint":true}}"#;
    let deny = Policy::new(None, &[pattern("secret*").expect("a glob")]).expect("a policy").read_only(true);
    for (items, name, expected) in [
        (&[("a", READS)][..], "a", Offer::Permitted),
        (&[("a", "{}")], "a", Offer::Denied),
        (&[("a", READS), ("a", "{}")], "a", Offer::Denied),
        (&[("a", "{}"), ("a", READS)], "a", Offer::Denied),
        (&[("b", READS)], "a", Offer::NotListed),
        (&[], "secret", Offer::Denied),
        (&[("secret", READS)], "secret", Offer::Denied),
    ] {
        let found = Offer::of_name(&deny, ListKind::Tools, &list(items), name, Era::Modern);
        assert_eq!(found, expected, "{items:?} {name}");
    }
}

#[test]
fn tool_that_requires_a_task_is_offered_to_legacy_agents_only() {
    const REQUIRES: &str = r#"{"execution":{"taskSupport":"required"}}"#;
    let tools = List { makes_tasks: true, ..list(&[("a", REQUIRES), ("b", "{}")]) };
    for (name, era, expected) in
        [("a", Era::Modern, Offer::Denied), ("a", Era::Legacy, Offer::Permitted), ("b", Era::Modern, Offer::Permitted)]
    {
        let policy = Policy::default();
        assert_eq!(Offer::of_name(&policy, ListKind::Tools, &tools, name, era), expected, "{name} {era:?}");
    }
}

#[test]
fn a_uri_is_offered_if_it_is_listed_or_a_template_has_it() {
    let deny = [pattern("f:///secret/*").expect("a glob"), pattern(r"g://\{x\}").expect("a glob")];
    let policy = Policy::default().with(ListKind::Resources, None, &deny).expect("a policy");
    let mut lists = Lists::default();
    lists[ListKind::Resources] = Arc::new(list(&[("x://1", "{}"), ("f:///secret/key", "{}")]));
    lists[ListKind::Templates] = Arc::new(list(&[("f:///{+path}", "{}"), ("g://{x}", "{}")]));
    for (uri, expected) in [
        ("x://1", Offer::Permitted),
        ("x://2", Offer::NotListed),
        ("f:///pub/a", Offer::Permitted),
        ("f:///{+path}", Offer::Permitted),
        ("f:///secret/key", Offer::Denied),
        ("f:///pub/../secret/key", Offer::Denied),
        ("g://1", Offer::NotListed),
    ] {
        assert_eq!(Offer::of_uri(&policy, &lists, uri), expected, "{uri}");
    }
}
