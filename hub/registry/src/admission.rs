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
pub(crate) use quota::Quotas;
pub(crate) use resizing::admit as resizing;
pub use service_accounts::ServiceAccounts;

use crate::request::AdmissionRequest;
use crate::served::Served;
use karmada_definitions::status::Status;

/// One gate.
pub trait Admission: Send + Sync {
    /// Judges, and may change, one write.
    ///
    /// # Errors
    /// The refusal: the write does not take place.
    fn admit(&self, served: &Served, request: &mut AdmissionRequest<'_>) -> Result<(), Status>;

    /// Judges one write once its object keeps the rules of its kind.
    ///
    /// # Errors
    /// The refusal: the write does not take place.
    fn judge(&self, _: &Served, _: &AdmissionRequest<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Judges what is posted and not stored: to a part of an object, or as a question.
    ///
    /// # Errors
    /// The refusal: what was posted is not answered.
    fn judge_unstored(&self, _: &Served, _: &AdmissionRequest<'_>) -> Result<(), Status> {
        Ok(())
    }
}

/// Held while a write is under way that others wait for.
pub type Held = Option<Box<dyn Send + Sync>>;

/// A gate that judges a write against all that is stored: writes that it is about come one after the other, so that no two of them fit into
/// what there is room for once.
#[async_trait::async_trait]
pub trait InTurn: Send + Sync {
    /// Refuses the write, or lets it through. What comes back is held until the write is done, and seen by whoever judges next. It is asked
    /// last of all, of the object as it will be stored.
    ///
    /// # Errors
    /// The refusal: the write does not take place.
    async fn admit(&self, served: &Served, request: &AdmissionRequest<'_>) -> Result<Held, Status>;
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
