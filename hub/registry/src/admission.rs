//! Gates and touch-ups between a request and the store, in order: each may change the object or refuse the write.
//!
//! In: an [`AdmissionRequest`]. Out: nothing, a changed object, or a `Status`.

mod certificates;
mod configuration;
mod dispatcher;
mod expressions;
mod limits;
mod namespace;
mod param_authorization;
mod pod_security;
mod pods;
mod policies;
mod quota;
mod request_matching;
mod resizing;
mod review;
mod service_accounts;
pub mod type_check;
mod variables;
mod webhooks;

pub use certificates::{AskedName, CertificateRequests, ReadName};
pub use configuration::DynamicAdmission;
pub use limits::LimitRanger;
pub use namespace::NamespaceLifecycle;
pub(crate) use pod_security::admit as pod_security;
pub use pods::PodDefaults;
pub(crate) use pods::last_look;
pub use pods::system_classes;
pub(crate) use quota::Quotas;
pub(crate) use resizing::admit as resizing;
pub use service_accounts::ServiceAccounts;

use crate::registry_context::RegistryContext;
use crate::request::AdmissionRequest;
use karmada_definitions::status::Status;

/// One gate.
pub trait Admission: Send + Sync {
    /// Judges, and may change, one write.
    ///
    /// # Errors
    /// The refusal: the write does not take place.
    fn admit(&self, context: &RegistryContext, request: &mut AdmissionRequest<'_>) -> Result<(), Status>;

    /// Judges one write once its object keeps the rules of its kind.
    ///
    /// # Errors
    /// The refusal: the write does not take place.
    fn judge(&self, _: &RegistryContext, _: &AdmissionRequest<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Judges what is posted and not stored: to a part of an object, or as a question.
    ///
    /// # Errors
    /// The refusal: what was posted is not answered.
    fn judge_unstored(&self, _: &RegistryContext, _: &AdmissionRequest<'_>) -> Result<(), Status> {
        Ok(())
    }
}

/// Held while a write is under way that others wait for.
pub type WriteGuard = Option<Box<dyn Send + Sync>>;

/// A gate that judges a write against all that is stored: writes that it is about come one after the other, so that no two of them fit into
/// what there is room for once.
#[async_trait::async_trait]
pub trait SerializedAdmission: Send + Sync {
    /// Refuses the write, or lets it through. What comes back is held until the write is done, and seen by whoever judges next. It is asked
    /// last of all, of the object as it will be stored.
    ///
    /// # Errors
    /// The refusal: the write does not take place.
    async fn admit(
        &self,
        context: &RegistryContext,
        request: &AdmissionRequest<'_>,
    ) -> Result<WriteGuard, Status>;
}

/// The gates that every write passes, in their order.
pub(crate) struct AdmissionChain(pub(crate) Vec<Box<dyn Admission>>);

impl AdmissionChain {
    pub(crate) fn admit(
        &self,
        context: &RegistryContext,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        self.0.iter().try_for_each(|gate| gate.admit(context, request))
    }

    pub(crate) fn judge(
        &self,
        context: &RegistryContext,
        request: &AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        self.0.iter().try_for_each(|gate| gate.judge(context, request))
    }

    pub(crate) fn judge_unstored(
        &self,
        context: &RegistryContext,
        request: &AdmissionRequest<'_>,
    ) -> Result<(), Status> {
        self.0.iter().try_for_each(|gate| gate.judge_unstored(context, request))
    }
}
