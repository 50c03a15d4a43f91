//! Pins: which definitions of a server's tools, prompts, templates and instructions the operator has approved.
//!
//! - [`canonical`] writes a definition in one form, [`digest`] identifies it, and [`definition`] keeps what is computed of it.
//! - [`facts`] are the claims and invisible characters of a definition.
//! - [`approval`] decides whether a definition may be exposed. Only [`crate::policy`] calls it.
//! - [`record`] is the text of a pin file, and [`seen`] that of the file beside it. [`crate::pin_files`] reads and writes them.
//!
//! Pure: no I/O and no clock.

pub mod approval;
pub mod canonical;
pub mod definition;
pub mod digest;
pub mod facts;
pub mod kind;
pub mod record;
pub mod seen;

pub use self::approval::Withheld;
pub use self::approval::{Approval, ApprovalRule, Pins, TakenNames};
pub use self::definition::{Definition, Fingerprint};
pub use self::digest::Digest;
pub use self::kind::PinnedKind;
pub use self::record::{PinRecord, PinRecordError};
pub use self::seen::SeenChanges;
