//! Expands texts with `${…}`.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::interpolate::{Sources, Template, UnusableValue};
use super::super::launch::{AGENT_CWD, Secrets};
use super::super::rotation::RotatingHeaders;
use super::super::spanned::Spanned;

/// The sources of values, and the secrets found so far.
pub(super) struct Interpolation<'a> {
    sources: &'a dyn Sources,
    pub(super) secrets: Secrets,
}

impl<'a> Interpolation<'a> {
    pub(super) fn from(sources: &'a dyn Sources) -> Self {
        Self { sources, secrets: Secrets::default() }
    }

    pub(super) fn text(&mut self, template: &Spanned<Template>) -> Result<String, UnusableValue> {
        template.value.interpolate(self.sources, &mut self.secrets)
    }

    pub(super) fn texts(&mut self, templates: &[Spanned<Template>]) -> Result<Vec<String>, UnusableValue> {
        templates.iter().map(|template| self.text(template)).collect()
    }

    pub(super) fn named(
        &mut self,
        templates: &[(String, Spanned<Template>)],
    ) -> Result<BTreeMap<String, String>, UnusableValue> {
        templates.iter().map(|(name, template)| Ok((name.clone(), self.text(template)?))).collect()
    }

    /// Those of these headers that are read again. `values` are the values of all.
    pub(super) fn rotating(
        &self,
        templates: &[(String, Spanned<Template>)],
        values: &BTreeMap<String, String>,
    ) -> Result<RotatingHeaders, UnusableValue> {
        let mut rotating = BTreeMap::new();
        for (name, template) in templates {
            if let Some(template) = template.value.rotating(self.sources)? {
                rotating.insert(name.clone(), template);
            }
        }
        let values = values.iter().filter(|(name, _)| rotating.contains_key(*name));
        let values = values.map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(RotatingHeaders::new(rotating, values, self.secrets.clone()))
    }

    /// `text` without the placeholders for what is not known yet.
    pub(super) fn without_placeholders(&self, text: &str) -> String {
        self.secrets.without_placeholders(text).replace(AGENT_CWD, "")
    }

    pub(super) fn roots(&mut self, templates: &[Spanned<Template>]) -> Result<Vec<String>, UnusableValue> {
        let roots = self.texts(templates)?;
        let complaint = "has an entry that is neither an absolute path nor a `file://` URI";
        if roots.iter().all(|root| is_root(root)) {
            Ok(roots)
        } else {
            Err(UnusableValue::Invalid { key: "roots", complaint })
        }
    }
}

pub(in crate::config) fn is_absolute_or_agent_cwd(path: &str) -> bool {
    Path::new(path).is_absolute() || path.starts_with(AGENT_CWD)
}

pub(in crate::config) fn is_root(text: &str) -> bool {
    is_absolute_or_agent_cwd(text) || text.starts_with("file:///")
}
