//! One profile: what its table says.

use std::collections::BTreeSet;

use super::super::layer::ProfileLayer;
use super::page::{Page, on_or_off, quoted};
use super::servers::spelt_kinds;
use super::show_naming;
use crate::kind::Kind;

pub(super) fn show(profile: &ProfileLayer, page: &mut Page) {
    let ProfileLayer { name, servers, rules: _, expose, read_only, naming, allow_uids } = profile;
    page.table(&format!("profiles.{}", name.value), Some(&name.place));
    page.value("servers", servers.as_ref(), None, |servers| list(servers.iter().map(|server| quoted(&server.value))));
    show_rules(profile, Kind::Tools, page);
    page.value("expose", expose.as_ref(), None, |kinds| spelt_kinds(kinds));
    show_naming(naming, None, page);
    page.value("allow_uids", allow_uids.as_ref(), None, |uids: &BTreeSet<u32>| list(uids.iter().map(u32::to_string)));
    page.inner("tools", |page| page.value("read_only", read_only.as_ref(), None, on_or_off));
    for (key, kind) in [("prompts", Kind::Prompts), ("resources", Kind::Resources)] {
        page.inner(key, |page| show_rules(profile, kind, page));
    }
}

fn show_rules(profile: &ProfileLayer, kind: Kind, page: &mut Page) {
    let rules = &profile.rules[kind];
    for (key, patterns) in [("allow", &rules.allow), ("deny", &rules.deny)] {
        page.value(key, patterns.as_ref(), None, |patterns| {
            list(patterns.iter().map(|pattern| quoted(&pattern.value.spelt())))
        });
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}
