//! The kinds that are questions: access reviews, rules reviews, token reviews, who-am-I, and requests for tokens.
//!
//! In: the review as sent and who asks. Out: the review with its `status`; nothing is stored. Called by the HTTP layer on
//! create, after the asking itself was authorized.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_definitions::resource::{ResourceDefinition, StorageId};
use karmada_definitions::status::{Cause, Status};
use karmada_registry::user::SERVICE_ACCOUNT;
use karmada_registry::{Attributes, Authorize as _, Registry, User};
use karmada_schema::object::{ObjectKey, Stored, meta};
use serde_json::{Value, json};

use crate::token_claims::ISSUER;
use crate::{
    Authenticator, Authorizer, BoundClaims, Claims, ObjectClaim, ServiceAccountTokens, review_rules,
};

/// Seconds of a token's life: what is given where nothing is asked, the least, and the most.
const LIFE: (i64, i64, i64) = (3600, 600, 1 << 32);

/// Answers reviews.
pub struct Reviews {
    registry: Arc<Registry>,
    authorizer: Arc<Authorizer>,
    authenticator: Arc<Authenticator>,
    tokens: Arc<dyn ServiceAccountTokens>,
}

impl Reviews {
    /// Answers by what these would decide.
    pub fn new(
        registry: Arc<Registry>,
        authorizer: Arc<Authorizer>,
        authenticator: Arc<Authenticator>,
        tokens: Arc<dyn ServiceAccountTokens>,
    ) -> Self {
        Reviews { registry, authorizer, authenticator, tokens }
    }

    /// Whether the resource is a question that [`Reviews::review`] answers.
    pub fn answers(definition: &ResourceDefinition) -> bool {
        matches!(&*definition.group, "authorization.k8s.io" | "authentication.k8s.io")
    }

    /// Answers a review of any kind but TokenRequest. `namespace` is the path's, empty for cluster-scoped reviews.
    pub fn review(
        &self,
        definition: &ResourceDefinition,
        namespace: &str,
        user: &User,
        mut object: Value,
    ) -> Result<Value, Status> {
        let own = &*definition.plural == "selfsubjectaccessreviews";
        let local = (&*definition.plural == "localsubjectaccessreviews").then_some(namespace);
        let status = match &*definition.plural {
            "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews" => {
                let problems = review_rules::problems(&object, own, local);
                if !problems.is_empty() {
                    // The kind is not named: so kube-apiserver says it of questions.
                    return Err(Status::invalid(&definition.group, "", "", problems));
                }
                let subject = (!own).then(|| subject(&object));
                self.access(subject.as_ref().unwrap_or(user), &object)
            }
            "selfsubjectrulesreviews" => {
                let status = self.rules(user, &object)?;
                // What was asked is not said again.
                object = json!({"metadata": {}, "spec": {}});
                status
            }
            "selfsubjectreviews" => json!({"userInfo": user_info(user)}),
            "tokenreviews" => self.token_review(&object)?,
            _ => return Err(Status::no_resource()),
        };
        let mut answer = object;
        answer["kind"] = json!(definition.kind);
        answer["apiVersion"] = json!(definition.api_version());
        if definition.namespaced {
            meta::of(&mut answer).insert("namespace".into(), json!(namespace));
        }
        let metadata = meta::of(&mut answer);
        if &*definition.plural == "selfsubjectreviews" {
            metadata.insert("creationTimestamp".into(), json!(self.registry.now_text()));
        }
        answer["status"] = status;
        Ok(answer)
    }

    fn access(&self, user: &User, object: &Value) -> Value {
        let decision = self.authorizer.authorize(user, &attributes(object));
        let mut status = json!({"allowed": decision.allowed});
        if !decision.reason.is_empty() {
            status["reason"] = json!(decision.reason);
        }
        if let Some(error) = review_rules::passed_over(object) {
            status["evaluationError"] = json!(error);
        }
        status
    }

    fn rules(&self, user: &User, object: &Value) -> Result<Value, Status> {
        let namespace = object["spec"]["namespace"].as_str().unwrap_or("");
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let (rules, errors) = self.authorizer.rules_for(user, namespace);
        let (paths, resources): (Vec<_>, Vec<_>) =
            rules.iter().partition(|r| !r.non_resource_urls.is_empty());
        let list = |rules: Vec<&crate::Rule>| rules.into_iter().map(crate::Rule::to_json).collect::<Vec<_>>();
        let mut status =
            json!({"incomplete": false, "resourceRules": list(resources), "nonResourceRules": list(paths)});
        if !errors.is_empty() {
            status["incomplete"] = json!(true);
            status["evaluationError"] = json!(errors.join(", "));
        }
        Ok(status)
    }

    fn token_review(&self, object: &Value) -> Result<Value, Status> {
        let token = object["spec"]["token"].as_str().unwrap_or("");
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let audiences = texts(&object["spec"]["audiences"]);
        Ok(match self.authenticator.of_token(token, &audiences) {
            Ok(accepted) => {
                json!({"authenticated": true, "user": user_info(&accepted.user), "audiences": accepted.audiences})
            }
            Err(why) => {
                let why = match (why.0.as_str(), token.split('.').count()) {
                    ("", 3) => "[invalid bearer token]".to_owned(),
                    ("", _) => "invalid bearer token".to_owned(),
                    (why, _) => format!("[invalid bearer token, {why}]"),
                };
                json!({"user": {}, "error": why})
            }
        })
    }

    /// Answers `serviceaccounts/NAME/token`: the TokenRequest with a token that lives as long as asked (an hour by default)
    /// and no longer than the account and what it is bound to.
    pub fn token(&self, namespace: &str, name: &str, mut request: Value) -> Result<Value, Status> {
        let kind = request["kind"].as_str().unwrap_or("").to_owned();
        if !matches!(kind.as_str(), "" | "TokenRequest") {
            let version = request["apiVersion"].as_str().unwrap_or("");
            let short = version.rsplit('/').next().unwrap_or("");
            return Err(Status::bad_request(format!(
                "{kind} in version \"{short}\" cannot be handled as a TokenRequest: converting ({short}.{kind}) to (authentication.TokenRequest): unknown conversion"
            )));
        }
        let named = meta::name(&request).to_owned();
        if !meta::namespace(&request).is_empty() && meta::namespace(&request) != namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if !named.is_empty() && named != name {
            let cause = Cause {
                reason: "FieldValueInvalid".into(),
                message: format!(
                    "Invalid value: \"{named}\": must match the service account name if specified"
                ),
                field: "metadata.name".into(),
            };
            return Err(Status::invalid("authentication.k8s.io", "TokenRequest", name, vec![cause]));
        }
        let account = self.object("serviceaccounts", namespace, name)?;
        let seconds = life(&request)?;
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
        let now = self.registry.now();
        let end = now.as_second().saturating_add(seconds);
        let claims = Claims {
            aud: audiences.clone(),
            exp: Some(end),
            iat: Some(now.as_second()),
            nbf: Some(now.as_second()),
            iss: ISSUER.to_owned(),
            jti: self.registry.new_uid(),
            sub: format!("{SERVICE_ACCOUNT}{namespace}:{name}"),
            bound: Some(bound),
            ..Claims::default()
        };
        let token = self.tokens.issue(&claims).map_err(Status::internal)?;
        let end = jiff::Timestamp::from_second(end).map_err(Status::internal)?;
        let metadata = meta::of(&mut request);
        metadata.insert("name".into(), json!(name));
        metadata.insert("namespace".into(), json!(namespace));
        metadata.insert("uid".into(), json!(account.uid()));
        metadata.insert("creationTimestamp".into(), json!(self.registry.now_text()));
        request["kind"] = json!("TokenRequest");
        request["apiVersion"] = json!("authentication.k8s.io/v1");
        request["spec"]["audiences"] = json!(audiences);
        request["spec"]["expirationSeconds"] = json!(seconds);
        if request["spec"]["boundObjectRef"].is_null() {
            request["spec"]["boundObjectRef"] = Value::Null;
        }
        request["status"] =
            json!({"token": token, "expirationTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()});
        Ok(request)
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

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

pub(super) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// The request that a review asks about.
fn attributes(object: &Value) -> Attributes {
    let spec = &object["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or("").to_owned();
    if path.is_object() {
        let asked = text(path, "path");
        // An empty path is a path all the same: no rule on resources may answer for it.
        let asked = if asked.is_empty() { "/".to_owned() } else { asked };
        return Attributes::path(&text(path, "verb"), &asked);
    }
    Attributes {
        verb: text(resource, "verb"),
        group: text(resource, "group"),
        version: text(resource, "version"),
        resource: text(resource, "resource"),
        subresource: text(resource, "subresource"),
        namespace: text(resource, "namespace"),
        name: text(resource, "name"),
        path: String::new(),
    }
}

/// The user whom a SubjectAccessReview is about.
fn subject(object: &Value) -> User {
    let spec = &object["spec"];
    let text = |field: &str| spec[field].as_str().unwrap_or("").to_owned();
    let extra: BTreeMap<String, Vec<String>> = spec["extra"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.clone(), texts(values)))
        .collect();
    User { name: text("user"), uid: text("uid"), groups: texts(&spec["groups"]), extra, ..User::default() }
}

fn life(request: &Value) -> Result<i64, Status> {
    let (default, least, most) = LIFE;
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
