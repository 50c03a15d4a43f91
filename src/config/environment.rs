//! The environment variables that every server inherits, in addition to its `pass_env`.

use std::collections::BTreeMap;

use super::Secrets;
use super::secret::url_passwords;

/// Directories of the user, and the locale.
const BASIC: [&str; 13] = [
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];
/// Proxies, in both cases: curl reads only `http_proxy`, most others read both. The names after the first eight are settings of npm and pip.
const PROXIES: [&str; 16] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "NODE_USE_ENV_PROXY",
    "npm_config_proxy",
    "NPM_CONFIG_PROXY",
    "npm_config_https_proxy",
    "NPM_CONFIG_HTTPS_PROXY",
    "npm_config_noproxy",
    "NPM_CONFIG_NOPROXY",
    "PIP_PROXY",
];
/// Certificate authorities: for OpenSSL, Go and uv, then for Node, npm, Python, curl, git, Deno, Cargo, gRPC and AWS.
const AUTHORITIES: [&str; 17] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "NODE_EXTRA_CA_CERTS",
    "NODE_USE_SYSTEM_CA",
    "npm_config_cafile",
    "NPM_CONFIG_CAFILE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "DENO_CERT",
    "DENO_TLS_CA_STORE",
    "CARGO_HTTP_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "AWS_CA_BUNDLE",
];
/// Directories of version managers. Their launchers on the `PATH` need them if the directories are not the default ones.
const LAUNCHERS: [&str; 12] = [
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "BUN_INSTALL",
    "FNM_DIR",
    "MISE_CONFIG_DIR",
    "MISE_DATA_DIR",
    "NODENV_ROOT",
    "NVM_DIR",
    "N_PREFIX",
    "PNPM_HOME",
    "PYENV_ROOT",
    "VOLTA_HOME",
];

/// Whether every server inherits the variable `name`.
fn is_common(name: &str) -> bool {
    name.starts_with("LC_") || BASIC.contains(&name) || is_setup(name)
}

/// Whether users set `name` for all programs: proxies, certificate authorities and version managers.
pub(crate) fn is_setup(name: &str) -> bool {
    PROXIES.contains(&name) || AUTHORITIES.contains(&name) || LAUNCHERS.contains(&name)
}

/// Whether the value of the variable `name` is a file or directories of certificate authorities.
pub(crate) fn names_certificates(name: &str) -> bool {
    name.contains("_CERT")
        || name.contains("_CA_")
        || name.to_ascii_lowercase().ends_with("cafile")
        || AUTHORITIES.contains(&name)
}

/// The variables that a server inherits from `own`, the environment of mcpd, including those of its `pass_env`.
pub(crate) fn passed(own: impl Iterator<Item = (String, String)>, pass_env: &[String]) -> BTreeMap<String, String> {
    own.filter(|(name, _)| is_common(name) || pass_env.contains(name)).collect()
}

/// Adds the passwords of proxies in `variables` to `secrets`.
pub(super) fn hide_proxy_passwords<'v>(
    variables: impl Iterator<Item = (&'v String, &'v String)>,
    secrets: &mut Secrets,
) {
    for (_, value) in variables.filter(|(name, _)| PROXIES.contains(&name.as_str())) {
        url_passwords(value).iter().for_each(|password| secrets.add(password));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_receive_the_common_variables_and_those_of_their_pass_env_only() {
        let own = ["HOME", "LC_TIME", "https_proxy", "PIP_CERT", "NVM_DIR", "TOKEN", "SECRET", "XDG_RUNTIME_DIR"];
        let own = own.into_iter().map(|name| (name.to_owned(), format!("of {name}")));
        let passed = passed(own, &["TOKEN".to_owned(), "UNSET".to_owned()]);
        let names: Vec<_> = passed.keys().map(String::as_str).collect();
        assert_eq!(names, ["HOME", "LC_TIME", "NVM_DIR", "PIP_CERT", "TOKEN", "https_proxy"]);
        assert_eq!(passed["TOKEN"], "of TOKEN");
    }

    #[test]
    fn passwords_of_proxies_are_secrets() {
        let variables = [
            ("HTTPS_PROXY", "http://me:p%40ss-word@proxy:3128"),
            ("all_proxy", "you:other-word@proxy:3128/"),
            ("HTTP_PROXY", "http://proxy:3128"),
            ("NO_PROXY", "localhost,10.0.0.0/8"),
            ("SITE", "http://a:no-proxy@b"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut secrets = Secrets::default();
        hide_proxy_passwords(variables.iter().map(|(name, value)| (name, value)), &mut secrets);
        for (text, masked) in [
            ("connect to http://me:p%40ss-word@proxy:3128 failed", "connect to http://…@proxy:3128 failed"),
            ("it was p@ss-word, not p%40ss-word", "it was …, not …"),
            ("you:other-word", "…"),
            ("http://a:no-proxy@b via proxy:3128", "http://a:no-proxy@b via proxy:3128"),
        ] {
            assert_eq!(secrets.masked(text), masked);
        }
    }
}
