//! Gates and touch-ups between a request and the store, in order: each may change the object or refuse the write.
//!
//! In: an [`AdmissionRequest`]. Out: nothing, a changed object, or a `Status`.

mod karmada;
mod namespace;
mod pods;
mod protection;

pub use karmada::KarmadaPolicies;
pub use namespace::NamespaceLifecycle;
pub use pods::PodDefaults;
pub use protection::DeletionProtection;

use crate::registry::{AdmissionRequest, Registry};
use crate::status::Status;

/// One gate.
pub trait Admission: Send + Sync {
    /// Judges, and may change, one write.
    fn admit(&self, registry: &Registry, request: &mut AdmissionRequest<'_>) -> Result<(), Status>;
}
