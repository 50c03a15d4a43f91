//! Reads how a server is launched: `command` with its keys, or a `url`.

use super::super::command_line;
use super::super::diagnostic::Spanned;
use super::super::interpolate::Template;
use super::super::layer::{LaunchTemplate, ProgramTemplate, is_absolute_or_agent_cwd, is_root};
use super::super::tree::{Entry, Node, Problem, Value};
use super::Format;
use super::reader::{Fields, Reader};
use super::values::{is_variable_name, not_a_variable};
use crate::client_files::Syntax;

/// The launch keys of a table.
#[derive(Default)]
pub(super) struct LaunchKeys<'t> {
    pub(super) command: Option<&'t Entry>,
    pub(super) args: Option<&'t Entry>,
    pub(super) env: Option<&'t Entry>,
    pub(super) pass_env: Option<&'t Entry>,
    pub(super) cwd: Option<&'t Entry>,
    pub(super) roots: Option<&'t Entry>,
    pub(super) url: Option<&'t Entry>,
    pub(super) headers: Option<&'t Entry>,
    pub(super) ca_file: Option<&'t Entry>,
    pub(super) oauth: Option<&'t Entry>,
}

impl<'t> LaunchKeys<'t> {
    /// Takes the keys of both formats.
    pub(super) fn common(fields: &mut Fields<'t>) -> Self {
        let mut take = |key| fields.take(key);
        let (command, args, env, cwd) = (take("command"), take("args"), take("env"), take("cwd"));
        Self { command, args, env, cwd, url: take("url"), headers: take("headers"), ..Self::default() }
    }

    /// Takes the keys of mcpd's own format.
    pub(super) fn native(fields: &mut Fields<'t>) -> Self {
        let mut take = |key| fields.take(key);
        let (pass_env, roots, ca_file, oauth) = (take("pass_env"), take("roots"), take("ca_file"), take("oauth"));
        Self { pass_env, roots, ca_file, oauth, ..Self::common(fields) }
    }
}

/// The result of reading the launch keys.
pub(super) enum LaunchReading {
    Complete(Box<LaunchTemplate>),
    /// Neither `command` nor `url`, but possibly other launch keys.
    Absent(Vec<Spanned<String>>),
}

impl Reader<'_> {
    /// Reads the launch keys of `server`.
    pub(super) fn launch(&mut self, server: &Entry, keys: &LaunchKeys<'_>) -> Option<LaunchReading> {
        match (keys.command, keys.url) {
            (Some(_), Some(url)) if matches!(self.format, Format::Native | Format::Variable) => {
                let (program, remote) = (self.program(keys), self.remote(server, url, keys));
                Some(LaunchReading::Complete(Box::new(LaunchTemplate::Served(program?, Box::new(remote?)))))
            }
            (Some(_), Some(url)) => {
                let message = format!("server `{}` has both a `command` and a `url`", server.key);
                let problem = Problem::new(url.key_span.clone(), message);
                self.error(problem.help("remove one of them, or write the server in mcpd's TOML, where mcpd runs `command` and connects to `url`"));
                None
            }
            (None, Some(url)) => self
                .remote(server, url, keys)
                .map(|layer| LaunchReading::Complete(Box::new(LaunchTemplate::Remote(layer)))),
            (Some(_), None) => {
                for key in [keys.headers, keys.ca_file, keys.oauth] {
                    self.misplaced(key, "a server that is reached by HTTP, and this one has no `url`");
                }
                self.program(keys).map(|layer| LaunchReading::Complete(Box::new(LaunchTemplate::Program(layer))))
            }
            (None, None) => {
                // Read the other keys too, to report their errors.
                self.program(keys);
                keys.oauth.map(|oauth| self.oauth(server, oauth));
                if self.format == Format::Native {
                    return Some(LaunchReading::Absent(self.names(keys)));
                }
                self.no_command(server);
                None
            }
        }
    }

    fn program(&mut self, keys: &LaunchKeys<'_>) -> Option<ProgramTemplate> {
        let command = keys.command.and_then(|command| self.command(command, keys.args));
        let args = keys.args.map(|args| self.args(args)).unwrap_or_default();
        let env = keys.env.map(|env| self.env(env)).unwrap_or_default();
        let pass_env = keys.pass_env.map(|names| self.variable_names(names)).unwrap_or_default();
        let cwd = keys.cwd.and_then(|cwd| self.absolute_path(cwd, "\"~/some/directory\""));
        let roots = keys.roots.map(|roots| self.roots(roots)).unwrap_or_default();
        Some(ProgramTemplate { command: command?, args, env, pass_env, cwd, roots })
    }

    fn names(&self, keys: &LaunchKeys<'_>) -> Vec<Spanned<String>> {
        let present = [keys.args, keys.env, keys.pass_env, keys.cwd, keys.roots].into_iter();
        let present = present.chain([keys.headers, keys.ca_file, keys.oauth]).flatten();
        present.map(|entry| self.spanned_at(entry.key_span.clone(), entry.key.clone())).collect()
    }

    /// Reports a key that does not apply to this kind of server.
    pub(super) fn misplaced(&mut self, entry: Option<&Entry>, kind_of_server: &str) {
        let Some(entry) = entry else { return };
        let problem = Problem::new(entry.key_span.clone(), format!("`{}` is for {kind_of_server}", entry.key));
        match self.format {
            Format::Native | Format::Variable => self.error(problem.help("remove it")),
            Format::Foreign(_) => self.warn(problem.help("it is ignored")),
        }
    }

    fn syntax(&self) -> Syntax {
        match self.format {
            Format::Native | Format::Variable => Syntax::Toml,
            Format::Foreign(syntax) => syntax,
        }
    }

    fn no_command(&mut self, server: &Entry) {
        let message = format!("server `{}` has no `command`", server.key);
        let help = self.assignment("command", "\"npx\"");
        self.error(Problem::new(server.key_span.clone(), message).help(help));
    }

    fn command(&mut self, entry: &Entry, args: Option<&Entry>) -> Option<Spanned<Template>> {
        if let Value::Array(_) = entry.node.value {
            let args = args.map(|args| args.node.texts()).unwrap_or_default();
            let words: Vec<_> = entry.node.texts().into_iter().chain(args).collect();
            let help = format!("write {}", command_line::keys(&words, false, self.syntax()));
            self.wrong_type(&entry.node, "`command`", "a string", help);
            return None;
        }
        let template = self.path_template(&entry.node, "`command`")?;
        if template.value.as_literal().is_some_and(|command| command.trim().is_empty()) {
            let help = self.assignment("command", "\"npx\"");
            self.error(Problem::new(entry.node.span.clone(), "`command` is empty").help(help));
            return None;
        }
        Some(template)
    }

    fn args(&mut self, entry: &Entry) -> Vec<Spanned<Template>> {
        if let Some(text) = entry.node.text() {
            let words = command_line::without_secrets(&command_line::arguments(text));
            let help = self.assignment("args", &command_line::list(&words, false));
            self.wrong_type(&entry.node, "`args`", "a list of strings", help);
            return Vec::new();
        }
        let items = self.strings(entry, r#"["-y", "some-package"]"#);
        items.into_iter().filter_map(|(node, _)| self.template(node, "`args`")).collect()
    }

    fn env(&mut self, entry: &Entry) -> Vec<(String, Spanned<Template>)> {
        let mut texts = Vec::new();
        for (name, key, node) in self.texts_by_name(entry, ("TOKEN", "${file:~/.secrets/token}")) {
            if !is_variable_name(name) {
                let help = "write a name without `=`, such as `TOKEN`";
                self.error(Problem::new(key, not_a_variable(name)).help(help));
            }
            if let Some(text) = self.template(node, &format!("variable `{}`", name.escape_debug())) {
                texts.push((name.to_owned(), text));
            }
        }
        texts
    }

    /// Reads an absolute path, which may have references.
    pub(super) fn absolute_path(&mut self, entry: &Entry, example: &str) -> Option<Spanned<Template>> {
        let what = format!("`{}`", entry.key);
        let template = self.path_template(&entry.node, &what)?;
        if template.value.as_literal().is_some_and(|path| !is_absolute_or_agent_cwd(path)) {
            let help = self.assignment(&entry.key, example) + ", or begin it with `/`";
            self.error(Problem::new(entry.node.span.clone(), format!("{what} must be an absolute path")).help(help));
            return None;
        }
        Some(template)
    }

    /// The directories and URIs that are reported to the server as roots.
    pub(super) fn roots(&mut self, entry: &Entry) -> Vec<Spanned<Template>> {
        let mut templates = Vec::new();
        for (node, _) in self.strings(entry, r#"["~/notes"]"#) {
            let Some(template) = self.path_template(node, "`roots`") else { continue };
            if template.value.as_literal().is_some_and(|text| !is_root(text)) {
                let help = "begin it with `/`, `~/` or `file:///`";
                self.error(
                    Problem::new(node.span.clone(), "a root must be an absolute path or a `file://` URI").help(help),
                );
            }
            templates.push(template);
        }
        templates
    }

    /// The keys of a table of texts, each with its location and its value.
    pub(super) fn texts_by_name<'t>(
        &mut self,
        entry: &'t Entry,
        (name, text): (&str, &str),
    ) -> Vec<(&'t str, std::ops::Range<usize>, &'t Node)> {
        let example = match self.format {
            Format::Native | Format::Foreign(Syntax::Toml) | Format::Variable => format!("{{ {name} = \"{text}\" }}"),
            Format::Foreign(Syntax::Json) => format!("{{ \"{name}\": \"{text}\" }}"),
            Format::Foreign(Syntax::Yaml) => format!("{{ {name}: \"{text}\" }}"),
        };
        let help = self.assignment(&entry.key, &example);
        let entries = self.table(&entry.node, &format!("`{}`", entry.key), &help);
        entries.iter().map(|entry| (entry.key.as_str(), entry.key_span.clone(), &entry.node)).collect()
    }
}
