//! What is a secret by its path: never proposed to a server. Pure.

use std::path::Path;

/// A kind of secret.
#[derive(Debug)]
pub(crate) struct Secret {
    place: Place,
    /// What it is, for people.
    pub(crate) what: &'static str,
    /// The caches of runners, as [`Runner`](crate::config::known_commands::Runner) names them, that look for it at each start.
    usual_for: &'static [&'static str],
}

#[derive(Debug)]
enum Place {
    /// Below the home directory.
    Home(&'static str),
    /// Anywhere, by its absolute path.
    System(&'static str),
    /// The name of a file or directory.
    Name(&'static str),
    /// The end of the name of a file.
    End(&'static str),
    /// A part of the name of a file, in any case.
    Part(&'static str),
}

impl Secret {
    /// Whether it is one by its absolute path. The names of other files of the system say nothing: certificates end like keys.
    pub(crate) fn is_of_system(&self) -> bool {
        matches!(self.place, Place::System(_))
    }

    /// Whether this runner always looks for it, so that it says nothing of the server.
    pub(crate) fn is_usual_for(&self, runner: Option<&str>) -> bool {
        runner.is_some_and(|runner| self.usual_for.contains(&runner))
    }
}

const fn home(place: &'static str, what: &'static str) -> Secret {
    Secret { place: Place::Home(place), what, usual_for: &[] }
}

const fn usual(place: &'static str, what: &'static str, usual_for: &'static [&'static str]) -> Secret {
    Secret { place: Place::Home(place), what, usual_for }
}

const fn secret(place: Place, what: &'static str) -> Secret {
    Secret { place, what, usual_for: &[] }
}

const BROWSER: &str = "the profile of a browser";
const CLOUD: &str = "credentials of a cloud";
const HISTORY: &str = "the history of a shell";
const REGISTRY: &str = "tokens of a package registry";
const WALLET: &str = "a wallet";
const TOKENS: &str = "tokens";

const SECRETS: &[Secret] = &[
    home(".ssh", "SSH keys"),
    home(".gnupg", "GnuPG keys"),
    home(".aws", CLOUD),
    home(".azure", CLOUD),
    home(".config/gcloud", CLOUD),
    home(".config/doctl", CLOUD),
    home(".config/rclone", CLOUD),
    home(".terraform.d", CLOUD),
    home(".kube", "credentials of clusters"),
    home(".docker/config.json", "credentials of container registries"),
    home(".config/containers/auth.json", "credentials of container registries"),
    usual(".netrc", "passwords", &["uv", "pipx"]),
    usual(".npmrc", REGISTRY, &["npm", "pnpm", "yarn", "bun"]),
    usual(".yarnrc.yml", REGISTRY, &["yarn"]),
    usual(".bunfig.toml", REGISTRY, &["bun"]),
    home(".pypirc", REGISTRY),
    home(".cargo/credentials", REGISTRY),
    home(".cargo/credentials.toml", REGISTRY),
    home(".gem/credentials", REGISTRY),
    home(".m2/settings.xml", REGISTRY),
    home(".local/share/uv/credentials", REGISTRY),
    home(".git-credentials", "passwords of Git"),
    home(".config/git/credentials", "passwords of Git"),
    home(".config/gh", TOKENS),
    home(".config/glab-cli", TOKENS),
    home(".config/hub", TOKENS),
    home(".vault-token", TOKENS),
    home(".claude", "the state of an agent"),
    home(".claude.json", "the state of an agent"),
    home(".codex", "the state of an agent"),
    home(".gemini", "the state of an agent"),
    home(".config/op", "a password manager"),
    home(".config/Bitwarden", "a password manager"),
    home(".config/keepassxc", "a password manager"),
    home(".password-store", "a password manager"),
    home(".local/share/keyrings", "keyrings"),
    home(".local/share/kwalletd", "keyrings"),
    home(".pki", "certificates"),
    home(".mozilla", BROWSER),
    home(".thunderbird", "mail"),
    home(".config/google-chrome", BROWSER),
    home(".config/chromium", BROWSER),
    home(".config/BraveSoftware", BROWSER),
    home(".config/microsoft-edge", BROWSER),
    home(".config/opera", BROWSER),
    home(".config/vivaldi", BROWSER),
    home(".config/Signal", "messages"),
    home(".config/Slack", "messages"),
    home(".config/discord", "messages"),
    home(".electrum", WALLET),
    home(".bitcoin", WALLET),
    home(".ethereum", WALLET),
    home(".config/solana", WALLET),
    home(".bash_history", HISTORY),
    home(".zsh_history", HISTORY),
    home(".local/share/fish/fish_history", HISTORY),
    home(".config/mcpd", "the configuration of mcpd"),
    home(".local/state/mcpd", "the state of mcpd"),
    home(".cache/mcpd", "the cache of mcpd"),
    secret(Place::System("/etc/shadow"), "passwords of the system"),
    secret(Place::System("/etc/gshadow"), "passwords of the system"),
    secret(Place::System("/etc/sudoers"), "permissions of the system"),
    secret(Place::System("/etc/ssl/private"), "keys of the system"),
    secret(Place::System("/run/docker.sock"), "the socket of a container engine"),
    secret(Place::System("/var/run/docker.sock"), "the socket of a container engine"),
    secret(Place::System("/run/podman"), "the socket of a container engine"),
    secret(Place::System("/run/user"), "sockets of your session"),
    secret(Place::System("/run/credentials"), "credentials of services"),
    secret(Place::System("/run/secrets"), "credentials of services"),
    secret(Place::Name(".env"), "secrets of a project"),
    secret(Place::Name("id_rsa"), "an SSH key"),
    secret(Place::Name("id_ecdsa"), "an SSH key"),
    secret(Place::Name("id_ed25519"), "an SSH key"),
    secret(Place::End(".pem"), "a key"),
    secret(Place::End(".key"), "a key"),
    secret(Place::End(".p12"), "a key"),
    secret(Place::End(".pfx"), "a key"),
    secret(Place::End(".jks"), "a key"),
    secret(Place::End(".keystore"), "a key"),
    secret(Place::End(".kdbx"), "a password manager"),
    secret(Place::Part("token"), TOKENS),
    secret(Place::Part("secret"), "secrets"),
    secret(Place::Part("credential"), "credentials"),
    secret(Place::Part("password"), "passwords"),
];
/// Ends of the names of files that are programs or parts of one. Their names say nothing of what they contain.
const CODE: &[&str] = &[
    "c", "cjs", "css", "d", "go", "h", "html", "js", "json5", "jsx", "lock", "map", "md", "mjs", "mts", "node", "php",
    "py", "pyc", "pyi", "rb", "rs", "sh", "so", "svg", "ts", "tsx", "wasm",
];

/// The secret that `path` is, or lies in. `home` is the home directory.
pub(crate) fn secret_at(path: &Path, home: Option<&Path>) -> Option<&'static Secret> {
    let below_home = home.and_then(|home| path.strip_prefix(home).ok());
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_code = path.extension().and_then(|end| end.to_str()).is_some_and(|end| CODE.contains(&end));
    let lower = name.to_ascii_lowercase();
    SECRETS.iter().find(|secret| match secret.place {
        Place::Home(place) => below_home.is_some_and(|below| below.starts_with(place)),
        Place::System(place) => path.starts_with(place),
        // Such as `.env.local`.
        Place::Name(name_of) => {
            name == name_of
                || lower.strip_prefix(name_of).is_some_and(|rest| rest.starts_with('.')) && !name.ends_with(".pub")
        }
        Place::End(end) => lower.ends_with(end),
        Place::Part(part) => !is_code && lower.contains(part),
    })
}

/// The secret that lies in the directory `path`, or that `path` is. A grant for it would open the secret.
pub(crate) fn secret_opened_by(path: &Path, home: Option<&Path>) -> Option<&'static Secret> {
    let lies_below = |secret: &&Secret| match (&secret.place, home) {
        (Place::Home(place), Some(home)) => home.join(place).starts_with(path),
        (Place::System(place), _) => Path::new(place).starts_with(path),
        _ => false,
    };
    secret_at(path, home).or_else(|| SECRETS.iter().find(lies_below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognized_by_their_paths() {
        let home = Some(Path::new("/home/u"));
        for (path, expected) in [
            ("/home/u/.ssh/id_rsa", Some("SSH keys")),
            ("/home/u/.ssh", Some("SSH keys")),
            ("/home/u/.sshrc", None),
            ("/home/u/.config/google-chrome/Default/Cookies", Some(BROWSER)),
            ("/home/u/.docker/config.json", Some("credentials of container registries")),
            ("/home/u/.docker/contexts", None),
            ("/srv/.ssh/id_rsa", Some("an SSH key")),
            ("/srv/.ssh/id_rsa.pub", None),
            ("/srv/app/.env", Some("secrets of a project")),
            ("/srv/app/.env.local", Some("secrets of a project")),
            ("/srv/app/.envrc", None),
            ("/srv/My-Token.txt", Some(TOKENS)),
            ("/srv/node_modules/x/token.js", None),
            ("/srv/server.PEM", Some("a key")),
            ("/run/user/1000/bus", Some("sockets of your session")),
            ("/home/u/.local/state/mcpd/pins", Some("the state of mcpd")),
            ("/home/u/notes", None),
        ] {
            assert_eq!(secret_at(Path::new(path), home).map(|secret| secret.what), expected, "{path}");
        }
    }

    #[test]
    fn directory_with_a_secret_in_it_would_open_it() {
        let home = Some(Path::new("/home/u"));
        for (path, expected) in
            [("/home/u", true), ("/home/u/.config", true), ("/", true), ("/run", true), ("/home/u/notes", false)]
        {
            assert_eq!(secret_opened_by(Path::new(path), home).is_some(), expected, "{path}");
        }
    }

    #[test]
    fn runners_look_for_their_own_settings() {
        let npmrc = secret_at(Path::new("/home/u/.npmrc"), Some(Path::new("/home/u"))).expect("a secret");
        assert!(npmrc.is_usual_for(Some("npm")));
        assert!(!npmrc.is_usual_for(Some("uv")) && !npmrc.is_usual_for(None));
    }
}
