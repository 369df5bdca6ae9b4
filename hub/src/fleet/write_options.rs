//! As whom the registrar, and what keeps agents' identities, write.
//!
//! In: nothing. Out: the options of their writes, which tell an audit log who it was.

use karmada_registry::{Origin, User, WriteOptions};

/// As whom joins, renewals and uses of tokens are written.
pub(super) fn write_options() -> WriteOptions {
    let user = User {
        name: "system:karmada:registrar".to_owned(),
        groups: vec!["system:masters".to_owned()],
        origin: Origin::Hub,
        ..User::default()
    };
    WriteOptions { user, field_manager: "karmada-hub".to_owned(), ..WriteOptions::default() }
}
