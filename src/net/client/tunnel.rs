//! A connection through an HTTP proxy by `CONNECT` (RFC 9110, 9.3.6).

use bytes::Bytes;
use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::answer::cause;
use super::sender::AGENT;
use super::stream::Stream;

/// Asks the proxy at the other end of `stream` for a connection to `place`.
///
/// # Errors
/// What the proxy did instead, for a person, as the rest of a sentence that begins with the name of the proxy.
pub(super) async fn open(stream: Stream, place: &Uri, authorization: Option<&HeaderValue>) -> Result<Stream, String> {
    let request = request(place, authorization).map_err(|error| format!("cannot be asked: {error}"))?;
    let broken = |error: hyper::Error| format!("breaks off: {}", cause(&error));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // It ends with the upgrade, or when the sender is dropped.
    tokio::spawn(connection.with_upgrades());
    let response = sender.send_request(request).await.map_err(broken)?;
    if !response.status().is_success() {
        return Err(format!("answers CONNECT with HTTP {}", response.status()));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(broken)?;
    let parts = upgraded.downcast::<TokioIo<Stream>>().map_err(|_| "cannot be used for a tunnel".to_owned())?;
    // In TLS the client speaks first.
    if parts.read_buf.is_empty() { Ok(parts.io.into_inner()) } else { Err("sends data before it is asked".to_owned()) }
}

fn request(place: &Uri, authorization: Option<&HeaderValue>) -> Result<Request<Empty<Bytes>>, http::Error> {
    let target = format!("{}:{}", place.host().unwrap_or_default(), place.port_u16().unwrap_or(443));
    let mut request = Request::builder().method(Method::CONNECT).uri(&*target).header(HOST, &*target);
    request = request.header(USER_AGENT, AGENT);
    if let Some(authorization) = authorization {
        request = request.header(PROXY_AUTHORIZATION, authorization);
    }
    request.body(Empty::new())
}
