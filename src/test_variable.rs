//! Values that the black-box tests replace by environment variables. Only builds with the feature `test-server` read them.

use std::str::FromStr;

/// The value of the variable `name`.
pub(crate) fn test_variable<T: FromStr>(name: &str) -> Option<T> {
    cfg!(feature = "test-server").then(|| std::env::var(name).ok()?.parse().ok())?
}
