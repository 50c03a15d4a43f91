//! Definitions and results that strict clients reject: they are mended, or left out alone, and named with the reason.

use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Era, Place, Server, Setup, code, result};

/// A server with a valid tool, and one tool for each of these rests of a definition.
fn with_tools(rests: &[&str], line: &str) -> Daemon {
    let valid = r#"{"name":"good","zeta":1.10,"inputSchema":{"type":"object"}}"#.to_owned();
    let odd = rests.iter().enumerate().map(|(index, rest)| format!(r#"{{"name":"t{index}",{rest}}}"#));
    let all: Vec<_> = std::iter::once(valid).chain(odd).collect();
    let place = Place::new();
    let file = place.write("tools.json", format!(r#"{{"tools":[{}]}}"#, all.join(",")));
    let odd = Server::named("odd").line(line).arg("--tool-list").arg(file);
    Setup::with(odd).server(Server::named("other").flags("--bare --tool echo")).start_in(&place)
}

fn list_tools(agent: &mut Agent) -> Vec<Value> {
    result(&agent.request("tools/list", &json!({})))["tools"].as_array().expect("tools").clone()
}

/// The tools of `odd` but the valid one, without their names.
fn seen(agent: &mut Agent) -> Vec<(String, Value)> {
    let mut tools = list_tools(agent);
    assert_eq!(tools.remove(0), json!({"name": "odd__good", "zeta": 1.10, "inputSchema": {"type": "object"}}));
    assert_eq!(tools.pop().expect("the tool of the other server")["name"], "other__echo");
    let tools = tools.into_iter().map(|mut tool| {
        let name = tool.as_object_mut().and_then(|tool| tool.remove("name")).expect("a name");
        (name.as_str().expect("a text").trim_start_matches("odd__").to_owned(), tool)
    });
    tools.collect()
}

#[test]
fn an_odd_tool_is_mended_or_left_out_and_the_others_stay() {
    const SCHEMA: &str = r#""inputSchema":{"type":"object"}"#;
    let schema = || json!({"inputSchema": {"type": "object"}});
    let array = json!({"inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}});
    // The rest of a definition, and what legacy and modern agents see of it.
    let rows = [
        (format!(r#""description":null,{SCHEMA}"#), Some(schema()), None),
        (format!(r#""title":7,"icons":{{}},{SCHEMA}"#), Some(schema()), None),
        (
            format!(r#""annotations":{{"readOnlyHint":"yes","x":null}},{SCHEMA}"#),
            Some(json!({"inputSchema": {"type": "object"}, "annotations": {"x": null}})),
            None,
        ),
        (format!(r#""execution":null,"_meta":[],{SCHEMA}"#), Some(schema()), None),
        (r#""inputSchema":{"required":null,"properties":null}"#.to_owned(), Some(schema()), None),
        (r#""inputSchema":{"type":"array"}"#.to_owned(), None, None),
        (r#""inputSchema":null"#.to_owned(), None, None),
        (format!(r#""outputSchema":{{"type":"array"}},{SCHEMA}"#), Some(schema()), Some(array)),
        (
            format!(r##""outputSchema":{{"type":"object","properties":{{"p":{{"$ref":"#/$defs/none"}}}}}},{SCHEMA}"##),
            Some(schema()),
            Some(
                json!({"inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "properties": {"p": {"$ref": "#/$defs/none"}}}}),
            ),
        ),
    ];
    let rests: Vec<&str> = rows.iter().map(|(rest, ..)| rest.as_str()).collect();
    let daemon = with_tools(&rests, "");
    let expected = |is_modern: bool| {
        let rows = rows.iter().enumerate().filter_map(|(index, (_, legacy, modern))| {
            let tool = if is_modern && modern.is_some() { modern } else { legacy };
            Some((format!("t{index}"), tool.clone()?))
        });
        rows.collect::<Vec<_>>()
    };
    assert_eq!(seen(&mut Agent::ready(&daemon)), expected(false));
    assert_eq!(seen(&mut Agent::modern(&daemon, &json!({}))), expected(true));
    let mut agent = Agent::ready(&daemon);
    let [left_out, unknown] = ["odd__t5", "odd__t9"].map(|tool| agent.call(tool, &json!({})));
    assert_eq!(code(&left_out), code(&unknown));

    let status = daemon.client(&["status"]).expect_code(0).stdout;
    assert!(
        status.contains("odd: tool `t5`: `inputSchema.type` is not \"object\" (left out); 8 more: `mcpd doctor odd`"),
        "{status}"
    );
    let report = daemon.client(&["status", "--json"]).json();
    let odd = &report["servers"][0];
    assert_eq!((&odd["items_malformed"], odd["malformed"].as_array().map(Vec::len)), (&json!(9), Some(9)));
    let first = json!({"member": "inputSchema.type", "problem": "type", "detail": "\"object\"", "action": "left_out"});
    assert_eq!(odd["malformed"][0], json!({"kind": "tool", "item": "t5", "defects": [first]}));
    let doctor = daemon.client(&["doctor", "odd"]).stdout;
    assert!(
        doctor.contains("9 definitions are malformed") && doctor.contains("tool `t0`: `description` is null (dropped)"),
        "{doctor}"
    );
    let all = daemon.client(&["tools", "--all"]).expect_code(0).stdout;
    assert!(all.contains("`inputSchema` is null (left out)"), "{all}");
    let noted = daemon.client(&["tools"]).expect_code(0).stderr;
    let note =
        "odd/t7: `outputSchema.type` is not permitted before MCP 2026-07-28 (dropped for agents up to MCP 2025-11-25)";
    assert!(noted.contains(note), "{noted}");
}

#[test]
fn an_output_schema_of_a_dialect_that_validators_do_not_know_is_dropped() {
    let dialects = [
        ("https://json-schema.org/draft/2020-12/schema", true),
        ("http://json-schema.org/draft/2019-09/schema#", true),
        ("http://json-schema.org/draft-07/schema#", true),
        ("http://json-schema.org/draft-06/schema", true),
        ("http://json-schema.org/draft-04/schema#", false),
        ("http://json-schema.org/schema#", false),
        ("urn:x:dialect", false),
        ("", false),
    ];
    let rests = dialects.map(|(dialect, _)| {
        let schema = json!({"$schema": dialect, "type": "object"});
        format!(r#""inputSchema":{schema},"outputSchema":{schema}"#)
    });
    let daemon = with_tools(&rests.each_ref().map(String::as_str), "");
    for mut agent in [Agent::ready(&daemon), Agent::modern(&daemon, &json!({}))] {
        for ((_, tool), (dialect, is_kept)) in seen(&mut agent).into_iter().zip(dialects) {
            assert_eq!(tool["inputSchema"]["$schema"], dialect);
            assert_eq!(tool["outputSchema"]["$schema"].is_string(), is_kept, "{dialect}");
        }
    }
    let noted = daemon.client(&["tools"]).expect_code(0).stderr;
    assert!(noted.contains("odd/t6: `outputSchema`"), "{noted}");
}

#[test]
fn odd_definitions_pass_as_they_are_if_the_configuration_says_so() {
    let daemon = with_tools(&[r#""description":null"#, r#""inputSchema":{"type":"array"}"#], "malformed = 'pass'");
    let mut agent = Agent::ready(&daemon);
    let expected = [("t0", json!({"description": null})), ("t1", json!({"inputSchema": {"type": "array"}}))];
    assert_eq!(seen(&mut agent), expected.map(|(name, tool)| (name.to_owned(), tool)));
    let report = daemon.client(&["status", "--json"]).json();
    assert_eq!(report["servers"][0]["items_malformed"], 0);
    let odd = json!({"content": [], "isError": null, "structuredContent": [1]});
    let daemon = Server::named("a").line("malformed = 'pass'").flags("--tool answer").start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(result(&agent.call("a__answer", &json!({"result": odd}))), &odd);
}

#[test]
fn result_that_strict_clients_reject_is_mended() {
    let daemon = Server::named("a").flags("--bare --tool answer").start();
    let [mut legacy, mut modern] = [Agent::ready(&daemon), Agent::modern(&daemon, &json!({}))];
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    for (sent, to_legacy, to_modern) in [
        (
            json!({"content": text("a"), "isError": null, "_meta": null}),
            json!({"content": text("a")}),
            json!({"content": text("a")}),
        ),
        (json!({"content": null}), json!({"content": []}), json!({"content": []})),
        (json!({"content": text("a"), "_meta": []}), json!({"content": text("a")}), json!({"content": text("a")})),
        (
            json!({"content": text("a"), "_meta": [], "isError": "false"}),
            json!({"content": text("a")}),
            json!({"content": text("a")}),
        ),
        (
            json!({"content": text(&"a".repeat(1 << 17)), "isError": null}),
            json!({"content": text(&"a".repeat(1 << 17))}),
            json!({"content": text(&"a".repeat(1 << 17))}),
        ),
        (
            json!({"content": [], "structuredContent": [1]}),
            json!({"content": text("[1]")}),
            json!({"content": [], "structuredContent": [1]}),
        ),
        (
            json!({"content": text("[ 1 ]"), "structuredContent": [1]}),
            json!({"content": text("[ 1 ]")}),
            json!({"content": text("[ 1 ]"), "structuredContent": [1]}),
        ),
        (
            json!({"content": [], "structuredContent": {"a": null}}),
            json!({"content": [], "structuredContent": {"a": null}}),
            json!({"content": [], "structuredContent": {"a": null}}),
        ),
        (
            json!({"content": [{"type": "new", "a": null}]}),
            json!({"content": [{"type": "new", "a": null}]}),
            json!({"content": [{"type": "new", "a": null}]}),
        ),
    ] {
        assert_eq!(result(&legacy.call("a__answer", &json!({"result": sent}))), &to_legacy, "{sent}");
        let answer = modern.call("a__answer", &json!({"result": sent}));
        let mut received = result(&answer).clone();
        received.as_object_mut().expect("an object").retain(|name, _| name != "resultType");
        assert_eq!(received, to_modern, "{sent}");
    }
    assert_eq!(daemon.row("a")["results_mended"], 12);
}

#[test]
fn a_result_gets_the_structured_content_that_its_output_schema_requires() {
    let tool = |name: &str, rest: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}{rest}}}"#);
    let place = Place::new();
    let schema = r#","outputSchema":{"type":"object"}"#;
    let lists = [("with", schema), ("without", "")].map(|(name, schema)| {
        place.write(&format!("{name}.json"), format!(r#"{{"tools":[{}]}}"#, tool("answer", schema)))
    });
    let [with, without] = ["with", "without"].map(Server::named);
    let [with_list, without_list] = lists;
    let servers = (with.arg("--tool-list").arg(with_list), without.arg("--tool-list").arg(without_list));
    let daemon = Setup::with(servers.0).server(servers.1).start_in(&place);
    let texts = |texts: &[&str]| {
        let blocks: Vec<_> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        json!({"content": blocks})
    };
    let with_value = |mut result: Value, value: Value| {
        result["structuredContent"] = value;
        result
    };
    let failed = json!({"content": [{"type": "text", "text": "{\"a\": 1}"}], "isError": true});
    let own = with_value(texts(&["{\"a\": 1}"]), json!({"a": 2}));
    let pretty = texts(&["{\n  \"a\": 1.10\n}"]);
    for (sent, received) in [
        (texts(&["{\"a\": 1}"]), with_value(texts(&["{\"a\": 1}"]), json!({"a": 1}))),
        (texts(&["2 rows:", "{\"a\": 1}"]), with_value(texts(&["2 rows:", "{\"a\": 1}"]), json!({"a": 1}))),
        (pretty.clone(), with_value(pretty, json!({"a": 1.10}))),
        (with_value(texts(&["{}"]), Value::Null), with_value(texts(&["{}"]), json!({}))),
        (texts(&["{}", "{}"]), texts(&["{}", "{}"])),
        (texts(&["[1]"]), texts(&["[1]"])),
        (texts(&["{\"a\": 1} "]), with_value(texts(&["{\"a\": 1} "]), json!({"a": 1}))),
        (texts(&["no JSON"]), texts(&["no JSON"])),
        (failed.clone(), failed),
        (own.clone(), own),
    ] {
        for mut agent in [Agent::ready(&daemon), Agent::modern(&daemon, &json!({}))] {
            let answer = agent.call("with__answer", &json!({"result": sent}));
            let mut seen = result(&answer).clone();
            seen.as_object_mut().expect("an object").remove("resultType");
            assert_eq!(seen, received, "{sent}");
        }
        let mut expected = sent.clone();
        expected.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
        assert_eq!(result(&Agent::ready(&daemon).call("without__answer", &json!({"result": sent}))), &expected);
    }
}

#[test]
fn a_tool_with_a_null_annotation_is_not_read_only() {
    let hints = ["null", "\"true\"", "1", "[true]"];
    let rests =
        hints.map(|hint| format!(r#""annotations":{{"readOnlyHint":{hint}}},"inputSchema":{{"type":"object"}}"#));
    let mut rests: Vec<&str> = rests.iter().map(String::as_str).collect();
    rests.push(r#""annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}"#);
    let daemon = with_tools(&rests, "tools = { read_only = true }");
    assert_eq!(Agent::ready(&daemon).tools(), ["odd__t4", "other__echo"]);
}

/// Odd items, and how all agents see each.
type Rows = &'static [(&'static str, Option<&'static str>)];

/// The odd items of each kind, with the method that lists it and the key of its list.
const OTHER_KINDS: &[(&str, &str, Rows)] = &[
    (
        "prompts/list",
        "prompts",
        &[
            (r#"{"name":"p0","title":null,"description":5,"zeta":1.10}"#, Some(r#"{"name":"p0","zeta":1.10}"#)),
            (
                r#"{"name":"p1","arguments":[null,{"name":"a","required":"yes","title":null}],"icons":{}}"#,
                Some(r#"{"name":"p1","arguments":[{"name":"a"}]}"#),
            ),
            (r#"{"name":"p2","arguments":null,"_meta":null}"#, Some(r#"{"name":"p2"}"#)),
            (r#"{"name":"p3","arguments":[{"description":"unnamed"}]}"#, None),
            (r#"{"title":"unnamed"}"#, None),
            (r#"{"name":"p5","x":null}"#, Some(r#"{"name":"p5","x":null}"#)),
        ],
    ),
    (
        "resources/list",
        "resources",
        &[
            (r#"{"uri":"x://r0","name":null,"size":"5"}"#, Some(r#"{"name":"x://r0","uri":"x://r0"}"#)),
            (
                r#"{"uri":"x://r1","name":"r","annotations":{"audience":["user","x"],"priority":2},"mimeType":null}"#,
                Some(r#"{"uri":"x://r1","name":"r","annotations":{"audience":["user"]}}"#),
            ),
            (r#"{"uri":"relative/r2","name":"r"}"#, None),
            (r#"{"name":"r"}"#, None),
            (r#"{"uri":"x://r4","name":"r","size":1.10}"#, Some(r#"{"uri":"x://r4","name":"r"}"#)),
            (r#"{"uri":"x://r5","name":"r","size":110}"#, Some(r#"{"uri":"x://r5","name":"r","size":110}"#)),
        ],
    ),
    (
        "resources/templates/list",
        "resourceTemplates",
        &[
            (r#"{"uriTemplate":"x://{t0}"}"#, Some(r#"{"name":"x://{t0}","uriTemplate":"x://{t0}"}"#)),
            (
                r#"{"uriTemplate":"x://t1/{a}","name":"t","description":null,"annotations":[]}"#,
                Some(r#"{"uriTemplate":"x://t1/{a}","name":"t"}"#),
            ),
            (r#"{"uriTemplate":null,"name":"t"}"#, None),
            (r#"{"uriTemplate":"x://t3/{a}","name":"t"}"#, Some(r#"{"uriTemplate":"x://t3/{a}","name":"t"}"#)),
        ],
    ),
    (
        "skills/list",
        "skills",
        &[
            (
                r#"{"uri":"skill://s0/SKILL.md","_meta":null,"x":null}"#,
                Some(r#"{"uri":"skill://s0/SKILL.md","x":null}"#),
            ),
            (r#"{"frontmatter":{}}"#, None),
            (r#"{"uri":"skill://s2/SKILL.md","x":1.10}"#, Some(r#"{"uri":"skill://s2/SKILL.md","x":1.10}"#)),
        ],
    ),
];

#[test]
fn odd_prompts_resources_templates_and_skills_are_mended_or_left_out_alone() {
    for (agents, servers) in Era::pairs() {
        let of_kind = |(_, key, rows): &(&str, &str, Rows)| {
            let items = rows.iter().map(|(sent, _)| serde_json::from_str(sent).expect("JSON")).collect();
            ((*key).to_owned(), Value::Array(items))
        };
        let mut library: serde_json::Map<_, _> = OTHER_KINDS.iter().map(of_kind).collect();
        library.insert("extensions".to_owned(), json!({"io.modelcontextprotocol/skills": {}}));
        let good = json!({
            "prompts": [{"name": "good"}], "resources": [{"uri": "y://good", "name": "good"}],
            "resourceTemplates": [{"uriTemplate": "y://{good}", "name": "good"}],
        });
        let setup = Setup::with(servers.server("odd").library(Value::Object(library)));
        let daemon = setup.server(servers.server("other").library(&good)).start();
        let mut agent = agents.agent(&daemon, &json!({}));
        for (method, key, rows) in OTHER_KINDS {
            let answer = agent.request(method, &json!({}));
            let listed = result(&answer)[key].as_array().expect("a list");
            let mut expected: Vec<Value> =
                rows.iter().filter_map(|(_, seen)| Some(serde_json::from_str((*seen)?).expect("JSON"))).collect();
            if *key == "prompts" {
                let exposed = |prompt: &Value| json!(format!("odd__{}", prompt["name"].as_str().expect("a name")));
                expected.iter_mut().for_each(|prompt| prompt["name"] = exposed(prompt));
                expected.push(json!({"name": "other__good"}));
            } else if *key != "skills" {
                expected.extend(good[key].as_array().expect("a list").clone());
            }
            assert_eq!(*listed, expected, "{agents:?} {servers:?} {method}");
        }
        let report = daemon.client(&["status", "--json"]).json();
        let is_odd = |(sent, seen): &&(&str, Option<&str>)| Some(*sent) != *seen;
        let odd: usize = OTHER_KINDS.iter().map(|(_, _, rows)| rows.iter().filter(is_odd).count()).sum();
        assert_eq!(report["servers"][0]["items_malformed"], odd, "{}", report["servers"][0]["malformed"]);
        let doctor = daemon.client(&["doctor", "odd"]).stdout;
        for named in [
            "prompt `p3`: `arguments[0].name` is missing (left out)",
            "resource `relative/r2`: `uri` is not an absolute URI (left out)",
            "resource template `x://{t0}`: `name` is missing (replaced)",
            "skill `skill://s0/SKILL.md`: `_meta` is null (dropped)",
        ] {
            assert!(doctor.contains(named), "{named}: {doctor}");
        }
    }
}

#[test]
fn status_answers_whatever_the_names_in_malformed_definitions_are() {
    let long = "n".repeat(5 << 20);
    let property = format!(r#""inputSchema":{{"type":"object","properties":{{"{long}":5}}}}"#);
    let daemon = with_tools(&[&property, r#""inputSchema":null"#], "");
    Agent::ready(&daemon).tools();
    let report = daemon.client(&["status", "--json"]).expect_code(0).json();
    let malformed = &report["servers"][0]["malformed"];
    let member = malformed[0]["defects"][0]["member"].as_str().expect("a text");
    assert!(member.starts_with("inputSchema.properties.nnn") && member.len() < 300, "{member}");
    assert_eq!(malformed.as_array().map(Vec::len), Some(2));
}
