//! A question about an object that somebody outside has to answer before an interpreter can.
//!
//! In: who is asked, and what. Out: the question as data: whoever may call out sends its body and keeps the answer under its digest.

use crate::Operation;

/// The digest by which an answer is found again.
pub type Digest = [u8; 32];

/// One question. Two of the same digest have the same answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who is asked: the webhook, as `CONFIGURATION/NAME`.
    pub whom: String,
    /// The digest of the webhook's own content, as it was when it was asked.
    pub webhook_digest: Digest,
    /// What is asked.
    pub operation: Operation,
    /// Group and version of the object that it is about.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, empty for cluster-scoped ones.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Of all that decides about the answer.
    pub digest: Digest,
    /// What is sent.
    pub body: Vec<u8>,
}
