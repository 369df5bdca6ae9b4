//! Requests for tokens of service accounts: `serviceaccounts/NAME/token`.
//!
//! In: a TokenRequest as sent, to which account. Out: the same with a token in its status, which lives as long as asked and names what it
//! is bound to; or why there is none. Nothing is stored.

use std::sync::Arc;

use karmada_definitions::resource::{ResourceDefinition, StorageId};
use karmada_definitions::status::{Cause, Status};
use karmada_registry::user::SERVICE_ACCOUNT;
use karmada_schema::object::{ObjectKey, Stored, meta};
use karmada_schema::time;
use serde_json::{Value, json};

use super::{Reviews, texts};
use crate::token_claims::ISSUER;
use crate::{BoundClaims, Claims, ObjectClaim};

/// Seconds of a token's life: what is given where nothing is asked, the least, and the most.
const LIFETIME: (i64, i64, i64) = (3600, 600, 1 << 32);

impl Reviews {
    /// Answers `serviceaccounts/NAME/token`: the TokenRequest with a token that lives as long as asked (an hour by default)
    /// and no longer than the account and what it is bound to.
    ///
    /// # Errors
    /// The request is no TokenRequest for this account, or the account or what the token is to be bound to is not there.
    pub fn token(&self, namespace: &str, name: &str, mut request: Value) -> Result<Value, Status> {
        is_for(&request, namespace, name)?;
        let account = self.object("serviceaccounts", namespace, name)?;
        let seconds = lifetime(&request)?;
        let claims = self.claims(namespace, &account, &request, seconds)?;
        let token = self.tokens.issue(&claims).map_err(Status::internal)?;
        let end = claims.exp.unwrap_or_default();
        let end = jiff::Timestamp::from_second(end).map_err(Status::internal)?;
        let metadata = meta::of(&mut request);
        metadata.insert("name".into(), json!(name));
        metadata.insert("namespace".into(), json!(namespace));
        metadata.insert("uid".into(), json!(account.uid()));
        metadata.insert("creationTimestamp".into(), json!(self.registry.now_text()));
        request["kind"] = json!("TokenRequest");
        request["apiVersion"] = json!("authentication.k8s.io/v1");
        request["spec"]["audiences"] = json!(claims.aud);
        request["spec"]["expirationSeconds"] = json!(seconds);
        if request["spec"]["boundObjectRef"].is_null() {
            request["spec"]["boundObjectRef"] = Value::Null;
        }
        request["status"] = json!({"token": token, "expirationTimestamp": time::seconds(end)});
        Ok(request)
    }

    /// What the token of an account says, which is to live for so many seconds.
    fn claims(
        &self,
        namespace: &str,
        account: &Stored,
        request: &Value,
        seconds: i64,
    ) -> Result<Claims, Status> {
        let name = &*account.key.name;
        let mut audiences = texts(&request["spec"]["audiences"]);
        if audiences.is_empty() {
            audiences.push(ISSUER.to_owned());
        }
        let mut bound = BoundClaims {
            namespace: namespace.to_owned(),
            serviceaccount: ObjectClaim { name: name.to_owned(), uid: account.uid().to_owned() },
            ..BoundClaims::default()
        };
        self.bind(namespace, name, &request["spec"]["boundObjectRef"], &mut bound)?;
        let now = self.registry.now().as_second();
        Ok(Claims {
            aud: audiences,
            exp: Some(now.saturating_add(seconds)),
            iat: Some(now),
            nbf: Some(now),
            iss: ISSUER.to_owned(),
            jti: self.registry.new_uid(),
            sub: format!("{SERVICE_ACCOUNT}{namespace}:{name}"),
            bound: Some(bound),
            ..Claims::default()
        })
    }

    /// Adds what the token is bound to.
    fn bind(
        &self,
        namespace: &str,
        account: &str,
        reference: &Value,
        bound: &mut BoundClaims,
    ) -> Result<(), Status> {
        if reference.is_null() {
            return Ok(());
        }
        let text = |field: &str| reference[field].as_str().unwrap_or("");
        let (plural, place) = match (text("apiVersion"), text("kind")) {
            ("v1" | "", "Pod") => ("pods", namespace),
            ("v1" | "", "Secret") => ("secrets", namespace),
            ("v1" | "", "Node") => ("nodes", ""),
            (version, kind) => {
                let slash = if version.contains('/') { "" } else { "/" };
                let what = format!("{slash}{version}, Kind={kind}");
                return Err(Status::bad_request(format!("cannot bind token to object of type {what}")));
            }
        };
        let object = self.object(plural, place, text("name"))?;
        let uid = text("uid");
        if !uid.is_empty() && uid != object.uid() {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            let definition = self.definition(plural)?;
            return Err(Status::conflict_with_kind(&definition, text("name"), &why));
        }
        if plural == "pods" && object.value()["spec"]["serviceAccountName"] != account {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount \"{account}\" to pod running with different serviceaccount name."
            )));
        }
        let claim = ObjectClaim { name: text("name").to_owned(), uid: object.uid().to_owned() };
        match plural {
            "pods" => {
                bound.node = self.node_of(&object);
                bound.pod = Some(claim);
            }
            "secrets" => bound.secret = Some(claim),
            _ => bound.node = Some(claim),
        }
        Ok(())
    }

    /// The node that a Pod is on: its name also where there is no such object.
    fn node_of(&self, pod: &Stored) -> Option<ObjectClaim> {
        let pod = pod.value();
        let name = pod["spec"]["nodeName"].as_str().filter(|name| !name.is_empty())?;
        let uid = self.object("nodes", "", name).map(|node| node.uid().to_owned()).unwrap_or_default();
        Some(ObjectClaim { name: name.to_owned(), uid })
    }

    fn object(&self, plural: &str, namespace: &str, name: &str) -> Result<Arc<Stored>, Status> {
        let storage = StorageId(format!("core/{plural}").into());
        let found = self.registry.cache().get(&storage, &ObjectKey::new(namespace, name));
        match found {
            Some(object) => Ok(object),
            None => Err(Status::not_found(&*self.definition(plural)?, name)),
        }
    }

    fn definition(&self, plural: &str) -> Result<Arc<ResourceDefinition>, Status> {
        let catalogue = self.registry.catalogue();
        catalogue.resource("", "v1", plural).cloned().ok_or_else(Status::no_resource)
    }
}

/// Whether this is a TokenRequest for the account that the path names.
fn is_for(request: &Value, namespace: &str, name: &str) -> Result<(), Status> {
    let kind = request["kind"].as_str().unwrap_or("");
    if !matches!(kind, "" | "TokenRequest") {
        let version = request["apiVersion"].as_str().unwrap_or("");
        let short = version.rsplit('/').next().unwrap_or("");
        return Err(Status::bad_request(format!(
            "{kind} in version \"{short}\" cannot be handled as a TokenRequest: converting ({short}.{kind}) to (authentication.TokenRequest): unknown conversion"
        )));
    }
    if !meta::namespace(request).is_empty() && meta::namespace(request) != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let named = meta::name(request);
    if !named.is_empty() && named != name {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: \"{named}\": must match the service account name if specified"),
            field: "metadata.name".into(),
        };
        return Err(Status::invalid("authentication.k8s.io", "TokenRequest", name, vec![cause]));
    }
    Ok(())
}

fn lifetime(request: &Value) -> Result<i64, Status> {
    let (default, least, most) = LIFETIME;
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(default);
    let refused = |why: &str| {
        let cause = Cause {
            reason: "FieldValueInvalid".into(),
            message: format!("Invalid value: {seconds}: {why}"),
            field: "spec.expirationSeconds".into(),
        };
        Err(Status::invalid("authentication.k8s.io", "TokenRequest", "", vec![cause]))
    };
    match seconds {
        s if s < least => refused("may not specify a duration less than 10 minutes"),
        s if s > most => refused("may not specify a duration larger than 2^32 seconds"),
        s => Ok(s),
    }
}
