//! Who may do what on the hub.

use http::HeaderMap;
use karmada_apiserver::http::{Access, Attributes};
use karmada_apiserver::registry::User;
use karmada_apiserver::resource::ResourceDefinition;
use karmada_apiserver::status::Status;
use serde_json::Value;

/// Certificates of the administrators' group do everything, all others nothing.
pub struct AdministratorsOnly;

impl Access for AdministratorsOnly {
    fn identify(&self, _: &HeaderMap, certificate: Option<&User>) -> Result<User, Status> {
        Ok(certificate
            .cloned()
            .unwrap_or_else(|| User { name: "system:anonymous".to_owned(), ..User::default() }))
    }

    fn allow(&self, user: &User, attributes: &Attributes) -> Result<(), Status> {
        let open = matches!(attributes.path.as_str(), "/healthz" | "/readyz" | "/livez" | "/version");
        if open || user.groups.iter().any(|g| g == "system:masters") {
            return Ok(());
        }
        Err(Status::forbidden_path(&attributes.path, &format!("User \"{}\" may not", user.name)))
    }

    fn review(&self, _: &ResourceDefinition, _: &User, _: &str, _: Value) -> Result<Value, Status> {
        Err(Status::method_not_allowed())
    }

    fn token(&self, _: &str, _: &str, _: Value) -> Result<Value, Status> {
        Err(Status::method_not_allowed())
    }
}
