//! APIServices: which group is served, and by whom.
//!
//! In: an APIService. Out: field errors in kube-apiserver's order.

use base64::Engine as _;
use karmada_schema::FieldError;
use karmada_schema::path::Path;
use serde_json::Value;

use super::{Errors, facts, judge, text};

pub(crate) fn api_service(new: &Value, errors: &mut Errors) {
    let (spec, path) = (&new["spec"], Path::field("spec"));
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    let wanted = format!("{version}.{group}");
    let detail = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
    super::only_name(new, &wanted, &detail, errors);
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(&path.child("group"), detail));
    }
    judge(facts::KUBE_AGGREGATOR_PKG_APIS_APIREGISTRATION_V1_APISERVICE_SPEC, spec, None, &path, errors);
    let (bundle, insecure) = (text(spec, "caBundle"), spec["insecureSkipTLSVerify"] == true);
    if !spec["service"].is_object() {
        if !bundle.is_empty() {
            let bytes =
                base64::engine::general_purpose::STANDARD.decode(bundle).map_or(0, |bytes| bytes.len());
            let detail = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid(&path.child("caBundle"), format!("{bytes} bytes"), detail));
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid(&path.child("insecureSkipTLSVerify"), true, detail));
        }
        return;
    }
    let at = path.child("service");
    let own = facts::KUBE_AGGREGATOR_PKG_APIS_APIREGISTRATION_V1_SERVICE_REFERENCE;
    judge(own, &spec["service"], None, &at, errors);
    if insecure && !bundle.is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(&path.child("insecureSkipTLSVerify"), true, detail));
    }
}
