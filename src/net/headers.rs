//! The configured headers of a server, as they are sent.

use std::collections::BTreeMap;

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// All configured headers, marked as sensitive.
///
/// # Errors
/// If a header cannot be sent; for a person.
pub(crate) fn configured(headers: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        let invalid = |_| format!("its header `{name}` cannot be sent");
        let (name, mut value) = (name.parse::<HeaderName>(), HeaderValue::from_str(value).map_err(invalid)?);
        value.set_sensitive(true);
        all.insert(name.map_err(|_| "a name of its headers cannot be sent".to_owned())?, value);
    }
    Ok(all)
}
