//! Translates the keys of other clients, one by one, for programs and HTTP servers.

use std::ops::Range;
use std::path::Path;

use super::super::super::clients::{Part, Tables};
use super::super::super::interpolate::{escaped, is_variable_name};
use super::super::super::tree::{Entry, Node, Problem, Value};
use super::super::reader::{Fields, Reader};
use super::{Build, Section};

/// Keys that restrict a server and have no equivalent in mcpd. Users are warned that they are ignored.
const UNSUPPORTED_KEYS: [(&str, &str); 4] = [
    ("envFile", "write its variables under `env`"),
    ("sandboxEnabled", "write `sandbox` in the table of the server in mcpd's own file"),
    ("sandbox", "write `sandbox` in the table of the server in mcpd's own file"),
    ("headersHelper", "write the headers under `headers`, with `${file:…}` for what is secret"),
];

/// Keys with lists of allowed and denied tools, by name. An empty list of the last one allows all.
const ONLY_TOOLS: [&str; 5] = ["includeTools", "enabled_tools", "enabledTools", "tools", ALL_IF_EMPTY];
const ALL_IF_EMPTY: &str = "available_tools";
const NO_TOOLS: [&str; 3] = ["excludeTools", "disabledTools", "disabled_tools"];

impl Reader<'_> {
    pub(super) fn translate_keys(&mut self, section: &Section<'_>, fields: &mut Fields<'_>, build: &mut Build) {
        for known in ["disabled", "enabled", "source"].iter().chain(build.dialect.ignored) {
            fields.take(known);
        }
        self.unsupported_keys(fields);
        self.translate_launch(fields, build);
        for key in ["cwd", "sharing"] {
            if let Some(entry) = fields.take(key) {
                build.put_texts(key, entry);
            }
        }
        self.tools(fields, build);
        // Texts in it have no references.
        if build.dialect.tables == Tables::Common
            && let Some(entry) = fields.take("tool")
        {
            build.put("tool", &entry.key_span, entry.node.clone());
        }
        self.timeouts(fields, build);
        if let Some(base) = &section.base {
            at(base, section.project.is_some(), build);
        }
    }

    /// The command or the URL. One client has them in a table.
    fn translate_launch(&mut self, fields: &mut Fields<'_>, build: &mut Build) {
        match fields.take("transport") {
            Some(Entry { node: Node { value: Value::Table(entries), .. }, .. }) => {
                let mut inner = Fields::new("`transport`", entries);
                self.translate_launch(&mut inner, build);
                if let Some(cwd) = inner.take("cwd") {
                    build.put_texts("cwd", cwd);
                }
                self.finish_loosely(inner);
            }
            Some(kind) => self.kind_of_transport(kind),
            None => {}
        }
        self.translate_command(fields, build);
        self.translate_url(fields, build);
    }

    fn translate_command(&mut self, fields: &mut Fields<'_>, build: &mut Build) {
        match fields.take(build.dialect.command_key()) {
            // The older of two forms of one client.
            Some(Entry { node: Node { value: Value::Table(entries), .. }, .. })
                if entries.iter().any(|entry| entry.key == "path") =>
            {
                let mut inner = Fields::new("`command`", entries);
                if let Some(path) = inner.take("path") {
                    build.put_texts("command", path);
                }
                self.args_and_env(&mut inner, build);
                self.finish_loosely(inner);
                fields.take("settings");
            }
            Some(Entry { key_span, node: Node { value: Value::Array(words), .. }, .. })
                if build.dialect.key_of(Part::CommandLine).is_some() && !words.is_empty() =>
            {
                let mut words: Vec<_> = words.iter().map(|word| build.node("args", word)).collect();
                let program = words.remove(0);
                let span = program.span.clone();
                build.put("command", key_span, program);
                build.put("args", key_span, Node { span, value: Value::Array(words) });
            }
            Some(command) => build.put_texts("command", command),
            None => {}
        }
        self.args_and_env(fields, build);
        if let Some(names) = build.dialect.passed_variables.and_then(|key| fields.take(key)) {
            self.passed_variables(names, build);
        }
        if let Some(names) = build.dialect.needed_variables.and_then(|key| fields.take(key)) {
            self.needed_variables(names, build);
        }
    }

    fn args_and_env(&mut self, fields: &mut Fields<'_>, build: &mut Build) {
        if let Some(args) = fields.take("args") {
            build.put_texts("args", args);
        }
        let Some(env) = fields.take(build.dialect.key_of(Part::Env).unwrap_or("env")) else { return };
        let Value::Table(variables) = &env.node.value else { return build.put_texts("env", env) };
        let mut texts = Vec::new();
        for variable in variables {
            let node = match &variable.node.value {
                // JavaScript clients convert numbers and booleans to text.
                Value::Integer(_) | Value::Float | Value::Bool(_) => {
                    let text = self.source(&variable.node, "").to_owned();
                    Node { span: variable.node.span.clone(), value: Value::String(text) }
                }
                Value::Other("null") => continue,
                _ => build.node("env", &variable.node),
            };
            texts.push(Entry { key: variable.key.clone(), key_span: variable.key_span.clone(), node });
        }
        if !texts.is_empty() {
            build.extend_table("env", env, texts);
        }
    }

    /// Names of variables, some with their source.
    fn passed_variables(&mut self, entry: &Entry, build: &mut Build) {
        let Value::Array(items) = &entry.node.value else { return build.put_texts("pass_env", entry) };
        let mut names = Vec::new();
        for item in items {
            let name = item.get("name").map_or(item, |name| &name.node);
            let elsewhere = item.get("source").is_some_and(|source| source.node.text() != Some("local"));
            if elsewhere {
                let message = "a variable of another machine is ignored";
                self.warn(Problem::new(item.span.clone(), message).help("mcpd runs servers on this machine only"));
            } else {
                names.push(build.node("pass_env", name));
            }
        }
        build.extend("pass_env", entry, names);
    }

    /// Names of variables without which the server does not work. Those of a server at a URL are for its headers, which refer to them.
    fn needed_variables(&mut self, entry: &Entry, build: &mut Build) {
        let names = self.strings(entry, r#"["TOKEN"]"#);
        let variable = |(node, name): (&Node, &str)| {
            let node = Node { span: node.span.clone(), value: Value::String(format!("${{{name}}}")) };
            Entry { key: name.to_owned(), key_span: node.span.clone(), node }
        };
        let is_known =
            |name: &str| is_variable_name(name) && build.get("env").is_none_or(|env| env.get(name).is_none());
        let variables: Vec<_> = names.into_iter().filter(|(_, name)| is_known(name)).map(variable).collect();
        if build.has("command") && !variables.is_empty() {
            build.extend_table("env", entry, variables);
        }
    }

    fn tools(&mut self, fields: &mut Fields<'_>, build: &mut Build) {
        for key in ["allow", "deny"] {
            if let Some(entry) = fields.take(key) {
                build.put_texts(key, entry);
            }
        }
        for (keys, ours) in [(&ONLY_TOOLS[..], "allow"), (&NO_TOOLS[..], "deny")] {
            for key in keys {
                if let Some(entry) = fields.take(key) {
                    let names = self.strings(entry, r#"["read_file"]"#);
                    let allows_all = names.is_empty() && *key == ALL_IF_EMPTY || matches!(names[..], [(_, "*")]);
                    if allows_all && ours == "allow" {
                        continue;
                    }
                    let patterns = names.into_iter().map(|(node, name)| literal_pattern(&node.span, name)).collect();
                    build.extend(ours, entry, patterns);
                }
            }
        }
    }

    fn timeouts(&mut self, fields: &mut Fields<'_>, build: &mut Build) {
        for (key, ours, unit) in build.dialect.time_limits {
            let Some(entry) = fields.take(key).filter(|_| !build.has(ours)) else { continue };
            match self.number(&entry.node).map(|number| number * unit).filter(|seconds| *seconds >= 0.001) {
                Some(seconds) => build.put(ours, &entry.key_span, duration(&entry.node.span, seconds)),
                None => self.warn(Problem::new(entry.node.span.clone(), format!("`{key}` is ignored: it is no time"))),
            }
        }
    }

    fn number(&self, node: &Node) -> Option<f64> {
        match node.value {
            Value::Integer(_) | Value::Float => self.source(node, "").replace('_', "").parse().ok(),
            _ => None,
        }
    }

    fn unsupported_keys(&mut self, fields: &mut Fields<'_>) {
        for (key, help) in UNSUPPORTED_KEYS {
            let Some(entry) = fields.take(key) else { continue };
            if !matches!(entry.node.value, Value::Bool(false)) {
                let message = format!("`{key}` is ignored");
                self.warn(Problem::new(entry.key_span.clone(), message).help(help));
            }
        }
    }
}

/// Relative paths are relative to the file, as the client resolves them relative to the project. A client starts the servers of a
/// project in its directory.
fn at(base: &Path, is_project: bool, build: &mut Build) {
    let relative = |text: &str| !text.starts_with(['/', '~', '$']);
    build.replace("command", |command| (relative(command) && command.contains('/')).then(|| joined(base, command)));
    build.replace("cwd", |cwd| relative(cwd).then(|| joined(base, cwd)));
    let args = build.get("args").map(Node::texts).unwrap_or_default();
    let points_there = args.iter().any(|arg| arg.starts_with("./") || arg.starts_with("../"));
    let runs_there = build.has("command") && (is_project || points_there);
    let sharing = build.get("sharing").and_then(Node::text);
    // Such an instance runs in the directory of its agents.
    let is_agents = build.needs_agent_cwd() || matches!(sharing, Some("workspace" | "session"));
    if runs_there && !is_agents && !build.has("cwd") {
        build.put_here("cwd", joined(base, ""));
    }
}

fn joined(base: &Path, path: &str) -> String {
    let base = escaped(&base.to_string_lossy());
    let path = path.trim_start_matches("./").trim_end_matches("/.");
    match path {
        "" | "." => base,
        _ => format!("{}/{path}", base.trim_end_matches('/')),
    }
}

/// The pattern that matches only `name`. A lone `*` stays, because some clients use it for all tools.
fn literal_pattern(span: &Range<usize>, name: &str) -> Node {
    let mut pattern = String::new();
    for c in name.chars() {
        if name != "*" && matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | '!' | ',') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    Node { span: span.clone(), value: Value::String(pattern) }
}

fn duration(span: &Range<usize>, seconds: f64) -> Node {
    let text = match seconds {
        whole if whole.fract() == 0.0 => format!("{whole}s"),
        parts => format!("{:.0}ms", parts * 1000.0),
    };
    Node { span: span.clone(), value: Value::String(text) }
}

/// Names of transports in other clients that follow from other keys. `sse` is the older HTTP transport.
const TRANSPORTS: [&str; 8] =
    ["stdio", "local", "http", "streamable-http", "streamable_http", "streamableHttp", "sse", "remote"];

impl Reader<'_> {
    fn kind_of_transport(&mut self, kind: &Entry) {
        if kind.node.text().is_none_or(|kind| !TRANSPORTS.contains(&kind)) {
            let message = format!("`{}` is ignored: it is no transport", kind.key);
            let problem = Problem::new(kind.node.span.clone(), message);
            self.warn(problem.help("write `\"stdio\"` or `\"http\"`"));
        }
    }

    fn translate_url(&mut self, fields: &mut Fields<'_>, build: &mut Build) {
        if let Some(kind) = fields.take("type") {
            self.kind_of_transport(kind);
        }
        // One client uses two keys for two transports. If both exist, use the newer transport.
        let usual = ["httpUrl", "serverUrl", "url"];
        for key in usual.into_iter().chain(build.dialect.key_of(Part::Url).filter(|key| !usual.contains(key))) {
            let Some(url) = fields.take(key) else { continue };
            if !build.has("url") {
                build.put_texts("url", url);
            }
        }
        let own = build.dialect.key_of(Part::Headers).filter(|key| *key != "headers");
        for key in ["headers"].into_iter().chain(own) {
            if let Some(headers) = fields.take(key) {
                build.put_texts("headers", headers);
            }
        }
        self.headers_in_variables(fields, build);
    }

    fn headers_in_variables(&mut self, fields: &mut Fields<'_>, build: &mut Build) {
        if let Some(variables) = build.dialect.header_variables.and_then(|key| fields.take(key)) {
            let what = format!("`{}`", variables.key);
            let help = format!("write `{} = {{ NAME = \"VARIABLE\" }}`", variables.key);
            let names = self.table(&variables.node, &what, &help);
            let headers = names.iter().filter_map(|header| {
                let name = self.variable_name(&header.node, &format!("`{}`", header.key))?;
                Some(header_of(header, &header.key, format!("${{{name}}}")))
            });
            let headers = headers.collect();
            build.extend_table("headers", variables, headers);
        }
        if let Some(variable) = build.dialect.token_variable.and_then(|key| fields.take(key))
            && let Some(name) = self.variable_name(&variable.node, &format!("`{}`", variable.key))
        {
            let header = header_of(variable, "Authorization", format!("Bearer ${{{name}}}"));
            build.extend_table("headers", variable, vec![header]);
        }
    }

    /// The name of a variable at `node`. It must be a valid name, or it would form another reference within `${…}`.
    fn variable_name<'t>(&mut self, node: &'t Node, what: &str) -> Option<&'t str> {
        let name = self.string(node, what)?;
        if !is_variable_name(name) {
            let problem = Problem::new(node.span.clone(), format!("{what} does not name a variable"));
            self.error(problem.help("write a name of letters, digits and `_`, such as `TOKEN`"));
            return None;
        }
        Some(name)
    }
}

fn header_of(from: &Entry, name: &str, text: String) -> Entry {
    let node = Node { span: from.node.span.clone(), value: Value::String(text) };
    Entry { key: name.to_owned(), key_span: from.key_span.clone(), node }
}
