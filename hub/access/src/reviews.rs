//! The kinds that are questions: access reviews, rules reviews, token reviews and who-am-I; and requests for tokens ([`token_request`]).
//!
//! In: the review as sent and who asks. Out: the review with its `status`; nothing is stored. Called by the HTTP layer on
//! create, after the asking itself was authorized.

mod token_request;

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::Status;
use karmada_registry::{Attributes, Authorize as _, Registry, User};
use karmada_schema::object::meta;
use serde_json::{Value, json};

use crate::{Authenticator, Authorizer, ServiceAccountTokens, review_validation};

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
    ///
    /// # Errors
    /// 400 or 422: something is missing in it or wrong; 404: it is of another kind.
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
                let problems = review_validation::problems(&object, own, local);
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
        if let Some(error) = review_validation::passed_over(object) {
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
