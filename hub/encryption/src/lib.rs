//! What values are on the disk: encrypted as a file says, in the forms that kube-apiserver stores.
//!
//! In: an EncryptionConfiguration, a resource, a storage key and a value; randomness from outside. Out: the bytes to store, or the
//! value and whether it is to be written anew. The parts: [`configuration`] reads and validates the file and says which providers a
//! resource has; [`symmetric`] has the ciphers with keys of the file, [`envelope`] those under a key of a key management service,
//! which is reached by [`kms`]; [`at_rest`] puts them together. Nothing here knows HTTP or how values are kept.
//!
//! What is promised: the first provider of a resource writes, every provider reads; a value that none can read is an error that names
//! the provider and its key, never an empty value; keys are wiped from memory when they are let go, and are in no text.

mod at_rest;
mod configuration;
mod envelope;
mod failure;
mod kms;
mod symmetric;

/// The generated messages and calls of a key management service.
#[allow(missing_docs, clippy::pedantic, unused_qualifications)]
pub mod v2 {
    tonic::include_proto!("v2");
}

pub use at_rest::{Decrypted, EncryptionProviders, Trouble};
pub use configuration::{Configuration, Invalid};
pub use failure::Failure;
pub use symmetric::Random;
