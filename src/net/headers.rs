//! The headers that are configured for a server, as they are sent.

use std::collections::BTreeMap;

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// All of them, marked as secrets.
///
/// # Errors
/// For a person, if one cannot be sent.
pub(crate) fn configured(headers: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        let unfit = |_| format!("its header `{name}` cannot be sent");
        let (name, mut value) = (name.parse::<HeaderName>(), HeaderValue::from_str(value).map_err(unfit)?);
        value.set_sensitive(true);
        all.insert(name.map_err(|_| "a name of its headers cannot be sent".to_owned())?, value);
    }
    Ok(all)
}
