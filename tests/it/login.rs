//! `mcpd login` and `mcpd logout`, which need no daemon.

pub(crate) mod fixture;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;

use self::fixture::LoginFixture;
use crate::support::http::{Habits, HttpServer, Response, sent_on, visit};
use crate::support::{Server, Setup, until};

#[test]
fn login_is_stored_for_its_owner_only() {
    let fixture = LoginFixture::new();
    fixture.authorization.habits(|habits| habits.scope = Some("read write"));
    let attempt = fixture.begin(&["--no-browser"]);
    let (status, text) = visit(&attempt.page());
    assert!(status == 200 && text.contains("<p>mcpd is logged in to tracker. You can close this page.</p>"), "{text}");
    let ran = attempt.end().expect_code(0);
    assert!(ran.stdout.ends_with("tracker: logged in, for read, write\n"), "{ran}");
    let saved_login = fixture.saved_login();
    assert_eq!(
        (&saved_login["url"], &saved_login["grant"]["resource"]),
        (&fixture.front.url().into(), &fixture.front.url().into())
    );
    assert!(
        saved_login["grant"]["access_token"].as_str().is_some_and(|token| token.starts_with("token-")),
        "{saved_login}"
    );
    assert_eq!(saved_login["grant"]["scopes"], json!(["read", "write"]));
    let mode = |path: PathBuf| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(fixture.file()), 0o600);
    assert_eq!(mode(fixture.file().parent().expect("a directory").to_owned()), 0o700);
    let token = saved_login["grant"]["access_token"].as_str().expect("text");
    assert!(!ran.to_string().contains(token), "{ran}");
}

#[test]
fn configured_browser_opens_the_page_without_the_state_in_its_arguments() {
    let fixture = LoginFixture::new();
    let script = fixture.place.write("browser", "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"${0%/*}/opened\"\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).expect("it is the test's own");
    let browser = format!("{} --new", script.display());
    let attempt = fixture.begin_with(&[], &[("BROWSER", &browser)], Stdio::null());
    let opened = until("the browser is started", || {
        let text = fs::read_to_string(fixture.place.path("opened")).ok()?;
        text.ends_with('\n').then_some(text)
    });
    let [option, start] = opened.lines().collect::<Vec<_>>()[..] else { panic!("{opened}") };
    assert_eq!(option, "--new");
    let origin = attempt.redirect().origin().ascii_serialization();
    assert!(start.starts_with(&format!("{origin}/start/")), "{start}");
    let page = url::Url::parse(&attempt.page()).expect("a URL");
    let state = page.query_pairs().find(|(name, _)| name == "state").expect("a state").1.into_owned();
    assert!(!opened.contains(&state), "{opened}");
    // Another user who has read the arguments learns nothing by them.
    if rustix::process::getuid().is_root() {
        let read = fetch_as_nobody(start);
        assert!(read.starts_with("HTTP/1.1 403 ") && !read.contains(&state), "{read}");
    }
    assert_eq!(visit(&format!("{origin}/start/guessed")).0, 404);
    assert_eq!(sent_on(start), page);
    visit(start);
    let ran = attempt.end().expect_code(0);
    assert!(ran.stdout.starts_with("Your browser opens this page"), "{ran}");
}

/// What a program of another user reads at an address of this machine.
pub(crate) fn fetch_as_nobody(address: &str) -> String {
    use std::os::unix::process::CommandExt;
    let url = url::Url::parse(address).expect("a URL");
    let script = "exec 3<>/dev/tcp/127.0.0.1/$0; printf 'GET %s HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n' \"$1\" >&3; cat <&3";
    let mut command = std::process::Command::new("bash");
    command.args(["-c", script, &url.port().expect("a port").to_string(), url.path()]).uid(65534).gid(65534);
    let output = command.current_dir("/").output().expect("bash is there");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn browser_page_waits_for_the_token_and_shows_the_result() {
    let fixture = LoginFixture::new();
    fixture.authorization.hold_tokens(true);
    let attempt = fixture.begin(&["--no-browser"]);
    let page = attempt.page();
    let browser = std::thread::spawn(move || visit(&page));
    fixture.authorization.http().wait_request("the code is redeemed", |request| request.path == "/token");
    assert!(!browser.is_finished() && !fixture.file().exists());
    fixture.authorization.hold_tokens(false);
    let (status, text) = browser.join().expect("an answer");
    assert!(status == 200 && text.contains("mcpd is logged in to tracker."), "{text}");
    attempt.end().expect_code(0);
}

#[test]
fn browser_reads_why_a_login_has_failed_as_text() {
    let fixture = LoginFixture::new();
    for (answer, expected) in [
        (json!({"code": "made up"}), "sends no token: it answers invalid_grant"),
        (json!({"code": null, "error": "<script>alert(1)</script>"}), "answers &lt;script&gt;alert(1)&lt;/script&gt;"),
        (json!({"iss": "https://<b>"}), "is from another authorization server"),
    ] {
        fixture.authorization.habits(|habits| habits.answer = answer);
        let attempt = fixture.begin(&["--no-browser"]);
        let (_, text) = visit(&attempt.page());
        assert!(text.contains("<p>The login has failed: ") && text.contains(expected), "{expected}: {text}");
        assert!(!text.contains("<script>") && !text.contains("<b>"), "{text}");
        attempt.end().expect_code(1);
    }
}

#[test]
fn page_on_this_machine_that_a_server_of_the_internet_names_is_not_opened() {
    let fixture = LoginFixture::new();
    let pages = HttpServer::start(|_| Response::unexpected());
    let page = pages.url("/authorize");
    // It stands for a proxy, and answers for the server, whose name nobody but a proxy resolves.
    fixture.front.intercept(move |request| {
        Some(match &*request.path {
            "/mcp" => Response::status(401),
            "/.well-known/oauth-authorization-server" => Response::json(&json!({
                "issuer": "http://far.invalid",
                "authorization_endpoint": page,
                "token_endpoint": "http://far.invalid/token",
                "registration_endpoint": "http://far.invalid/register",
                "code_challenge_methods_supported": ["S256"],
            })),
            _ => Response::status(404),
        })
    });
    Setup::with(Server::at("tracker", "http://far.invalid/mcp")).write(&fixture.place);
    let script = fixture.place.write("browser", "#!/bin/sh\ntouch \"${0%/*}/opened\"\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).expect("it is the test's own");
    let proxy = format!("http://{}", fixture.front.http().address());
    let variables = [("HTTP_PROXY", &*proxy), ("BROWSER", script.to_str().expect("text"))];
    let ran = fixture.begin_with(&[], &variables, Stdio::null()).end().expect_code(1);
    let expected = "the page of its authorization server: 127.0.0.1 is not on the public internet";
    assert!(ran.stderr.contains(expected) && ran.stdout.is_empty(), "{ran}");
    assert!(!fixture.place.path("opened").exists() && pages.accepted() == 0);
}

#[test]
fn address_that_a_browser_elsewhere_ends_up_at_can_be_pasted() {
    let fixture = LoginFixture::new();
    let mut attempt = fixture.begin_with(&["--no-browser"], &[], Stdio::piped());
    let page = url::Url::parse(&attempt.page()).expect("a URL");
    let state = page.query_pairs().find(|(name, _)| name == "state").expect("a state").1;
    let mut stdin = attempt.child.stdin.take().expect("a pipe");
    let registered = fixture.authorization.http().wait_request("mcpd registers", |request| request.path == "/register");
    assert!(registered.json()["redirect_uris"][0].as_str().is_some());
    // Another browser would show what the page sends it on to; nobody listens there for it.
    let code = code_of(&page);
    writeln!(stdin, "\nwhat is this?\nhttp://127.0.0.1:1/callback?code=x&state=other").expect("written");
    writeln!(stdin, " http://127.0.0.1:1/callback?code={code}&state={state} ").expect("written");
    let ran = attempt.end().expect_code(0);
    assert_eq!(ran.stderr.matches("This is no answer").count(), 2, "{ran}");
    assert!(ran.stdout.ends_with("tracker: logged in\n"), "{ran}");
}

/// A code for this page that its browser has not brought back.
fn code_of(page: &url::Url) -> String {
    let sent_on = sent_on(page.as_str());
    let code = sent_on.query_pairs().find(|(name, _)| name == "code").expect("a code").1.into_owned();
    url::form_urlencoded::byte_serialize(code.as_bytes()).collect()
}

#[test]
fn unrelated_redirect_is_ignored() {
    let fixture = LoginFixture::new();
    let attempt = fixture.begin(&["--no-browser"]);
    let mut wrong = attempt.redirect();
    for query in [None, Some("code=x"), Some("code=x&state=other"), Some("error=access_denied&state=other")] {
        wrong.set_query(query);
        let (status, text) = visit(wrong.as_str());
        assert!(status == 400 && text.contains("does not belong to the current login"), "{status} {text}");
    }
    wrong.set_path("/elsewhere");
    assert_eq!(visit(wrong.as_str()).0, 404);
    visit(&attempt.page());
    attempt.end().expect_code(0);
    assert_eq!(fixture.authorization.request_count("authorization_code"), 1);
}

#[test]
fn failed_login_reports_the_reason_and_stores_nothing() {
    type Change = fn(&mut Habits);
    let cases: [(Change, &str); 8] = [
        (|habits| habits.denies = true, "the authorization server answers access_denied (not today)"),
        (|habits| habits.answer = json!({"iss": "https://evil.example"}), "is from another authorization server"),
        (
            |habits| habits.metadata = json!({"authorization_response_iss_parameter_supported": true}),
            "does not name its authorization server",
        ),
        (|habits| habits.answer = json!({"code": "made up"}), "sends no token: it answers invalid_grant"),
        (
            |habits| habits.metadata = json!({"issuer": "https://evil.example"}),
            "has metadata of another authorization server",
        ),
        (|habits| habits.metadata = json!({"code_challenge_methods_supported": null}), "PKCE"),
        (|habits| habits.metadata = json!({"registration_endpoint": null}), "oauth = { client_id ="),
        (|habits| habits.resource = Some(json!({"resource": "https://evil.example/mcp"})), "belongs to another server"),
    ];
    let fixture = LoginFixture::new();
    for (change, expected) in cases {
        fixture.authorization.habits(|habits| {
            *habits = Habits::default();
            change(habits);
        });
        let mut attempt = fixture.begin(&["--no-browser"]);
        let shows_page = until("it shows a page or ends", || {
            let shows_page = attempt.output()[0].ends_with("\n\n");
            let has_ended = attempt.child.try_wait().expect("one's own child").is_some();
            (shows_page || has_ended).then_some(shows_page)
        });
        if shows_page {
            visit(&attempt.page());
        }
        let ran = attempt.end().expect_code(1);
        assert!(ran.stderr.contains(expected), "{expected}: {ran}");
        assert!(!fixture.file().exists(), "{expected}");
    }
}

#[test]
fn place_that_others_could_read_on_the_way_is_not_gone_to() {
    let fixture = LoginFixture::new();
    for (metadata, expected) in [
        (json!({"token_endpoint": "http://192.0.2.1/token"}), "the token endpoint of its authorization server"),
        (json!({"authorization_endpoint": "javascript:alert(1)"}), "the page of its authorization server"),
    ] {
        fixture.authorization.habits(|habits| habits.metadata = metadata);
        let ran = fixture.begin(&["--no-browser"]).end().expect_code(1);
        assert!(ran.stderr.contains(expected) && ran.stderr.contains("does not begin with `https://`"), "{ran}");
    }
}

#[test]
fn login_without_an_answer_times_out() {
    let fixture = LoginFixture::new();
    let ran = fixture.begin(&["--no-browser", "--timeout", "10ms"]).end().expect_code(1);
    assert!(ran.stderr.contains("no login in the browser within 10ms"), "{ran}");
    assert!(!fixture.file().exists());
}

#[test]
fn server_of_an_older_version_is_its_own_authorization_server() {
    for metadata in [json!({}), json!({"registration_endpoint": null})] {
        let fixture = LoginFixture::new();
        fixture.authorization.habits(|habits| {
            habits.resource = None;
            habits.methods = vec!["client_secret_post"];
        });
        // It serves what the authorization server does, under its own name.
        let (authorization, front) = (fixture.authorization.own(), fixture.authorization.guard(&fixture.front.url()));
        let has_metadata = metadata == json!({});
        fixture.front.intercept(move |request| match &*request.path {
            "/mcp" => front(request),
            path if path.starts_with("/.well-known/") && !has_metadata => Some(Response::status(404)),
            _ => Some(authorization(request)),
        });
        let ran = fixture.log_in().expect_code(0);
        assert!(ran.stdout.ends_with("tracker: logged in\n"), "{ran}");
        assert_eq!(fixture.saved_login()["grant"]["resource"], fixture.front.url());
    }
}

#[test]
fn code_of_another_authorization_server_is_rejected() {
    let fixture = LoginFixture::new();
    fixture.authorization.habits(|habits| habits.resource = None);
    let front = fixture.authorization.guard(&fixture.front.url());
    let (theirs, ours) = (fixture.authorization.http().url(""), fixture.front.http().url(""));
    let metadata = json!({
        "issuer": theirs,
        "authorization_endpoint": format!("{theirs}/authorize"),
        "registration_endpoint": format!("{theirs}/register"),
        "token_endpoint": format!("{ours}/token"),
        "code_challenge_methods_supported": ["S256"],
    });
    fixture.front.intercept(move |request| match &*request.path {
        "/mcp" => front(request),
        "/.well-known/oauth-authorization-server" => Some(Response::json(&metadata)),
        _ => Some(Response::status(404)),
    });
    fixture.log_in().expect_code(0);
    assert_eq!(fixture.front.http().count(|request| request.path == "/token"), 0);
}

#[test]
fn public_server_needs_no_login() {
    let fixture = LoginFixture::new();
    fixture.front.stop_intercepting();
    let ran = fixture.begin(&["--no-browser"]).end().expect_code(0);
    assert_eq!(ran.stdout, "tracker: requires no login\n");
}

#[test]
fn server_without_protected_resource_metadata_is_not_treated_as_open() {
    let fixture = LoginFixture::new();
    for status in [403, 404, 405, 500, 503] {
        fixture.front.intercept(move |_| Some(Response::status(status)));
        let ran = fixture.begin(&["--no-browser"]).end().expect_code(1);
        assert_eq!(ran.stderr, format!("mcpd: tracker: the server answers with status {status}\n"));
    }
    // One of HTTP+SSE wants to know who asks where its stream is.
    let guard = fixture.authorization.guard(&fixture.front.url());
    fixture.front.intercept(move |request| match &*request.method {
        "POST" => Some(Response::status(405)),
        _ => guard(request),
    });
    fixture.log_in().expect_code(0);
}

#[test]
fn login_that_cannot_be_read_is_replaced_by_the_next() {
    let fixture = LoginFixture::new();
    fixture.log_in().expect_code(0);
    for text in ["", "{}", "\u{0}", r#"{"version": 99, "url": "x"}"#] {
        fs::write(fixture.file(), text).expect("it is the test's own");
        let stands = fixture.run(&["login", "--json"]).expect_code(0).json()["logins"][0].clone();
        assert_eq!(stands["login"], "unknown", "{stands}");
        fixture.log_in().expect_code(0);
        assert_eq!(fixture.saved_login()["url"], fixture.front.url());
    }
    fs::write(fixture.file(), "").expect("it is the test's own");
    fixture.run(&["logout", "tracker"]).expect_code(0);
    assert!(!fixture.file().exists());
}

#[test]
fn server_without_a_url_cannot_be_logged_in_to() {
    let fixture = LoginFixture::new();
    let header = Server::at("header", &fixture.front.url()).line("headers = { authorization = \"Bearer x\" }");
    let setup = Setup::with(fixture.front.server()).server(Server::named("program")).server(header);
    setup.write(&fixture.place);
    for (server, expected) in [
        ("trackers", "is not a configured server: did you mean `tracker`?"),
        ("program", "is a program that mcpd starts: only servers elsewhere have logins"),
        ("header", "needs no login: it has an `Authorization` header"),
    ] {
        for command in ["login", "logout"] {
            let ran = fixture.run(&[command, server]).expect_code(2);
            assert_eq!(ran.stderr, format!("mcpd: {server}: {expected}\n"), "{command}");
        }
    }
}

#[test]
fn login_status_is_shown_without_secrets() {
    let fixture = LoginFixture::new();
    let header = Server::at("header", &fixture.front.url()).line("headers = { authorization = \"Bearer x\" }");
    Setup::with(fixture.front.server()).server(Server::named("program")).server(header).write(&fixture.place);
    let stand = || fixture.run(&["login", "--json"]).expect_code(0).json()["logins"].clone();
    assert_eq!(stand(), json!([{"server": "tracker", "login": "none"}, {"server": "header", "login": "configured"}]));
    fixture.authorization.habits(|habits| habits.scope = Some("read"));
    fixture.log_in().expect_code(0);
    let stands = stand();
    let row = &stands[0];
    assert_eq!((&row["login"], &row["scopes"], &row["renews"]), (&"good".into(), &json!(["read"]), &true.into()));
    assert!(row["expires_in_ms"].as_u64().is_some_and(|ms| (3_500_000..=3_600_000).contains(&ms)), "{row}");
    assert_eq!(row["issuer"], fixture.authorization.http().url(""));
    let shown = fixture.run(&["login"]).expect_code(0);
    let lines: Vec<_> = shown.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(lines[1][..2], ["tracker", "good"], "{shown}");
    let saved_login = fixture.saved_login();
    for secret in ["access_token", "refresh_token"] {
        let secret = saved_login["grant"][secret].as_str().expect("text");
        assert!(!shown.to_string().contains(secret) && !stands.to_string().contains(secret));
    }
}

#[test]
fn logout_deletes_the_login_and_revokes_the_token() {
    let fixture = LoginFixture::new();
    let nobody = fixture.run(&["logout", "tracker"]).expect_code(0);
    assert_eq!(nobody.stdout, "tracker: nobody was logged in\n");
    fixture.log_in().expect_code(0);
    assert_eq!(fixture.authorization.refresh_tokens().len(), 1);
    let ran = fixture.run(&["logout", "tracker"]).expect_code(0);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("tracker: logged out\n", ""));
    assert!(!fixture.file().exists() && fixture.authorization.refresh_tokens().is_empty());

    fixture.authorization.habits(|habits| habits.metadata = json!({"revocation_endpoint": null}));
    fixture.log_in().expect_code(0);
    // It is not configured any more.
    Setup::with(Server::named("other")).write(&fixture.place);
    let ran = fixture.run(&["logout", "tracker"]).expect_code(0);
    assert!(ran.stderr.contains("forgotten here only") && !fixture.file().exists(), "{ran}");
    fixture.run(&["logout", "tracker"]).expect_code(2);
}

#[test]
fn client_authentication_uses_the_method_that_the_authorization_server_supports() {
    for methods in [vec!["client_secret_basic"], vec!["client_secret_post"], vec!["client_secret_basic", "none"]] {
        let fixture = LoginFixture::new();
        // The one that is given to who registers is the one that was asked for.
        fixture.authorization.habits(|habits| habits.methods.clone_from(&methods));
        let ran = fixture.log_in();
        let token_requests =
            fixture.authorization.http().wait_request("it registers", |request| request.path == "/register");
        let wished = token_requests.json()["token_endpoint_auth_method"].clone();
        assert_eq!(wished, if methods.contains(&"none") { "none" } else { methods[0] });
        ran.expect_code(0);
        assert_eq!(fixture.saved_login()["grant"]["registration"]["method"], methods[0]);
    }
}

#[test]
fn offline_access_is_requested_if_the_server_offers_it() {
    let fixture = LoginFixture::new();
    fixture.authorization.habits(|habits| {
        habits.resource = Some(json!({"scopes_supported": ["issues"]}));
        habits.metadata = json!({"scopes_supported": ["issues", "offline_access"]});
    });
    let attempt = fixture.begin(&["--no-browser"]);
    let page = url::Url::parse(&attempt.page()).expect("a URL");
    let token_requests: std::collections::BTreeMap<_, _> = page.query_pairs().into_owned().collect();
    assert_eq!((&*token_requests["scope"], &*token_requests["prompt"]), ("issues offline_access", "consent"));
    assert_eq!(token_requests["resource"], fixture.front.url());
    visit(page.as_str());
    attempt.end().expect_code(0);
}

/// A port that is free now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

#[test]
fn configured_client_id_replaces_registration() {
    for method in ["client_secret_basic", "client_secret_post"] {
        let fixture = LoginFixture::new();
        let port = free_port();
        let terms = format!(
            "oauth = {{ client_id = \"by hand\", client_secret = \"hand's secret\", scopes = [\"mine\"], redirect_port = {port} }}"
        );
        Setup::with(fixture.front.server().line(terms)).write(&fixture.place);
        fixture.authorization.knows("by hand", "hand's secret", method);
        fixture.authorization.habits(|habits| {
            habits.methods = vec![method];
            habits.metadata = json!({"registration_endpoint": null});
            habits.scope = Some("theirs");
        });
        let attempt = fixture.begin(&["--no-browser"]);
        assert_eq!(attempt.redirect().as_str(), format!("http://127.0.0.1:{port}/callback"));
        visit(&attempt.page());
        let ran = attempt.end().expect_code(0);
        assert!(ran.stdout.ends_with("tracker: logged in, for mine\n"), "{ran}");
        let saved_login = fs::read_to_string(fixture.file()).expect("kept");
        assert!(
            saved_login.contains("by hand") && !saved_login.contains("hand's secret"),
            "it is configured, not kept: {saved_login}"
        );
        // Who renews and who logs out shows it again.
        fixture.run(&["logout", "tracker"]).expect_code(0);
        assert!(fixture.authorization.refresh_tokens().is_empty());
    }
}

#[test]
fn client_id_metadata_document_is_used_as_client_id_if_supported() {
    const DOCUMENT: &str = "https://me.example/mcpd.json";
    for (can_be_read, expected) in [(true, Some(DOCUMENT)), (false, None)] {
        let fixture = LoginFixture::new();
        let terms = format!("oauth = {{ client_id = \"{DOCUMENT}\" }}");
        Setup::with(fixture.front.server().line(terms)).write(&fixture.place);
        fixture.authorization.knows(DOCUMENT, "", "none");
        fixture.authorization.habits(|habits| {
            habits.metadata = json!({"client_id_metadata_document_supported": can_be_read});
        });
        fixture.log_in().expect_code(0);
        let registered = fixture.authorization.http().count(|request| request.path == "/register");
        assert_eq!(registered, usize::from(!can_be_read));
        let known_as = fixture.saved_login()["grant"]["registration"]["id"].clone();
        assert_eq!(known_as == DOCUMENT, expected.is_some(), "{known_as}");
    }
}

#[test]
fn port_in_use_is_reported() {
    let fixture = LoginFixture::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it is bound").port();
    Setup::with(fixture.front.server().line(format!("oauth = {{ redirect_port = {port} }}"))).write(&fixture.place);
    let ran = fixture.begin(&["--no-browser"]).end().expect_code(1);
    assert!(ran.stderr.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{ran}");
}
