//! The port for resources that are not stored: whoever knows their objects answers for them.
//!
//! In: who asks, and for what; they may, that was decided before. Out: objects as a stored resource's would be read, which then pass the same
//! pages, selectors, tables, encodings and watches; or the answer to an object that was posted. What a provider leaves out is a 405, as its
//! resource does not name that verb.

use std::sync::Arc;

use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_schema::object::Stored;
use serde_json::Value;

use crate::cache::Collection;
use crate::user::User;

/// What is asked of a virtual resource.
#[derive(Clone, Copy)]
pub struct VirtualRequest<'a> {
    /// The resource, in the version that was asked for.
    pub definition: &'a ResourceDefinition,
    /// Who asks.
    pub user: &'a User,
    /// In which namespace; empty for every one, or for none.
    pub namespace: &'a str,
    /// Which object; empty for all.
    pub name: &'a str,
}

/// Whoever provides a resource that is not stored.
#[async_trait::async_trait]
pub trait VirtualResource: Send + Sync {
    /// How many objects a list reads, about: what it costs in seats.
    fn count(&self) -> usize {
        0
    }

    /// One object by its name.
    ///
    /// # Errors
    /// There is none, or the provider says why not; 405 where it leaves this out.
    async fn get(&self, _: &VirtualRequest<'_>) -> Result<Arc<Stored>, Status> {
        Err(Status::method_not_allowed())
    }

    /// All objects in the namespace, and more where that is simpler: what is outside of it is not shown.
    ///
    /// # Errors
    /// The provider says why not; 405 where it leaves this out.
    async fn list(&self, _: &VirtualRequest<'_>) -> Result<Collection, Status> {
        Err(Status::method_not_allowed())
    }

    /// The objects of which changes are told.
    ///
    /// # Errors
    /// The provider says why not; 405 where it leaves this out.
    async fn watch(&self, _: &VirtualRequest<'_>) -> Result<Collection, Status> {
        Err(Status::method_not_allowed())
    }

    /// The answer to an object that was posted. Nothing is kept of it here.
    ///
    /// # Errors
    /// The provider says why not; 405 where it leaves this out.
    async fn create(&self, _: &VirtualRequest<'_>, _: Value) -> Result<Value, Status> {
        Err(Status::method_not_allowed())
    }
}
