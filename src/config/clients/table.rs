//! One row for each client. To add a client, add its row here, and a sample of its file to `tests/fixtures/clients`.
//!
//! Sources of facts are named with each row.

use super::{
    Adder, Client, Dialect, Editor, Limit, Measure, Member, Part, Place, Syntax, Tables, Unlaunched, Variables,
};

/// A program in the usual keys.
const PROGRAM: &[Member] = &[("command", Part::Command), ("args", Part::Args), ("env", Part::Env)];
/// The same with a `type`.
const STDIO: &[Member] =
    &[("type", Part::Text("stdio")), ("command", Part::Command), ("args", Part::Args), ("env", Part::Env)];
/// A URL in the usual keys.
const URL: &[Member] = &[("url", Part::Url), ("headers", Part::Headers)];
/// The same with a `type`.
const HTTP: &[Member] = &[("type", Part::Text("http")), ("url", Part::Url), ("headers", Part::Headers)];

/// JSON as most clients have it, and as a file of an unknown client is read.
pub(in crate::config) const COMMON: Dialect = Dialect {
    syntax: Syntax::Json,
    table: &["mcpServers"],
    program: PROGRAM,
    remote: Some(URL),
    tables: Tables::Common,
    variables: Variables::Unknown,
    literal_keys: &[],
    time_limits: &[("timeout", "call_timeout", 0.001)],
    passed_variables: None,
    needed_variables: None,
    header_variables: None,
    token_variable: None,
    unlaunched: Unlaunched::Mistake,
    ignored: &[],
};

/// A client of which nothing is known.
const UNKNOWN: Client = Client {
    word: "",
    title: "",
    dialect: COMMON,
    places: &[],
    other_places: &[],
    directories: &[],
    commands: &[],
    adder: None,
    editor: None,
    opens_unix_sockets: false,
    limits: &[],
};

/// All clients, ordered by `word`.
pub(crate) const CLIENTS: [Client; 12] = [
    // Source: code.claude.com/docs/en/mcp, "Manage your MCP servers"; for limits: "For MCP server authors".
    Client {
        word: "claude-code",
        title: "Claude Code",
        dialect: Dialect { variables: Variables::Braces, program: STDIO, remote: Some(HTTP), ..COMMON },
        places: &[
            Place::Variable { name: "CLAUDE_CONFIG_DIR", home: "", file: ".claude.json" },
            Place::Project(".mcp.json"),
        ],
        directories: &[Place::Variable { name: "CLAUDE_CONFIG_DIR", home: ".claude", file: "" }],
        commands: &["claude"],
        adder: Some(Adder { words: &["claude", "mcp", "add", "--scope", "user"], takes_json: false }),
        editor: Some(Editor {
            program: "claude",
            add: &["mcp", "add-json", "--scope"],
            remove: &["mcp", "remove", "--scope"],
            scopes: ["user", "local"],
        }),
        limits: &[Limit::cut(Measure::Instructions, 2048), Limit::cut(Measure::Description, 2048)],
        ..UNKNOWN
    },
    // Source: github.com/bfirestone/claude-desktop-linux.
    Client {
        word: "claude-desktop",
        title: "Claude Desktop",
        dialect: Dialect { variables: Variables::Never, remote: None, ..COMMON },
        places: &[Place::Config("Claude/claude_desktop_config.json")],
        directories: &[Place::Config("Claude")],
        commands: &["claude-desktop"],
        ..UNKNOWN
    },
    // Sources: github.com/cline/cline, sdk/packages/shared/src/storage/paths.ts, sdk/packages/core/src/extensions/mcp/config-loader.ts and
    // sdk/packages/shared/src/mcp.ts. The older extension has its file in the directory of VS Code.
    Client {
        word: "cline",
        title: "Cline",
        dialect: Dialect {
            variables: Variables::Prefixed,
            remote: Some(&[("type", Part::Text("streamableHttp")), ("url", Part::Url), ("headers", Part::Headers)]),
            time_limits: &[("timeout", "call_timeout", 1.0)],
            ignored: &["metadata", "oauth", "oauthClient", "transportType"],
            ..COMMON
        },
        places: &[
            Place::Variable { name: "CLINE_DATA_DIR", home: ".cline/data", file: "settings/cline_mcp_settings.json" },
            Place::Config("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
        ],
        directories: &[
            Place::Variable { name: "CLINE_DATA_DIR", home: ".cline", file: "" },
            Place::Config("Code/User/globalStorage/saoudrizwan.claude-dev"),
        ],
        commands: &["cline"],
        ..UNKNOWN
    },
    Client {
        word: "codex",
        title: "Codex",
        dialect: Dialect {
            syntax: Syntax::Toml,
            table: &["mcp_servers"],
            remote: Some(&[("url", Part::Url), ("http_headers", Part::Headers)]),
            tables: Tables::One,
            variables: Variables::Never,
            time_limits: &[
                ("startup_timeout_sec", "handshake_timeout", 1.0),
                ("startup_timeout_ms", "handshake_timeout", 0.001),
                ("tool_timeout_sec", "call_timeout", 1.0),
            ],
            passed_variables: Some("env_vars"),
            header_variables: Some("env_http_headers"),
            token_variable: Some("bearer_token_env_var"),
            ..COMMON
        },
        places: &[
            Place::Variable { name: "CODEX_HOME", home: ".codex", file: "config.toml" },
            Place::Project(".codex/config.toml"),
        ],
        directories: &[Place::Variable { name: "CODEX_HOME", home: ".codex", file: "" }],
        commands: &["codex"],
        adder: Some(Adder { words: &["codex", "mcp", "add"], takes_json: false }),
        ..UNKNOWN
    },
    // Sources: `copilot help environment`, `copilot mcp --help` and a trial with 1.0.102. In projects it also
    // reads `.mcp.json`. Without `tools`, older versions use none. AWS has another `copilot`.
    Client {
        word: "copilot",
        title: "GitHub Copilot CLI",
        dialect: Dialect {
            program: &[
                ("type", Part::Text("local")),
                ("command", Part::Command),
                ("args", Part::Args),
                ("env", Part::Env),
                ("tools", Part::List(&["*"])),
            ],
            remote: Some(&[
                ("type", Part::Text("http")),
                ("url", Part::Url),
                ("headers", Part::Headers),
                ("tools", Part::List(&["*"])),
            ]),
            variables: Variables::Dollar,
            ..COMMON
        },
        places: &[
            Place::Variable { name: "COPILOT_HOME", home: ".copilot", file: "mcp-config.json" },
            Place::Project(".github/mcp.json"),
        ],
        directories: &[Place::Variable { name: "COPILOT_HOME", home: ".copilot", file: "" }],
        adder: Some(Adder { words: &["copilot", "mcp", "add"], takes_json: false }),
        ..UNKNOWN
    },
    // Sources for tools: github.com/bun913/mcp-testrail/issues/6 and github.com/Snowflake-Labs/mcp/issues/77. It has loaded definitions on
    // demand since January 2026: cursor.com/blog/dynamic-context-discovery.
    Client {
        word: "cursor",
        title: "Cursor",
        dialect: Dialect { variables: Variables::Prefixed, ..COMMON },
        places: &[Place::Home(".cursor/mcp.json"), Place::Project(".cursor/mcp.json")],
        directories: &[Place::Home(".cursor")],
        commands: &["cursor", "cursor-agent"],
        limits: &[Limit::tools(40, "of early 2025"), Limit::tools(80, "before 2.4")],
        ..UNKNOWN
    },
    // Source for `GEMINI_CLI_HOME`: `gemini mcp add` of 0.61.0; for tools: github.com/google-gemini/gemini-cli/issues/19083.
    Client {
        word: "gemini",
        title: "Gemini CLI",
        dialect: Dialect {
            variables: Variables::Dollar,
            remote: Some(&[("httpUrl", Part::Url), ("headers", Part::Headers)]),
            ..COMMON
        },
        places: &[
            Place::Variable { name: "GEMINI_CLI_HOME", home: "", file: ".gemini/settings.json" },
            Place::Project(".gemini/settings.json"),
        ],
        directories: &[Place::Variable { name: "GEMINI_CLI_HOME", home: "", file: ".gemini" }],
        commands: &["gemini"],
        limits: &[Limit::tools(512, "")],
        ..UNKNOWN
    },
    // Sources: github.com/aaif-goose/goose, documentation/docs/guides/config-files.md, crates/goose/src/agents/extension.rs and
    // crates/goose/src/config/paths.rs. Pressly has another `goose`.
    Client {
        word: "goose",
        title: "goose",
        dialect: Dialect {
            syntax: Syntax::Yaml,
            table: &["extensions"],
            program: &[
                ("name", Part::Name),
                ("description", Part::Text("MCP servers that mcpd runs")),
                ("type", Part::Text("stdio")),
                ("enabled", Part::Flag(true)),
                ("cmd", Part::Command),
                ("args", Part::Args),
                ("envs", Part::Env),
            ],
            remote: Some(&[
                ("name", Part::Name),
                ("description", Part::Text("MCP servers that mcpd runs")),
                ("type", Part::Text("streamable_http")),
                ("enabled", Part::Flag(true)),
                ("uri", Part::Url),
                ("headers", Part::Headers),
            ]),
            tables: Tables::One,
            variables: Variables::Plain,
            literal_keys: &["command", "args", "env"],
            time_limits: &[("timeout", "call_timeout", 1.0)],
            needed_variables: Some("env_keys"),
            unlaunched: Unlaunched::BuiltIn,
            ignored: &["name", "description", "display_name", "bundled"],
            ..COMMON
        },
        places: &[Place::Config("goose/config.yaml")],
        directories: &[Place::Config("goose")],
        ..UNKNOWN
    },
    // Source: opencode.ai/docs/config and opencode.ai/docs/migrate-v1, "Use your existing configuration". Version 2 also has the servers in
    // `mcp.servers`, and reads those of version 1 in `mcp`. Source: opencode.ai/v1/docs/mcp-servers, "Local"; opencode.ai/docs/migrate-v1.
    Client {
        word: "opencode",
        title: "OpenCode",
        dialect: Dialect {
            table: &["mcp"],
            program: &[("type", Part::Text("local")), ("command", Part::CommandLine), ("environment", Part::Env)],
            remote: Some(&[("type", Part::Text("remote")), ("url", Part::Url), ("headers", Part::Headers)]),
            tables: Tables::Nested("servers"),
            variables: Variables::Bare,
            time_limits: &[],
            ..COMMON
        },
        places: &[
            Place::Config("opencode/opencode.json"),
            Place::Config("opencode/opencode.jsonc"),
            Place::Project("opencode.json"),
            Place::Project("opencode.jsonc"),
            Place::Project(".opencode/opencode.json"),
            Place::Project(".opencode/opencode.jsonc"),
        ],
        directories: &[Place::Config("opencode")],
        commands: &["opencode"],
        ..UNKNOWN
    },
    // Source: code.visualstudio.com/docs/agents/reference/mcp-configuration; for tools: code.visualstudio.com/docs/agents/run/tools.
    Client {
        word: "vscode",
        title: "VS Code",
        dialect: Dialect {
            table: &["servers"],
            variables: Variables::Prefixed,
            program: STDIO,
            remote: Some(HTTP),
            ..COMMON
        },
        places: &[Place::Config("Code/User/mcp.json"), Place::Project(".vscode/mcp.json")],
        other_places: &[Place::Config("Code/User/settings.json"), Place::Project(".vscode/settings.json")],
        directories: &[Place::Config("Code")],
        commands: &["code"],
        adder: Some(Adder { words: &["code", "--add-mcp"], takes_json: true }),
        opens_unix_sockets: true,
        limits: &[Limit::tools(128, "")],
        ..UNKNOWN
    },
    // Source: docs.windsurf.com/windsurf/cascade/mcp.
    Client {
        word: "windsurf",
        title: "Windsurf",
        dialect: Dialect {
            variables: Variables::Prefixed,
            remote: Some(&[("serverUrl", Part::Url), ("headers", Part::Headers)]),
            ..COMMON
        },
        places: &[Place::Home(".codeium/windsurf/mcp_config.json"), Place::Home(".codeium/mcp_config.json")],
        directories: &[Place::Home(".codeium/windsurf")],
        commands: &["windsurf"],
        limits: &[Limit::tools(100, "")],
        ..UNKNOWN
    },
    // Source: zed.dev/docs/ai/mcp. ZFS has another `zed`, so some distributions name this one `zeditor`. Source for tools:
    // github.com/zed-industries/zed/issues/32946.
    Client {
        word: "zed",
        title: "Zed",
        dialect: ZED,
        places: &[Place::Config("zed/settings.json"), Place::Project(".zed/settings.json")],
        directories: &[Place::Config("zed")],
        commands: &["zeditor"],
        limits: &[Limit::tools(128, "with models of OpenAI")],
        ..UNKNOWN
    },
];

/// Zed changed the unit of its time limit. Versions of 2025 refuse a program without `source`, later ones ignore it. Source:
/// github.com/zed-industries/zed, `ContextServerSettingsContent`.
pub(in crate::config) const ZED: Dialect = Dialect {
    table: &["context_servers"],
    program: &[("source", Part::Text("custom")), ("command", Part::Command), ("args", Part::Args), ("env", Part::Env)],
    variables: Variables::Never,
    time_limits: &[],
    unlaunched: Unlaunched::Elsewhere(
        "an extension defines its command",
        "configure it with the `command` that the extension runs",
    ),
    ..COMMON
};
