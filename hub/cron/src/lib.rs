//! Schedules in the notation of cron, as Kubernetes and Karmada read it.
//!
//! In: the text of a schedule, the name of a time zone, a moment. Out: what is wrong with them; the next run after that moment, or the last one
//! before it.

mod every;
mod fields;
mod schedule;
mod unreadable;
mod zone;

pub use schedule::Schedule;
pub use unreadable::Unreadable;
pub use zone::{UnknownZone, zone};
