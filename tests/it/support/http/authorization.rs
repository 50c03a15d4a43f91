//! An OAuth authorization server, and an MCP server that accepts its tokens.
//!
//! It refuses malformed requests, which fails the tests that do not expect a refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use super::locked::Lock;
use super::message::{Request, Response};
use super::server::HttpServer;
use crate::support::wait::until;

/// Its configurable behaviour.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    /// Lifetime of a token in seconds, as announced.
    pub(crate) expires_in: Option<u64>,
    /// Issues refresh tokens, a new one each time.
    pub(crate) renews: bool,
    /// Answers refresh and client credentials requests with this status and body.
    pub(crate) refuses_to_renew: Option<(u16, &'static str)>,
    /// Loses its answer to the first refresh request. The value says whether the refresh token stays good for another one.
    pub(crate) loses_renewal: Option<bool>,
    /// The person refuses.
    pub(crate) denies: bool,
    /// Client authentication methods. Registered clients get the first one.
    pub(crate) methods: Vec<&'static str>,
    /// Changed members of its metadata; null removes a member.
    pub(crate) metadata: Value,
    /// Changed parameters of the redirect to the client.
    pub(crate) answer: Value,
    /// Changed members of the MCP server's metadata; `None`: no metadata.
    pub(crate) resource: Option<Value>,
    /// The scopes that the MCP server requires.
    pub(crate) scope: Option<&'static str>,
    /// Whether responses name the metadata URL.
    pub(crate) names_metadata: bool,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            expires_in: Some(3600),
            renews: true,
            refuses_to_renew: None,
            loses_renewal: None,
            denies: false,
            methods: vec!["none"],
            metadata: json!({}),
            answer: json!({}),
            resource: Some(json!({})),
            scope: None,
            names_metadata: true,
        }
    }
}

/// The authorization server.
pub(crate) struct Authorization {
    http: HttpServer,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    habits: Lock<Habits>,
    grants: Lock<Grants>,
    /// Whether token responses are delayed.
    holds: AtomicBool,
}

/// Issued tokens.
#[derive(Default)]
struct Grants {
    count: usize,
    /// The authorization request of each code.
    codes: BTreeMap<String, BTreeMap<String, String>>,
    tokens: BTreeSet<String>,
    refresh_tokens: BTreeSet<String>,
    clients: BTreeMap<String, Value>,
    /// Whether the answer to a refresh request was lost.
    has_lost: bool,
}

impl Authorization {
    pub(crate) fn start() -> Self {
        let state = Arc::new(State::default());
        let http = HttpServer::start({
            let state = Arc::clone(&state);
            move |request| state.answer(request)
        });
        Self { http, state }
    }

    pub(crate) fn http(&self) -> &HttpServer {
        &self.http
    }

    /// Changes the behaviour.
    pub(crate) fn habits(&self, change: impl FnOnce(&mut Habits)) {
        change(&mut self.state.habits.lock());
    }

    /// Adds a client that is known without registration.
    pub(crate) fn knows(&self, id: &str, secret: &str, method: &str) {
        let mut client = json!({"token_endpoint_auth_method": method});
        if !secret.is_empty() {
            client["client_secret"] = secret.into();
        }
        self.state.grants.lock().clients.insert(id.into(), client);
    }

    /// Starts or stops delaying token responses.
    pub(crate) fn hold_tokens(&self, holds: bool) {
        self.state.holds.store(holds, Ordering::SeqCst);
    }

    /// Revokes every access token. Refresh tokens stay valid.
    pub(crate) fn take_tokens_back(&self) {
        self.state.grants.lock().tokens.clear();
    }

    /// Unused refresh tokens.
    pub(crate) fn refresh_tokens(&self) -> Vec<String> {
        self.state.grants.lock().refresh_tokens.iter().cloned().collect()
    }

    /// The number of token requests with this grant type (`authorization_code`, `refresh_token`, `client_credentials`).
    pub(crate) fn request_count(&self, grant: &str) -> usize {
        self.http.count(|request| request.path == "/token" && request.form()["grant_type"] == grant)
    }

    /// Its handler, for a second server under another name.
    pub(crate) fn own(&self) -> impl Fn(&Request) -> Response + Send + Sync + 'static {
        let state = Arc::clone(&self.state);
        move |request| state.answer(request)
    }

    /// A guard for an MCP server at `url`: admits valid tokens, and names the authorization server otherwise.
    pub(crate) fn guard(&self, url: &str) -> impl Fn(&Request) -> Option<Response> + Send + Sync + 'static {
        let (state, issuer) = (Arc::clone(&self.state), self.http.url(""));
        let url = Url::parse(url).expect("a URL");
        move |request| state.let_in(request, &url, &issuer)
    }
}

impl State {
    fn let_in(&self, request: &Request, url: &Url, issuer: &str) -> Option<Response> {
        let habits = self.habits.lock().clone();
        let metadata = format!("/.well-known/oauth-protected-resource{}", url.path());
        if request.path.starts_with("/.well-known/oauth-protected-resource") {
            let resource = habits.resource.filter(|_| request.path == metadata);
            let known = json!({"resource": url.as_str(), "authorization_servers": [issuer]});
            return Some(resource.map_or_else(|| Response::status(404), |other| Response::json(&with(known, &other))));
        }
        if request.path.starts_with("/.well-known/") {
            return Some(Response::status(404));
        }
        let token = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        if token.is_some_and(|token| self.grants.lock().tokens.contains(token)) {
            return None;
        }
        let mut challenge = String::from("Bearer realm=\"test\"");
        if token.is_some() {
            challenge += ", error=\"invalid_token\"";
        }
        if habits.names_metadata && habits.resource.is_some() {
            challenge += &format!(", resource_metadata=\"{}\"", url.join(&metadata).expect("a URL"));
        }
        if let Some(scope) = habits.scope {
            challenge += &format!(", scope=\"{scope}\"");
        }
        Some(Response::status(401).header("www-authenticate", &challenge))
    }

    fn answer(&self, request: &Request) -> Response {
        let habits = self.habits.lock().clone();
        let issuer = format!("http://{}", request.header("host").expect("a host"));
        match (&*request.method, &*request.path) {
            ("GET", "/.well-known/oauth-authorization-server") => Response::json(&metadata(&issuer, &habits)),
            ("GET", "/authorize") => self.authorize(request, &habits),
            ("POST", "/register") => self.register(request, &habits),
            ("POST", "/token") => {
                let answer = self.token(request, &habits).unwrap_or_else(refused);
                until("the test lets it go", || (!self.holds.load(Ordering::SeqCst)).then_some(()));
                answer
            }
            ("POST", "/revoke") => self.revoke(request).unwrap_or_else(refused),
            ("GET", path) if path.starts_with("/.well-known/") => Response::status(404),
            _ => Response::unexpected(),
        }
    }

    fn register(&self, request: &Request, habits: &Habits) -> Response {
        let metadata = request.json();
        let redirect = metadata["redirect_uris"][0].as_str().unwrap_or_default();
        let is_one = redirect.starts_with("http://127.0.0.1:") && metadata["grant_types"][0] == "authorization_code";
        if !is_one {
            return refused("invalid_client_metadata");
        }
        let method = habits.methods[0];
        let mut client = json!({"redirect_uri": redirect, "token_endpoint_auth_method": method});
        if method != "none" {
            client["client_secret"] = "registered secret".into();
        }
        let mut grants = self.grants.lock();
        grants.count += 1;
        let id = format!("client-{}", grants.count);
        grants.clients.insert(id.clone(), client.clone());
        Response::json(&with(client, &json!({"client_id": id}))).with_status(201)
    }

    /// The person agrees or refuses.
    fn authorize(&self, request: &Request, habits: &Habits) -> Response {
        let query = request.query();
        let mut grants = self.grants.lock();
        let is_known = query.get("client_id").is_some_and(|id| grants.clients.contains_key(id));
        let is_whole = ["state", "code_challenge", "redirect_uri"].iter().all(|name| query.contains_key(*name));
        if !is_known || !is_whole || query["code_challenge_method"] != "S256" || query["response_type"] != "code" {
            return Response::body("text/plain", format!("what is asked is not as it must be: {query:?}"))
                .with_status(400);
        }
        grants.count += 1;
        let code = format!("code {}", grants.count);
        let answer = match habits.denies {
            true => json!({"error": "access_denied", "error_description": "not today", "state": query["state"]}),
            false => json!({"code": code, "state": query["state"]}),
        };
        let mut back = Url::parse(&query["redirect_uri"]).expect("a URL");
        for (name, value) in with(answer, &habits.answer).as_object().expect("an object") {
            back.query_pairs_mut().append_pair(name, value.as_str().expect("text"));
        }
        grants.codes.insert(code, query);
        Response::status(302).header("location", back.as_str())
    }

    fn token(&self, request: &Request, habits: &Habits) -> Result<Response, &'static str> {
        let form = request.form();
        let client = self.client(request)?;
        let mut grants = self.grants.lock();
        let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let mut is_lost = false;
        let scope = match field("grant_type") {
            "authorization_code" => {
                let query = grants.codes.remove(field("code")).ok_or("invalid_grant")?;
                let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier")));
                let is_same = query["client_id"] == client && query["code_challenge"] == challenge;
                if !is_same || query["redirect_uri"] != field("redirect_uri") || query["resource"] != field("resource")
                {
                    return Err("invalid_grant");
                }
                query.get("scope").cloned()
            }
            "client_credentials" => {
                if let Some((status, body)) = habits.refuses_to_renew {
                    return Ok(Response::body("application/json", body).with_status(status));
                }
                if grants.clients[&client]["client_secret"].is_null() {
                    return Err("unauthorized_client");
                }
                if field("resource").is_empty() {
                    return Err("invalid_target");
                }
                form.get("scope").cloned()
            }
            "refresh_token" => {
                if let Some((status, body)) = habits.refuses_to_renew {
                    return Ok(Response::body("application/json", body).with_status(status));
                }
                is_lost = habits.loses_renewal.is_some() && !std::mem::replace(&mut grants.has_lost, true);
                let stays_good = is_lost && habits.loses_renewal == Some(true);
                let token = field("refresh_token");
                // A used one is invalid.
                let was_good = grants.refresh_tokens.contains(token);
                grants.refresh_tokens.retain(|other| stays_good || other != token);
                if !was_good || field("resource").is_empty() {
                    return Err("invalid_grant");
                }
                None
            }
            _ => return Err("unsupported_grant_type"),
        };
        grants.count += 1;
        let (token, refresh_token) = (format!("token-{}", grants.count), format!("refresh-{}", grants.count));
        grants.tokens.insert(token.clone());
        let mut answer = json!({"access_token": token, "token_type": "Bearer"});
        if let Some(seconds) = habits.expires_in {
            answer["expires_in"] = seconds.into();
        }
        if habits.renews {
            grants.refresh_tokens.insert(refresh_token.clone());
            answer["refresh_token"] = refresh_token.into();
        }
        if let Some(scope) = scope {
            answer["scope"] = scope.into();
        }
        Ok(if is_lost { Response::disconnect() } else { Response::json(&answer) })
    }

    fn revoke(&self, request: &Request) -> Result<Response, &'static str> {
        self.client(request)?;
        let form = request.form();
        let mut grants = self.grants.lock();
        if grants.refresh_tokens.remove(&form["token"]) {
            grants.tokens.clear();
        }
        grants.tokens.remove(&form["token"]);
        Ok(Response::status(200))
    }

    /// The client, if it authenticated with its method.
    fn client(&self, request: &Request) -> Result<String, &'static str> {
        let form = request.form();
        let basic = request.header("authorization").and_then(|value| value.strip_prefix("Basic "));
        let decoded = basic.and_then(|text| String::from_utf8(STANDARD.decode(text).ok()?).ok());
        let (id, secret, method) = match (&decoded, form.get("client_id"), form.get("client_secret")) {
            (Some(pair), None, None) => {
                let pair = pair.replace(':', "=");
                let (id, secret) =
                    url::form_urlencoded::parse(pair.as_bytes()).into_owned().next().ok_or("invalid_client")?;
                (id, Some(secret), "client_secret_basic")
            }
            (None, Some(id), Some(secret)) => (id.clone(), Some(secret.clone()), "client_secret_post"),
            (None, Some(id), None) => (id.clone(), None, "none"),
            _ => return Err("invalid_client"),
        };
        let grants = self.grants.lock();
        let known = grants.clients.get(&id).ok_or("invalid_client")?;
        let is_it =
            known["client_secret"].as_str() == secret.as_deref() && known["token_endpoint_auth_method"] == method;
        if is_it { Ok(id) } else { Err("invalid_client") }
    }
}

fn metadata(issuer: &str, habits: &Habits) -> Value {
    let known = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "registration_endpoint": format!("{issuer}/register"),
        "revocation_endpoint": format!("{issuer}/revoke"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": habits.methods,
    });
    with(known, &habits.metadata)
}

/// `known` with the members of `other`; null removes a member.
fn with(mut known: Value, other: &Value) -> Value {
    let members = known.as_object_mut().expect("an object");
    for (name, value) in other.as_object().expect("an object") {
        match value {
            Value::Null => drop(members.remove(name)),
            value => drop(members.insert(name.clone(), value.clone())),
        }
    }
    known
}

fn refused(error: &str) -> Response {
    Response::json(&json!({"error": error, "error_description": "the test's authorization server"})).with_status(400)
}

/// Follows redirects like a browser and returns status and text of the last page.
pub(crate) fn visit(url: &str) -> (u16, String) {
    let mut url = Url::parse(url).expect("a URL");
    loop {
        let (status, next, text) = get(&url);
        match next {
            Some(next) => url = next,
            None => return (status, text),
        }
    }
}

/// The redirect target, without following it.
pub(crate) fn sent_on(url: &str) -> Url {
    get(&Url::parse(url).expect("a URL")).1.expect("it is sent on")
}

fn get(url: &Url) -> (u16, Option<Url>, String) {
    let mut stream =
        TcpStream::connect((url.host_str().expect("a host"), url.port().expect("a port"))).expect("it listens");
    let target = &url[url::Position::BeforePath..];
    write!(stream, "GET {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", url.authority()).expect("sent");
    let mut text = String::new();
    let head = read_answer(&mut stream, &mut text);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let is_location = |line: &&str| line.get(..10).is_some_and(|name| name.eq_ignore_ascii_case("location: "));
    let next = head.lines().find(is_location).map(|line| &line[10..]);
    (status, next.map(|next| url.join(next).expect("a URL")), text)
}

/// The head of a response; its body goes to `body`. The test server does not close the connection.
fn read_answer(stream: &mut TcpStream, body: &mut String) -> String {
    let mut all = Vec::new();
    let mut room = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((head, rest)) = text.split_once("\r\n\r\n") {
            let length = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok();
            let length: usize = head.lines().find_map(length).unwrap_or_default();
            if rest.len() >= length {
                body.push_str(rest);
                return head.to_owned();
            }
        }
        let read = stream.read(&mut room).expect("an answer");
        assert!(read > 0, "an answer that ends in its middle: {text}");
        all.extend_from_slice(&room[..read]);
    }
}
