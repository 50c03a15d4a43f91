//! How long a line that was begun is waited for.

use std::io;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::alarm::Alarm;

/// With a peer that is silent amid a line. Nothing is set for a line whose rest is there to be read.
#[derive(Debug, Default)]
pub(super) struct Patience {
    limit: Option<Duration>,
    /// Set while nothing comes.
    alarm: Option<Alarm>,
}

impl Patience {
    /// Lets a peer be silent for `limit` at most.
    pub(super) fn of(limit: Duration) -> Self {
        Self { limit: Some(limit), alarm: None }
    }

    /// Reads more of a line. May be cancelled without loss: the time goes on.
    pub(super) async fn read<R: AsyncRead + Unpin>(
        &mut self,
        stream: &mut R,
        buffer: &mut BytesMut,
    ) -> io::Result<usize> {
        let read = match stream.read_buf(buffer).now_or_never() {
            Some(read) => read,
            None => self.wait(stream, buffer).await,
        };
        self.alarm = None;
        read
    }

    async fn wait<R: AsyncRead + Unpin>(&mut self, stream: &mut R, buffer: &mut BytesMut) -> io::Result<usize> {
        if let (Some(limit), None) = (self.limit, &self.alarm)
            // Without a free descriptor it is waited for without end.
            && let Ok(mut alarm) = Alarm::new()
        {
            alarm.set(Some(Instant::now() + limit));
            self.alarm = Some(alarm);
        }
        let Some(alarm) = &self.alarm else { return stream.read_buf(buffer).await };
        tokio::select! {
            // What has come meanwhile counts, however late it is looked at.
            biased;
            read = stream.read_buf(buffer) => read,
            () = alarm.rings() => Err(io::Error::new(io::ErrorKind::TimedOut, "a line was begun and not gone on with")),
        }
    }
}
