//! Cost of the HTTP library alone, on a single-threaded runtime as in mcpd.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::runtime::Runtime;

use super::server::Answers;
use crate::connection::Request;

pub(crate) struct Library {
    runtime: Runtime,
    client: Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
    fields: HeaderMap,
}

impl Library {
    pub(crate) fn new(address: SocketAddr) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let fields = super::FIELDS.map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(io::Error::other)?;
            Ok::<_, io::Error>((name, HeaderValue::from_static(value)))
        });
        Ok(Self { runtime, client, address, fields: fields.into_iter().collect::<Result<_, _>>()? })
    }

    /// Microseconds of each call.
    pub(crate) fn times(&mut self, request: &Request, answers: Answers, calls: usize) -> io::Result<Vec<f64>> {
        let (uri, body) = self.prepared(request, answers)?;
        self.runtime.block_on(async {
            let mut times = Vec::with_capacity(calls);
            for _ in 0..calls {
                let start = Instant::now();
                self.post(&uri, &body).await?;
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
            Ok(times)
        })
    }

    /// Makes `calls` calls with `window` in flight and returns the total duration.
    pub(crate) fn in_flight(&mut self, request: &Request, calls: usize, window: usize) -> io::Result<Duration> {
        let (uri, body) = self.prepared(request, Answers::Whole)?;
        let left = Cell::new(calls);
        let start = Instant::now();
        self.runtime.block_on(try_join_all((0..window).map(|_| async {
            while let Some(rest) = left.get().checked_sub(1) {
                left.set(rest);
                self.post(&uri, &body).await?;
            }
            Ok::<_, io::Error>(())
        })))?;
        Ok(start.elapsed())
    }

    fn prepared(&self, request: &Request, answers: Answers) -> io::Result<(Uri, Bytes)> {
        let uri = format!("http://{}/{}", self.address, answers.name()).parse().map_err(io::Error::other)?;
        Ok((uri, request.with_id(1).into()))
    }

    async fn post(&self, uri: &Uri, body: &Bytes) -> io::Result<Bytes> {
        let mut request = http::Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        *request.headers_mut() = self.fields.clone();
        let answer = self.client.request(request).await.map_err(io::Error::other)?;
        if !answer.status().is_success() {
            return Err(io::Error::other(answer.status().to_string()));
        }
        Ok(answer.into_body().collect().await.map_err(io::Error::other)?.to_bytes())
    }
}
