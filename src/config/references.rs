//! The environment variables that a configuration refers to.

use std::collections::BTreeSet;

use super::LoadedConfig;
use super::layer::LaunchTemplate;
use super::notes::What;

impl LoadedConfig {
    /// The names of variables in `${NAME}` and `pass_env`, whether they are set or not.
    pub(crate) fn variables(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for note in self.notes() {
            if let What::Text(_, template) = note.what {
                names.extend(template.variables().map(str::to_owned));
            }
        }
        let programs = self.layers.servers.iter().filter_map(|server| match &server.launch {
            LaunchTemplate::Program(program) => Some(&program.pass_env),
            LaunchTemplate::Remote(_) | LaunchTemplate::Impossible(_) => None,
        });
        let passed = programs.flatten().chain(&self.layers.defaults.pass_env);
        names.extend(passed.map(|name| name.value.clone()));
        names
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::interpolate::table::Table;
    use super::super::load;

    #[test]
    fn references_are_found_whether_they_are_set_or_not() {
        let text = "[defaults]\npass_env = ['P']\n[servers.a]\ncommand = '${A}/x'\nargs = ['${B:-b}', '$${NO}', '${file:/no}']\n\
                    env = { T = '${T}' }\npass_env = ['Q']\n[servers.b]\nurl = 'https://${HOST}/x'\n\
                    headers = { Authorization = 'Bearer ${env:KEY}' }\n";
        let sources = Table::from([("/c.toml", text), ("A", "/bin")]);
        let loaded = load(&[PathBuf::from("/c.toml")], &sources).expect("it holds");
        let names: Vec<_> = loaded.variables().into_iter().collect();
        assert_eq!(names, ["A", "B", "HOST", "KEY", "P", "Q", "T"]);
    }
}
