//! Where a request of an extension goes: to the only possible server, or to several servers. Pure.
//!
//! The server of a request is the server of the item that the request names by `uri` or `name`, else the only server that exposes the
//! extension with this method. Servers need not list their skills, so an unlisted skill is requested from the only server that exposes
//! skills.
//!
//! Source: the skills extension (SEP-2640), "Getting a Skill", "Reading Skill Content", "Reading Directories".

use std::sync::Arc;

use bytes::Bytes;

use super::received_call::{ExtensionRequest, ReceivedCall};
use crate::catalog::Route;
use crate::era::Era;
use crate::extensions::SKILLS;
use crate::list_kind::ListKind;
use crate::manager::{Member, View};
use crate::methods::{Forwarding, TargetKind};
use crate::server::messages::call::{AccessTarget, Exposure};

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
    Merge { servers: Vec<usize>, extension: Arc<str> },
    /// Several servers have the method, and the request does not determine one.
    Ambiguous(Vec<usize>),
    /// No server has the method or the item.
    Unknown(TargetKind, Bytes),
    /// The params are invalid. The text explains it.
    Invalid(&'static str),
}

impl ExtensionRoute {
    /// The route of a request that reads a resource which the catalog does not have, if one server alone exposes skills.
    pub(super) fn of_unlisted_skill(request: &ReceivedCall, view: &View) -> Option<Self> {
        if request.forwarding != Forwarding::ReadResource {
            return None;
        }
        let owners = view.owners(SKILLS, request.era());
        let [(server, id)] = &owners[..] else { return None };
        let member = view.servers.get(*server)?;
        let uri = Bytes::copy_from_slice(&request.exposed_name);
        let skill = AccessTarget::Skill(uri.clone());
        if view.exposure(&member.config.name, request.era(), &skill, None) == Exposure::Hidden {
            return Some(Self::Unknown(TargetKind::Resource, uri));
        }
        let access = AccessTarget::Extension { id: Some(Arc::clone(id)), items: vec![skill] };
        Some(Self::One { server: *server, rename: None, access })
    }

    /// The route of a request or notification of an extension to `view`.
    pub(super) fn of(extension: &ExtensionRequest, view: &View, era: Era) -> Self {
        route(extension, &view.owners(&extension.method, era), view, era)
    }
}

/// The server of the listed items that a request names.
struct NamedItems {
    server: usize,
    /// The tool or prompt, and how to rename it.
    named: Option<(AccessTarget, (Bytes, Bytes))>,
}

fn route(request: &ExtensionRequest, owners: &[(usize, Arc<str>)], view: &View, era: Era) -> ExtensionRoute {
    let unknown_method =
        || ExtensionRoute::Unknown(TargetKind::Method, Bytes::copy_from_slice(request.method.as_bytes()));
    let unknown_item = || ExtensionRoute::Unknown(TargetKind::Item, item_key(request));
    let extension_at = |index: usize| owners.iter().find(|(owner, _)| *owner == index).map(|(_, id)| Arc::clone(id));
    let is_of_skills = owners.first().is_some_and(|(_, id)| **id == *SKILLS);
    let narrows_skills = |(server, _): &(usize, _)| {
        view.servers.get(*server).is_some_and(|member| member.config.policy.narrows_skills())
    };
    if is_of_skills && request.uri.is_none() && owners.iter().any(narrows_skills) {
        // The result could not be filtered.
        return ExtensionRoute::Invalid("`uri` is missing or not a string");
    }
    if let Some(NamedItems { server, named }) = named_items(request, view, era) {
        let id = extension_at(server);
        let receives = |member: &Member| !is_of_skills && member.receives_unknown_methods(era);
        if id.is_none() && !view.servers.get(server).is_some_and(receives) {
            // The method is declared if another server has it.
            return if owners.is_empty() { unknown_method() } else { unknown_item() };
        }
        let (named, rename) = named.unzip();
        return match needed_items(request, id.as_deref(), named, server, view, era) {
            Some(items) => ExtensionRoute::One { server, rename, access: AccessTarget::Extension { id, items } },
            None => unknown_item(),
        };
    }
    match owners {
        [(server, id)] => match needed_items(request, Some(id), None, *server, view, era) {
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
                servers.filter(|server| needed_items(request, Some(id), None, *server, view, era).is_some()).collect();
            if servers.is_empty() {
                unknown_item()
            } else {
                ExtensionRoute::Merge { servers, extension: Arc::clone(id) }
            }
        }
        [] => unknown_method(),
        _ if is_of_skills && request.uri.is_some() => unknown_item(),
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
    Some(NamedItems { server, named: of_name.map(|(_, rename, access)| (access, rename)) })
}

/// Everything that a request of the extension `id` to this server needs to be exposed: the listed tool or prompt that it names, and what else
/// it names. `None` if policy hides any of it.
fn needed_items(
    request: &ExtensionRequest,
    id: Option<&str>,
    named: Option<AccessTarget>,
    server: usize,
    view: &View,
    era: Era,
) -> Option<Vec<AccessTarget>> {
    let uri = request.uri.as_ref().map(|uri| {
        let bytes = Bytes::copy_from_slice(uri.as_bytes());
        match view.catalog.server_of(uri) {
            _ if id == Some(SKILLS) => AccessTarget::Skill(bytes),
            Some(_) => AccessTarget::Uri(bytes),
            None => AccessTarget::UnlistedUri(bytes),
        }
    });
    let unlisted_name = || Some(AccessTarget::UnlistedName(Bytes::copy_from_slice(&request.name.as_ref()?.1)));
    let items: Vec<_> = uri.into_iter().chain(named.or_else(unlisted_name)).collect();
    let member = view.servers.get(server)?;
    let is_hidden = |item: &AccessTarget| view.exposure(&member.config.name, era, item, None) == Exposure::Hidden;
    (!items.iter().any(is_hidden)).then_some(items)
}

fn item_key(request: &ExtensionRequest) -> Bytes {
    let name = || request.name.as_ref().map(|(_, name)| name.clone());
    let uri = request.uri.as_ref().map(|uri| Bytes::copy_from_slice(uri.as_bytes()));
    uri.or_else(name).unwrap_or_default()
}
