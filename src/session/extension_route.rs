//! Where a request of an extension goes: to the only possible server, or to several servers. Pure.
//!
//! The server of a request is the server of the item that the request names by `uri` or `name`, else the only server that exposes the
//! extension with this method.

use std::sync::Arc;

use bytes::Bytes;

use super::forwardable_request::{ExtensionRequest, ForwardableRequest};
use crate::catalog::Route;
use crate::era::Era;
use crate::list_kind::ListKind;
use crate::manager::View;
use crate::server::messages::call::{AccessTarget, Exposure, TargetKind};

/// The error for a cursor of a merged list.
pub(super) const UNKNOWN_CURSOR: &str = "unknown cursor: the list has one page";

/// The destination of a request.
#[derive(Debug)]
pub(super) enum ExtensionRoute {
    One {
        /// The index of the server.
        server: usize,
        /// The raw name in the request, and the server's own name of the item.
        rename: Option<(Bytes, Bytes)>,
        access: AccessTarget,
    },
    /// Send to all these servers and merge their lists.
    Merge { servers: Vec<usize>, id: Arc<str> },
    /// Send to all these servers and use the first success, in the order of the configuration.
    FirstSuccess { servers: Vec<usize>, uri: Box<str>, id: Arc<str>, error_kind: TargetKind },
    /// Several servers have the method, and the request does not determine one.
    Ambiguous(Vec<usize>),
    /// No server has the method or the item.
    Unknown(TargetKind, Bytes),
    /// The params are invalid. The text explains it.
    Invalid(&'static str),
}

impl ExtensionRoute {
    /// The route of a request of an extension. `None` if it is another request.
    pub(super) fn of(request: &ForwardableRequest, view: &View) -> Option<Self> {
        let (extension, era) = (request.extension.as_ref()?, request.era());
        Some(Self::of_extension(extension, view, era))
    }

    /// The route of a request or notification of an extension.
    pub(super) fn of_extension(extension: &ExtensionRequest, view: &View, era: Era) -> Self {
        route(extension, &view.owners(&extension.method, era), view, era)
    }
}

/// The server of the listed items that a request names.
struct NamedItems {
    server: usize,
    rename: Option<(Bytes, Bytes)>,
    items: Vec<AccessTarget>,
}

fn route(request: &ExtensionRequest, owners: &[(usize, Arc<str>)], view: &View, era: Era) -> ExtensionRoute {
    let unknown_method =
        || ExtensionRoute::Unknown(TargetKind::Method, Bytes::copy_from_slice(request.method.as_bytes()));
    let unknown_item = || ExtensionRoute::Unknown(TargetKind::Item, item_key(request));
    let extension_at = |index: usize| owners.iter().find(|(owner, _)| *owner == index).map(|(_, id)| Arc::clone(id));
    if let Some(NamedItems { server, rename, items }) = named_items(request, view, era) {
        let id = extension_at(server);
        if id.is_none() && !view.servers.get(server).is_some_and(|member| member.receives_unknown_methods(era)) {
            // The method is declared if another server has it.
            return if owners.is_empty() { unknown_method() } else { unknown_item() };
        }
        return match needed_items(request, items, server, view, era) {
            Some(items) => ExtensionRoute::One { server, rename, access: AccessTarget::Extension { id, items } },
            None => unknown_item(),
        };
    }
    match owners {
        [(server, id)] => match needed_items(request, Vec::new(), *server, view, era) {
            Some(items) => {
                let access = AccessTarget::Extension { id: Some(Arc::clone(id)), items };
                ExtensionRoute::One { server: *server, rename: None, access }
            }
            None => unknown_item(),
        },
        [] if view.face_member().is_some_and(|member| member.receives_unknown_methods(era)) => {
            let access = AccessTarget::Extension { id: None, items: Vec::new() };
            ExtensionRoute::One { server: 0, rename: None, access }
        }
        [(_, id), ..] if request.method.ends_with("/list") => {
            if request.has_cursor {
                return ExtensionRoute::Invalid(UNKNOWN_CURSOR);
            }
            let servers = owners.iter().filter(|(_, other)| other == id).map(|(server, _)| *server);
            let servers: Vec<_> =
                servers.filter(|server| needed_items(request, Vec::new(), *server, view, era).is_some()).collect();
            if servers.is_empty() { unknown_item() } else { ExtensionRoute::Merge { servers, id: Arc::clone(id) } }
        }
        [] => unknown_method(),
        _ => ExtensionRoute::Ambiguous(owners.iter().map(|(server, _)| *server).collect()),
    }
}

/// The listed items that a request names. If it names items of two servers, the URI decides.
fn named_items(request: &ExtensionRequest, view: &View, era: Era) -> Option<NamedItems> {
    let of_uri = request.uri.as_ref().and_then(|uri| view.catalog.server_of(uri));
    let named = |(raw, name): &(Bytes, Bytes), kind: ListKind| {
        let route = view.catalog.route(kind, name).filter(|route| route.is_for(era))?;
        let Route { server, raw_name, name: own, .. } = route;
        let access = AccessTarget::Named { kind, exposed: Bytes::copy_from_slice(name), name: Arc::clone(own) };
        let is_of_server = of_uri.is_none_or(|of_uri| of_uri == *server);
        is_of_server.then(|| (*server, (raw.clone(), raw_name.clone()), access))
    };
    let of_name = request.name.as_ref();
    let of_name = of_name.and_then(|it| named(it, ListKind::Tools).or_else(|| named(it, ListKind::Prompts)));
    let server = of_uri.or(of_name.as_ref().map(|(server, ..)| *server))?;
    let uri = request.uri.as_ref().filter(|_| of_uri.is_some());
    let mut items: Vec<_> =
        uri.map(|uri| AccessTarget::Uri(Bytes::copy_from_slice(uri.as_bytes()))).into_iter().collect();
    let rename = of_name.map(|(_, rename, access)| {
        items.push(access);
        rename
    });
    Some(NamedItems { server, rename, items })
}

/// Everything that a request to this server needs to be exposed: the listed `items`, and what else it names. `None` if policy hides any of it.
fn needed_items(
    request: &ExtensionRequest,
    mut items: Vec<AccessTarget>,
    server: usize,
    view: &View,
    era: Era,
) -> Option<Vec<AccessTarget>> {
    if let Some(uri) = &request.uri
        && !items.iter().any(|item| matches!(item, AccessTarget::Uri(_)))
    {
        items.push(AccessTarget::UnlistedUri(Bytes::copy_from_slice(uri.as_bytes())));
    }
    if let Some((_, name)) = &request.name
        && !items.iter().any(|item| matches!(item, AccessTarget::Named { .. }))
    {
        items.push(AccessTarget::UnlistedName(Bytes::copy_from_slice(name)));
    }
    let member = view.servers.get(server)?;
    let is_hidden = |item: &AccessTarget| view.exposure(&member.config.name, era, item, None) == Exposure::Hidden;
    (!items.iter().any(is_hidden)).then_some(items)
}

fn item_key(request: &ExtensionRequest) -> Bytes {
    let name = || request.name.as_ref().map(|(_, name)| name.clone());
    let uri = request.uri.as_ref().map(|uri| Bytes::copy_from_slice(uri.as_bytes()));
    uri.or_else(name).unwrap_or_default()
}
