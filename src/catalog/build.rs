//! Builds a catalog: list by list, server by server.

use std::collections::{HashMap, btree_map, hash_map};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::template::Template;
use super::{CacheHint, Catalog, Item, ListedTemplate, Names, Route, Source};
use crate::jsonrpc::members::members;
use crate::jsonrpc::object_edit::with_first;
use crate::jsonrpc::splice::{Change, Edit, splice_into};
use crate::list_kind::{ListKind, PerKind};
use crate::naming::Naming;
use crate::policy::is_fit_name;
use crate::token_estimate;

pub(super) fn build(names: &mut Names, naming: Naming, sources: &[Source<'_>]) -> Catalog {
    let mut catalog = Catalog {
        routes: PerKind::default(),
        resources: HashMap::new(),
        interfaces: HashMap::new(),
        templates: Vec::new(),
        lists: PerKind::default(),
        tools_for_tasks: None,
        versions: PerKind::default(),
        cache_hints: PerKind::from_fn(|kind| {
            CacheHint::of_all(sources.iter().filter_map(|source| source.lists[kind].keep()))
        }),
        exposure: vec![PerKind::default(); sources.len()],
    };
    for kind in ListKind::ALL {
        let mut list = Text::begin(kind, sources.iter().any(|source| source.lists[kind].makes_tasks));
        for (server, source) in sources.iter().enumerate() {
            let hidden = source.lists[kind].hidden(kind, source.policy);
            for item in &source.lists[kind].items {
                if is_named(kind) && !is_fit_name(&item.key) {
                    catalog.exposure[server][kind].unfit += 1;
                    continue;
                }
                // Assign names before policy, so that names do not depend on policy.
                let name = is_named(kind).then(|| names.assign(kind, naming, source.name, &item.key)).flatten();
                if hidden.contains_key(&*item.key) {
                    catalog.exposure[server][kind].denied += 1;
                } else if is_named(kind) {
                    catalog.add_named(kind, (server, source), (name, item), &mut list);
                } else {
                    catalog.add_resource(kind, (server, source), item, &mut list);
                }
            }
        }
        let for_tasks;
        (catalog.lists[kind], for_tasks) = list.end();
        catalog.versions[kind] = version(&catalog.lists[kind], for_tasks.as_ref());
        if kind == ListKind::Tools {
            catalog.tools_for_tasks = for_tasks;
        }
    }
    catalog
}

/// A hash is enough: a server that forges a collision only hides a change of its own list.
fn version(list: &Bytes, for_tasks: Option<&Bytes>) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(list);
    if let Some(for_tasks) = for_tasks {
        hasher.write(for_tasks);
    }
    hasher.finish()
}

fn is_named(kind: ListKind) -> bool {
    kind.key() == "name"
}

impl Catalog {
    /// If a name is listed twice, the first definition is used in both list and routes.
    fn add_named(
        &mut self,
        kind: ListKind,
        (server, source): (usize, &Source<'_>),
        (name, item): (Option<Bytes>, &Item),
        list: &mut Text,
    ) {
        let Some(btree_map::Entry::Vacant(vacant)) = name.map(|name| self.routes[kind].entry(name)) else { return };
        let limit = match kind {
            ListKind::Tools => source.settings.call_limit(&item.key),
            _ => source.settings.request_limit(),
        };
        if kind == ListKind::Tools {
            self.exposure[server][kind].tokens += token_estimate::of_bytes(vacant.key().len(), item.model_bytes);
        }
        if kind == ListKind::Tools
            && let Some(uri) = item.interface().filter(|uri| source.policy.permits_interface(uri))
        {
            self.interfaces.entry(uri).or_insert(server);
        }
        list.add_renamed(item, vacant.key(), source.lists[kind].makes_tasks);
        vacant.insert(Route { server, raw_name: item.raw_key.clone(), name: Arc::clone(&item.key), limit });
        self.exposure[server][kind].exposed += 1;
    }

    /// URIs are not renamed, so the first server with a URI gets it.
    fn add_resource(&mut self, kind: ListKind, (server, source): (usize, &Source<'_>), item: &Item, list: &mut Text) {
        let owner = if kind == ListKind::Templates {
            let template = Template::parse(&item.key);
            let known = self.templates.iter().find(|other| other.template == template).map(|other| other.server);
            if known.is_none() {
                let (text, policy) = (Arc::clone(&item.key), source.policy.clone());
                self.templates.push(ListedTemplate { text, template, server, policy });
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
                list.add(&item.json);
                exposure.exposed += 1;
            }
            Some(owner) => exposure.shadowed += usize::from(owner != server),
        }
    }
}

/// Builds the raw result of a list, and its variant with `taskSupport` for agents that support tasks.
struct Text {
    plain: BytesMut,
    for_tasks: Option<BytesMut>,
}

impl Text {
    fn begin(kind: ListKind, any_makes_tasks: bool) -> Self {
        let begin = || BytesMut::from(&*format!("{{\"{}\":[", kind.member()));
        Self { plain: begin(), for_tasks: any_makes_tasks.then(begin) }
    }

    fn add(&mut self, definition: &[u8]) {
        for text in self.texts() {
            separate(text);
            text.put_slice(definition);
        }
    }

    /// The characters of an exposed name need no escape in JSON. The server's own name keeps the server's spelling.
    fn add_renamed(&mut self, item: &Item, name: &Bytes, makes_tasks: bool) {
        let quoted = [b"\"", &name[..], b"\""].concat();
        let is_own = name[..] == *item.key.as_bytes();
        let rename = Edit { part: &item.raw_key, replacement: if is_own { &item.raw_key } else { &quoted } };
        let may_be_task = makes_tasks.then(|| may_be_task(&item.json)).flatten();
        let task_support = may_be_task.iter().map(Change::edit);
        for (text, mut edits) in self.texts().zip([vec![rename], task_support.chain([rename]).collect()]) {
            separate(text);
            splice_into(text, &item.json, &mut edits);
        }
    }

    /// The texts under construction.
    fn texts(&mut self) -> impl Iterator<Item = &mut BytesMut> {
        std::iter::once(&mut self.plain).chain(&mut self.for_tasks)
    }

    fn end(self) -> (Bytes, Option<Bytes>) {
        let end = |mut text: BytesMut| {
            text.put_slice(b"]}");
            text.freeze()
        };
        (end(self.plain), self.for_tasks.map(end))
    }
}

fn separate(list: &mut BytesMut) {
    if list.last() == Some(&b'}') {
        list.put_u8(b',');
    }
}

/// The change that adds `taskSupport` to a tool without one.
fn may_be_task(definition: &Bytes) -> Option<Change> {
    let [task_support] = members(definition, ["execution"]).ok()?;
    task_support.is_none().then(|| with_first(definition, r#""execution":{"taskSupport":"optional"}"#))
}
