//! Identities against a hub in this process, over real TLS: who joins, who takes a name over, what a certificate still opens when
//! its key was replaced or its time is over, what strangers and holders of a certificate can take, and what a small request can make of the hub.

#![allow(clippy::disallowed_methods, reason = "tests and benches are of this machine's time")]
// Helpers of tests are no tests to the lint.
#![allow(clippy::unwrap_used, missing_docs)]

mod authorities;
mod bare;
mod certificates;
mod growth;
mod holders;
mod joins;
mod links;
mod port;
mod reports;
mod sessions;
mod strangers;
mod taken_over;
mod tunnels;
mod vouching;
mod walk;
mod world;
