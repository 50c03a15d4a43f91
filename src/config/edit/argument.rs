//! Replaces one argument of a server where it is written, in every format that mcpd loads. All other bytes of the file stay.

use std::sync::Arc;

use super::super::LoadedConfig;
use super::super::command_line::syntax_of;
use super::super::diagnostic::{Edit, Medium, Spanned};
use super::super::interpolate::Template;
use super::super::layer::ProgramTemplate;
use super::super::serialize::toml_string;
use crate::client_files::Syntax;

impl LoadedConfig {
    /// The command and the arguments of `server` as its file has them, with references. `None` without a program.
    pub(crate) fn written_command(&self, server: &str) -> Option<(String, Vec<String>)> {
        let program = self.program(server)?;
        let text = |one: &Spanned<Template>| one.value.as_literal().unwrap_or_else(|| one.value.source()).to_owned();
        Some((text(&program.command), program.args.iter().map(text).collect()))
    }

    /// Whether the argument has no references.
    pub(crate) fn has_literal_argument(&self, server: &str, index: usize) -> bool {
        self.argument(server, index).is_some_and(|one| one.value.as_literal().is_some())
    }

    /// The replacement of an argument without references by `new`, which has none either.
    pub(crate) fn argument_edit(&self, server: &str, index: usize, new: &str) -> Option<Edit> {
        let written = self.argument(server, index)?;
        let (old, location) = (written.value.as_literal()?, &written.location);
        let source = location.file.text.get(location.span.clone()).filter(|_| location.file.medium == Medium::File)?;
        let text = respelt(source, old, new, syntax_of(&location.file.path, &location.file.text));
        Some(Edit { file: Arc::clone(&location.file), span: location.span.clone(), text })
    }

    fn argument(&self, server: &str, index: usize) -> Option<&Spanned<Template>> {
        self.program(server)?.args.get(index)
    }

    fn program(&self, server: &str) -> Option<&ProgramTemplate> {
        self.layers.servers.iter().find(|layer| *layer.name.value == *server)?.launch.program()
    }
}

/// How `new` is written in place of `old`, which is written as `source`: with the same quotes if both need no escapes.
fn respelt(source: &str, old: &str, new: &str, syntax: Syntax) -> String {
    // A name of a package, and a version. Of these characters, only the first could mean something else in YAML.
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+@/:=[],".contains(c));
    let starts_plain = |text: &str| text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let inner = ['"', '\''].iter().find_map(|quote| source.strip_prefix(*quote)?.strip_suffix(*quote));
    match (inner, syntax) {
        (Some(inner), _) if inner == old && is_plain(new) => {
            let quote = &source[..1];
            format!("{quote}{new}{quote}")
        }
        (None, Syntax::Yaml) if source == old && is_plain(new) && starts_plain(new) && !new.contains([':', ',']) => {
            new.to_owned()
        }
        (_, Syntax::Toml) => toml_string(new),
        (_, Syntax::Json | Syntax::Yaml) => serde_json::Value::from(new).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::super::interpolate::tests::table::Table;
    use super::super::super::load;
    use super::*;

    #[test]
    fn argument_is_replaced_with_its_quotes_and_nothing_else() {
        for (file, text, index, expected) in [
            (
                "/c.toml",
                "# c\r\n[servers.a]\r\ncommand = 'npx' # d\r\nargs = [ '-y',\r\n\t'some', # why\r\n\"${HOME}\",]\r\n",
                1,
                "# c\r\n[servers.a]\r\ncommand = 'npx' # d\r\nargs = [ '-y',\r\n\t'some@1.0.0', # why\r\n\"${HOME}\",]\r\n",
            ),
            (
                "/c.toml",
                "servers.a = { command = \"npx\", args = [\"-y\", \"\\u0073ome\"] }",
                1,
                "servers.a = { command = \"npx\", args = [\"-y\", \"some@1.0.0\"] }",
            ),
            (
                "/c.toml",
                "servers.a = { command = \"npx\", args = ['''some'''] }",
                0,
                "servers.a = { command = \"npx\", args = [\"some@1.0.0\"] }",
            ),
            (
                "/c.json",
                "{ // c\n  \"mcpServers\": {\"a\": {\"command\": \"npx\",\n \"args\": [\"-y\",\"some\" , \"x\"], \"env\": {\"K\": \"${K}\"},}}}",
                1,
                "{ // c\n  \"mcpServers\": {\"a\": {\"command\": \"npx\",\n \"args\": [\"-y\",\"some@1.0.0\" , \"x\"], \"env\": {\"K\": \"${K}\"},}}}",
            ),
        ] {
            let sources = Table::from([(file, text), ("HOME", "/home/u"), ("K", "k")]);
            let loaded = load(&[PathBuf::from(file)], &sources).expect("valid");
            let edit = loaded.argument_edit("a", index, "some@1.0.0").expect("an edit");
            assert_eq!(edit.apply(text), expected);
            assert_eq!(loaded.argument_edit("a", 9, "x").map(|edit| edit.text), None);
        }
    }

    #[test]
    fn argument_with_references_is_not_replaced() {
        let text = "[servers.a]\ncommand = 'npx'\nargs = ['some@${V}', '$$x']\n";
        let sources = Table::from([("/c.toml", text), ("V", "1")]);
        let loaded = load(&[PathBuf::from("/c.toml")], &sources).expect("valid");
        assert!(loaded.argument_edit("a", 0, "some@1.0.0").is_none());
        assert!(!loaded.has_literal_argument("a", 0) && loaded.has_literal_argument("a", 1));
        let written = loaded.written_command("a").expect("a program");
        assert_eq!(written, ("npx".to_owned(), vec!["some@${V}".to_owned(), "$$x".to_owned()]));
    }

    #[test]
    fn plain_words_of_yaml_stay_plain_only_if_they_can() {
        for (source, old, new, expected) in [
            ("some", "some", "some@1.0.0", "some@1.0.0"),
            ("'@a/b'", "@a/b", "@a/b@1.0.0", "'@a/b@1.0.0'"),
            ("some", "some", "some[cli]==1,2", "\"some[cli]==1,2\""),
            ("img", "img", "img@sha256:00", "\"img@sha256:00\""),
            ("\"so\\x6de\"", "some", "some@1.0.0", "\"some@1.0.0\""),
        ] {
            assert_eq!(respelt(source, old, new, Syntax::Yaml), expected, "{source}");
        }
    }
}
