//! What both formats say about a server: its name, how it is run, and what of it is exposed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::interpolate::{Sources, Template, Undefined};
use super::super::tree::{Entry, Problem};
use super::super::{AGENT_CWD, Launch};
use super::fields::Fields;
use super::values::{is_variable_name, not_a_variable};
use super::{Format, Reader};
use crate::naming::is_server_name;
use crate::policy::Policy;

/// The texts of a server before they are filled in.
struct Texts {
    command: Template,
    args: Vec<Template>,
    env: Vec<(String, Template)>,
    cwd: Option<Template>,
}

impl Reader<'_> {
    pub(super) fn server_name(&mut self, entry: &Entry) -> Option<Arc<str>> {
        if is_server_name(&entry.key) {
            return Some(Arc::from(entry.key.as_str()));
        }
        let message = format!("`{}` cannot name a server", entry.key.escape_debug());
        let help = format!(
            "write `{}`: a name is letters A to Z, digits and `-`, with single `_` between them",
            fitted_name(&entry.key)
        );
        self.error(Problem::new(entry.key_span.clone(), message).help(help));
        None
    }

    /// The keys of both formats; `remote` servers need no command.
    pub(super) fn server(
        &mut self,
        entry: &Entry,
        fields: &mut Fields<'_>,
        remote: bool,
    ) -> Option<(Result<Launch, Undefined>, Policy)> {
        let policy = self.policy(entry, fields);
        let command = fields.take("command");
        if command.is_none() && !remote {
            self.no_command(entry);
        }
        let command = command.and_then(|command| self.command(command));
        let args = fields.take("args").map(|args| self.args(args)).unwrap_or_default();
        let env = fields.take("env").map(|env| self.env(env)).unwrap_or_default();
        let cwd = fields.take("cwd").and_then(|cwd| self.cwd(cwd));
        let texts = Texts { command: command?, args, env, cwd };
        Some((texts.fill(self), policy?))
    }

    /// Directories and URIs that a server may be told are its roots.
    pub(super) fn roots(&mut self, entry: &Entry) -> Vec<Template> {
        let mut templates = Vec::new();
        for (node, _) in self.strings(entry, r#"["~/notes"]"#) {
            let Some(template) = self.path_template(node, "`roots`") else { continue };
            if template.as_literal().is_some_and(|text| !is_root(text)) {
                let help = "begin it with `/`, `~/` or `file:///`";
                self.error(
                    Problem::new(node.span.clone(), "a root must be a whole path or a `file://` URI").help(help),
                );
            }
            templates.push(template);
        }
        templates
    }

    fn no_command(&mut self, server: &Entry) {
        let message = format!("server `{}` has no `command`", server.key);
        let help = self.assignment("command", "\"npx\"");
        self.error(Problem::new(server.key_span.clone(), message).help(help));
    }

    fn command(&mut self, entry: &Entry) -> Option<Template> {
        let template = self.path_template(&entry.node, "`command`")?;
        if template.as_literal().is_some_and(|command| command.trim().is_empty()) {
            let help = self.assignment("command", "\"npx\"");
            self.error(Problem::new(entry.node.span.clone(), "`command` is empty").help(help));
            return None;
        }
        Some(template)
    }

    fn args(&mut self, entry: &Entry) -> Vec<Template> {
        let items = self.strings(entry, r#"["-y", "some-package"]"#);
        items.into_iter().filter_map(|(node, _)| self.template(node, "`args`")).collect()
    }

    fn env(&mut self, entry: &Entry) -> Vec<(String, Template)> {
        let example = match self.format {
            Format::Ours => "{ TOKEN = \"${file:~/.secrets/token}\" }",
            Format::Clients => "{ \"TOKEN\": \"${file:~/.secrets/token}\" }",
        };
        let help = self.assignment("env", example);
        let mut texts = Vec::new();
        for variable in self.table(&entry.node, "`env`", &help) {
            let name = &variable.key;
            if !is_variable_name(name) {
                let help = "write a name without `=`, such as `TOKEN`";
                self.error(Problem::new(variable.key_span.clone(), not_a_variable(name)).help(help));
            }
            if let Some(text) = self.template(&variable.node, &format!("variable `{}`", name.escape_debug())) {
                texts.push((name.clone(), text));
            }
        }
        texts
    }

    fn cwd(&mut self, entry: &Entry) -> Option<Template> {
        let template = self.path_template(&entry.node, "`cwd`")?;
        if template.as_literal().is_some_and(|path| !Path::new(path).is_absolute()) {
            let help = self.assignment("cwd", "\"~/some/directory\"") + ", or begin it with `/`";
            self.error(Problem::new(entry.node.span.clone(), "`cwd` must be a whole path").help(help));
            return None;
        }
        Some(template)
    }
}

impl Texts {
    /// The first undefined name fails the launch: one is enough to go and look.
    fn fill(&self, reader: &Reader<'_>) -> Result<Launch, Undefined> {
        let sources = reader.sources;
        let command = self.command.fill(sources)?;
        if command.trim().is_empty() {
            return Err(Undefined::Unfit { key: "command", complaint: "is empty" });
        }
        let cwd = self.cwd.as_ref().map(|cwd| cwd.fill(sources)).transpose()?.map(PathBuf::from);
        let begins_whole = |cwd: &PathBuf| cwd.is_absolute() || cwd.to_string_lossy().starts_with(AGENT_CWD);
        if cwd.as_ref().is_some_and(|cwd| !begins_whole(cwd)) {
            return Err(Undefined::Unfit { key: "cwd", complaint: "is no whole path" });
        }
        Ok(Launch {
            command,
            args: self.args.iter().map(|arg| arg.fill(sources)).collect::<Result<_, _>>()?,
            env: self
                .env
                .iter()
                .map(|(name, text)| Ok((name.clone(), text.fill(sources)?)))
                .collect::<Result<_, _>>()?,
            pass_env: Vec::new(),
            cwd,
            roots: Vec::new(),
        })
    }
}

/// Gives a server its roots, filled in.
pub(super) fn with_roots(mut launch: Launch, roots: &[Template], sources: &dyn Sources) -> Result<Launch, Undefined> {
    launch.roots = roots.iter().map(|root| root.fill(sources)).collect::<Result<_, _>>()?;
    if launch.roots.iter().any(|root| !is_root(root)) {
        return Err(Undefined::Unfit { key: "roots", complaint: "has one that is no whole path and no `file://` URI" });
    }
    Ok(launch)
}

fn is_root(text: &str) -> bool {
    text.starts_with('/') || text.starts_with(AGENT_CWD) || text.starts_with("file:///")
}

/// A name that follows the grammar and looks like `name`.
fn fitted_name(name: &str) -> String {
    let fitting = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' });
    let fitted: String = fitting.collect();
    let parts = fitted.split('_').map(|part| part.trim_matches('-')).filter(|part| !part.is_empty());
    let joined = parts.collect::<Vec<_>>().join("_");
    if joined.is_empty() { "server".to_owned() } else { joined }
}
