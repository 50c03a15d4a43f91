//! Builds a catalog: list by list, server by server. Of a joined list that is too large for one message, each server gets a fair part.

use std::collections::{HashMap, HashSet, btree_map, hash_map};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::overrides::ShownList;
use super::template::UriTemplate;
use super::{CacheHint, Catalog, Item, ListedTemplate, Names, Route, Source, list, skills};
use crate::era::Era;
use crate::jsonrpc::splice::{Change, Edit, splice_into};
use crate::list_kind::{ListKind, PerKind};
use crate::message_limit::has_memory;
use crate::naming::Naming;
use crate::policy::{Hidden, Policy, is_fit_name};
use crate::tool_overrides::ToolOverride;

pub(super) fn build(names: &mut Names, naming: Naming, sources: &[Source<'_>], max_list: usize) -> Catalog {
    let mut catalog = Catalog {
        routes: PerKind::default(),
        resources: HashMap::new(),
        interfaces: HashMap::new(),
        templates: Vec::new(),
        skills: HashMap::new(),
        policies: sources.iter().map(|source| source.policy.clone()).collect(),
        lists: PerKind::default(),
        modern_tools: None,
        versions: PerKind::default(),
        cache_hints: PerKind::from_fn(|kind| {
            CacheHint::of_all(sources.iter().filter_map(|source| source.lists[kind].keep()))
        }),
        exposure: vec![PerKind::default(); sources.len()],
        cut: PerKind::default(),
        name_taken: Vec::new(),
    };
    for kind in ListKind::ALL {
        catalog.add_list(kind, (&mut *names, naming), sources, max_list);
    }
    catalog
}

/// A hash is enough: a server that forges a collision only hides a change of its own list.
fn version(list: &Bytes, modern: Option<&Bytes>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(list);
    if let Some(modern) = modern {
        hasher.write(modern);
    }
    hasher.finish()
}

fn is_named(kind: ListKind) -> bool {
    kind.key() == "name"
}

/// A tool or prompt to list.
struct NamedItem<'a> {
    /// Its exposed name; `None` if every possible one is taken.
    name: Option<Bytes>,
    item: &'a Item,
    is_legacy_only: bool,
    tool_override: Option<Arc<ToolOverride>>,
}

impl Catalog {
    /// Adds the items of one kind.
    fn add_list(
        &mut self,
        kind: ListKind,
        (names, naming): (&mut Names, Naming),
        sources: &[Source<'_>],
        max_list: usize,
    ) {
        let servers: Vec<&str> = sources.iter().map(|source| &**source.name).collect();
        let legacy_only: Vec<HashSet<&str>> = sources.iter().map(|source| source.lists[kind].legacy_only()).collect();
        let lists: Vec<_> =
            sources.iter().map(|source| ShownList::of(kind, &source.lists[kind], source.overrides)).collect();
        let differs = |list: &ShownList<'_>| list.items().any(|item| item.validity.differs_by_era());
        let has_modern = lists.iter().any(differs) || legacy_only.iter().any(|keys| !keys.is_empty());
        let mut list = Text::begin(kind, has_modern);
        let hidden: Vec<_> = sources.iter().map(|source| source.lists[kind].hidden(kind, source.policy)).collect();
        let mut parts = Parts::of(&lists, &hidden, max_list);
        let each = sources.iter().zip(&lists).zip(&hidden).zip(&legacy_only);
        for (server, (((source, shown), hidden), legacy_only)) in each.enumerate() {
            for item in shown.items() {
                if is_named(kind) && !is_fit_name(&item.key) {
                    self.exposure[server][kind].unfit += 1;
                    continue;
                }
                let why_hidden = hidden.get(&*item.key);
                let is_withheld = matches!(why_hidden, Some(Hidden::Withheld(_)));
                // Assign names before the rules of policy, so that names do not depend on them. A withheld item takes no name.
                let is_left_out = shown.is_left_out(&item.key);
                let own = (&item.key, shown.name(&item.key));
                let may_name = is_named(kind) && !is_left_out && !is_withheld;
                let name = may_name.then(|| names.assign(kind, naming, source.name, own, &servers)).flatten();
                if let Some(why) = why_hidden {
                    let exposure = &mut self.exposure[server][kind];
                    exposure.withheld += usize::from(is_withheld);
                    exposure.denied += usize::from(!is_withheld && *why != Hidden::Malformed);
                } else if is_left_out {
                    self.name_taken.push((server, Arc::clone(&item.key)));
                } else if !parts.take(server, item) || !list.has_memory_for(item) {
                    self.cut[kind].push((server, Arc::clone(&item.key)));
                } else if is_named(kind) {
                    let named = NamedItem {
                        name,
                        item,
                        is_legacy_only: legacy_only.contains(&*item.key),
                        tool_override: shown.override_of(&item.key),
                    };
                    self.add_named(kind, (server, source), named, &mut list);
                } else if kind == ListKind::Skills {
                    self.add_skill((server, source.policy), item, &mut list);
                } else {
                    self.add_resource(kind, server, item, &mut list);
                }
            }
        }
        let modern;
        (self.lists[kind], modern) = list.end();
        self.versions[kind] = version(&self.lists[kind], modern.as_ref());
        if kind == ListKind::Tools {
            self.modern_tools = modern;
        }
    }

    /// If a name is listed twice, the first definition is used in both list and routes.
    fn add_named(
        &mut self,
        kind: ListKind,
        (server, source): (usize, &Source<'_>),
        NamedItem { name, item, is_legacy_only, tool_override }: NamedItem<'_>,
        list: &mut Text,
    ) {
        let Some(btree_map::Entry::Vacant(vacant)) = name.map(|name| self.routes[kind].entry(name)) else { return };
        let limit = match kind {
            ListKind::Tools => source.settings.call_limit(&item.key),
            _ => source.settings.request_limit(),
        };
        if kind == ListKind::Tools {
            self.exposure[server][kind].tokens += list::tokens_of(vacant.key().len(), item.model_bytes);
        }
        if kind == ListKind::Tools
            && let Some(uri) = item.interface().filter(|uri| source.policy.permits_interface(uri))
        {
            self.interfaces.entry(uri).or_insert(server);
        }
        list.add_renamed(item, vacant.key(), is_legacy_only);
        let (raw_name, name) = (item.raw_key.clone(), Arc::clone(&item.key));
        let has_output_schema = kind == ListKind::Tools && item.has_output_schema();
        vacant.insert(Route { server, raw_name, name, limit, is_legacy_only, has_output_schema, tool_override });
        self.exposure[server][kind].exposed += 1;
    }

    /// URIs are not renamed, so the first server with a URI gets it.
    fn add_resource(&mut self, kind: ListKind, server: usize, item: &Item, list: &mut Text) {
        let owner = if kind == ListKind::Templates {
            let template = UriTemplate::parse(&item.key);
            let known = self.templates.iter().find(|other| other.template == template).map(|other| other.server);
            if known.is_none() {
                self.templates.push(ListedTemplate { text: Arc::clone(&item.key), template, server });
            }
            known
        } else {
            match self.resources.entry(Arc::clone(&item.key)) {
                hash_map::Entry::Occupied(occupied) => Some(*occupied.get()),
                hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(server);
                    None
                }
            }
        };
        let exposure = &mut self.exposure[server][kind];
        match owner {
            None => {
                list.add(&item.json, item);
                exposure.exposed += 1;
            }
            Some(owner) => exposure.shadowed += usize::from(owner != server),
        }
    }

    /// A skill belongs to the server that lists its URI as a resource, or else to the first one that lists it or a skill around it.
    fn add_skill(&mut self, (server, policy): (usize, &Policy), item: &Item, list: &mut Text) {
        let around = || skills::directories(&item.key).find_map(|directory| self.skills.get(directory));
        let owner = self.resources.get(&item.key).or_else(around).copied();
        let exposure = &mut self.exposure[server][ListKind::Skills];
        if owner.is_some_and(|owner| owner != server) {
            exposure.shadowed += 1;
            return;
        }
        let hash_map::Entry::Vacant(vacant) = self.skills.entry(skills::directory(&item.key).into()) else { return };
        match skills::visible_entry(&item.json, policy) {
            Some(entry) => {
                vacant.insert(server);
                list.add(&entry, item);
                exposure.exposed += 1;
            }
            None => exposure.denied += 1,
        }
    }
}

/// Bytes that an exposed name and mended parts may add to a definition.
const MAX_ADDED: usize = 64 << 10;

/// Builds the raw result of a list, and its variant for modern agents.
struct Text {
    all: BytesMut,
    modern: Option<BytesMut>,
}

impl Text {
    fn begin(kind: ListKind, any_is_legacy_only: bool) -> Self {
        let begin = || BytesMut::from(&*format!("{{\"{}\":[", kind.member()));
        Self { all: begin(), modern: any_is_legacy_only.then(begin) }
    }

    /// A list for which there is no memory is cut, like one that exceeds its limit.
    fn has_memory_for(&self, item: &Item) -> bool {
        let added = item.json.len() + MAX_ADDED;
        std::iter::once(&self.all).chain(&self.modern).all(|text| has_memory(text, added))
    }

    /// Adds `definition`: that of `item`, or a part of it, which then is not mended.
    fn add(&mut self, definition: &Bytes, item: &Item) {
        let is_whole = definition == &item.json;
        self.put(item, true, |text, changes| {
            splice_into(text, definition, if is_whole { changes } else { &mut [] });
        });
    }

    /// The characters of an exposed name need no escape in JSON. The server's own name keeps the server's spelling.
    fn add_renamed(&mut self, item: &Item, name: &Bytes, is_legacy_only: bool) {
        let quoted = [b"\"", &name[..], b"\""].concat();
        let is_own = name[..] == *item.key.as_bytes();
        let rename = Edit { part: &item.raw_key, replacement: if is_own { &item.raw_key } else { &quoted } };
        self.put(item, !is_legacy_only, |text, changes| {
            changes.push(rename);
            splice_into(text, &item.json, changes);
        });
    }

    /// Writes a definition to the text of each era, with the edits that mend it there.
    fn put<'a>(&mut self, item: &'a Item, is_modern: bool, write: impl Fn(&mut BytesMut, &mut Vec<Edit<'a>>)) {
        let modern = self.modern.as_mut().filter(|_| is_modern);
        for (text, era) in std::iter::once((&mut self.all, Era::Legacy)).chain(modern.map(|text| (text, Era::Modern))) {
            separate(text);
            write(text, &mut item.validity.changes(era).iter().map(Change::edit).collect());
        }
    }

    fn end(self) -> (Bytes, Option<Bytes>) {
        let end = |mut text: BytesMut| {
            text.put_slice(b"]}");
            text.freeze()
        };
        (end(self.all), self.modern.map(end))
    }
}

fn separate(list: &mut BytesMut) {
    if list.last() == Some(&b'}') {
        list.put_u8(b',');
    }
}

/// Bytes that an item may have beside its definition: a separator, and what an exposed name adds.
const BESIDE: usize = 64;

/// What is left of each server's part of a list.
#[derive(Debug)]
pub(super) struct Parts {
    left: Vec<usize>,
}

impl Parts {
    /// The parts of a joined list of `total` bytes. `hidden` has the keys of each server that policy hides.
    fn of<T>(lists: &[ShownList<'_>], hidden: &[HashMap<&str, T>], total: usize) -> Self {
        if lists.iter().flat_map(ShownList::items).map(size).sum::<usize>() <= total {
            return Self { left: vec![total; lists.len()] };
        }
        let needs = lists
            .iter()
            .zip(hidden)
            .map(|(list, hidden)| list.items().filter(|item| !hidden.contains_key(&*item.key)).map(size).sum());
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
