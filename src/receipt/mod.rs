//! What a server that was tried has touched: the trace, the receipt, and the grants that follow from it. Pure.
//!
//! - [`trace`] reads what strace writes, and collects it as [`observed`].
//! - [`touched`] tells the server's own files from others, and [`secrets`] which of those are secrets.
//! - [`warnings`] are about its definitions.
//! - [`report`] is the receipt, and [`grants`] what a kept server may reach.

pub(crate) mod grants;
pub(crate) mod observed;
pub(crate) mod report;
pub(crate) mod secrets;
pub(crate) mod touched;
pub(crate) mod trace;
mod warnings;
