//! Hostile HTTP: smuggled requests, forged sessions, floods and slow senders.

use serde_json::json;

use super::start;
use crate::support::http_agent::{GET, HttpAgent, POST, call, request};
use crate::support::{Server, Setup, arguments, connect_as, skipped, until};

const GUEST: u32 = 54_321;

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
    let mut http = HttpAgent::connect(&daemon);
    http.initialize("/mcp");
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
    for forged in [String::new(), id.to_lowercase(), format!("{id}x"), id[1..].to_owned()] {
        let headers = format!("{POST}{}", session.replace(&id, &forged));
        assert_eq!(http.post("/mcp", &headers, &ping).error(), (404, -32600), "{forged}");
    }
    assert_eq!(http.request("DELETE /mcp", &format!("{GET}{session}")).status, 204);
    assert_eq!(http.post("/mcp", &format!("{POST}{session}"), &ping).error(), (404, -32600), "it was replayed");
}

#[test]
fn session_of_another_user_is_unknown() {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can connect as somebody else");
        return;
    }
    let profile = format!("[profiles.guests]\nallow_uids = [{GUEST}]");
    let daemon = Setup::with(Server::named("s")).head(&profile).start();
    let socket = daemon.profile_socket("guests");
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

#[test]
fn many_streams_do_not_disturb_others() {
    let daemon = start();
    let mut http = HttpAgent::connect(&daemon);
    let session = http.initialize("/mcp");
    let mut streams: Vec<_> = (0..300).map(|_| HttpAgent::connect(&daemon)).collect();
    let statuses: Vec<_> =
        streams.iter_mut().map(|one| one.request("GET /mcp", &format!("{GET}{session}")).status).collect();
    let (served, refused) = statuses.split_at(16);
    assert!(served.iter().all(|status| *status == 200) && refused.iter().all(|status| *status == 429), "{statuses:?}");
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let mut listening: Vec<_> = (0..200).map(|_| HttpAgent::connect(&daemon)).collect();
    for one in &mut listening {
        assert_eq!(one.modern("/mcp", 1, "subscriptions/listen", &filter).status, 200);
    }
    let answer = http.post("/mcp", &format!("{POST}{session}"), &call(5, "s__echo", &json!({"x": 1})));
    assert_eq!(arguments(&answer.message()), &json!({"x": 1}));
    drop((streams, listening));
    until("they are gone", || (super::agents(&daemon).len() == 1).then_some(()));
}
