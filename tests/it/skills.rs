//! The skills extension (SEP-2640): one list of all servers, skills that no list has, and policy on them.

use std::fs;

use serde_json::{Value, json};

use crate::extensions::declared;
use crate::support::{Agent, Daemon, Era, Place, Server, Setup, code, plain, result};

const SKILLS: &str = "io.modelcontextprotocol/skills";

/// The entry of a skill whose directory has this URI.
fn entry(directory: &str) -> Value {
    let uri = format!("{directory}/SKILL.md");
    let name = directory.rsplit('/').next().expect("a name");
    json!({
        "uri": uri,
        "frontmatter": {"name": name, "description": "d", "x": 1.50},
        "resources": [{"uri": uri, "digest": "sha256:00ff", "size": 7}],
    })
}

/// A library with these skills, of which only the first are listed. Their files are no resources of any list.
fn library(listed: &[&str], unlisted: &[&str], text: &str) -> Value {
    let files = listed
        .iter()
        .chain(unlisted)
        .flat_map(|directory| ["SKILL.md", "ref/a.md"].map(|file| (format!("{directory}/{file}"), Value::from(text))));
    json!({
        "extensions": {SKILLS: {"directoryRead": true}},
        "resources": [],
        "skills": listed.iter().map(|directory| entry(directory)).collect::<Vec<_>>(),
        "unlisted_skills": unlisted.iter().map(|directory| entry(directory)).collect::<Vec<_>>(),
        "files": files.collect::<serde_json::Map<_, _>>(),
        "directories": {"skill://git": [{"uri": "skill://git/SKILL.md", "name": "SKILL.md"}]},
    })
}

fn server_one(era: Era) -> Server {
    era.server("one").library(library(&["skill://git", "skill://acme/refunds"], &["skill://hidden"], "one"))
}

fn server_two(era: Era) -> Server {
    era.server("two").library(library(&["skill://git", "github://x/deploy"], &["skill://other"], "two"))
}

/// Both servers, the first with these lines in its table.
fn start(era: Era, lines: &str) -> Daemon {
    Setup::with(server_one(era).line(lines)).server(server_two(era)).server(Server::named("plain")).start()
}

fn list_skills(agent: &mut Agent) -> Vec<String> {
    let answer = agent.request("skills/list", &json!({}));
    let skills = result(&answer)["skills"].as_array().expect("a list").clone();
    skills.iter().map(|skill| skill["uri"].as_str().expect("text").to_owned()).collect()
}

fn text(agent: &mut Agent, uri: &str) -> Value {
    let answer = agent.request("resources/read", &json!({"uri": uri}));
    if answer["error"].is_null() { result(&answer)["contents"][0]["text"].clone() } else { code(&answer).into() }
}

#[test]
fn skill_that_two_servers_list_belongs_to_the_first() {
    for (agents, servers) in Era::pairs() {
        let daemon = start(servers, "");
        assert_eq!(declared(&daemon, agents), json!({SKILLS: {"directoryRead": true}}), "{agents:?} {servers:?}");
        let mut agent = agents.agent(&daemon, &json!({}));
        let answer = agent.request("skills/list", &json!({}));
        let expected = ["skill://git", "skill://acme/refunds", "github://x/deploy"].map(entry);
        assert_eq!(result(&answer)["skills"], json!(expected), "entries are unchanged");
        let is_modern = agents == Era::Modern;
        for member in ["resultType", "ttlMs", "cacheScope"] {
            assert_eq!(!result(&answer)[member].is_null(), is_modern, "{member}: {answer}");
        }
        let got = agent.request("skills/get", &json!({"uri": "skill://git/SKILL.md"}));
        assert_eq!(plain(result(&got)), json!({"skill": entry("skill://git")}));
        assert_eq!(!result(&got)["ttlMs"].is_null(), is_modern, "{got}");
        assert_eq!(text(&mut agent, "skill://git/SKILL.md"), "one");
        agent.expect_quiet();
    }
}

#[test]
fn file_of_a_listed_skill_is_found_by_its_uri() {
    for (agents, servers) in Era::pairs() {
        let daemon = start(servers, "");
        let mut agent = agents.agent(&daemon, &json!({}));
        for (directory, owner) in
            [("skill://git", "one"), ("skill://acme/refunds", "one"), ("github://x/deploy", "two")]
        {
            let uri = format!("{directory}/SKILL.md");
            assert_eq!(result(&agent.request("skills/get", &json!({"uri": uri})))["skill"], entry(directory));
            assert_eq!(text(&mut agent, &uri), owner, "{uri}");
            assert_eq!(text(&mut agent, &format!("{directory}/ref/a.md")), owner, "a file of {directory}");
        }
        let listing = agent.request("resources/directory/read", &json!({"uri": "skill://git"}));
        assert_eq!(result(&listing)["resources"][0]["uri"], "skill://git/SKILL.md");
    }
}

#[test]
fn unlisted_skill_is_requested_only_from_the_one_server_with_skills() {
    for (agents, servers) in Era::pairs() {
        let daemon = start(servers, "");
        let unknown = if agents == Era::Modern { -32602 } else { -32002 };
        let mut agent = agents.agent(&daemon, &json!({}));
        for uri in ["skill://hidden/SKILL.md", "skill://other/SKILL.md", "skill://never/SKILL.md"] {
            for method in ["skills/get", "resources/directory/read"] {
                assert_eq!(code(&agent.request(method, &json!({"uri": uri}))), -32602, "{method} {uri}");
            }
            assert_eq!(text(&mut agent, uri), unknown, "{uri}");
        }
        let journals = [daemon.journal("one"), daemon.journal("two")].concat();
        assert!(!journals.iter().any(|line| line.contains("SKILL.md")), "{journals:?}");
        let mut face = agents.agent_at_face(&daemon, "one");
        let got = face.request("skills/get", &json!({"uri": "skill://hidden/SKILL.md"}));
        assert_eq!(result(&got)["skill"], entry("skill://hidden"));
        assert_eq!(text(&mut face, "skill://hidden/ref/a.md"), "one");
    }
}

#[test]
fn server_that_fails_does_not_hide_the_skills_of_the_others() {
    let malformed = json!({"skills/list": {"skills": "none"}});
    let library = json!({"extensions": {SKILLS: {}}, "files": {}, "methods": malformed});
    let daemon = Setup::with(Server::named("broken").library(&library)).server(server_one(Era::Legacy)).start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(list_skills(&mut agent), ["skill://git/SKILL.md", "skill://acme/refunds/SKILL.md"]);
    assert_eq!(text(&mut agent, "skill://git/SKILL.md"), "one");
    daemon.wait_row("broken", "reports its list", |row| row.to_string().contains("skills/list"));
}

#[test]
fn read_of_a_resource_waits_for_its_server_beside_a_server_with_skills() {
    let place = Place::new();
    let gate = place.path("gate");
    let library = json!({"resources": [{"uri": "b://x", "name": "x"}]});
    let late = Server::named("late").library(&library).flags("--exit-unless").arg(&gate);
    let daemon = Setup::with(server_one(Era::Legacy)).server(late).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    list_skills(&mut agent);
    let read = agent.start_request("resources/read", &json!({"uri": "b://x"}));
    assert_eq!(text(&mut agent, "skill://git/SKILL.md"), "one", "a skill does not wait");
    fs::write(&gate, "").expect("the test's own");
    assert_eq!(result(&agent.answer(&read))["received"]["uri"], "b://x");
}

#[test]
fn every_page_of_each_server_is_in_the_list() {
    let (one, two) = (server_one(Era::Legacy), server_two(Era::Modern));
    let daemon = Setup::with(one.flags("--page-size 1")).server(two.flags("--page-size 1")).start();
    for era in Era::BOTH {
        let mut agent = era.agent(&daemon, &json!({}));
        assert_eq!(
            list_skills(&mut agent),
            ["skill://git/SKILL.md", "skill://acme/refunds/SKILL.md", "github://x/deploy/SKILL.md"],
            "{era:?}"
        );
    }
}

#[test]
fn denied_skill_is_neither_listed_nor_gettable_nor_readable() {
    for rules in [
        "[servers.one.skills]\ndeny = [\"skill://acme/refunds\"]",
        "[servers.one.skills]\nallow = [\"skill://git\"]",
        "expose = [\"skills\"]\nresources.deny = [\"skill://acme/*\"]",
    ] {
        let daemon = Setup::with(server_one(Era::Legacy).line(rules)).start();
        for mut agent in [Agent::ready(&daemon), Era::Legacy.agent_at_face(&daemon, "one")] {
            assert!(!list_skills(&mut agent).contains(&"skill://acme/refunds/SKILL.md".to_owned()), "{rules}");
            let mut answer = |method: &str, uri: &str| {
                let answer = agent.request(method, &json!({"uri": uri}));
                answer["error"].to_string().replace("acme/refunds", "never/there")
            };
            for (method, file) in
                [("skills/get", "SKILL.md"), ("resources/read", "ref/a.md"), ("resources/directory/read", "")]
            {
                let denied = answer(method, &format!("skill://acme/refunds/{file}"));
                assert_ne!(denied, "null", "{rules} {method}");
                assert_eq!(denied, answer(method, &format!("skill://never/there/{file}")), "{rules} {method}");
            }
            assert_eq!(text(&mut agent, "skill://git/SKILL.md"), "one", "{rules}");
        }
        let journal = daemon.journal("one");
        assert!(
            !journal.iter().any(|line| line.contains("acme/refunds") && !line.contains("skills/list")),
            "{journal:?}"
        );
    }
}

#[test]
fn skills_are_hidden_where_expose_does_not_name_them() {
    for (rules, is_exposed) in [("deny = [\"sleep\"]", false), ("expose = [\"tools\", \"skills\"]", true)] {
        let daemon = Setup::with(server_one(Era::Legacy).line(rules)).start();
        assert_eq!(declared(&daemon, Era::Legacy).is_null(), !is_exposed, "{rules}");
        let mut agent = Agent::ready(&daemon);
        if is_exposed {
            let mut face = Era::Modern.agent_at_face(&daemon, "one");
            let discovered = face.request("server/discover", &json!({}));
            let declared = &result(&discovered)["capabilities"];
            assert!(declared["resources"].is_object(), "skills require resources: {declared}");
            assert_eq!(list_skills(&mut agent).len(), 2);
            assert_eq!(text(&mut agent, "skill://hidden/SKILL.md"), "one", "its files are exposed with it");
        } else {
            for method in ["skills/list", "skills/get", "resources/directory/read"] {
                assert_eq!(code(&agent.request(method, &json!({"uri": "skill://git/SKILL.md"}))), -32601, "{method}");
            }
            assert_eq!(text(&mut agent, "skill://git/SKILL.md"), -32002);
        }
    }
}

#[test]
fn resource_that_another_server_lists_is_no_skill_of_this_one() {
    let lister = json!({"resources": [{"uri": "skill://git/SKILL.md", "name": "a"}]});
    let lister = Server::named("lister").library(&lister);
    let daemon = Setup::with(server_one(Era::Legacy)).server(server_two(Era::Legacy)).server(lister).start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(list_skills(&mut agent), ["skill://acme/refunds/SKILL.md", "github://x/deploy/SKILL.md"]);
    assert_eq!(code(&agent.request("skills/get", &json!({"uri": "skill://git/SKILL.md"}))), -32602);
}

#[test]
fn skills_of_a_server_that_is_down_stay_listed() {
    let place = Place::new();
    let gate = place.write("gate", "");
    let down = Server::named("down").library(library(&["skill://down"], &[], "down"));
    let down = down.flags("--exit-unless").arg(&gate);
    let daemon = Setup::with(down).server(server_one(Era::Legacy)).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let all = ["skill://down/SKILL.md", "skill://git/SKILL.md", "skill://acme/refunds/SKILL.md"];
    assert_eq!(list_skills(&mut agent), all);
    fs::remove_file(&gate).expect("it is there");
    assert_eq!(code(&agent.call("down__die", &json!({}))), -31001);
    daemon.wait_row("down", "is down", |row| row["state"] == "backoff");
    assert_eq!(list_skills(&mut agent), all);
    assert_eq!(text(&mut agent, "skill://git/SKILL.md"), "one");
}

#[test]
fn changed_resources_update_the_list_of_skills() {
    let place = Place::new();
    let daemon = Setup::with(server_one(Era::Legacy)).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(list_skills(&mut agent).len(), 2);
    place.replace("one.library", library(&["skill://fresh"], &[], "one").to_string());
    let change = r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#;
    agent.call("one__raw", &json!({"text": format!("{change}\n")}));
    agent.expect_notification("notifications/resources/list_changed");
    assert_eq!(list_skills(&mut agent), ["skill://fresh/SKILL.md"]);
    assert_eq!(text(&mut agent, "skill://fresh/ref/a.md"), "one");
}

#[test]
fn list_of_skills_is_cut_at_the_limit_of_lists() {
    let directories: Vec<_> = (0..10_003).map(|number| format!("skill://s{number}")).collect();
    let skills: Vec<_> = directories.iter().map(|directory| entry(directory)).collect();
    let many = json!({"extensions": {SKILLS: {}}, "skills": skills});
    let daemon = Setup::with(Server::named("many").library(&many)).start();
    assert_eq!(list_skills(&mut Agent::ready(&daemon)).len(), 10_000);
}

#[test]
fn skills_are_listed_from_the_disk_cache_before_their_server_runs() {
    let place = Place::new();
    let gate = place.write("gate", "");
    let setup = || Setup::with(server_one(Era::Legacy).line("start = \"lazy\"").flags("--exit-unless").arg(&gate));
    let all = ["skill://git/SKILL.md", "skill://acme/refunds/SKILL.md"];
    {
        let daemon = setup().start_in(&place);
        let mut agent = Agent::ready(&daemon);
        assert_eq!(text(&mut agent, "skill://git/SKILL.md"), "one");
        assert_eq!(list_skills(&mut agent), all);
    }
    fs::remove_file(&gate).expect("it is there");
    let daemon = setup().start_in(&place);
    for era in Era::BOTH {
        assert_eq!(declared(&daemon, era), json!({SKILLS: {"directoryRead": true}}));
        assert_eq!(list_skills(&mut era.agent(&daemon, &json!({}))), all);
        assert_eq!(list_skills(&mut era.agent_at_face(&daemon, "one")), all);
    }
    assert_eq!(daemon.row("one")["state"], "idle");
}

#[test]
fn profile_and_session_instance_have_their_own_skills() {
    let head = "[profiles.p]\nservers = [\"two\"]";
    let daemon = Setup::with(server_one(Era::Legacy).line("sharing = \"session\""))
        .head(head)
        .server(server_two(Era::Legacy))
        .start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(list_skills(&mut agent).len(), 3);
    assert_eq!(text(&mut agent, "skill://git/SKILL.md"), "one");
    let mut agent = Agent::ready_at(&daemon.profile_socket("p"));
    assert_eq!(list_skills(&mut agent), ["skill://git/SKILL.md", "github://x/deploy/SKILL.md"]);
    assert_eq!(text(&mut agent, "skill://git/SKILL.md"), "two");
    assert!(text(&mut agent, "skill://acme/refunds/SKILL.md").is_i64(), "an error");
}

/// Case H17.
#[test]
fn entry_that_cannot_be_filtered_is_left_out() {
    let odd = json!({"uri": "skill://odd/SKILL.md", "resources": {"uri": "skill://payroll/SKILL.md"}});
    let skills = json!([entry("skill://payroll"), odd, entry("skill://git")]);
    let library = json!({"extensions": {SKILLS: {}}, "methods": {"skills/list": {"skills": skills, "others": skills}}});
    let narrowed =
        Server::named("narrowed").library(&library).line("[servers.narrowed.skills]\ndeny = [\"skill://payroll\"]");
    let daemon = Setup::with(narrowed).start();
    let answer = Agent::ready(&daemon).request("skills/list", &json!({}));
    assert_eq!(result(&answer), &json!({"skills": [entry("skill://git")]}));
}

/// Case H17.
#[test]
fn skill_within_a_skill_of_another_server_is_not_listed() {
    let nested = Server::named("nested").library(library(&["skill://git/ref"], &[], "nested"));
    let daemon = Setup::with(server_one(Era::Legacy)).server(nested).start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(list_skills(&mut agent), ["skill://git/SKILL.md", "skill://acme/refunds/SKILL.md"]);
    assert_eq!(text(&mut agent, "skill://git/ref/a.md"), "one");
}

/// Case H17.
#[test]
fn denied_files_are_left_out_of_directories_and_skills() {
    let directory = "skill://team";
    let files = json!([
        {"uri": "skill://team/SKILL.md", "name": "SKILL.md", "size": 7},
        {"uri": "skill://team/payroll", "name": "payroll"},
        {"uri": "skill://team/payroll/SKILL.md", "name": "SKILL.md"},
    ]);
    let mut skill = entry(directory);
    skill["resources"] = files.clone();
    let library = json!({
        "extensions": {SKILLS: {"directoryRead": true}},
        "skills": [skill],
        "directories": {"skill://team": files},
    });
    for (rules, count) in [("", 3), ("[servers.s.skills]\ndeny = [\"skill://team/payroll\"]", 1)] {
        for (agents, servers) in Era::pairs() {
            let daemon = Setup::with(servers.server("s").library(&library).line(rules)).start();
            let mut agent = agents.agent(&daemon, &json!({}));
            let visible = json!(files.as_array().expect("a list")[..count]);
            let read = agent.request("resources/directory/read", &json!({"uri": directory}));
            assert_eq!(plain(result(&read)), json!({"resources": visible}), "{agents:?} {servers:?}");
            let got = agent.request("skills/get", &json!({"uri": "skill://team/SKILL.md"}));
            assert_eq!(result(&got)["skill"]["resources"], visible);
            assert_eq!(result(&agent.request("skills/list", &json!({})))["skills"][0]["resources"], visible);
        }
    }
}

#[test]
fn request_without_a_uri_reaches_no_server_that_has_rules_on_skills() {
    let rules = "[servers.one.skills]\ndeny = [\"skill://payroll\"]";
    let daemon = Setup::with(server_one(Era::Legacy).line(rules)).start();
    let mut agent = Agent::ready(&daemon);
    for method in ["skills/get", "skills/search", "resources/directory/read"] {
        assert_eq!(code(&agent.request(method, &json!({}))), -32602, "{method}");
    }
    let methods = ["skills/get", "skills/search", "directory/read"];
    assert!(!daemon.journal("one").iter().any(|line| methods.iter().any(|method| line.contains(method))));
}

/// Case H17.
#[test]
fn listed_skill_is_read_from_the_server_that_lists_it() {
    let first = Server::named("first").library(library(&[], &["skill://git"], "first"));
    let daemon = Setup::with(first).server(server_two(Era::Legacy)).start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(list_skills(&mut agent), ["skill://git/SKILL.md", "github://x/deploy/SKILL.md"]);
    for file in ["SKILL.md", "ref/a.md"] {
        assert_eq!(text(&mut agent, &format!("skill://git/{file}")), "two", "{file}");
    }
    result(&agent.request("skills/get", &json!({"uri": "skill://git/SKILL.md"})));
    assert!(!daemon.journal("first").iter().any(|line| line.contains("skills/get")));
}

/// Case H17.
#[test]
fn extension_of_the_same_name_does_not_have_the_methods_of_skills() {
    let mut library = library(&["skill://git", "skill://payroll"], &[], "s");
    library["extensions"] = json!({"com.example/skills": {}, SKILLS: {"directoryRead": true}});
    let rules = "expose = [\"skills\", \"com.example/skills\"]\n[servers.s.skills]\ndeny = [\"skill://payroll\"]";
    let daemon = Setup::with(Server::named("s").library(&library).line(rules)).start();
    let mut agent = Agent::ready(&daemon);
    assert_eq!(list_skills(&mut agent), ["skill://git/SKILL.md"]);
    assert_eq!(code(&agent.request("skills/get", &json!({"uri": "skill://payroll/SKILL.md"}))), -32602);
}

#[test]
fn list_of_a_server_without_the_extension_is_an_unknown_method() {
    for era in Era::BOTH {
        let daemon = Setup::with(era.server("plain")).start();
        let direct = era.agent_at_face(&daemon, "plain").request("no/such", &json!({}));
        let listed = era.agent_at_face(&daemon, "plain").request("skills/list", &json!({}));
        let names_it = |answer: &Value| answer["error"].to_string().replace("skills/list", "no/such");
        assert_eq!(names_it(&listed), names_it(&direct), "the server of a face answers itself");
        assert_eq!(code(&era.agent(&daemon, &json!({})).request("skills/list", &json!({}))), -32601);
    }
}

#[test]
fn list_of_skills_has_one_page() {
    let daemon = start(Era::Legacy, "");
    for era in Era::BOTH {
        assert_eq!(code(&era.agent(&daemon, &json!({})).request("skills/list", &json!({"cursor": "c"}))), -32602);
    }
}
