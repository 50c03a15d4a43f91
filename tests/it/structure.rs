//! The structure of the source: layers, circles of files, and where components have their methods.
//!
//! Imports are read from `use` declarations and from paths that begin with `crate`, `super` or `self`, except in tests. A re-exported name
//! leads to the file that defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Top-level modules, from the composition root down. A module imports only from rows below its own.
const LAYERS: &[&[&str]] = &[
    &["main", "init", "cli"],
    &["daemon", "autostart", "shim"],
    &["http_listener", "dashboard"],
    &["session", "admin", "receipt"],
    &["metrics"],
    &["manager", "login_env", "trial"],
    &["account", "client", "detach", "signals"],
    &["server"],
    &["transport"],
    &["durations", "oauth", "config_lints", "links", "otlp", "packages", "pin_files"],
    &["bridge", "calls", "catalog", "known_clients", "demo_server", "methods", "net", "sockets", "tap"],
    &["masking"],
    &["client_capabilities", "config", "task_state", "validity"],
    &["era", "logging", "policy", "systemctl", "tool_overrides"],
    &["pins"],
    &[
        "deadline_timer",
        "backoff",
        "client_files",
        "random",
        "disk",
        "duration",
        "extensions",
        "instructions",
        "jsonrpc",
        "list_kind",
        "log_level",
        "message_limit",
        "suggest",
        "test_variable",
        "clock",
        "naming",
        "printable",
        "tcp_sockets",
        "fd_passing",
    ],
    &["sha256"],
];

/// Folders without circles of files, but inside one of [`COMPONENTS`].
const ACYCLIC: &[&str] = &[
    "account",
    "admin",
    "autostart",
    "bridge",
    "calls",
    "catalog",
    "cli",
    "client_files",
    "config",
    "daemon",
    "dashboard",
    "http_listener",
    "jsonrpc",
    "links",
    "manager",
    "masking",
    "otlp",
    "receipt",
    "pins",
    "server",
    "session",
    "sockets",
    "tap",
    "trial",
];

/// Imports the type of each command, and commands print how others are called. So circles through it do not count.
const COMMAND_TABLE: &str = "cli/arguments";

/// Modules that are one component each: a type, and the files that only it uses.
const COMPONENTS: &[&str] = &[
    "manager/task",
    "server/group",
    "server/handshake",
    "server/instance/subscriptions",
    "server/messages",
    "server/process",
    "server/process/cgroup",
    "server/task",
];

/// Types that dispatch between components, with the module that declares them. Their methods stand in the files of that module, one for
/// each subject.
const DISPATCHERS: &[(&str, &str)] = &[
    ("Daemon", "daemon"),
    ("Group", "server/group"),
    ("Instance", "server/instance"),
    ("ServerTask", "server/task"),
    ("Session", "session/dispatcher"),
];

/// Handles and views that other modules hold, with one file per subject: their methods order and read.
const HANDLES: &[&str] = &["Manager", "Member", "ServerHandle", "View"];
/// Folders whose components have their methods in their own module.
const OWN_METHODS: &[&str] = &["admin", "bridge", "daemon", "manager", "server", "session"];

/// Fields of a dispatcher: each is a component or a plain fact.
const MAX_FIELDS: usize = 12;

/// Lines of code of a file: it is one concept.
const MAX_LINES: usize = 500;

type Imports = BTreeMap<String, BTreeSet<String>>;

/// Each module of the library, such as `server/task`, with its code: no comments, no tests.
fn modules() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut pending, mut found) = (vec![root.clone()], BTreeMap::new());
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path());
            pending.extend(entries.filter(|path| !path.ends_with("tests")));
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let name = path.strip_prefix(&root).expect("below src").with_extension("").display().to_string();
            let text = fs::read_to_string(&path).expect("text");
            let code = text.split("#[cfg(test)]\nmod tests {").next().expect("the beginning");
            let code = code.lines().map(|line| line.split("//").next().expect("the beginning")).collect::<Vec<_>>();
            found.insert(name.trim_end_matches("/mod").to_owned(), code.join("\n"));
        }
    }
    found
}

/// The paths of a tree such as `a::{b, c::d as e}`.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().expect("the beginning").trim().to_owned()];
    };
    let body = &rest[..rest.rfind('}').unwrap_or(rest.len())];
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for char in body.chars() {
        depth += i32::from(char == '{') - i32::from(char == '}');
        match char {
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().expect("one at least").push(char),
        }
    }
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    parts.flat_map(leaves).map(|leaf| format!("{prefix}{leaf}")).collect()
}

/// The absolute form of a path in `module`, with slashes; `None` for one of another crate.
fn absolute(path: &str, module: &str) -> Option<String> {
    let mut segments: Vec<_> = path.split("::").filter(|segment| !segment.is_empty()).collect();
    let mut base: Vec<_> = module.split('/').collect();
    match *segments.first()? {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            base.pop();
        }
        _ => return None,
    }
    segments.remove(0);
    while segments.first() == Some(&"super") {
        base.pop();
        segments.remove(0);
    }
    Some(base.into_iter().chain(segments).collect::<Vec<_>>().join("/"))
}

/// The absolute paths that each module uses, and those that it re-exports by name.
struct Paths {
    used: BTreeMap<String, BTreeSet<String>>,
    exported: BTreeMap<(String, String), String>,
}

fn paths(modules: &BTreeMap<String, String>) -> Paths {
    let mut paths = Paths { used: BTreeMap::new(), exported: BTreeMap::new() };
    for (module, code) in modules {
        let used = paths.used.entry(module.clone()).or_default();
        let mut rest = String::new();
        for statement in code.split_inclusive(';') {
            let Some(start) = statement.find("use ").filter(|start| is_import(statement, *start)) else {
                rest.push_str(statement);
                continue;
            };
            let (before, tree) = statement.split_at(start);
            rest.push_str(before.trim_end().trim_end_matches("pub").trim_end());
            let exports = before.trim_end().ends_with("pub") || before.trim_end().ends_with(')');
            let tree = tree["use ".len()..].trim_end_matches(';').split_whitespace().collect::<Vec<_>>().join(" ");
            for path in leaves(&tree).iter().filter_map(|leaf| absolute(leaf, module)) {
                if exports {
                    let name = path.rsplit('/').next().expect("one at least").to_owned();
                    paths.exported.insert((module.clone(), name), path);
                } else {
                    used.insert(path);
                }
            }
        }
        for prefix in ["crate::", "super::", "self::"] {
            for (at, _) in rest.match_indices(prefix) {
                let is_whole = !rest[..at].ends_with(|char: char| char.is_alphanumeric() || char == '_' || char == ':');
                let is_visibility = rest[..at].ends_with("(in ");
                let end = rest[at..].find(|char: char| !char.is_alphanumeric() && !"_:".contains(char));
                let path = &rest[at..at + end.unwrap_or(rest.len() - at)];
                used.extend(absolute(path, module).filter(|_| is_whole && !is_visibility));
            }
        }
    }
    paths
}

/// Whether `use` here begins a declaration.
fn is_import(statement: &str, start: usize) -> bool {
    let before = statement[..start].trim_end();
    before.is_empty() || before.ends_with(['}', ';', ']', ')']) || before.ends_with("pub")
}

/// The module that defines what an absolute path names.
fn definer(path: &str, modules: &BTreeMap<String, String>, paths: &Paths, depth: usize) -> Option<String> {
    let segments: Vec<_> = path.split('/').collect();
    let module =
        (1..=segments.len()).rev().map(|length| segments[..length].join("/")).find(|p| modules.contains_key(p))?;
    let rest: Vec<_> = segments[module.split('/').count()..].to_vec();
    let exported = rest.first().and_then(|name| paths.exported.get(&(module.clone(), (*name).to_owned())));
    match exported {
        Some(path) if depth < 8 => {
            let path = [&[path.as_str()], &rest[1..]].concat().join("/");
            definer(&path, modules, paths, depth + 1).or(Some(module))
        }
        _ => Some(module),
    }
}

/// Which modules each module imports from.
fn imports(modules: &BTreeMap<String, String>) -> Imports {
    let paths = paths(modules);
    let imports_of = |(module, used): (&String, &BTreeSet<String>)| {
        let definers = used.iter().filter_map(|path| definer(path, modules, &paths, 0));
        (module.clone(), definers.filter(|definer| definer != module).collect())
    };
    paths.used.iter().map(imports_of).collect()
}

fn top(module: &str) -> &str {
    module.split('/').next().expect("the beginning")
}

#[test]
fn modules_import_only_from_lower_layers() {
    let row = |module: &str| LAYERS.iter().position(|row| row.contains(&module));
    for (module, imported) in imports(&modules()).iter().filter(|(module, _)| *module != "lib") {
        let own = row(top(module)).unwrap_or_else(|| panic!("add `{}` to LAYERS", top(module)));
        for other in imported.iter().filter(|other| top(other) != top(module) && *other != "lib") {
            let lower = row(top(other)).unwrap_or_else(|| panic!("add `{}` to LAYERS", top(other)));
            assert!(lower > own, "src/{module} imports from {other}, which is not below it: move what they share down");
        }
    }
}

/// Only the composition root, the configuration of profiles and their sockets know of the HTTP listener.
#[test]
fn only_the_composition_root_knows_the_http_listener() {
    const KNOWN_BY: &[&str] = &[
        "cli/client_entries",
        "cli/token",
        "daemon/admission",
        "daemon/agent_sockets",
        "daemon/loopback_sockets",
        "daemon/sessions",
        "daemon/sessions/refusals",
        "daemon/sessions/transports",
    ];
    let importing: Vec<_> = imports(&modules())
        .into_iter()
        .filter(|(module, imported)| {
            top(module) != "http_listener" && imported.iter().any(|other| top(other) == "http_listener")
        })
        .map(|(module, _)| module)
        .collect();
    assert_eq!(importing, KNOWN_BY, "these modules import the HTTP listener");
}

#[test]
fn sessions_do_not_know_http() {
    for (module, code) in modules().iter().filter(|(module, _)| top(module) == "session") {
        for name in ["http::", "hyper", "http_listener", "transport::http"] {
            assert!(!code.contains(name), "src/{module} names {name}");
        }
    }
}

/// Everything that a module imports, directly or by others.
fn reachable(imports: &Imports, module: &str) -> BTreeSet<String> {
    let (mut pending, mut found) = (vec![module.to_owned()], BTreeSet::new());
    while let Some(next) = pending.pop() {
        let imported = imports.get(&next).into_iter().flatten().cloned();
        pending.extend(imported.filter(|other| found.insert(other.clone())));
    }
    found
}

/// The groups of modules that import each other, directly or by others.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<String>> {
    let reachable: BTreeMap<_, _> = imports.keys().map(|module| (module, reachable(imports, module))).collect();
    let circle = |module: &String| -> BTreeSet<String> {
        let others =
            reachable[module].iter().filter(|other| reachable.get(other).is_some_and(|by| by.contains(module)));
        others.cloned().collect()
    };
    imports.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// The largest component that a module is part of, or the module.
fn component(module: &str) -> String {
    let is_part = |component: &&&str| module == **component || module.starts_with(&format!("{component}/"));
    COMPONENTS
        .iter()
        .filter(is_part)
        .min_by_key(|component| component.len())
        .map_or(module, |component| component)
        .to_owned()
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    let mut imports = imports(&modules());
    imports.remove(COMMAND_TABLE).expect("it imports commands");
    for circle in circles(&imports) {
        let components: BTreeSet<_> = circle.iter().map(|module| component(module)).collect();
        let is_checked = circle.iter().any(|module| ACYCLIC.contains(&top(module)));
        assert!(!is_checked || components.len() == 1, "these import each other: {circle:?}; move what they share down");
    }
}

/// The types that have methods in each module.
fn implemented(code: &str) -> BTreeSet<&str> {
    let lines = code.lines().filter_map(|line| line.strip_prefix("impl"));
    lines
        .filter(|line| !line.contains(" for "))
        .filter_map(|line| {
            let line = line.strip_prefix('<').map_or(line, |line| line.split_once("> ").map_or(line, |(_, rest)| rest));
            line.trim().split(|char: char| !char.is_alphanumeric() && char != '_').next()
        })
        .collect()
}

#[test]
fn files_have_few_lines() {
    let lines = |code: &str| code.lines().filter(|line| !line.trim().is_empty()).count();
    let modules = modules();
    let large: Vec<_> = modules.iter().filter(|(_, code)| lines(code) > MAX_LINES).map(|(module, _)| module).collect();
    assert!(large.is_empty(), "files with more than {MAX_LINES} lines of code, to be split by concept: {large:?}");
}

#[test]
fn dispatchers_have_their_methods_in_their_module_and_few_fields() {
    let modules = modules();
    for (dispatcher, home) in DISPATCHERS {
        let is_elsewhere =
            |module: &str| top(module) == top(home) && module != *home && !module.starts_with(&format!("{home}/"));
        for (module, code) in modules.iter().filter(|(module, _)| is_elsewhere(module)) {
            assert!(
                !implemented(code).contains(dispatcher),
                "src/{module} has methods of {dispatcher}: give the component its own"
            );
        }
        let code = &modules[*home];
        let declared = ["{", "<"].iter().find_map(|next| code.split_once(&format!("struct {dispatcher}{next}")));
        let declared = declared.or_else(|| code.split_once(&format!("struct {dispatcher} {{")));
        let (_, rest) = declared.unwrap_or_else(|| panic!("src/{home} declares {dispatcher}"));
        let body = &rest[..rest.find("\n}").expect("an end")];
        let fields = body.lines().filter(|line| line.starts_with("    ") && line.contains(": ")).count();
        assert!((1..=MAX_FIELDS).contains(&fields), "{dispatcher} has {fields} fields; {MAX_FIELDS} are allowed");
    }
}

#[test]
fn methods_of_a_component_are_in_its_module() {
    let (modules, mut found) = (modules(), Vec::new());
    let declares = |code: &str, name: &str| {
        ["struct", "enum"].iter().any(|kind| {
            code.match_indices(&format!("{kind} {name}")).any(|(at, found)| {
                code[at + found.len()..].starts_with(|char: char| !char.is_alphanumeric() && char != '_')
            })
        })
    };
    for (module, code) in modules.iter().filter(|(module, _)| OWN_METHODS.contains(&top(module))) {
        for name in implemented(code) {
            let homes = modules.iter().filter(|(_, code)| declares(code, name)).map(|(module, _)| module);
            let homes: Vec<_> = homes.filter(|home| top(home) == top(module)).collect();
            let is_at_home =
                |home: &&&String| component(home) == component(module) || module.starts_with(&format!("{home}/"));
            if !homes.is_empty() && !homes.iter().any(|home| is_at_home(&home)) && !HANDLES.contains(&name) {
                found.push(format!("src/{module}: {name} of {homes:?}"));
            }
        }
    }
    assert!(found.is_empty(), "methods of components outside of their modules: {found:#?}");
}

#[test]
fn imports_are_read_as_the_compiler_reads_them() {
    assert_eq!(leaves("a::{b, c::{d as e, self}}"), ["a::b", "a::c::d", "a::c::self"]);
    assert_eq!(absolute("super::super::x::Y", "a/b/c").as_deref(), Some("a/x/Y"));
    assert_eq!((absolute("self::x", "a/b").as_deref(), absolute("std::x", "a")), (Some("a/b/x"), None));
    let of = |modules: &[(&str, &str)]| {
        imports(&modules.iter().map(|(name, code)| ((*name).to_owned(), (*code).to_owned())).collect())
    };
    let found = of(&[
        ("a", "mod b;\npub(crate) use self::b::T;\n"),
        ("a/b", "pub(in crate::a) struct T;\nuse super::c::{self, U};"),
        ("a/c", "use crate::a::T;\nfn f() { crate::a::b::g() }"),
    ]);
    assert_eq!(found["a/c"], BTreeSet::from(["a/b".to_owned()]), "a re-export leads to the definition");
    assert_eq!(circles(&found), BTreeSet::from([BTreeSet::from(["a/b".to_owned(), "a/c".to_owned()])]));
    assert_eq!(implemented("impl A {\nimpl<T: B> C<T> {\nimpl D for E {"), BTreeSet::from(["A", "C"]));
}
