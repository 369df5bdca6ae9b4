//! Gates and touch-ups between a request and the store, in order: each may change the object or refuse the write.
//!
//! In: an [`AdmissionRequest`]. Out: nothing, a changed object, or a `Status`.

mod certificates;
mod dynamic;
mod expressions;
mod hook;
mod karmada;
mod limits;
mod namespace;
mod pods;
mod policies;
mod protection;
mod quota;
mod review;
mod rules;
mod service_accounts;
pub mod type_check;

pub use certificates::{AskedName, CertificateRequests, ReadName};
pub use dynamic::Dynamic;
pub use karmada::KarmadaPolicies;
pub use limits::LimitRanger;
pub use namespace::NamespaceLifecycle;
pub use pods::PodDefaults;
pub(crate) use pods::{last_look, system_classes};
pub(crate) use policies::Names;
pub use protection::DeletionProtection;
pub(crate) use quota::{Held, Quotas};
pub use service_accounts::ServiceAccounts;

use crate::registry::{AdmissionRequest, Registry};
use crate::status::Status;

/// One gate.
pub trait Admission: Send + Sync {
    /// Judges, and may change, one write.
    fn admit(&self, registry: &Registry, request: &mut AdmissionRequest<'_>) -> Result<(), Status>;
}
