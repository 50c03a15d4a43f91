//! The Skills extension: whose skill a URI is, and which skills of a merged list the agent sees. Pure.
//!
//! A skill belongs to the server that lists its URI as a resource. Otherwise the last list of skills that the agent has received
//! decides, then the first server in file order that knows the skill. Servers need not list their skills, so an unlisted URI is requested from
//! every server that exposes skills. Results of a server with rules on skills are filtered.
//!
//! Source: SEP-2640, "Listing Skills", "Getting a Skill", "Reading Skill Content", "Reading Directories".

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use bytes::Bytes;

use super::extension_route::{ExtensionRoute, UNKNOWN_CURSOR};
use super::forwardable_request::{ForwardableRequest, ForwardedMethod};
use crate::era::Era;
use crate::extensions::{self, SKILLS};
use crate::jsonrpc::entries::elements;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::splice::{Change, applied, splice};
use crate::manager::View;
use crate::server::messages::call::{AccessTarget, TargetKind};

const LIST: &str = "skills/list";
/// Maximum number of files of a skill or directory.
const MAX_FILES: usize = 10_000;

/// The skills of the last merged list, each with its server.
///
/// Has hashes instead of URIs, because the list may be large. Their keys are random.
#[derive(Debug, Default)]
pub(super) struct ListedSkills(HashMap<u64, Arc<str>>);

/// A skill of a merged list.
pub(super) struct ListedSkill {
    pub(super) server: Arc<str>,
    pub(super) uri: Bytes,
    pub(super) entry: Bytes,
}

impl ListedSkills {
    /// The server with the skill that this URI, or the directory of this URI, belongs to.
    fn server_of(&self, uri: &str) -> Option<&str> {
        let (_, path) = uri.split_once("://")?;
        let directories = path.rmatch_indices('/').map(|(end, _)| &uri[..uri.len() - path.len() + end]);
        let mut all = std::iter::once(uri).chain(directories);
        all.find_map(|directory| self.0.get(&self.0.hasher().hash_one(directory.as_bytes()))).map(|server| &**server)
    }
}

impl<'a> FromIterator<(&'a [u8], &'a Arc<str>)> for ListedSkills {
    fn from_iter<I: IntoIterator<Item = (&'a [u8], &'a Arc<str>)>>(skills: I) -> Self {
        let mut all = HashMap::new();
        for (uri, server) in skills {
            let key = all.hasher().hash_one(uri.strip_suffix(b"/SKILL.md").unwrap_or(uri));
            all.insert(key, Arc::clone(server));
        }
        Self(all)
    }
}

/// The route of a request about skills, or of one that reads a resource which no server lists. `None` if it is another request, or no
/// server exposes skills.
pub(super) fn route(request: &ForwardableRequest, view: &View, listed: &ListedSkills) -> Option<ExtensionRoute> {
    if request.method == ForwardedMethod::ReadResource {
        return route_read(std::str::from_utf8(&request.exposed_name).ok()?, view, listed, request.era());
    }
    let (era, request) = (request.era(), request.extension.as_ref()?);
    let owners = owners(&request.method, view, era);
    let first = *owners.first()?;
    if &*request.method == LIST {
        return match (&owners[..], request.has_cursor) {
            ([server], _) if !narrows(view, *server) => Some(one(*server, None)),
            (_, true) => Some(ExtensionRoute::Invalid(UNKNOWN_CURSOR)),
            _ => Some(ExtensionRoute::Merge { servers: owners, id: SKILLS.into() }),
        };
    }
    match &request.uri {
        Some(uri) => Some(route_uri(uri, owners, view, listed, TargetKind::Item)),
        // The result could not be filtered.
        None if owners.iter().any(|server| narrows(view, *server)) => {
            Some(ExtensionRoute::Invalid("`uri` is missing or not a string"))
        }
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
fn route_read(uri: &str, view: &View, listed: &ListedSkills, era: Era) -> Option<ExtensionRoute> {
    let owners = owners(LIST, view, era);
    let is_permitted = |server: &&usize| permits(view, **server, uri);
    owners
        .iter()
        .any(|server| is_permitted(&server))
        .then(|| route_uri(uri, owners, view, listed, TargetKind::Resource))
}

fn route_uri(
    uri: &str,
    mut owners: Vec<usize>,
    view: &View,
    listed: &ListedSkills,
    error_kind: TargetKind,
) -> ExtensionRoute {
    let lister = view.catalog.server_of(uri);
    owners.retain(|server| lister.is_none_or(|lister| lister == *server) && permits(view, *server, uri));
    let listed_by = listed.server_of(uri).and_then(|name| index_of(view, name));
    if let Some(server) = listed_by.filter(|server| owners.contains(server)) {
        owners = vec![server];
    }
    match owners[..] {
        [] => ExtensionRoute::Unknown(error_kind, Bytes::copy_from_slice(uri.as_bytes())),
        [server] if !narrows(view, server) => one(server, Some(uri)),
        _ => ExtensionRoute::FirstSuccess { servers: owners, uri: uri.into(), id: SKILLS.into(), error_kind },
    }
}

fn one(server: usize, uri: Option<&str>) -> ExtensionRoute {
    ExtensionRoute::One { server, rename: None, access: AccessTarget::extension(SKILLS.into(), uri) }
}

fn permits(view: &View, server: usize, uri: &str) -> bool {
    view.servers.get(server).is_some_and(|member| member.config.policy.permits_skill(uri))
}

fn narrows(view: &View, server: usize) -> bool {
    view.servers.get(server).is_some_and(|member| member.config.policy.narrows_skills())
}

fn index_of(view: &View, server: &str) -> Option<usize> {
    view.servers.iter().position(|member| *member.config.name == *server)
}

/// The entries of a merged list, each with its server, that the agent may see. Of several with the same URI, only the first.
pub(super) fn visible_skills(entries: Vec<(Arc<str>, Bytes)>, view: &View) -> Vec<ListedSkill> {
    let mut seen = HashSet::new();
    let skill = |(server, entry): (Arc<str>, Bytes)| {
        let (uri, entry) = visible_entry(&entry, &server, view)?;
        seen.insert(uri.clone()).then_some(ListedSkill { server, uri, entry })
    };
    entries.into_iter().filter_map(skill).collect()
}

/// An entry of `skills/list` at `server` with its URI, without files that policy denies. `None` if the agent may not see the skill.
fn visible_entry(entry: &Bytes, server: &str, view: &View) -> Option<(Bytes, Bytes)> {
    let [uri] = members(entry, ["uri"]).ok()?;
    let uri = text(&uri?)?;
    let as_text = std::str::from_utf8(&uri).ok()?;
    let index = index_of(view, server)?;
    let is_own = view.catalog.server_of(as_text).is_none_or(|lister| lister == index);
    if !is_own || !permits(view, index, as_text) {
        return None;
    }
    let changes =
        if narrows(view, index) { hidden_parts(entry, &|uri| permits(view, index, uri))? } else { Vec::new() };
    Some((uri, if changes.is_empty() { entry.clone() } else { applied(entry, &changes).into() }))
}

/// The response line `line` of `server` to `skills/get` or `resources/directory/read`, without files that policy denies. `None` if it has
/// a skill that policy denies, or cannot be filtered.
pub(super) fn visible_result(line: &Bytes, server: &str, view: &View) -> Option<Bytes> {
    let index = index_of(view, server)?;
    if !narrows(view, index) {
        return Some(line.clone());
    }
    let whole = line.slice(..line.len().saturating_sub(1));
    let [result] = members(&whole, ["result"]).ok()?;
    let changes = hidden_parts(&result?, &|uri| permits(view, index, uri))?;
    Some(splice(&whole, &mut changes.iter().map(Change::edit).collect::<Vec<_>>()))
}

/// The edits that remove the `resources` of an object whose URIs are not permitted. `None` if its own URI is not, or a part has another form.
fn hidden_parts(object: &Bytes, permits: &impl Fn(&str) -> bool) -> Option<Vec<Change>> {
    let [uri, skill, resources] = members(object, ["uri", "skill", "resources"]).ok()?;
    let is_permitted = |raw: &Bytes| text(raw).is_some_and(|uri| std::str::from_utf8(&uri).is_ok_and(permits));
    if uri.is_some_and(|uri| !is_permitted(&uri)) {
        return None;
    }
    let mut changes = skill.map_or_else(|| Some(Vec::new()), |skill| hidden_parts(&skill, permits))?;
    if let Some(part) = resources {
        let all = elements(&part, MAX_FILES)?;
        let is_visible = |file: &&Bytes| matches!(members(file, ["uri"]), Ok([Some(uri)]) if is_permitted(&uri));
        let visible: Vec<_> = all.iter().filter(is_visible).cloned().collect();
        if visible.len() < all.len() {
            changes.push(Change { part, replacement: [&b"["[..], &visible.join(&b','), b"]"].concat().into() });
        }
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_skill_has_the_files_of_its_directory() {
        let (one, two) = (Arc::from("one"), Arc::from("two"));
        let skills = [
            ("skill://git/SKILL.md", &one),
            ("skill://git/nested/SKILL.md", &two),
            ("skill:///SKILL.md", &two),
            ("skill:/SKILL.md", &two),
        ];
        let listed: ListedSkills = skills.map(|(uri, server)| (uri.as_bytes(), server)).into_iter().collect();
        for (uri, expected) in [
            ("skill://git", Some("one")),
            ("skill://git/SKILL.md", Some("one")),
            ("skill://git/ref/a.md", Some("one")),
            ("skill://git/nested/a.md", Some("two")),
            ("skill://github/SKILL.md", None),
            ("git", None),
        ] {
            assert_eq!(listed.server_of(uri), expected, "{uri}");
        }
    }

    #[test]
    fn denied_files_are_cut_out_and_other_bytes_stay() {
        let visible = |object: &'static str| {
            let object = Bytes::from(object);
            let changes = hidden_parts(&object, &|uri| !uri.contains("payroll"))?;
            Some(String::from_utf8(applied(&object, &changes)).expect("text"))
        };
        let unchanged = r#"{ "resources" : [ {"uri":"skill://a"} ] ,"n":1.50}"#;
        assert_eq!(visible(unchanged).as_deref(), Some(unchanged));
        assert_eq!(
            visible(
                r#"{"skill":{"uri":"skill://a","resources":[{"uri":"skill://a"},{"uri":"payroll"},{"u":1}], "n":1.50}}"#
            ),
            Some(r#"{"skill":{"uri":"skill://a","resources":[{"uri":"skill://a"}], "n":1.50}}"#.to_owned())
        );
        for unreadable in [
            r#"{"skill":{"uri":"skill://payroll"}}"#,
            r#"{"resources":{"uri":"skill://a"}}"#,
            r#"{"resources":[],"Resources":[]}"#,
            r#"{"skill":[]}"#,
        ] {
            assert_eq!(visible(unreadable), None, "{unreadable}");
        }
    }
}
