//! Channel of typed messages, one JSON text per line.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio_serde::formats::Json;
use tokio_util::codec::{Decoder, Encoder, Framed};

use super::MAX_MESSAGE;
use crate::jsonrpc::codec::{Line, NdJson};

/// Receives `In` and sends `Out`.
pub(super) type Channel<In, Out> = tokio_serde::Framed<Framed<UnixStream, LineCodec>, In, Out, Json<In, Out>>;

pub(super) fn channel<In, Out>(stream: UnixStream) -> Channel<In, Out>
where
    In: for<'a> Deserialize<'a> + Unpin,
    Out: Serialize + Unpin,
{
    let lines = Framed::new(stream, LineCodec(NdJson::new(MAX_MESSAGE)));
    tokio_serde::Framed::new(lines, Json::default())
}

/// [`NdJson`] with the item types that `tokio_serde` needs.
#[derive(Debug)]
pub(super) struct LineCodec(NdJson);

impl Decoder for LineCodec {
    type Item = BytesMut;
    type Error = io::Error;

    fn decode(&mut self, buffer: &mut BytesMut) -> io::Result<Option<BytesMut>> {
        match self.0.decode(buffer)? {
            Some(Line::Whole(line)) => Ok(Some(BytesMut::from(line))),
            Some(Line::Oversized(_)) => Err(io::Error::other("the message is too large")),
            None => Ok(None),
        }
    }
}

impl Encoder<Bytes> for LineCodec {
    type Error = io::Error;

    fn encode(&mut self, message: Bytes, buffer: &mut BytesMut) -> io::Result<()> {
        buffer.reserve(message.len() + 1);
        buffer.put(message);
        buffer.put_u8(b'\n');
        Ok(())
    }
}
