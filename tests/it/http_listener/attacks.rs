//! Hostile HTTP: smuggled requests, forged sessions, floods and slow senders.

use serde_json::json;

use super::{GUEST, start, with_guests};
use crate::support::http_agent::{GET, HttpAgent, POST, request};
use crate::support::{Agent, Server, Setup, arguments, connect_as, until};

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n";

#[test]
fn smuggled_requests_are_refused() {
    let daemon = start();
    let smuggled = "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let body = request(1, "ping", &json!({})).to_string();
    let length = body.len();
    for (what, request) in [
        ("two lengths", format!("{POST}Content-Length: {length}\r\nContent-Length: {}\r\n\r\n{body}", length + 1)),
        ("two lengths in one header", format!("{POST}Content-Length: {length}, 3\r\n\r\n{body}")),
        ("length with a sign", format!("{POST}Content-Length: +{length}\r\n\r\n{body}")),
        ("unknown coding", format!("{POST}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{smuggled}")),
        (
            "chunked is not the last coding",
            format!("{POST}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n{smuggled}"),
        ),
        ("folded header", format!("{POST}X-A: b\r\n Content-Length: {length}\r\n\r\n{body}")),
        ("space before the colon", format!("{POST}Content-Length : {length}\r\n\r\n{body}")),
        ("bad chunk size", format!("{POST}Transfer-Encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n{smuggled}")),
        ("overflowing chunk size", format!("{POST}Transfer-Encoding: chunked\r\n\r\n{}1\r\n{body}", "f".repeat(32))),
        ("bare line feed in a header", format!("{POST}X-A: b\nContent-Length: {length}\r\n\rX\n{body}")),
        ("NUL in a header", format!("{POST}X-A: \0\r\n\r\n")),
        ("NUL in the name of a header", format!("{POST}X\0: a\r\nContent-Length: {length}\r\n\r\n{body}")),
        ("bare carriage return in a header", format!("{POST}X-A: b\rContent-Length: {length}\r\n\r\n{body}")),
        ("header without a name", format!("{POST}: x\r\nContent-Length: {length}\r\n\r\n{body}")),
        ("length in hexadecimal", format!("{POST}Content-Length: 0x{length:x}\r\n\r\n{body}")),
        ("negative length", format!("{POST}Content-Length: -1\r\n\r\n{body}")),
        ("overflowing length", format!("{POST}Content-Length: 18446744073709551617\r\n\r\n{body}")),
        ("chunk longer than its size", format!("{POST}{CHUNKED}1\r\n{body}\r\n0\r\n\r\n{smuggled}")),
        ("bare line feed after a chunk size", format!("{POST}{CHUNKED}{length:x}\n{body}\r\n0\r\n\r\n{smuggled}")),
        ("bare line feed in a chunk extension", format!("{POST}{CHUNKED}{length:x};a\nb\r\n{body}\r\n0\r\n\r\n")),
        ("chunk size with a sign", format!("{POST}{CHUNKED}+{length:x}\r\n{body}\r\n0\r\n\r\n{smuggled}")),
    ] {
        let mut http = HttpAgent::connect(&daemon);
        http.write(format!("POST /mcp HTTP/1.1\r\n{request}"));
        let mut replies = 0;
        while let Some(reply) = http.try_reply() {
            assert!(matches!(reply.status, 400 | 404 | 406 | 411), "{what}: {reply:?}");
            replies += 1;
            if reply.header("connection") == Some("close") {
                break;
            }
            // The rest of the input is no second request.
            http = HttpAgent::connect(&daemon);
            http.write("QUIT\r\n\r\n");
        }
        assert!(replies > 0, "{what}");
    }
    HttpAgent::connect(&daemon).initialize("/mcp");
}

#[test]
fn targets_and_versions_that_lead_elsewhere_are_refused() {
    let daemon = start();
    let rows = [
        ("GET http://localhost/healthz HTTP/1.1", 200),
        ("GET http://evil.example.com/healthz HTTP/1.1", 403),
        ("GET http://localhost@evil.example.com/healthz HTTP/1.1", 403),
        ("GET http://evil.example.com@localhost/healthz HTTP/1.1", 403),
        ("GET //evil.example.com/healthz HTTP/1.1", 404),
        ("GET /servers/../healthz HTTP/1.1", 404),
        ("GET /%68ealthz HTTP/1.1", 404),
        ("GET /healthz#x HTTP/1.1", 200),
        ("GET /healthz HTTP/1.0", 200),
        ("CONNECT localhost:80 HTTP/1.1", 404),
        ("CONNECT evil.example.com:80 HTTP/1.1", 403),
        ("OPTIONS * HTTP/1.1", 404),
        ("GET healthz HTTP/1.1", 403),
        ("GET /healthz HTTP/2.0", 400),
        ("GET /healthz HTTP/1.1 x", 400),
        ("GET  /healthz HTTP/1.1", 400),
        ("GET /health\0z HTTP/1.1", 400),
        ("GET /healthz", 400),
        ("PRI * HTTP/2.0", 400),
    ];
    let found = rows.map(|(line, _)| {
        let mut http = HttpAgent::connect(&daemon);
        http.write(format!("{line}\r\nHost: localhost\r\n\r\n"));
        (line, http.reply().status)
    });
    assert_eq!(found, rows);
}

#[test]
fn hosts_of_other_machines_are_refused() {
    let daemon = start();
    for (expected, hosts) in [
        (200, &["localhost", "LocalHost:1", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:80", ""][..]),
        (
            403,
            &[
                "localhost.",
                "localhost.evil.example.com",
                "evil-localhost",
                "localhost:80@evil.example.com",
                "localhost@evil.example.com",
                "evil.example.com#localhost",
                "localhost, evil.example.com",
                "localhost:80:evil",
                "127.0.0.1.",
                "127.0.0.1.nip.io",
                "127.1",
                "0x7f000001",
                "2130706433",
                "0.0.0.0",
                "127.0.0.2",
                "[::]",
                "::1",
                "[::1].evil.example.com",
                "[::1%25lo]",
                "[::ffff:127.0.0.1]",
                "[::ffff:7f00:1]",
            ],
        ),
    ] {
        for host in hosts {
            let mut http = HttpAgent::connect(&daemon);
            assert_eq!(http.request("GET /healthz", &format!("Host: {host}\r\n")).status, expected, "{host:?}");
        }
    }
}

#[test]
fn origins_of_other_pages_are_refused() {
    let daemon = start();
    for (expected, origins) in [
        (200, &["http://localhost:7"][..]),
        (
            403,
            &[
                "",
                "null",
                "http://localhost",
                "http://localhost:8",
                "https://localhost:7",
                "http://127.0.0.1:7",
                "http://localhost:7/",
                "http://localhost:7@evil.example.com",
                "http://user@localhost:7",
                "http://localhost:7.evil.example.com",
                "http://localhost.:7",
                "http://localhost:7 http://evil.example.com",
                "file://",
                "chrome-extension://localhost:7",
                "localhost:7",
            ],
        ),
    ] {
        for origin in origins {
            let mut http = HttpAgent::connect(&daemon);
            let headers = format!("Host: localhost:7\r\nOrigin: {origin}\r\n");
            assert_eq!(http.request("GET /healthz", &headers).status, expected, "{origin:?}");
        }
    }
}

#[test]
fn requests_in_a_body_are_no_requests() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let session = http.initialize("/mcp");
    let hidden = format!("DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n{session}\r\n");
    let post = format!("POST /mcp HTTP/1.1\r\n{POST}{session}");
    let (size, ping) = (hidden.len(), request(1, "ping", &json!({})).to_string());
    let length = ping.len();
    for (what, expected, request) in [
        ("in a body", 400, format!("{post}Content-Length: {size}\r\n\r\n{hidden}")),
        ("in a chunk", 400, format!("{post}{CHUNKED}{size:x}\r\n{hidden}\r\n0\r\n\r\n")),
        ("with the body of GET", 200, format!("GET /healthz HTTP/1.1\r\n{GET}Content-Length: {size}\r\n\r\n{hidden}")),
        ("in a chunk extension", 200, format!("{post}{CHUNKED}{length:x};DELETE=\"/mcp\"\r\n{ping}\r\n0\r\n\r\n")),
        ("in a trailer", 200, format!("{post}{CHUNKED}{length:x}\r\n{ping}\r\n0\r\nContent-Length: 0\r\n\r\n")),
        ("after bare line feeds", 200, format!("{post}Content-Length: {length}\r\n\n{ping}")),
    ] {
        let mut http = HttpAgent::connect(&daemon);
        http.write(request);
        assert_eq!(http.reply().status, expected, "{what}");
        // At most this request is answered.
        http.try_write("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(http.try_reply().is_none_or(|reply| reply.body.contains("ok")), "{what}");
        assert!(http.try_reply().is_none(), "{what}");
    }
    assert_eq!(http.post("/mcp", &format!("{POST}{session}"), &request(2, "ping", &json!({}))).status, 200);
}

#[test]
fn both_length_and_coding_do_not_hide_a_request() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let session = http.initialize("/mcp");
    let body = request(1, "ping", &json!({})).to_string();
    let hidden = format!("DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n{session}\r\n");
    let both = format!("{POST}{session}Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n", body.len() + 11);
    http.write(format!("POST /mcp HTTP/1.1\r\n{both}{:x}\r\n{body}\r\n0\r\n\r\n{hidden}", body.len()));
    let first = http.reply();
    // The coding counts, and the connection ends with the response (RFC 9112, 6.3).
    assert_eq!(first.message()["result"], json!({}));
    assert!(http.try_reply().is_none());
    let ping = request(2, "ping", &json!({}));
    assert_eq!(HttpAgent::connect(&daemon).post("/mcp", &format!("{POST}{session}"), &ping).status, 200);
}

#[test]
fn long_chunk_extensions_and_header_floods_end_the_connection() {
    let daemon = start();
    let extension = "x".repeat(64 << 10);
    let mut http = HttpAgent::connect(&daemon);
    http.write(format!("POST /mcp HTTP/1.1\r\n{POST}Transfer-Encoding: chunked\r\n\r\n"));
    http.try_write(format!("1;{extension}\r\n "));
    assert_eq!(http.try_reply().map(|reply| reply.status), Some(400));
    for (what, headers) in [
        ("many", "X-Header: y\r\n".repeat(1000)),
        ("large", format!("X-Header: {}\r\n", "y".repeat(1 << 20))),
        ("endless", "x".repeat(1 << 20)),
    ] {
        let mut http = HttpAgent::connect(&daemon);
        http.try_write(format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"));
        let status = http.try_reply().map(|reply| reply.status);
        assert!(matches!(status, None | Some(400 | 431)), "{what}: {status:?}");
    }
    HttpAgent::connect(&daemon).initialize("/mcp");
}

#[test]
fn slow_senders_are_disconnected() {
    let daemon = Setup::with(Server::named("s")).line_timeout(200).start();
    let mut head = HttpAgent::connect(&daemon);
    head.write("POST /mcp HTTP/1.1\r\nHost: loc");
    assert!(head.try_reply().is_none_or(|reply| reply.status == 408));
    // Single bytes do not extend the time for all headers.
    let (mut dribbled, mut agent) = (HttpAgent::connect(&daemon), Agent::ready(&daemon));
    dribbled.write("POST /mcp HTTP/1.1\r\nHost: loc");
    until("it is disconnected", || {
        arguments(&agent.call("s__echo", &json!({})));
        (!dribbled.try_write("x")).then_some(())
    });
    let mut body = HttpAgent::connect(&daemon);
    body.write(format!("POST /mcp HTTP/1.1\r\n{POST}Content-Length: 100\r\n\r\n{{"));
    assert_eq!(body.reply().error(), (408, -32600));
    assert!(body.try_reply().is_none(), "the connection is closed");
    let mut idle = HttpAgent::connect(&daemon);
    idle.initialize("/mcp");
    assert!(idle.try_reply().is_none(), "so is one without requests");
}

#[test]
fn forged_and_replayed_session_ids_are_unknown() {
    let daemon = Setup::with(Server::named("s")).head("[profiles.other]\nservers = ['s']").start();
    let mut http = HttpAgent::connect(&daemon);
    let session = http.initialize("/mcp");
    let ping = request(1, "ping", &json!({}));
    let id = session.split("\r\n").next().expect("a header").split(": ").nth(1).expect("a value").to_owned();
    assert!(id.len() >= 43 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
    let mut other = HttpAgent::connect_to(&daemon.place().runtime_dir().join("other.sock"));
    assert_eq!(other.post("/mcp", &format!("{POST}{session}"), &ping).error(), (404, -32600), "of another profile");
    for path in ["/servers/s", "/servers/nope", "/"] {
        assert_eq!(http.post(path, &format!("{POST}{session}"), &ping).error(), (404, -32600), "at {path}");
    }
    for forged in
        [String::new(), id.to_lowercase(), format!("{id}x"), id[1..].to_owned(), "x".repeat(32 << 10), "*".to_owned()]
    {
        let headers = format!("{POST}{}", session.replace(&id, &forged));
        assert_eq!(http.post("/mcp", &headers, &ping).error(), (404, -32600), "{forged}");
    }
    assert_eq!(http.request("DELETE /mcp", &format!("{GET}{session}")).status, 204);
    assert_eq!(http.post("/mcp", &format!("{POST}{session}"), &ping).error(), (404, -32600), "it was replayed");
}

#[test]
fn session_of_another_user_is_unknown() {
    let Some((_daemon, socket)) = with_guests() else { return };
    let mut own = HttpAgent::connect_to(&socket);
    let mut guest = HttpAgent::from_stream(connect_as(GUEST, &socket).expect("the mode lets it"));
    let (of_own, of_guest) = (own.initialize("/mcp"), guest.initialize("/mcp"));
    let ping = request(1, "ping", &json!({}));
    for (http, foreign) in [(&mut own, &of_guest), (&mut guest, &of_own)] {
        assert_eq!(http.post("/mcp", &format!("{POST}{foreign}"), &ping).error(), (404, -32600));
        for method in ["GET", "DELETE"] {
            assert_eq!(http.request(&format!("{method} /mcp"), &format!("{GET}{foreign}")).error(), (404, -32600));
        }
    }
    for (http, session) in [(&mut own, &of_own), (&mut guest, &of_guest)] {
        assert_eq!(http.post("/mcp", &format!("{POST}{session}"), &ping).message()["result"], json!({}));
    }
}
