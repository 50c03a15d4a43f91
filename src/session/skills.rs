//! The Skills extension: whose skill a URI is, and which skills of a merged list the agent sees. Pure.
//!
//! A skill belongs to the server that lists its URI as a resource, else to the first server in file order that knows it. Servers need
//! not list their skills, so an unlisted URI is requested from every server that exposes skills.
//!
//! Source: SEP-2640, "Listing Skills", "Getting a Skill", "Reading Skill Content", "Reading Directories".

use bytes::Bytes;

use super::extension_route::ExtensionRoute;
use super::forwardable_request::{ForwardableRequest, ForwardedMethod};
use crate::era::Era;
use crate::extensions::{self, SKILLS};
use crate::jsonrpc::members::{members, text};
use crate::manager::View;
use crate::server::messages::call::{AccessTarget, TargetKind};

const LIST: &str = "skills/list";

/// The route of a request about skills, or of one that reads a resource which no server lists. `None` if it is another request, or no
/// server exposes skills.
pub(super) fn route(request: &ForwardableRequest, view: &View) -> Option<ExtensionRoute> {
    if request.method == ForwardedMethod::ReadResource {
        return route_read(std::str::from_utf8(&request.exposed_name).ok()?, view, request.era());
    }
    let (era, request) = (request.era(), request.extension.as_ref()?);
    let owners = owners(&request.method, view, era);
    let first = *owners.first()?;
    if &*request.method == LIST {
        return match (&owners[..], request.has_cursor) {
            ([server], _) if !narrows(view, *server) => Some(one(*server, None)),
            (_, true) => Some(ExtensionRoute::UnknownCursor),
            _ => Some(ExtensionRoute::Merge { servers: owners, id: SKILLS.into() }),
        };
    }
    match &request.uri {
        Some(uri) => Some(route_uri(uri, owners, view, TargetKind::Item)),
        // The server explains what is missing.
        None => Some(one(first, None)),
    }
}

/// Whether the request reads a URI that only skills have.
pub(super) fn is_about_skill(request: &ForwardableRequest) -> bool {
    std::str::from_utf8(&request.exposed_name).is_ok_and(|uri| extensions::of_uri(uri) == Some(SKILLS))
}

/// The servers that expose the method of the extension to agents of this era.
fn owners(method: &str, view: &View, era: Era) -> Vec<usize> {
    view.owners(method, era).into_iter().filter(|(_, id)| **id == *SKILLS).map(|(server, _)| server).collect()
}

/// The route of a request that reads a URI which the catalog does not have. `None` if no server exposes such a skill.
fn route_read(uri: &str, view: &View, era: Era) -> Option<ExtensionRoute> {
    let owners = owners(LIST, view, era);
    let is_permitted = |server: &&usize| permits(view, **server, uri);
    owners.iter().any(|server| is_permitted(&server)).then(|| route_uri(uri, owners, view, TargetKind::Resource))
}

fn route_uri(uri: &str, mut owners: Vec<usize>, view: &View, error_kind: TargetKind) -> ExtensionRoute {
    let lister = view.catalog.server_of(uri);
    owners.retain(|server| lister.is_none_or(|lister| lister == *server) && permits(view, *server, uri));
    match owners[..] {
        [] => ExtensionRoute::Unknown(error_kind, Bytes::copy_from_slice(uri.as_bytes())),
        [server] if lister.is_some() || !narrows(view, server) => one(server, Some(uri)),
        _ => ExtensionRoute::First { servers: owners, uri: uri.into(), id: SKILLS.into(), error_kind },
    }
}

fn one(server: usize, uri: Option<&str>) -> ExtensionRoute {
    ExtensionRoute::One { server, rename: None, access: access(uri) }
}

/// What a request about a skill, or about all skills, needs to be exposed.
fn access(uri: Option<&str>) -> AccessTarget {
    let item = uri.map(|uri| AccessTarget::Skill(Bytes::copy_from_slice(uri.as_bytes())));
    AccessTarget::Extension { id: Some(SKILLS.into()), items: item.into_iter().collect() }
}

fn permits(view: &View, server: usize, uri: &str) -> bool {
    view.servers.get(server).is_some_and(|member| member.config.policy.permits_skill(uri))
}

fn narrows(view: &View, server: usize) -> bool {
    view.servers.get(server).is_some_and(|member| member.config.policy.narrows_skills())
}

/// The URI of an entry of `skills/list` at `server`, if the agent may see the skill.
pub(super) fn visible_uri(entry: &Bytes, server: &str, view: &View) -> Option<Bytes> {
    let [uri] = members(entry, ["uri"]).ok()?;
    let uri = text(&uri?)?;
    let as_text = std::str::from_utf8(&uri).ok()?;
    let index = view.servers.iter().position(|member| *member.config.name == *server)?;
    let is_own = view.catalog.server_of(as_text).is_none_or(|lister| lister == index);
    (is_own && permits(view, index, as_text)).then(|| Bytes::copy_from_slice(&uri))
}
