//! Tools under other names, with other descriptions and fewer arguments.

use serde_json::{Value, json};

use super::*;

fn with_tools(name: &str, deny: &[&str], tools: &[Value]) -> Server {
    let mut server = server(name, deny, &[]);
    let item = |tool: &Value| {
        let json = Bytes::from(tool.to_string());
        let name = tool["name"].as_str().expect("a name");
        let at = memchr::memmem::find(&json, format!("{name:?}").as_bytes()).expect("a name");
        let raw_key = json.slice(at..at + name.len() + 2);
        Item {
            key: name.into(),
            raw_key,
            model_bytes: sent_bytes(&json),
            json,
            validity: Validity::default(),
            fingerprint: Fingerprint::default(),
        }
    };
    server.lists[ListKind::Tools] = Arc::new(List { items: tools.iter().map(item).collect(), ..List::default() });
    server
}

fn renamed<const N: usize>(names: [(&str, &str); N]) -> ToolOverrides {
    names.map(|(tool, name)| (tool.into(), ToolOverride::default().with_name(name.into()))).into_iter().collect()
}

fn taken(catalog: &Catalog) -> Vec<&str> {
    catalog.name_taken().iter().map(|(_, tool)| &**tool).collect()
}

#[test]
fn renamed_tool_is_callable_under_its_new_name_only() {
    let servers = [server("s", &["secret"], &["search", "secret", "other"])];
    let overrides = renamed([("search", "find"), ("secret", "open"), ("absent", "x")]);
    for (naming, expected) in [
        (Naming::Prefixed, ["s__find", "s__other"]),
        (Naming::McpPrefixed, ["mcp__s__find", "mcp__s__other"]),
        (Naming::Bare, ["find", "other"]),
        (Naming::Own, ["find", "other"]),
    ] {
        let catalog = build_with(&mut Names::default(), naming, &servers, &overrides);
        assert_eq!(listed(&catalog), expected);
        let route = catalog.route(ListKind::Tools, expected[0].as_bytes()).expect("listed");
        assert_eq!((&*route.name, &route.raw_name[..]), ("search", &br#""search""#[..]));
        for name in ["search", "s__search", "mcp__s__search", "secret", "open", "s__open", "s__x", "x"] {
            assert!(catalog.route(ListKind::Tools, name.as_bytes()).is_none(), "{name}");
        }
    }
}

#[test]
fn long_and_taken_names_follow_the_naming_rules() {
    let long = "n".repeat(100);
    let servers = [server("one", &[], &["x"]), server("two", &[], &["a"])];
    for (name, expected) in [("x", "two__x"), ("a.b", "two__a_b_"), (&*long, "two__nnn")] {
        let catalog = build_with(&mut Names::default(), Naming::Prefixed, &servers, &renamed([("a", name)]));
        assert!(listed(&catalog)[1].starts_with(expected) && listed(&catalog)[1].len() <= 53, "{name}");
    }
    let catalog = build_with(&mut Names::default(), Naming::Bare, &servers, &renamed([("a", "x")]));
    assert_eq!(listed(&catalog), ["x", "two__x"]);
}

#[test]
fn renamed_tool_gives_way_to_the_tool_that_has_its_name() {
    for (tools, names, expected, left_out) in [
        (&["a", "x"][..], &[("a", "x")][..], &["x"][..], &["a"][..]),
        (&["x", "a"], &[("a", "x")], &["x"], &["a"]),
        (&["a", "b"], &[("a", "x"), ("b", "x")], &["x"], &["b"]),
        (&["a", "b"], &[("a", "b"), ("b", "a")], &["b", "a"], &[]),
        (&["a", "a", "x"], &[("a", "x")], &["x"], &["a", "a"]),
        (&["a", "x"], &[("a", "a")], &["a", "x"], &[]),
    ] {
        let names: Vec<_> = names
            .iter()
            .map(|(tool, name)| ((*tool).into(), ToolOverride::default().with_name((*name).into())))
            .collect();
        let overrides: ToolOverrides = names.into_iter().collect();
        for naming in [Naming::Own, Naming::Bare] {
            let catalog = build_with(&mut Names::default(), naming, &[server("s", &[], tools)], &overrides);
            assert_eq!(
                (listed(&catalog), taken(&catalog)),
                (expected.iter().map(|name| (*name).to_owned()).collect(), left_out.to_vec())
            );
        }
    }
    // Whether a tool has the name does not depend on policy.
    let catalog =
        build_with(&mut Names::default(), Naming::Own, &[server("s", &["x"], &["a", "x"])], &renamed([("a", "x")]));
    assert_eq!((listed(&catalog).len(), taken(&catalog)), (0, vec!["a"]));
}

#[test]
fn agents_see_the_changed_definition_and_the_rest_byte_for_byte() {
    let schema = json!({"type": "object", "properties": {"repo": {"type": "string"}, "q": {}}, "required": ["repo"]});
    let tools = [
        json!({"name": "search", "inputSchema": schema, "title": "T"}),
        json!({"name": "other", "inputSchema": schema}),
    ];
    let servers = [with_tools("s", &[], &tools)];
    let of_search = ToolOverride::default().with_description("Finds").with_fixed("repo", "1");
    let overrides: ToolOverrides = [("search".into(), of_search)].into_iter().collect();
    let catalog = build_with(&mut Names::default(), Naming::Prefixed, &servers, &overrides);
    let list: Value = serde_json::from_slice(catalog.list(ListKind::Tools)).expect("JSON");
    let schema_seen = json!({"type": "object", "properties": {"q": {}}, "required": []});
    let seen = json!({"name": "s__search", "inputSchema": schema_seen, "title": "T", "description": "Finds"});
    assert_eq!(list["tools"][0], seen);
    let plain = build(&mut Names::default(), Naming::Prefixed, &servers);
    let other = |catalog: &Catalog| {
        let list = String::from_utf8_lossy(catalog.list(ListKind::Tools)).into_owned();
        list.split_once(r#""title":"T""#)
            .or(list.split_once("Finds"))
            .expect("a tool")
            .1
            .split_once(r#"{"inputSchema"#)
            .map(|(_, rest)| rest.to_owned())
    };
    assert_eq!(other(&catalog), other(&plain));
    let tokens = |catalog: &Catalog| catalog.exposure()[0][ListKind::Tools].tokens;
    assert!(tokens(&catalog) < tokens(&plain));
    assert!(catalog.route(ListKind::Tools, b"s__search").is_some_and(|route| route.tool_override.is_some()));
    assert!(catalog.route(ListKind::Tools, b"s__other").is_some_and(|route| route.tool_override.is_none()));
}

#[test]
fn list_with_long_descriptions_keeps_its_limit() {
    let tools: Vec<_> = (0..20).map(|index| json!({"name": format!("t{index}")})).collect();
    let long = ToolOverride::default().with_description(&"x".repeat(1000));
    let overrides: ToolOverrides = (0..20).map(|index| (format!("t{index}").into(), long.clone())).collect();
    let servers = [with_tools("s", &[], &tools)];
    let settings = &Settings::default();
    let Server { name, policy, lists } = &servers[0];
    let sources = [Source { name, policy, settings, overrides: &overrides, lists }];
    let catalog = Catalog::build(&mut Names::default(), Naming::Prefixed, &sources, 5000);
    assert!(catalog.list(ListKind::Tools).len() <= 5000 && catalog.count(ListKind::Tools) == 4);
    assert_eq!(catalog.cut(ListKind::Tools).len(), 16);
}

#[test]
fn overrides_without_the_meant_effect_are_found() {
    let required = json!({"required": ["repo", "q"]});
    let tools = [
        json!({"name": "a", "inputSchema": required}),
        json!({"name": "b", "inputSchema": required}),
        json!({"name": "x"}),
    ];
    let list = Arc::clone(&with_tools("s", &[], &tools).lists[ListKind::Tools]);
    let hidden = ToolOverride::default().with_hidden("q");
    let overrides: ToolOverrides = [
        ("a".into(), hidden.clone().with_name("y".into())),
        ("b".into(), hidden.with_name("x".into())),
        ("c".into(), ToolOverride::default().with_name("z".into())),
        ("x".into(), ToolOverride::default().with_fixed("q", "1")),
    ]
    .into_iter()
    .collect();
    let found: Vec<_> = override_defects(&list, &overrides).collect();
    let expected = [
        ("a", OverrideDefect::MissingArgument("q")),
        ("b", OverrideDefect::NameTaken("x")),
        ("c", OverrideDefect::Unlisted),
    ];
    assert_eq!(found, expected);
    let incomplete = List { truncated: true, ..List::clone(&list) };
    assert_eq!(override_defects(&incomplete, &overrides).count(), 2);
    assert_eq!(override_defects(&List::default(), &overrides).count(), 0);
}

proptest! {
    #[test]
    fn every_listed_tool_of_a_face_has_one_name_and_one_route(
        tools in prop::collection::vec("[a-d]", 0..5),
        names in prop::collection::btree_map("[a-d]", "[a-f]", 0..4),
        denied in prop::collection::vec("[a-d]", 0..2),
    ) {
        let denied: Vec<_> = denied.iter().map(String::as_str).collect();
        let servers = [server("s", &denied, &tools.iter().map(String::as_str).collect::<Vec<_>>())];
        let overrides: ToolOverrides = names.iter().map(|(tool, name)| {
            (Arc::from(tool.as_str()), ToolOverride::default().with_name(name.as_str().into()))
        }).collect();
        let catalog = build_with(&mut Names::default(), Naming::Own, &servers, &overrides);
        let seen = listed(&catalog);
        for name in ["a", "b", "c", "d", "e", "f"] {
            let route = catalog.route(ListKind::Tools, name.as_bytes());
            prop_assert_eq!(seen.iter().filter(|listed| *listed == name).count(), usize::from(route.is_some()));
            if let Some(route) = route {
                prop_assert_eq!(overrides.shown_name(&route.name), name);
                prop_assert!(servers[0].policy.permits(ListKind::Tools, &route.name, None));
            }
        }
        let left_out = taken(&catalog);
        for tool in tools.iter().filter(|tool| !denied.contains(&tool.as_str())) {
            let is_seen = catalog.routes(ListKind::Tools).any(|(_, route)| *route.name == **tool);
            prop_assert!(is_seen != left_out.contains(&tool.as_str()), "{}", tool);
        }
    }
}
