//! What the HTTP library costs by itself, on a runtime of one thread as in mcpd.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use tokio::runtime::Runtime;

use super::server::Answers;
use crate::connection::Request;

pub(crate) struct Library {
    runtime: Runtime,
    client: Client,
    address: SocketAddr,
    fields: HeaderMap,
}

impl Library {
    pub(crate) fn new(address: SocketAddr) -> io::Result<Self> {
        // Fails only if there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = Client::builder().no_proxy().build().map_err(io::Error::other)?;
        let fields = super::FIELDS.map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(io::Error::other)?;
            Ok::<_, io::Error>((name, HeaderValue::from_static(value)))
        });
        Ok(Self { runtime, client, address, fields: fields.into_iter().collect::<Result<_, _>>()? })
    }

    /// Microseconds of each call.
    pub(crate) fn times(&mut self, request: &Request, answers: Answers, calls: usize) -> io::Result<Vec<f64>> {
        let (url, body) = self.prepared(request, answers)?;
        self.runtime.block_on(async {
            let mut times = Vec::with_capacity(calls);
            for _ in 0..calls {
                let start = Instant::now();
                self.post(&url, &body).await?;
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
            Ok(times)
        })
    }

    /// `calls` calls with `window` of them unanswered at any time, and how long all of them took.
    pub(crate) fn in_flight(&mut self, request: &Request, calls: usize, window: usize) -> io::Result<Duration> {
        let (url, body) = self.prepared(request, Answers::Whole)?;
        let left = Cell::new(calls);
        let start = Instant::now();
        self.runtime.block_on(try_join_all((0..window).map(|_| async {
            while let Some(rest) = left.get().checked_sub(1) {
                left.set(rest);
                self.post(&url, &body).await?;
            }
            Ok::<_, io::Error>(())
        })))?;
        Ok(start.elapsed())
    }

    fn prepared(&self, request: &Request, answers: Answers) -> io::Result<(Url, Bytes)> {
        let url = Url::parse(&format!("http://{}/{}", self.address, answers.name())).map_err(io::Error::other)?;
        Ok((url, request.with_id(1).into()))
    }

    async fn post(&self, url: &Url, body: &Bytes) -> io::Result<Bytes> {
        let request = self.client.post(url.clone()).headers(self.fields.clone()).body(body.clone());
        let answer = request.send().await.and_then(reqwest::Response::error_for_status).map_err(io::Error::other)?;
        answer.bytes().await.map_err(io::Error::other)
    }
}
