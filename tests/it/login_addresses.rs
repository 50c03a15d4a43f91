//! Login requests for a server on the internet never go to this machine, even if its DNS answers change.
//!
//! The tests run in a network namespace with a public address and a separate hosts file, if the machine permits it.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::json;

use crate::login::fixture::LoginFixture;
use crate::support::http::{Authorization, HttpServer, Request, Response};
use crate::support::{Server, Setup, skipped, until};

/// The variable by which a test knows that it is in its namespace: the path of the hosts file.
const HOSTS: &str = "MCPD_TEST_HOSTS";
/// What the namespace says when it is made.
const READY: &str = "the network is ready";
const SCRIPT: &str = r#"ip link set lo up && ip addr add 93.184.216.34/32 dev lo && mount --bind "$0" /etc/hosts &&
    echo "$1" && shift && exec "$@""#;
const PUBLIC: [u8; 4] = [93, 184, 216, 34];
const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
const NAME: &str = "evil.example";

/// The names of the namespace.
#[derive(Clone)]
struct Hosts(PathBuf);

impl Hosts {
    /// From now on the name leads there.
    fn lead_to(&self, address: [u8; 4]) {
        let [a, b, c, d] = address;
        // In its place: what is mounted is this file, not its path.
        fs::write(&self.0, format!("{a}.{b}.{c}.{d} {NAME}\n127.0.0.1 localhost\n")).expect("the test's own");
    }
}

/// Runs a test of this module in its namespace: this program once more, there.
fn in_namespace(test: &str, run: impl FnOnce(&Hosts)) {
    if let Some(path) = env::var_os(HOSTS) {
        let hosts = Hosts(path.into());
        hosts.lead_to(PUBLIC);
        return run(&hosts);
    }
    let hosts = tempfile::NamedTempFile::new().expect("a file");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", SCRIPT]).arg(hosts.path()).arg(READY);
    command.arg(env::current_exe().expect("it runs")).args([
        &format!("{}::{test}", module()),
        "--exact",
        "--nocapture",
    ]);
    match command.env(HOSTS, hosts.path()).output() {
        Err(error) => skipped(&format!("unshare cannot be run: {error}")),
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            if text.contains(READY) {
                assert!(output.status.success() && text.contains("1 passed"), "{text}");
            } else {
                skipped(&format!("no namespace can be made: {text}"));
            }
        }
    }
}

fn module() -> &'static str {
    module_path!().split_once("::").expect("a crate and a module").1
}

/// A server at the public address, and one at the same port of this machine that nothing is to be sent to.
fn pair(handler: impl Fn(&Request) -> Response + Send + Sync + 'static) -> (HttpServer, HttpServer) {
    let public = HttpServer::start_at(SocketAddr::from((PUBLIC, 0)), handler);
    let here = SocketAddr::from((LOOPBACK, public.address().port()));
    (public, HttpServer::start_at(here, |_| Response::status(404)))
}

/// A place where that server is configured by its name.
fn fixture(public: &HttpServer) -> (LoginFixture, String) {
    let fixture = LoginFixture::new();
    let url = format!("http://{NAME}:{}/mcp", public.address().port());
    Setup::with(Server::at("tracker", &url)).write(&fixture.place);
    (fixture, url)
}

#[test]
fn name_that_turns_to_loopback_during_a_login_leads_nowhere() {
    in_namespace("name_that_turns_to_loopback_during_a_login_leads_nowhere", |hosts| {
        for host in [NAME, "127.0.0.1", "localhost"] {
            hosts.lead_to(PUBLIC);
            let changing = hosts.clone();
            let (public, here) = pair(move |request| {
                changing.lead_to(LOOPBACK);
                let port = request.header("host").and_then(|host| host.rsplit(':').next()).expect("a port");
                let challenge = format!("Bearer resource_metadata=\"http://{host}:{port}/chosen\"");
                // The next request needs another connection.
                let refused = Response::body("text/plain", "no").with_status(401);
                refused.header("www-authenticate", &challenge).until_end()
            });
            let (fixture, _) = fixture(&public);
            let ran = fixture.begin(&["--no-browser"]).end().expect_code(1);
            assert!(ran.stderr.contains("is not on the public internet"), "{host}: {ran}");
            assert_eq!((public.accepted(), here.accepted()), (1, 0), "{host}");
        }
    });
}

#[test]
fn authorization_page_that_resolves_to_loopback_is_not_opened() {
    in_namespace("authorization_page_that_resolves_to_loopback_is_not_opened", |_| {
        let (public, here) = pair(|request| match &*request.path {
            "/mcp" => Response::status(401),
            "/.well-known/oauth-authorization-server" => {
                let origin = format!("http://{}", request.header("host").expect("a host"));
                Response::json(&json!({
                    "issuer": origin,
                    "authorization_endpoint": "https://localhost.:8080/authorize",
                    "token_endpoint": format!("{origin}/token"),
                    "registration_endpoint": format!("{origin}/register"),
                    "code_challenge_methods_supported": ["S256"],
                }))
            }
            _ => Response::status(404),
        });
        let (fixture, _) = fixture(&public);
        let ran = fixture.begin(&[]).end().expect_code(1);
        assert!(ran.stderr.contains("the page of its authorization server"), "{ran}");
        assert!(ran.stderr.contains("is not on the public internet") && !ran.stdout.contains("authorize"), "{ran}");
        assert_eq!((public.count(|request| request.path == "/register"), here.accepted()), (0, 0));
    });
}

#[test]
fn public_login_is_neither_renewed_nor_revoked_at_loopback() {
    in_namespace("public_login_is_neither_renewed_nor_revoked_at_loopback", |hosts| {
        hosts.lead_to(PUBLIC);
        let authorization = Arc::new(Authorization::start());
        authorization.habits(|habits| {
            habits.resource = None;
            // Its token is to be renewed at once.
            habits.expires_in = Some(0);
        });
        let own = authorization.own();
        let (public, here) = pair(move |request| match &*request.path {
            "/mcp" => Response::status(401),
            _ => own(request),
        });
        let (fixture, url) = fixture(&public);
        fixture.log_in().expect_code(0);
        assert_eq!(fixture.saved_login()["url"], url);
        hosts.lead_to(LOOPBACK);
        let daemon = fixture.serve();
        until("the daemon has tried", || {
            let row = daemon.row("tracker");
            row["reason"].as_str().is_some_and(|reason| !reason.is_empty()).then_some(())
        });
        drop(daemon);
        let ran = fixture.run(&["logout", "tracker"]).expect_code(0);
        assert!(ran.stderr.contains("forgotten here only"), "{ran}");
        let reached = here.count(|request| request.path != "/mcp");
        assert_eq!(reached, 0, "{:?}", here.requests().iter().map(|request| request.path.clone()).collect::<Vec<_>>());
    });
}
