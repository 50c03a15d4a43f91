//! A name or URI is callable if and only if it is listed, and listed only with a definition that is approved where that is necessary.
//!
//! The worlds are generated: servers with lists and rules of every kind, a profile with some of the servers, and each naming scheme.
//! All of it changes from one catalog to the next. The policy function states what is exposed; the tests derive everything else anew.

use std::collections::{BTreeMap, BTreeSet};

use proptest::sample::select;

use super::*;
use crate::pins::{Approval, ApprovalRule, Definition, Digest, PinnedKind, Pins};

/// In file order.
const NAMES: [&str; 3] = ["a", "b_c", "d"];
/// With some that stand for the same URIs.
const TEMPLATES: [&str; 5] = ["x://{id}", "x://{b}", "x://{+path}", "y://{id}/b", "x://a{id}"];

/// What one server offers at a time, and what of that is exposed.
#[derive(Debug, Clone)]
struct Member {
    /// Its own names, URIs and templates, by kind.
    offers: [Vec<String>; 5],
    /// Of the tools, those that read only, by their index.
    reading: Vec<bool>,
    /// By kind: what is allowed, if not all, and what is denied. Templates go by the rules of resources; the last ones are on skills.
    rules: [(Option<Vec<String>>, Vec<String>); 4],
    exposed: Vec<usize>,
    exposes_skills: bool,
    read_only: bool,
    /// What happens to definitions that are not approved, and a bit for each index of a list: whether those are.
    approval: Option<(ApprovalRule, u8)>,
}

/// What a catalog is built from, of each server.
type Parts = [(Policy, Lists)];

/// A server, and whether a profile has it; then with what rules beside its own.
type Seen = (Member, bool, Option<Member>);

/// One after the other, with the same memory of names: how they are named, if not as before, and what there is.
type History = Vec<(Option<Naming>, Vec<Seen>)>;

fn members() -> impl Strategy<Value = Member> {
    let some = |key: &'static str, most: usize| prop::collection::vec(key, 0..most);
    let named = || some("[ab_]{1,3}|.{1,70}|\u{202e}?", 5);
    let templates = prop::collection::vec(select(&TEMPLATES[..]), 0..3);
    let skills = some("[xy]://[ab](/[ab]){0,2}/SKILL\\.md", 4);
    let offers = (named(), named(), some("[xy]://[ab/]{0,3}|x://a/SKILL\\.md", 5), templates, skills);
    let globs = || some("[ab_*]{1,3}|[xy]://[ab/*]{0,3}|\\*", 3);
    let rules = || (prop::option::weighted(0.3, globs()), globs());
    let exposed = prop::sample::subsequence(vec![0, 1, 2], 2..=3);
    let rule = select(&[ApprovalRule::Warn, ApprovalRule::Hold][..]);
    let approval = prop::option::weighted(0.4, (rule, any::<u8>()));
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.8), approval);
    let rules = [rules(), rules(), rules(), rules()];
    (offers, prop::collection::vec(any::<bool>(), 5), rules, exposed, flags).prop_map(
        |(
            (tools, prompts, resources, templates, skills),
            reading,
            rules,
            exposed,
            (read_only, exposes_skills, approval),
        )| {
            let templates = templates.into_iter().map(str::to_owned).collect();
            Member {
                offers: [tools, prompts, resources, templates, skills],
                reading,
                rules,
                exposed,
                exposes_skills,
                read_only,
                approval,
            }
        },
    )
}

fn histories() -> impl Strategy<Value = History> {
    let seen = (members(), prop::bool::weighted(0.8), prop::option::weighted(0.4, members()));
    let renamed = prop::option::weighted(0.3, namings());
    prop::collection::vec((renamed, prop::collection::vec(seen, 1..=NAMES.len())), 1..5)
}

fn namings() -> impl Strategy<Value = Naming> {
    select(&Naming::ALL[..]).prop_map(|(_, naming)| naming)
}

impl Member {
    fn policy(&self) -> Policy {
        let globs = |texts: &[String]| -> Vec<_> { texts.iter().map(|text| pattern(text).expect("a glob")).collect() };
        let kinds = [ListKind::Tools, ListKind::Prompts, ListKind::Resources, ListKind::Skills];
        let policy = kinds.iter().zip(&self.rules).fold(Policy::default(), |policy, (kind, (allow, deny))| {
            let allow = allow.as_deref().map(globs);
            policy.with(*kind, allow.as_deref(), &globs(deny)).expect("patterns compile")
        });
        let exposed: Vec<_> = self.exposed.iter().map(|index| kinds[*index]).collect();
        let extensions = self.exposes_skills.then(|| crate::extensions::SKILLS.into());
        policy
            .exposing(&exposed)
            .exposing_extensions(extensions.as_slice())
            .read_only(self.read_only)
            .approved_by(self.approval())
    }

    /// Some of the definitions that it lists are approved.
    fn approval(&self) -> Option<Approval> {
        let (rule, bits) = self.approval?;
        let mut pins = Pins::default();
        for (kind, list) in self.lists().iter() {
            let Some(kind) = PinnedKind::of(kind) else { continue };
            let approved = list.items.iter().enumerate().filter(|(index, _)| bits >> index & 1 == 1);
            approved.for_each(|(_, item)| pins.approve(kind, &item.key, Definition::plain(&item.json)));
        }
        Some(Approval::new(rule, Arc::new(pins), Arc::default()))
    }

    fn lists(&self) -> Lists {
        Lists::from_fn(|kind| {
            let items = self.offers[kind as usize].iter().enumerate();
            let items =
                items.map(|(index, key)| item(kind, key, kind == ListKind::Tools && self.reading[index])).collect();
            Arc::new(List { items, truncated: false, ..List::default() })
        })
    }
}

fn item(kind: ListKind, key: &str, reads_only: bool) -> Item {
    let raw = serde_json::to_string(key).expect("a string");
    let member = kind.key();
    let definition = format!(r#"{{"{member}":{raw},"annotations":{{"readOnlyHint":{reads_only}}}}}"#);
    let json = Bytes::from(definition);
    let begin = member.len() + 4;
    Item {
        key: key.into(),
        raw_key: json.slice(begin..begin + raw.len()),
        json,
        model_bytes: 0,
        validity: Validity::default(),
        fingerprint: Fingerprint::default(),
    }
}

/// Whether each definition of a listed key is approved where that is necessary.
fn is_approved(policy: &Policy, kind: ListKind, list: &List, key: &str) -> bool {
    let Some((approval, pinned)) = policy.approval().zip(PinnedKind::of(kind)) else { return true };
    let mut definitions = list.items.iter().filter(|item| *item.key == *key);
    approval.rule() == ApprovalRule::Warn
        || definitions.all(|item| approval.pins().is_approved(pinned, key, Digest::of(&item.json)))
}

/// The names, URIs or templates that agents see.
fn seen(catalog: &Catalog, kind: ListKind) -> Vec<String> {
    let list: serde_json::Value = serde_json::from_slice(catalog.list(kind)).expect("the list is JSON");
    let items = list[kind.member()].as_array().expect("an array");
    items.iter().map(|item| item[kind.key()].as_str().expect("text").to_owned()).collect()
}

/// Whether a template stands for a URI: each way to split it is tried.
fn stands_for(template: &str, uri: &str) -> bool {
    let Some((literal, rest)) = template.split_once('{') else { return template == uri };
    let (expression, rest) = rest.split_once('}').expect("it ends");
    let Some(uri) = uri.strip_prefix(literal) else { return false };
    let is_any = expression.starts_with('+');
    let splits = (0..=uri.len()).filter(|at| is_any || *at > 0 && !uri[..*at].contains('/'));
    splits.into_iter().any(|at| stands_for(rest, &uri[at..]))
}

/// What two templates that stand for the same URIs have in common.
fn shape(template: &str) -> String {
    ["id", "b", "path"].iter().fold(template.to_owned(), |text, name| text.replace(&format!("{name}}}"), "}"))
}

/// For each kind of names: what is listed leads to what its server offers and may expose, and nothing else leads anywhere.
fn check_names(catalog: &Catalog, parts: &Parts, requested: &[String]) -> Result<(), TestCaseError> {
    for kind in [ListKind::Tools, ListKind::Prompts] {
        let listed = seen(catalog, kind);
        let names: BTreeSet<_> = listed.iter().collect();
        prop_assert_eq!((names.len(), listed.len()), (listed.len(), catalog.count(kind)), "each once");
        for name in &listed {
            let route = catalog.route(kind, name.as_bytes()).expect("listed, so callable");
            let (policy, lists) = &parts[route.server];
            // The first of that name, if there are several.
            let offered = lists[kind].items.iter().find(|item| item.key == route.name).expect("offered");
            prop_assert!(policy.permits(kind, &route.name, Some(&offered.json)));
            prop_assert!(is_approved(policy, kind, &lists[kind], &route.name));
            prop_assert_eq!(&route.raw_name, &offered.raw_key);
        }
        let own = parts.iter().flat_map(|(_, lists)| &lists[kind].items).map(|item| item.key.to_string());
        let prefixed = own.clone().flat_map(|own| NAMES.map(|name| format!("{name}__{own}")));
        for name in own.chain(prefixed).chain(requested.iter().cloned()) {
            prop_assert_eq!(catalog.route(kind, name.as_bytes()).is_some(), names.contains(&name), "{}", name);
        }
    }
    Ok(())
}

/// The server of the innermost of these skills that has a URI.
fn skill_of(skills: &[(&str, usize)], uri: &str) -> Option<usize> {
    let directories = skills.iter().map(|(skill, server)| (skill.trim_end_matches("/SKILL.md"), *server));
    let around = directories.filter(|(directory, _)| uri == *directory || uri.starts_with(&format!("{directory}/")));
    around.max_by_key(|(directory, _)| directory.len()).map(|(_, server)| server)
}

/// A resource is read where it is listed first, else at the server of its skill, else where the first template stands for it that is listed, if it may be.
fn check_uris(catalog: &Catalog, parts: &Parts, requested: &[String]) -> Result<(), TestCaseError> {
    let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut resources, mut templates): (Vec<&str>, Vec<(&str, usize)>) = (Vec::new(), Vec::new());
    for (server, (policy, lists)) in parts.iter().enumerate() {
        let exposed = |kind: ListKind| -> Vec<&str> {
            let offers = lists[kind].items.iter();
            let permitted = offers.filter(|item| policy.permits(kind, &item.key, Some(&item.json)));
            permitted.map(|item| &*item.key).filter(|key| is_approved(policy, kind, &lists[kind], key)).collect()
        };
        for uri in exposed(ListKind::Resources) {
            if owners.insert(uri, *owners.get(uri).unwrap_or(&server)).is_none() {
                resources.push(uri);
            }
        }
        for template in exposed(ListKind::Templates) {
            if !templates.iter().any(|(other, _)| shape(other) == shape(template)) {
                templates.push((template, server));
            }
        }
    }
    let mut skills: Vec<(&str, usize)> = Vec::new();
    for (server, (policy, lists)) in parts.iter().enumerate() {
        let offered = lists[ListKind::Skills].items.iter().map(|item| &*item.key);
        for uri in offered.filter(|uri| policy.permits(ListKind::Skills, uri, None)) {
            let owner = owners.get(uri).copied().or_else(|| skill_of(&skills, uri));
            if owner.is_none_or(|owner| owner == server) && !skills.contains(&(uri, server)) {
                skills.push((uri, server));
            }
        }
    }
    prop_assert_eq!(seen(catalog, ListKind::Skills), skills.iter().map(|(uri, _)| *uri).collect::<Vec<_>>());
    prop_assert_eq!(seen(catalog, ListKind::Resources), resources);
    prop_assert_eq!(seen(catalog, ListKind::Templates), templates.iter().map(|(text, _)| *text).collect::<Vec<_>>());
    let of_uris = [ListKind::Resources, ListKind::Skills].into_iter();
    let offered = of_uris.flat_map(|kind| parts.iter().flat_map(move |(_, lists)| &lists[kind].items));
    let offered = offered.map(|item| &*item.key);
    for uri in offered.chain(requested.iter().map(String::as_str)) {
        let may = |server: usize| parts[server].0.permits(ListKind::Resources, uri, None);
        let by_template = || templates.iter().find(|(text, server)| stands_for(text, uri) && may(*server));
        let of_skill = || skill_of(&skills, uri).filter(|server| parts[*server].0.permits(ListKind::Skills, uri, None));
        let owner = owners.get(uri).copied().or_else(of_skill).or_else(|| by_template().map(|(_, server)| *server));
        prop_assert_eq!(catalog.server_of(uri), owner, "{}", uri);
    }
    Ok(())
}

proptest! {
    // Patterns take their time to compile.
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn in_every_world_what_is_listed_is_what_leads_somewhere_and_a_name_once_given_stays(
        history in histories(),
        first in namings(),
        requested in prop::collection::vec("[ab_]{1,8}|[xy]://[ab/]{0,6}", 6),
    ) {
        let (mut names, mut naming, mut last) = (Names::default(), first, (Catalog::default(), Vec::new()));
        let mut given: BTreeMap<(usize, String), (Arc<str>, String)> = BTreeMap::new();
        for (renamed, world) in &history {
            if let Some(renamed) = renamed.as_ref().filter(|renamed| **renamed != naming) {
                let (catalog, servers): &(Catalog, Vec<Arc<str>>) = &last;
                names.keep(catalog, |server| Arc::clone(&servers[server]));
                // Nobody knows the others any more.
                given.retain(|(kind, name), _| catalog.route(ListKind::ALL[*kind], name.as_bytes()).is_some());
                naming = *renamed;
            }
            let has = NAMES.iter().zip(world).filter(|(_, (_, has, _))| *has);
            let (servers, parts): (Vec<Arc<str>>, Vec<_>) = has.map(|(name, (member, _, narrowing))| {
                let narrowing = narrowing.as_ref().map_or_else(Policy::default, Member::policy);
                (Arc::from(*name), (member.policy().and(&narrowing), member.lists()))
            }).unzip();
            let (settings, overrides) = (Settings::default(), ToolOverrides::default());
            let sources: Vec<_> = servers.iter().zip(&parts)
                .map(|(name, (policy, lists))| Source { name, policy, settings: &settings, overrides: &overrides, lists })
                .collect();
            let catalog = Catalog::build(&mut names, naming, &sources, usize::MAX);
            check_names(&catalog, &parts, &requested)?;
            check_uris(&catalog, &parts, &requested)?;
            for kind in [ListKind::Tools, ListKind::Prompts] {
                for name in seen(&catalog, kind) {
                    let route = catalog.route(kind, name.as_bytes()).expect("listed");
                    let leads = (Arc::clone(&servers[route.server]), route.name.to_string());
                    let first = given.entry((kind as usize, name)).or_insert_with(|| leads.clone());
                    prop_assert_eq!(&leads, first);
                }
            }
            last = (catalog, servers);
        }
    }
}
