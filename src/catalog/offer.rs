//! Checks one item against the lists and policy of one server. Pure.
//!
//! A catalog covers all servers of a listener as of its last build. A server's task uses this module to check a parked call against the
//! current lists of its instance.

use super::{Item, List, Lists, Template, skills};
use crate::era::Era;
use crate::list_kind::ListKind;
use crate::policy::{Hidden, Policy};

/// Whether a server offers an item, after policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It is listed and permitted.
    Permitted,
    /// Policy would permit it, but it is not listed.
    NotListed,
    /// Policy hides it, or agents of the era cannot call it.
    Denied,
}

impl Offer {
    /// The offer of a tool or prompt to agents of this era. If a name is listed twice, policy must permit both definitions.
    #[must_use]
    pub fn of_name(policy: &Policy, kind: ListKind, list: &List, name: &str, era: Era) -> Self {
        let is_listed = list.items.iter().any(|item| *item.key == *name);
        match policy.verdict(kind, name, None) {
            _ if era == Era::Modern && list.legacy_only().contains(name) => Self::Denied,
            _ if is_listed && list.permits(kind, policy, name) => Self::Permitted,
            // Without its definition, a tool cannot be known to be read-only.
            Ok(()) | Err(Hidden::Writes { .. }) if !is_listed => Self::NotListed,
            _ => Self::Denied,
        }
    }

    /// The offer of a listed resource, of a URI that belongs to a skill or matches a template, or of a template.
    #[must_use]
    pub fn of_uri(policy: &Policy, lists: &Lists, uri: &str) -> Self {
        let templates: Vec<_> =
            lists[ListKind::Templates].items.iter().filter(|item| !item.validity.is_left_out()).collect();
        let permits = |template: &str| policy.permits(ListKind::Templates, template, None);
        // A completion can name a template itself.
        if templates.iter().any(|item| *item.key == *uri) {
            return if permits(uri) { Self::Permitted } else { Self::Denied };
        }
        if !policy.permits(ListKind::Resources, uri, None) {
            return Self::Denied;
        }
        let is_resource =
            lists[ListKind::Resources].items.iter().any(|item| *item.key == *uri && !item.validity.is_left_out());
        let has_template = |key: &str| Template::parse(key).matches(uri) && permits(key);
        let names_it = |tool: &&Item| tool.interface().is_some_and(|named| *named == *uri);
        let tools = &lists[ListKind::Tools];
        let is_interface = || {
            let mut tools =
                tools.items.iter().filter(names_it).filter(|tool| tools.permits(ListKind::Tools, policy, &tool.key));
            policy.permits_interface(uri) && tools.next().is_some()
        };
        let permits_skill = |uri: &str| policy.permits(ListKind::Skills, uri, None);
        let has_file = |skill: &str| skills::directories(uri).any(|directory| directory == skills::directory(skill));
        let skills = lists[ListKind::Skills].items.iter().filter(|item| !item.validity.is_left_out());
        let mut listed = skills.map(|item| &*item.key);
        let in_skill = permits_skill(uri) && listed.any(|skill| has_file(skill) && permits_skill(skill));
        let is_listed =
            is_resource || in_skill || templates.iter().any(|item| has_template(&item.key)) || is_interface();
        if is_listed { Self::Permitted } else { Self::NotListed }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::policy::pattern;
    use crate::validity::Validity;

    fn list(items: &[(&str, &'static str)]) -> List {
        let item = |(key, definition): &(&str, &'static str)| Item {
            key: (*key).into(),
            raw_key: Bytes::new(),
            json: Bytes::from_static(definition.as_bytes()),
            model_bytes: 0,
            validity: Validity::default(),
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
        for (name, era, expected) in [
            ("a", Era::Modern, Offer::Denied),
            ("a", Era::Legacy, Offer::Permitted),
            ("b", Era::Modern, Offer::Permitted),
        ] {
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
}
