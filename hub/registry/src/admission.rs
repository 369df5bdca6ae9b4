//! Gates and touch-ups between a request and the store, in order: each may change the object or refuse the write.
//!
//! In: an [`AdmissionRequest`]. Out: nothing, a changed object, or a `Status`.

mod certificates;
mod dynamic;
mod expressions;
mod hook;
mod limits;
mod namespace;
mod parameters;
mod pod_security;
mod pods;
mod policies;
mod quota;
mod resizing;
mod review;
mod rules;
mod service_accounts;
mod stages;
pub mod type_check;
mod variables;

pub use certificates::{AskedName, CertificateRequests, ReadName};
pub use dynamic::Dynamic;
pub use limits::LimitRanger;
pub use namespace::NamespaceLifecycle;
pub(crate) use pod_security::admit as pod_security;
pub use pods::PodDefaults;
pub(crate) use pods::last_look;
pub use pods::system_classes;
pub(crate) use quota::{Held, Quotas};
pub(crate) use resizing::admit as resizing;
pub use service_accounts::ServiceAccounts;

use crate::request::AdmissionRequest;
use crate::served::Served;
use karmada_definitions::status::Status;

/// One gate.
pub trait Admission: Send + Sync {
    /// Judges, and may change, one write.
    fn admit(&self, served: &Served, request: &mut AdmissionRequest<'_>) -> Result<(), Status>;

    /// Judges one write once its object keeps the rules of its kind.
    fn judge(&self, _: &Served, _: &AdmissionRequest<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Judges what is posted and not stored: to a part of an object, or as a question.
    fn judge_unstored(&self, _: &Served, _: &AdmissionRequest<'_>) -> Result<(), Status> {
        Ok(())
    }
}

/// The gates that every write passes, in their order.
pub(crate) struct Gates(pub(crate) Vec<Box<dyn Admission>>);

impl Gates {
    pub(crate) fn admit(&self, served: &Served, request: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        self.0.iter().try_for_each(|gate| gate.admit(served, request))
    }

    pub(crate) fn judge(&self, served: &Served, request: &AdmissionRequest<'_>) -> Result<(), Status> {
        self.0.iter().try_for_each(|gate| gate.judge(served, request))
    }

    pub(crate) fn judge_unstored(
        &self,
        served: &Served,
        request: &AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        self.0.iter().try_for_each(|gate| gate.judge_unstored(served, request))
    }
}
