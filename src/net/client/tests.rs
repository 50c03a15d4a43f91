//! Trust and address rules of the clients.

use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use url::Url;

use super::address_policy::AddressPolicy;
use super::*;

fn remote(url: &str, ca_file: Option<&Path>) -> Remote {
    Remote { url: url.to_owned(), ca_file: ca_file.map(Path::to_owned), ..Remote::default() }
}

fn addresses(configured: &str) -> AddressPolicy {
    AddressPolicy::new(&url(configured), Dns::default(), Arc::new(Proxies::of_environment()))
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[tokio::test]
async fn server_without_tls_loads_no_certificates() {
    let clients = Clients::default();
    let client = clients.get(&remote("http://127.0.0.1:9/mcp", None)).await.unwrap();
    client.check_supplied(&url("http://127.0.0.1/")).await.unwrap();
    assert!(!clients.roots.is_ready());
}

#[tokio::test]
async fn unusable_ca_file_fails_its_server_with_the_reason() {
    let uri = tempfile::tempdir().unwrap();
    for (content, expected) in [
        (None, "cannot read its `ca_file` /"),
        (Some(""), "holds no certificate in PEM"),
        (Some("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), "holds no certificate in PEM"),
        (Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "that cannot be read"),
        (Some("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"), "that cannot be read"),
    ] {
        let path = uri.path().join("ca.pem");
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        for scheme in ["http", "https"] {
            let reason = Clients::default().get(&remote(&format!("{scheme}://a/"), Some(&path))).await.unwrap_err();
            assert!(reason.to_string().contains(expected), "{content:?}: {reason}");
            assert_eq!(reason.code(), "ca_file");
        }
    }
    assert!(Clients::default().get(&remote("https://[", None)).await.unwrap_err().to_string().contains("is no URL"));
}

#[tokio::test]
async fn public_server_cannot_name_private_addresses() {
    let public = ["https://1.1.1.1/mcp", "https://[2606:4700::1111]/", "https://no-such-host.invalid/"];
    let private = ["http://127.0.0.1/mcp", "http://[::1]/", "http://localhost/", "http://10.1.2.3/"];
    for (supplied, from_public) in [
        ("http://1.1.1.1/", true),
        ("http://example.org:8080/x", true),
        ("http://127.0.0.1/", false),
        ("http://0x7f.1/", false),
        ("http://[::1]/", false),
        ("http://[::ffff:10.0.0.1]/", false),
        ("http://169.254.169.254/latest", false),
        ("http://localhost./", false),
        ("http://a.LOCALHOST/", false),
    ] {
        for (configured, expected) in public.map(|c| (c, from_public)).into_iter().chain(private.map(|c| (c, true))) {
            let checked = addresses(configured).check(&url(supplied)).await;
            assert_eq!(checked.is_ok(), expected, "{configured} -> {supplied}: {checked:?}");
        }
    }
    for unfit in ["file:///etc/passwd", "ftp://1.1.1.1/", "http://user@1.1.1.1/", "http://:pw@1.1.1.1/"] {
        assert!(addresses(private[0]).check(&url(unfit)).await.is_err(), "{unfit}");
    }
}

#[tokio::test]
async fn resolved_names_follow_the_same_rule() {
    for (configured, expected) in
        [("https://1.1.1.1/", false), ("http://127.0.0.1/", true), ("http://localhost/", true)]
    {
        let resolver = Resolver::Checked(Arc::new(addresses(configured)));
        let found = resolver.look_up("localhost".to_owned()).await;
        assert_eq!(found.is_ok_and(|found| !found.is_empty()), expected, "{configured}");
    }
}

#[tokio::test]
async fn host_that_was_public_never_becomes_private() {
    let here = ["127.0.0.1:0".parse().unwrap()];
    let mixed = ["127.0.0.1:0".parse().unwrap(), "1.1.1.1:0".parse().unwrap()];
    for (seen, is_public) in
        [(&[&here[..]][..], false), (&[&mixed], true), (&[&here, &mixed], true), (&[&mixed, &here], true)]
    {
        let addresses = addresses("http://host.example/mcp");
        seen.iter().for_each(|found| addresses.record(found));
        assert_eq!(addresses.was_public(), is_public, "{seen:?}");
        let loopback = url("http://127.0.0.1/");
        assert_eq!(addresses.check(&loopback).await.is_ok(), !is_public, "{seen:?}");
        assert_eq!(addresses.check_page(&loopback).await.is_ok(), !is_public, "{seen:?}");
        assert_eq!(addresses.look_up("localhost".to_owned()).await.is_ok(), !is_public, "{seen:?}");
    }
}

#[tokio::test]
async fn login_does_not_connect_to_a_forbidden_address_in_a_url() {
    let client = Clients::default().get(&remote("http://1.1.1.1/mcp", None)).await.unwrap();
    for uri in ["http://127.0.0.1:9/", "http://[::1]:9/", "http://localhost:9/"] {
        let sent = client.login().send(http::Method::GET, &url(uri), http::HeaderMap::new(), bytes::Bytes::new()).await;
        assert!(
            matches!(&sent, Err(SendError::NotSent(why)) if why.to_string().contains("public internet")),
            "{uri}: {sent:?}"
        );
    }
}

/// An empty SETTINGS frame.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// The error of a request on stream 1 at a server that sends this frame and then closes.
async fn failure(frame: &[u8]) -> h2::Error {
    let (ours, mut theirs) = duplex(4096);
    let (mut client, connection) = h2::client::handshake(ours).await.expect("nothing is awaited");
    let connection = tokio::spawn(connection);
    let request = Request::get("https://localhost/").body(()).expect("a request");
    let (response, _) = client.send_request(request, true).expect("the first stream");
    theirs.write_all(&SETTINGS).await.expect("written");
    let mut read = [0; 4096];
    let mut seen = 0;
    // The preface has 24 bytes and is followed by SETTINGS; HEADERS are of type 1.
    while !has_headers(&read[..seen]) {
        seen += theirs.read(&mut read[seen..]).await.expect("more");
    }
    theirs.write_all(frame).await.expect("written");
    drop(theirs);
    let failure = response.await.expect_err("no response");
    let _ = connection.await;
    failure
}

fn has_headers(bytes: &[u8]) -> bool {
    let mut frames = bytes.get(24..).unwrap_or_default();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = frames {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        if *kind == 1 {
            return rest.len() >= length;
        }
        frames = rest.get(length..).unwrap_or_default();
    }
    false
}

#[tokio::test]
async fn request_is_unprocessed_only_if_http_2_states_it_for_its_stream() {
    let reset = |code: u8| [&[0, 0, 4, 3, 0, 0, 0, 0, 1][..], &[0, 0, 0, code]].concat();
    let goes_away = |last: u8, code: u8| [&[0, 0, 8, 7, 0, 0, 0, 0, 0][..], &[0, 0, 0, last, 0, 0, 0, code]].concat();
    for (what, frame, expected) in [
        ("REFUSED_STREAM", reset(7), true),
        ("CANCEL", reset(8), false),
        ("INTERNAL_ERROR", reset(2), false),
        ("GOAWAY before the stream", goes_away(0, 0), true),
        ("GOAWAY with an error before the stream", goes_away(0, 11), true),
        ("GOAWAY behind the stream", goes_away(1, 0), false),
        ("GOAWAY with an error behind the stream", goes_away(1, 11), false),
        ("nothing", Vec::new(), false),
    ] {
        let failure = failure(&frame).await;
        assert_eq!(is_unprocessed(&failure), expected, "{what}: {failure:?}");
    }
}
