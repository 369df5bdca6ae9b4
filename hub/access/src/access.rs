//! Authentication, authorization and the review kinds, behind one handle.
//!
//! In: a request's headers, what its connection proved, its path and attributes. Out: the [`User`], a [`Decision`], an answered review or a
//! token; or a `Status` of 401, 403 and the like. Other issuers are asked for their keys over the network; everything else is in memory.

use std::sync::Arc;

use http::HeaderMap;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_registry::user::ANONYMOUS;
use karmada_registry::{Attributes, Authorize as _, Decision, Registry, User};
use serde_json::{Value, json};

use crate::reviews::user_info;
use crate::{
    Anonymous, Authenticator, Authorizer, FrontProxy, Issuers, ProxyPeer, Reviews, ServiceAccountTokens,
    impersonate,
};

/// Everything that a request passes before it is looked at.
pub struct Access {
    authenticator: Arc<Authenticator>,
    authorizer: Arc<Authorizer>,
    reviews: Reviews,
    tokens: Arc<dyn ServiceAccountTokens>,
    front_proxy: Option<FrontProxy>,
    issuers: Option<Arc<Issuers>>,
    anonymous: Anonymous,
}

/// Who is let in beside holders of the hub's own certificates and tokens.
#[derive(Default)]
pub struct AccessOptions {
    /// The headers of a proxy in front that is believed.
    pub front_proxy: Option<FrontProxy>,
    /// Other issuers whose tokens are believed.
    pub issuers: Option<Arc<Issuers>>,
    /// Where nobody needs a credential.
    pub anonymous: Anonymous,
}

impl Access {
    /// Over the registry's roles and secrets.
    pub fn new(
        registry: &Arc<Registry>,
        authorizer: Arc<Authorizer>,
        tokens: Arc<dyn ServiceAccountTokens>,
    ) -> Self {
        let authenticator = Arc::new(Authenticator::new(registry.clone(), tokens.clone()));
        let reviews =
            Reviews::new(registry.clone(), authorizer.clone(), authenticator.clone(), tokens.clone());
        Access {
            authenticator,
            authorizer,
            reviews,
            tokens,
            front_proxy: None,
            issuers: None,
            anonymous: Anonymous::Everywhere,
        }
    }

    /// The same, with more credentials that it believes, or fewer callers without any.
    #[must_use]
    pub fn with(self, options: AccessOptions) -> Self {
        let AccessOptions { front_proxy, issuers, anonymous } = options;
        Self { front_proxy, issuers, anonymous, ..self }
    }

    /// Whose credential it is. `proxy`: the connection's other end is a proxy whose certificate was verified.
    ///
    /// # Errors
    /// 401: a credential that is not ours, or none where the path takes nobody without one.
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        certificate: Option<&User>,
        proxy: Option<&ProxyPeer>,
        path: &str,
    ) -> Result<User, Status> {
        if let (Some(front_proxy), Some(peer)) = (&self.front_proxy, proxy)
            && let Some(user) = front_proxy.user(peer, headers)?
        {
            return Ok(crate::authenticate::known(user));
        }
        let known = self.authenticator.authenticate(headers, certificate);
        match (known, &self.issuers, crate::authenticate::bearer(headers)) {
            (Err(refused), Some(issuers), Some(token)) => {
                // Told to whoever runs the hub alone: a stranger learns nothing of which issuers are believed.
                let user = issuers.user(token).await.map_err(|why| {
                    tracing::info!(why, "a token of OpenID Connect is refused");
                    refused
                })?;
                Ok(crate::authenticate::known(user))
            }
            // A proxy's certificate without a user's name is a credential that is nobody's, as on kube-apiserver: none is another matter.
            (Ok(user), _, _)
                if user.name == ANONYMOUS
                    && (proxy.is_some() && certificate.is_none() || !self.anonymous.allows(path)) =>
            {
                Err(Status::unauthorized())
            }
            (known, _, _) => known,
        }
    }

    /// Whom the user acts as: who they are, or whom they may impersonate.
    ///
    /// # Errors
    /// 403: they may not; 400: the headers are no text, or name no user beside what else they name.
    pub fn impersonate(&self, user: User, headers: &HeaderMap, request: &Attributes) -> Result<User, Status> {
        impersonate(&self.authorizer, user, headers, request)
    }

    /// Whether they may, and by what.
    pub fn decide(&self, user: &User, attributes: &Attributes) -> Decision {
        self.authorizer.authorize(user, attributes)
    }

    /// Answers a review kind, which is asked and forgotten.
    ///
    /// # Errors
    /// 405: the kind is none of them; 400 or 422: the question cannot be answered as it is asked.
    pub async fn review(
        &self,
        definition: &ResourceDefinition,
        user: &User,
        namespace: &str,
        object: Value,
    ) -> Result<Value, Status> {
        if !Reviews::answers(definition) {
            return Err(Status::method_not_allowed());
        }
        let asked = (&*definition.plural == "tokenreviews").then(|| object["spec"].clone());
        let mut answer = self.reviews.review(definition, namespace, user, object)?;
        if let (Some(asked), Some(issuers)) = (asked, &self.issuers)
            && answer["status"]["authenticated"] != true
            && asked["audiences"].as_array().is_none_or(Vec::is_empty)
            && let Ok(user) = issuers.user(asked["token"].as_str().unwrap_or_default()).await
        {
            let user = crate::authenticate::known(user);
            answer["status"] = json!({"authenticated": true, "user": user_info(&user)});
        }
        Ok(answer)
    }

    /// What others need to verify service accounts' tokens: the discovery document of this API as an issuer, whose keys are at
    /// `address`.
    pub fn issuer_document(&self, address: &str) -> Value {
        json!({
            "issuer": crate::token_claims::ISSUER, "jwks_uri": format!("https://{address}/openid/v1/jwks"),
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// The public keys to which that document points.
    pub fn issuer_keys(&self) -> Value {
        self.tokens.keys()
    }

    /// Issues a token for a service account (`serviceaccounts/NAME/token`).
    ///
    /// # Errors
    /// As of [`Reviews::token`].
    pub fn token(&self, namespace: &str, name: &str, request: Value) -> Result<Value, Status> {
        self.reviews.token(namespace, name, request)
    }
}
