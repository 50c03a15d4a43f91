//! The parts of an agent's `tools/call`, found by range. Pure.

use bytes::Bytes;

use crate::jsonrpc::is_id;
use crate::jsonrpc::members::{members, text};
use crate::moment::Moment;

/// A call that was read and not routed yet. All but a name with escapes are slices of the line.
#[derive(Debug)]
pub struct Asked {
    /// The whole request, without its newline.
    pub line: Bytes,
    /// Raw JSON.
    pub id: Bytes,
    /// The exposed name, raw.
    pub raw_name: Bytes,
    /// The exposed name as text.
    pub name: Bytes,
    /// Raw JSON.
    pub progress_token: Option<Bytes>,
    /// When it was read.
    pub at: Moment,
}

impl Asked {
    /// What the request `line` with this id and these params asks for, read `at` this moment.
    ///
    /// # Errors
    /// What is wrong with its params, for a person.
    pub fn read(line: Bytes, id: &Bytes, params: Option<&Bytes>, at: Moment) -> Result<Self, &'static str> {
        let Some(Ok([name, meta])) = params.map(|params| members(params, ["name", "_meta"])) else {
            return Err("`params` is missing, no object, or says a thing twice");
        };
        let Some((raw_name, name)) = name.and_then(|raw| Some((raw.clone(), text(&raw)?))) else {
            return Err("`name` is missing or not a string");
        };
        let meta = meta.filter(|raw| raw[..] != b"null"[..]).map(|meta| members(&meta, ["progressToken"]));
        let progress_token = match meta {
            None => None,
            Some(Ok([token])) if token.as_ref().is_none_or(|raw| is_id(raw)) => token,
            Some(_) => return Err("`_meta` or its `progressToken` is malformed"),
        };
        Ok(Self { line, id: id.clone(), raw_name, name, progress_token, at })
    }

    /// What the tool is asked with, raw.
    pub(super) fn arguments(&self) -> Option<Bytes> {
        let [params] = members(&self.line, ["params"]).ok()?;
        let [arguments] = members(&params?, ["arguments"]).ok()?;
        arguments
    }
}
