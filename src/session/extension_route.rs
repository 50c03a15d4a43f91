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
use crate::manager::{Member, View};
use crate::server::messages::call::{AccessTarget, TargetKind};

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
    First { servers: Vec<usize>, uri: Box<str>, id: Arc<str>, error_kind: TargetKind },
    /// Several servers have the method, and the request does not determine one.
    Ambiguous(Vec<usize>),
    /// No server has the method or the item.
    Unknown(TargetKind, Bytes),
    /// The cursor of a merged list, which has one page.
    UnknownCursor,
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

/// The server and item that a request names.
struct NamedItem {
    server: usize,
    rename: Option<(Bytes, Bytes)>,
    access: AccessTarget,
}

fn route(request: &ExtensionRequest, owners: &[(usize, Arc<str>)], view: &View, era: Era) -> ExtensionRoute {
    let unknown_method =
        || ExtensionRoute::Unknown(TargetKind::Method, Bytes::copy_from_slice(request.method.as_bytes()));
    let extension_at = |index: usize| owners.iter().find(|(owner, _)| *owner == index).map(|(_, id)| Arc::clone(id));
    if let Some(NamedItem { server, rename, access }) = named_item(request, view) {
        let id = extension_at(server);
        if id.is_none() && !view.servers.get(server).is_some_and(|member| member.receives_unknown_methods(era)) {
            // The method is declared if another server has it.
            return match owners {
                [] => unknown_method(),
                _ => ExtensionRoute::Unknown(TargetKind::Item, item_key(request)),
            };
        }
        return ExtensionRoute::One {
            server,
            rename,
            access: AccessTarget::Extension { id, item: Some(Box::new(access)) },
        };
    }
    match owners {
        [(server, id)] => match view.servers.get(*server) {
            Some(member) if !hides_item(request, member, view) => {
                let access = AccessTarget::Extension { id: Some(Arc::clone(id)), item: None };
                ExtensionRoute::One { server: *server, rename: None, access }
            }
            _ => ExtensionRoute::Unknown(TargetKind::Item, item_key(request)),
        },
        [] if view.face_member().is_some_and(|member| member.receives_unknown_methods(era)) => {
            ExtensionRoute::One { server: 0, rename: None, access: AccessTarget::Extension { id: None, item: None } }
        }
        [(_, id), ..] if request.method.ends_with("/list") => {
            if request.has_cursor {
                return ExtensionRoute::UnknownCursor;
            }
            let servers = owners.iter().filter(|(_, other)| other == id).map(|(server, _)| *server).collect();
            ExtensionRoute::Merge { servers, id: Arc::clone(id) }
        }
        [] => unknown_method(),
        _ => ExtensionRoute::Ambiguous(owners.iter().map(|(server, _)| *server).collect()),
    }
}

fn named_item(request: &ExtensionRequest, view: &View) -> Option<NamedItem> {
    if let Some(uri) = &request.uri
        && let Some(server) = view.catalog.server_of(uri)
    {
        let access = AccessTarget::Uri(Bytes::copy_from_slice(uri.as_bytes()));
        return Some(NamedItem { server, rename: None, access });
    }
    let (raw, name) = request.name.as_ref()?;
    let item = |kind: ListKind| {
        let Route { server, raw_name, name: own, .. } = view.catalog.route(kind, name)?;
        let access = AccessTarget::Named { kind, exposed: Bytes::copy_from_slice(name), name: Arc::clone(own) };
        Some(NamedItem { server: *server, rename: Some((raw.clone(), raw_name.clone())), access })
    };
    item(ListKind::Tools).or_else(|| item(ListKind::Prompts))
}

/// Whether the request names an item of the server that policy hides, by the server's own name or as it would be exposed.
fn hides_item(request: &ExtensionRequest, member: &Member, view: &View) -> bool {
    let policy = &member.config.policy;
    let hides_uri = request.uri.as_ref().is_some_and(|uri| !policy.permits(ListKind::Resources, uri, None));
    let name = request.name.as_ref().and_then(|(_, name)| std::str::from_utf8(name).ok());
    let hides_name = name.is_some_and(|name| {
        let is_it =
            |own: &&str| *own == name || view.naming.candidates(&member.config.name, own).any(|one| one == name);
        let is_hidden = |kind: ListKind| member.lists[kind].hidden(kind, policy).keys().any(&is_it);
        is_hidden(ListKind::Tools) || is_hidden(ListKind::Prompts)
    });
    hides_uri || hides_name
}

fn item_key(request: &ExtensionRequest) -> Bytes {
    let name = || request.name.as_ref().map(|(_, name)| name.clone());
    let uri = request.uri.as_ref().map(|uri| Bytes::copy_from_slice(uri.as_bytes()));
    uri.or_else(name).unwrap_or_default()
}
