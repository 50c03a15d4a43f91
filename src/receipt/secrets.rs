//! What is a secret by its path: never proposed to a server. Pure.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::config::interpolate::Sources;

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

    /// Whether it is one by its name alone, wherever it lies.
    pub(crate) fn is_by_name(&self) -> bool {
        matches!(self.place, Place::Name(_) | Place::End(_) | Place::Part(_))
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

const APPLICATION: &str = "data of an application, such as a browser";
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
    home("snap", APPLICATION),
    home(".var/app", APPLICATION),
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

/// Tells the secrets of a person from other paths, by their spelling and by where they lead.
pub(crate) struct Secrets<'a> {
    sources: &'a dyn Sources,
    /// The home directory as it is spelled, and without links.
    homes: BTreeSet<PathBuf>,
    /// The secrets with a place of their own, there and where it leads.
    places: Vec<(PathBuf, &'static Secret)>,
}

impl<'a> Secrets<'a> {
    pub(crate) fn of(sources: &'a dyn Sources) -> Self {
        let homes: BTreeSet<_> = sources.home().into_iter().flat_map(|home| [sources.real(&home), home]).collect();
        let spelled = |secret: &'static Secret| match secret.place {
            Place::Home(place) => homes.iter().map(|home| home.join(place)).collect(),
            Place::System(place) => vec![PathBuf::from(place)],
            Place::Name(_) | Place::End(_) | Place::Part(_) => Vec::new(),
        };
        let places = SECRETS.iter().flat_map(|secret| spelled(secret).into_iter().map(move |place| (place, secret)));
        let places = places.flat_map(|(place, secret)| [(sources.real(&place), secret), (place, secret)]).collect();
        Self { sources, homes, places }
    }

    /// Whether `path` lies in the home directory.
    pub(crate) fn is_in_home(&self, path: &Path) -> bool {
        self.spellings(path).iter().any(|path| self.homes.iter().any(|home| path.starts_with(home)))
    }

    /// The home directory in each spelling.
    pub(crate) fn homes(&self) -> impl Iterator<Item = &Path> {
        self.homes.iter().map(PathBuf::as_path)
    }

    /// The secret that `path` is, or lies in.
    pub(crate) fn at(&self, path: &Path) -> Option<&'static Secret> {
        let paths = self.spellings(path);
        let is_it = |place: &Path| paths.iter().any(|path| path.starts_with(place));
        let placed = self.places.iter().find(|(place, _)| is_it(place)).map(|(_, secret)| *secret);
        placed.or_else(|| paths.iter().find_map(|path| named(path)))
    }

    /// The secret that lies in the directory `path`, or that `path` is. A grant for it would open the secret.
    pub(crate) fn opened_by(&self, path: &Path) -> Option<&'static Secret> {
        let paths = self.spellings(path);
        let lies_below = |place: &Path| paths.iter().any(|path| place.starts_with(path));
        self.at(path).or_else(|| self.places.iter().find(|(place, _)| lies_below(place)).map(|(_, secret)| *secret))
    }

    /// The names in `directory` that are secrets, sorted.
    pub(crate) fn names_in(&self, directory: &Path) -> Vec<String> {
        let mut names = self.sources.list(directory).unwrap_or_default();
        names.retain(|name| self.at(&directory.join(name)).is_some());
        names.sort();
        names
    }

    /// `path` as it is spelled, and where it leads.
    fn spellings(&self, path: &Path) -> [PathBuf; 2] {
        [path.to_owned(), self.sources.real(path)]
    }
}

/// The secret that `path` is by its name alone.
fn named(path: &Path) -> Option<&'static Secret> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_code = path.extension().and_then(|end| end.to_str()).is_some_and(|end| CODE.contains(&end));
    let lower = name.to_ascii_lowercase();
    SECRETS.iter().find(|secret| match secret.place {
        Place::Home(_) | Place::System(_) => false,
        // Such as `.env.local`.
        Place::Name(name_of) => {
            name == name_of
                || lower.strip_prefix(name_of).is_some_and(|rest| rest.starts_with('.')) && !name.ends_with(".pub")
        }
        Place::End(end) => lower.ends_with(end),
        Place::Part(part) => !is_code && lower.contains(part),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::interpolate::tests::table::Table;

    #[test]
    fn secrets_are_recognized_by_their_paths() {
        let sources = Table::from([
            ("~", "/link"),
            ("/link link", "/home/u"),
            ("/home/u/.aws link", "dotfiles/aws"),
            ("/home/u/.kube link", "/srv/kube"),
            ("/out link", "/home/u/.ssh"),
            ("/home/u/notes link", ".ssh"),
            ("/srv/key link", "../home/u/notes/id"),
        ]);
        let secrets = Secrets::of(&sources);
        for (path, expected) in [
            ("/home/u/.ssh/id_rsa", Some("SSH keys")),
            ("/home/u/.ssh", Some("SSH keys")),
            ("/link/.ssh", Some("SSH keys")),
            ("/home/u/x/../.ssh", Some("SSH keys")),
            ("/out", Some("SSH keys")),
            ("/home/u/notes", Some("SSH keys")),
            ("/srv/key", Some("SSH keys")),
            ("/home/u/dotfiles/aws/credentials", Some(CLOUD)),
            ("/srv/kube", Some("credentials of clusters")),
            ("/home/u/.sshrc", None),
            ("/home/u/.config/google-chrome/Default/Cookies", Some(BROWSER)),
            ("/home/u/snap/firefox/common", Some(APPLICATION)),
            ("/home/u/.var/app/org.mozilla.firefox", Some(APPLICATION)),
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
            ("/home/u/music", None),
        ] {
            assert_eq!(secrets.at(Path::new(path)).map(|secret| secret.what), expected, "{path}");
        }
    }

    #[test]
    fn directory_with_a_secret_in_it_would_open_it() {
        let sources = Table::from([("~", "/home/u"), ("/all link", "/home"), ("/home/u/.aws link", "/srv/a/aws")]);
        let secrets = Secrets::of(&sources);
        for (path, expected) in [
            ("/home/u", true),
            ("/home/u/.config", true),
            ("/", true),
            ("/run", true),
            ("/all", true),
            ("/srv/a", true),
            ("/home/u/x/..", true),
            ("/home/u/notes", false),
        ] {
            assert_eq!(secrets.opened_by(Path::new(path)).is_some(), expected, "{path}");
        }
    }

    #[test]
    fn runners_look_for_their_own_settings() {
        let sources = Table::from([("~", "/home/u")]);
        let npmrc = Secrets::of(&sources).at(Path::new("/home/u/.npmrc")).expect("a secret");
        assert!(npmrc.is_usual_for(Some("npm")));
        assert!(!npmrc.is_usual_for(Some("uv")) && !npmrc.is_usual_for(None));
    }
}
