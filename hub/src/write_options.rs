//! As whom the hub writes what it lays down and publishes itself.
//!
//! In: nothing. Out: the options of those writes.

use karmada_registry::{Origin, User, WriteOptions};

/// Written as the hub.
pub(crate) fn write_options() -> WriteOptions {
    let user = User { name: "system:karmada:hub".to_owned(), origin: Origin::Hub, ..User::default() };
    WriteOptions { user, field_manager: "karmada-hub".to_owned(), ..WriteOptions::default() }
}
