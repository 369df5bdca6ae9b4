//! The door: who asks, whether they may, and the kinds that answer questions about it, behind one handle.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::Value;

use super::{Attributes, Authenticator, Authorizer, Reviews, ServiceAccountTokens, impersonate};
use crate::registry::{Registry, User};
use crate::resource::ResourceDefinition;
use crate::status::Status;

/// Everything that a request passes before it is looked at.
pub struct Access {
    authenticator: Arc<Authenticator>,
    authorizer: Arc<Authorizer>,
    reviews: Reviews,
}

impl Access {
    /// A door over the registry's roles and secrets.
    pub fn new(
        registry: &Arc<Registry>,
        authorizer: Arc<Authorizer>,
        tokens: Arc<dyn ServiceAccountTokens>,
    ) -> Self {
        let authenticator = Arc::new(Authenticator::new(registry.clone(), tokens.clone()));
        let reviews = Reviews::new(registry.clone(), authorizer.clone(), authenticator.clone(), tokens);
        Access { authenticator, authorizer, reviews }
    }

    /// Who asks: the credential's user, or whom it may impersonate. A credential that is not ours is a 401.
    pub fn identify(
        &self,
        headers: &HeaderMap,
        certificate: Option<&User>,
        path: &str,
    ) -> Result<User, Status> {
        let user = self.authenticator.authenticate(headers, certificate)?;
        impersonate(&self.authorizer, user, headers, path)
    }

    /// Whether they may; the error is the 403 to send.
    pub fn allow(&self, user: &User, attributes: &Attributes) -> Result<(), Status> {
        let decision = self.authorizer.authorize(user, attributes);
        if decision.allowed { Ok(()) } else { Err(attributes.forbidden(user, &decision.reason)) }
    }

    /// Answers a review kind, which is asked and forgotten.
    pub fn review(
        &self,
        definition: &ResourceDefinition,
        user: &User,
        namespace: &str,
        object: Value,
    ) -> Result<Value, Status> {
        if !Reviews::answers(definition) {
            return Err(Status::method_not_allowed());
        }
        self.reviews.review(definition, namespace, user, object)
    }

    /// Issues a token for a service account (`serviceaccounts/NAME/token`).
    pub fn token(&self, namespace: &str, name: &str, request: Value) -> Result<Value, Status> {
        self.reviews.token(namespace, name, request)
    }
}
