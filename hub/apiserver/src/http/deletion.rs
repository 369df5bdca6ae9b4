//! Deletion of one object and of many: what becomes of what hangs on them, and what is answered.
//!
//! In: a call with its resource, and the body or query with the options. Out: the object or a `Status` of success; for a collection the
//! list of what was found. A collection is deleted one by one, and ends at the first refusal.

use bytes::Bytes;
use http::{Response, StatusCode};
use karmada_definitions::kind_row::BuiltinKind;
use karmada_definitions::resource::ResourceDefinition;
use karmada_definitions::status::{SCHEME, Status};
use karmada_registry::{DeleteOptions, Deleted};
use karmada_schema::object::{ObjectKey, Stored};
use serde_json::{Value, json};

use super::answer_body::Body;
use super::body::{self, Received};
use super::objects::namespace_of;
use super::resource_call::ResourceCall;
use super::write_options::{dry_run, is_dry};
use super::{ApiServer, Call, list, respond};

impl ApiServer {
    pub(super) async fn delete(
        &self,
        of: ResourceCall<'_, '_>,
        body: Received,
    ) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        let options = asked(call, definition, body).await?;
        let key = ObjectKey::new(&namespace_of(definition, wanted), &wanted.name);
        match self.registry.delete(definition, &key, &options, &call.user).await? {
            Deleted::Pending(object) => {
                let object = self.registry.view(definition, vec![object]).await?.remove(0);
                Ok(self.object(call, definition, &object, format, StatusCode::OK))
            }
            Deleted::Gone(object) if definition.row.returns_deleted => {
                Ok(self.object(call, definition, &object, format, StatusCode::OK))
            }
            Deleted::Gone(object) => {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": details(definition, &object),
                });
                Ok(respond::document(StatusCode::OK, status.to_string().into(), format))
            }
        }
    }

    pub(super) async fn delete_collection(
        &self,
        of: ResourceCall<'_, '_>,
        body: Received,
    ) -> Result<Response<Body>, Status> {
        let ResourceCall { call, definition, wanted, format } = of;
        super::options::check_list(&call.query)?;
        let options = asked(call, definition, body).await?;
        let selector = list::selector(definition, &call.query)?;
        list::at_least(&self.registry.cache().collection(&definition.storage), &call.query).await?;
        self.registry.all_readable(definition, &wanted.namespace)?;
        let resource_cache = self.registry.cache().of_resource(&definition.storage);
        let revision = self.registry.cache().revision();
        let (found, _) = resource_cache.list(&wanted.namespace, None, 0, &|object| selector.matches(object));
        for object in &found {
            match self.registry.delete(definition, &object.key, &options, &call.user).await {
                Err(status) if status.code != 404 => return Err(status),
                _ => {}
            }
        }
        // The answer is what was found, as it was found.
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if definition.is_structural() {
            metadata["continue"] = json!("");
        }
        Ok(self.render(call, definition, &found, &metadata, format).await)
    }
}

const JOB_PODS_STAY: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                             remove them or set propagationPolicy=Orphan to suppress this warning";

/// Who deletes a Job and does not say what becomes of its Pods is told.
fn warn_of_pods(call: &Call<'_>, definition: &ResourceDefinition, options: &DeleteOptions) {
    let is_job = definition.row.known == BuiltinKind::Job;
    if is_job && options.propagation_policy.is_none() && options.orphan_dependents.is_none() {
        call.warnings.add(JOB_PODS_STAY.to_owned());
    }
}

/// The options of a deletion, once the client is told what they leave behind.
async fn asked(
    call: &Call<'_>,
    definition: &ResourceDefinition,
    body: Received,
) -> Result<DeleteOptions, Status> {
    let options = DeleteOptions { warnings: call.warnings.clone(), ..delete_options(call, body).await? };
    warn_of_pods(call, definition, &options);
    Ok(options)
}

async fn delete_options(call: &Call<'_>, body: Received) -> Result<DeleteOptions, Status> {
    let bytes = body::read(body).await?;
    let mut options: DeleteOptions = if bytes.is_empty() {
        DeleteOptions::default()
    } else {
        let value = body::parse(body::media_type(call.headers), &bytes)?;
        if value["kind"].as_str().is_some_and(|kind| kind != "DeleteOptions") {
            return Err(Status::bad_request(format!(
                "no kind {} is registered for version {} in scheme {SCHEME:?}",
                value["kind"], value["apiVersion"]
            )));
        }
        serde_json::from_value(value).map_err(|error| unread_options(&bytes, &error))?
    };
    if !bytes.is_empty() {
        // A body says it all: the query is not looked at.
        is_dry("DeleteOptions", &options.dry_run)?;
        return Ok(options);
    }
    let query = &call.query;
    if dry_run(call)? {
        options.dry_run = vec!["All".to_owned()];
    }
    if let Some(seconds) = super::options::number(query, "gracePeriodSeconds")? {
        options.grace_period_seconds = Some(seconds);
    }
    if !query.get("propagationPolicy").is_empty() {
        options.propagation_policy = Some(query.get("propagationPolicy").to_owned());
    }
    if !query.all("orphanDependents").is_empty() {
        options.orphan_dependents = Some(query.flag("orphanDependents"));
    }
    Ok(options)
}

/// Options that cannot be read: kube-apiserver passes on its decoder's words.
fn unread_options(raw: &Bytes, error: &serde_json::Error) -> Status {
    let value: Value = serde_json::from_slice(raw).unwrap_or(Value::Null);
    let wrong =
        [("gracePeriodSeconds", "int64"), ("propagationPolicy", "string"), ("orphanDependents", "bool")]
            .into_iter()
            .find(|(field, go)| match (&value[*field], *go) {
                (Value::Null, _) => false,
                (found, "int64") => !found.is_i64(),
                (found, "bool") => !found.is_boolean(),
                (found, _) => !found.is_string(),
            });
    Status::bad_request(match wrong {
        Some((field, go)) => {
            let what = karmada_schema::go_kind(&value[field]);
            let go = if field == "propagationPolicy" { "v1.DeletionPropagation" } else { go };
            format!("json: cannot unmarshal {what} into Go struct field DeleteOptions.{field} of type {go}")
        }
        None => error.to_string(),
    })
}

fn details(definition: &ResourceDefinition, object: &Stored) -> Value {
    let mut details = json!({"name": &*object.key.name, "kind": &*definition.plural, "uid": object.uid()});
    if !definition.group.is_empty() {
        details["group"] = json!(&*definition.group);
    }
    details
}
