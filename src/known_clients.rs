//! The clients that mcpd knows. `config/clients` has their table; `entry` formats entries for them.

mod entry;

pub(crate) use self::entry::{Program, shell_word};
pub(crate) use crate::config::clients::{CLIENTS, Client};
