//! The catalog's promises, as tables and properties.

mod approval;
mod offers;
mod overrides;
mod worlds;

use proptest::prelude::*;

use super::*;
use crate::pins::Fingerprint;
use crate::policy::pattern;
use crate::validity::Validity;

fn tool(name: &str) -> Item {
    let raw = serde_json::to_string(name).expect("a string");
    let json = Bytes::from(format!(r#"{{"x":1.10,"name":{raw},"z":null,"a":[]}}"#));
    let raw_name = json.slice(17..17 + raw.len());
    Item {
        key: name.into(),
        raw_key: raw_name,
        json,
        model_bytes: 0,
        validity: Validity::default(),
        fingerprint: Fingerprint::default(),
    }
}

struct Server {
    name: Arc<str>,
    policy: Policy,
    lists: Lists,
}

fn server(name: &str, deny: &[&str], tools: &[&str]) -> Server {
    let deny: Vec<_> = deny.iter().map(|text| pattern(text).expect("a glob")).collect();
    let policy = Policy::new(None, &deny).expect("patterns compile");
    let mut lists = Lists::default();
    lists[ListKind::Tools] =
        Arc::new(List { items: tools.iter().map(|name| tool(name)).collect(), truncated: false, ..List::default() });
    Server { name: name.into(), policy, lists }
}

fn build(names: &mut Names, naming: Naming, servers: &[Server]) -> Catalog {
    build_with(names, naming, servers, &ToolOverrides::default())
}

fn build_with(names: &mut Names, naming: Naming, servers: &[Server], overrides: &ToolOverrides) -> Catalog {
    let settings = &Settings::default();
    let sources: Vec<_> = servers
        .iter()
        .map(|Server { name, policy, lists }| Source { name, policy, settings, overrides, lists })
        .collect();
    Catalog::build(names, naming, &sources, usize::MAX)
}

fn listed(catalog: &Catalog) -> Vec<String> {
    let list: serde_json::Value = serde_json::from_slice(catalog.list(ListKind::Tools)).expect("the list is JSON");
    let tools = list["tools"].as_array().expect("an array");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn tool_that_requires_a_task_is_not_listed_for_modern_agents() {
    let with_task_only = |server: Server, makes_tasks| {
        let mut lists = server.lists.clone();
        let mut list = List { makes_tasks, ..List::clone(&lists[ListKind::Tools]) };
        let json = Bytes::from_static(br#"{"name":"own","execution":{"taskSupport":"required"}}"#);
        list.items.insert(
            0,
            Item {
                key: "own".into(),
                raw_key: json.slice(8..13),
                json,
                model_bytes: 0,
                validity: Validity::default(),
                fingerprint: Fingerprint::default(),
            },
        );
        lists[ListKind::Tools] = Arc::new(list);
        Server { lists, ..server }
    };
    let servers = [with_task_only(server("a", &[], &["x"]), true), with_task_only(server("b", &[], &["y"]), false)];
    let catalog = build(&mut Names::default(), Naming::Prefixed, &servers);
    assert_eq!(listed(&catalog), ["a__own", "a__x", "b__own", "b__y"]);
    let own = r#"{"name":"b__own","execution":{"taskSupport":"required"}}"#;
    let tool = |name: &str| format!(r#"{{"x":1.10,"name":"{name}","z":null,"a":[]}}"#);
    let modern = format!(r#"{{"tools":[{},{own},{}]}}"#, tool("a__x"), tool("b__y"));
    assert_eq!(&catalog.modern_list(ListKind::Tools)[..], modern.as_bytes());
    for (name, expected) in [("a__own", false), ("a__x", true), ("b__own", true)] {
        let route = catalog.route(ListKind::Tools, name.as_bytes()).expect("listed");
        assert_eq!((route.is_for(Era::Modern), route.is_for(Era::Legacy)), (expected, true), "{name}");
    }
    let plain = build(&mut Names::default(), Naming::Prefixed, &servers[1..]);
    assert!(plain.modern_tools.is_none() && plain.modern_list(ListKind::Tools) == plain.list(ListKind::Tools));
    assert_eq!(catalog.modern_list(ListKind::Prompts), catalog.list(ListKind::Prompts));
}

#[test]
fn a_tool_passes_unchanged_but_for_its_name() {
    let catalog = build(&mut Names::default(), Naming::Prefixed, &[server("s", &[], &["t", "u\"v"])]);
    let expected = r#"{"tools":[{"x":1.10,"name":"s__t","z":null,"a":[]},{"x":1.10,"name":"s__u_v_"#;
    assert!(catalog.list(ListKind::Tools).starts_with(expected.as_bytes()), "{:?}", catalog.list(ListKind::Tools));
    assert_eq!(&catalog.route(ListKind::Tools, b"s__t").expect("listed").raw_name[..], b"\"t\"");
}

#[test]
fn lists_have_one_version_if_they_are_the_same_whatever_else_their_catalogs_have() {
    let build = |tools: &[&str], deny: &[&str]| {
        let catalog = build(&mut Names::default(), Naming::Prefixed, &[server("s", deny, tools)]);
        ListKind::ALL.map(|kind| catalog.version(kind))
    };
    let [tools, rest @ ..] = build(&["a", "b"], &[]);
    assert_eq!(build(&["a", "c", "b"], &["c"])[0], tools);
    let other = build(&["b", "a"], &[]);
    assert!(other[0] != tools && other[1..] == rest);
}

#[test]
fn an_empty_catalog_is_an_empty_list() {
    assert_eq!(&Catalog::default().list(ListKind::Tools)[..], br#"{"tools":[]}"#);
}

#[test]
fn servers_come_in_file_order_and_tools_in_their_servers_order() {
    let servers = [server("b", &[], &["z", "a"]), server("empty", &[], &[]), server("a", &[], &["m"])];
    let catalog = build(&mut Names::default(), Naming::Prefixed, &servers);
    assert_eq!(listed(&catalog), ["b__z", "b__a", "a__m"]);
}

#[test]
fn a_denied_tool_is_neither_listed_nor_routed_under_any_name() {
    let servers = [server("fs", &["write_*"], &["write_file", "read"])];
    let catalog = build(&mut Names::default(), Naming::Prefixed, &servers);
    assert_eq!(
        catalog.exposure()[0][ListKind::Tools],
        Exposure { exposed: 1, denied: 1, tokens: 5, ..Exposure::default() }
    );
    for name in ["fs__write_file", "write_file", "fs__WRITE_FILE", "FS__write_file", "fs__write_file "] {
        assert!(catalog.route(ListKind::Tools, name.as_bytes()).is_none(), "{name}");
    }
}

#[test]
fn the_first_server_keeps_a_bare_name_even_if_policy_hides_it() {
    let servers = [server("one", &["echo"], &["echo"]), server("two", &[], &["echo"])];
    let catalog = build(&mut Names::default(), Naming::Bare, &servers);
    assert_eq!(listed(&catalog), ["two__echo"]);
}

#[test]
fn names_that_begin_with_another_server_are_reserved_for_it() {
    let squatter =
        server("evil", &[], &["victim__echo", "evil__own", "vic__x", "victim___x", "victim", "a__b__c", "victim.__x"]);
    let long = "l".repeat(50);
    let own_short = Naming::Prefixed.candidates(&long, "echo").next().expect("a name");
    let other = server("other", &[], &[&*own_short]);
    let servers = [
        squatter,
        other,
        server("victim", &[], &["victim", "echo"]),
        server("a", &[], &["b__c"]),
        server(&long, &[], &[]),
    ];
    let catalog = build(&mut Names::default(), Naming::Bare, &servers);
    let listed = listed(&catalog);
    let expected = ["evil__victim__echo", "evil__own", "vic__x", "evil__victim___x", "victim", "evil__a__b__c"];
    assert_eq!(listed[..6], expected);
    // The point becomes `_`.
    assert!(listed[6].starts_with("evil__victim___x_"), "{listed:?}");
    assert!(listed[7].starts_with("other__lll"), "{listed:?}");
    assert_eq!(listed[8..], ["victim__victim", "echo", "b__c"]);
}

#[test]
fn name_stays_assigned_when_an_earlier_server_appears() {
    let mut names = Names::default();
    let late = [server("one", &[], &[]), server("two", &[], &["echo"])];
    assert_eq!(listed(&build(&mut names, Naming::Bare, &late)), ["echo"]);
    let both = [server("one", &[], &["echo"]), server("two", &[], &["echo"])];
    assert_eq!(listed(&build(&mut names, Naming::Bare, &both)), ["one__echo", "echo"]);
}

#[test]
fn of_one_name_listed_twice_the_first_stands() {
    let catalog = build(&mut Names::default(), Naming::Prefixed, &[server("s", &[], &["t", "t"])]);
    assert_eq!((listed(&catalog), catalog.count(ListKind::Tools)), (vec!["s__t".to_owned()], 1));
}

#[test]
fn tool_that_is_listed_twice_is_hidden_if_either_definition_is_denied() {
    let item = |reads_only: bool| {
        let json = Bytes::from(format!(r#"{{"name":"t","annotations":{{"readOnlyHint":{reads_only}}}}}"#));
        Item {
            key: "t".into(),
            raw_key: json.slice(8..11),
            json,
            model_bytes: 0,
            validity: Validity::default(),
            fingerprint: Fingerprint::default(),
        }
    };
    let policy = Policy::default().read_only(true);
    for (definitions, exposed, denied) in [
        (&[false, true][..], 0, 2),
        (&[true, false], 0, 2),
        (&[true, true, false], 0, 3),
        (&[true, true], 1, 0),
        (&[false], 0, 1),
    ] {
        let mut one = server("s", &[], &[]);
        let items = definitions.iter().map(|reads_only| item(*reads_only)).collect();
        let list = Arc::new(List { items, ..List::default() });
        assert_eq!(list.permits(ListKind::Tools, &policy, "t"), exposed == 1, "{definitions:?}");
        assert_eq!(list.hidden(ListKind::Tools, &policy).contains_key("t"), exposed == 0, "{definitions:?}");
        (one.lists[ListKind::Tools], one.policy) = (list, policy.clone());
        let catalog = build(&mut Names::default(), Naming::Prefixed, &[one]);
        let found = catalog.exposure()[0][ListKind::Tools];
        assert_eq!(
            (listed(&catalog).len(), found.exposed, found.denied),
            (exposed, exposed, denied),
            "{definitions:?}"
        );
        assert_eq!(catalog.route(ListKind::Tools, b"s__t").is_some(), exposed == 1, "{definitions:?}");
    }
}

/// A server whose resources and templates have these URIs.
fn library(name: &str, resources: &[&str], templates: &[&str]) -> Server {
    let item = |key: &str, uri: &&str| {
        let json = Bytes::from(format!(r#"{{"{key}":"{uri}","name":"x"}}"#));
        let raw_key = json.slice(key.len() + 4..key.len() + 6 + uri.len());
        Item {
            key: (*uri).into(),
            raw_key,
            json,
            model_bytes: 0,
            validity: Validity::default(),
            fingerprint: Fingerprint::default(),
        }
    };
    let list = |key: &str, uris: &[&str]| {
        Arc::new(List { items: uris.iter().map(|uri| item(key, uri)).collect(), truncated: false, ..List::default() })
    };
    let mut lists = Lists::default();
    (lists[ListKind::Resources], lists[ListKind::Templates]) = (list("uri", resources), list("uriTemplate", templates));
    Server { name: name.into(), policy: Policy::default(), lists }
}

#[test]
fn a_resource_is_read_where_it_is_listed_and_else_where_a_template_says() {
    let servers =
        [library("a", &["x://1"], &["x://{id}"]), library("b", &["x://2", "x://1"], &["x://{id}", "y://{+path}"])];
    let catalog = build(&mut Names::default(), Naming::Prefixed, &servers);
    for (uri, server) in
        [("x://1", Some(0)), ("x://2", Some(1)), ("x://3", Some(0)), ("y://a/b", Some(1)), ("z://1", None)]
    {
        assert_eq!(catalog.server_of(uri), server, "{uri}");
    }
    let expected = r#"{"resources":[{"uri":"x://1","name":"x"},{"uri":"x://2","name":"x"}]}"#;
    assert_eq!(&catalog.list(ListKind::Resources)[..], expected.as_bytes());
    let shadowed = catalog.exposure()[1];
    assert_eq!((shadowed[ListKind::Resources].shadowed, shadowed[ListKind::Templates].shadowed), (1, 1));
}

#[test]
fn a_template_itself_leads_to_the_server_that_lists_it() {
    let servers = [library("a", &[], &["x://{id}"]), library("b", &[], &["x://{+path}"])];
    let catalog = build(&mut Names::default(), Naming::Prefixed, &servers);
    for (template, server) in [("x://{id}", 0), ("x://{+path}", 1), ("x://{+other}", 1), ("x://{b}c", 0)] {
        assert_eq!(catalog.server_of(template), Some(server), "{template}");
    }
}

#[test]
fn tools_and_prompts_of_one_name_do_not_meet() {
    let mut one = server("one", &["p"], &["p"]);
    one.lists[ListKind::Prompts] = Arc::clone(&one.lists[ListKind::Tools]);
    let catalog = build(&mut Names::default(), Naming::Bare, &[one]);
    assert!(catalog.route(ListKind::Tools, b"p").is_none(), "denied");
    assert!(catalog.route(ListKind::Prompts, b"p").is_some(), "`deny` means tools");
}

proptest! {
    #[test]
    fn callable_if_and_only_if_listed(
        tools in prop::collection::vec(prop::collection::vec("[ab_]{1,3}|.{1,70}", 0..6), 1..4),
        denied in prop::collection::vec("[ab_*]{1,3}", 0..3),
        scheme in 0..3usize,
        requested in "[ab_]{1,8}",
    ) {
        let denied: Vec<&str> = denied.iter().map(String::as_str).collect();
        let servers: Vec<Server> = tools.iter().enumerate().map(|(index, tools)| {
            server(&format!("s{index}"), &denied, &tools.iter().map(String::as_str).collect::<Vec<_>>())
        }).collect();
        let catalog = build(&mut Names::default(), Naming::ALL[scheme].1, &servers);
        let listed = listed(&catalog);
        prop_assert_eq!(listed.len(), catalog.count(ListKind::Tools));
        prop_assert_eq!(listed.contains(&requested), catalog.route(ListKind::Tools, requested.as_bytes()).is_some());
        for name in &listed {
            let route = catalog.route(ListKind::Tools, name.as_bytes()).expect("listed, so callable");
            prop_assert!(servers[route.server].policy.permits(ListKind::Tools, &route.name, None));
        }
    }
}
