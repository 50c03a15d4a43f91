//! Prints one profile.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::super::Quotas;
use super::super::daemon::NAMING_KEYS;
use super::super::edit::toml_string;
use super::super::layer::ProfileLayer;
use super::page::Page;
use super::servers::exposed_text;
use super::show_keys;
use crate::list_kind::ListKind;

pub(super) fn show(profile: &ProfileLayer, page: &mut Page) {
    let ProfileLayer { name, servers, rules: _, expose, read_only, naming, allow_uids, workspace_roots, quotas } =
        profile;
    page.table(&format!("profiles.{}", name.value), Some(&name.location));
    page.value("servers", servers.as_ref(), |servers| list(servers.iter().map(|server| toml_string(&server.value))));
    show_rules(profile, ListKind::Tools, page);
    page.value("expose", expose.as_ref(), exposed_text);
    show_keys(NAMING_KEYS.iter(), naming, false, page);
    page.value("allow_uids", allow_uids.as_ref(), |uids: &BTreeSet<u32>| list(uids.iter().map(u32::to_string)));
    page.value("workspace_roots", workspace_roots.as_ref(), |roots: &Vec<PathBuf>| {
        list(roots.iter().map(|root| toml_string(&root.to_string_lossy())))
    });
    show_keys(Quotas::KEYS.iter(), quotas, false, page);
    page.inner("tools", |page| page.value("read_only", read_only.as_ref(), bool::to_string));
    for (key, kind) in [("prompts", ListKind::Prompts), ("resources", ListKind::Resources)] {
        page.inner(key, |page| show_rules(profile, kind, page));
    }
}

fn show_rules(profile: &ProfileLayer, kind: ListKind, page: &mut Page) {
    let rules = &profile.rules[kind];
    for (key, patterns) in [("allow", &rules.allow), ("deny", &rules.deny)] {
        page.value(key, patterns.as_ref(), |patterns| {
            list(patterns.iter().map(|pattern| toml_string(&pattern.value.source())))
        });
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}
