//! Paths that are no resource: health, version, discovery, documents; and what is said of paths that nothing serves.
//!
//! In: a path as it was sent, a method. Out: the answer of whoever has the path, or a refusal in the form that kube-apiserver
//! gives there: under a prefix that it routes (`/api`, `/apis/GROUP`, `/version`) a `Status`, elsewhere a line of text.

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{Method, Response, StatusCode};
use karmada_definitions::resource::Catalogue;
use karmada_definitions::status::Status;

use super::answer_body::Body;
use super::target::{decode, is_escaped_well};
use super::{ApiServer, Call, discovery, health, openapi, respond};

/// The media type of figures.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The answer to a path that nobody can look at further: its escapes cannot be read, or it ends where the verb of old times
/// (`/api/v1/watch/…`) should be followed by what it is about.
pub(super) fn unreadable(path: &str) -> Option<Response<Body>> {
    if !is_escaped_well(path) {
        let mut response = words(StatusCode::BAD_REQUEST, "400 Bad Request".to_owned());
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return Some(response);
    }
    let path = decode(path);
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (["api", _, "watch" | "proxy"] | ["apis", _, _, "watch" | "proxy"]) = parts.as_slice() else {
        return None;
    };
    let why = format!(
        "Internal Server Error: {path:?}: failed to create RequestInfo: unable to determine kind and namespace from url, {path}\n"
    );
    let mut response = words(StatusCode::INTERNAL_SERVER_ERROR, why);
    respond::no_sniffing(&mut response);
    Some(response)
}

/// A text without the headers that every other answer has.
fn words(code: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(respond::full(Bytes::from(text)));
    *response.status_mut() = code;
    let value = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, value);
    response
}

/// What is said of a path in the middle of which a part is missing.
pub(super) fn hollow(catalogue: &Catalogue, path: &str) -> Status {
    let mut parts = path.split('/').skip(1);
    match (parts.next(), parts.next()) {
        (Some("api" | "version"), _) => Status::no_resource(),
        (Some("apis"), Some(group)) if !group.is_empty() => discovery::unserved(catalogue, group),
        _ => Status::no_page(),
    }
}

/// Whether kube-apiserver's router has the path: there only GET is known, and a slash at the end is nothing.
fn is_routed(catalogue: &Catalogue, parts: &[&str]) -> bool {
    match parts {
        ["api", ..] | ["version"] => true,
        ["apis", group, ..] => {
            let groups = catalogue.groups();
            let group = groups.iter().find(|(name, _)| &**name == *group);
            group.is_some_and(|(_, versions)| {
                !versions.iter().flat_map(|(_, all)| all).any(|definition| definition.is_structural())
            })
        }
        [".well-known", "openid-configuration"] | ["openid", "v1", "jwks"] => true,
        _ => false,
    }
}

impl ApiServer {
    /// Answers a path that is no resource. What is not there is told before what cannot be done with it.
    pub(super) async fn path(&self, call: &Call<'_>, path: &str) -> Result<Response<Body>, Status> {
        let catalogue = self.registry.announced();
        if path.contains("//") {
            return Err(hollow(&catalogue, path));
        }
        let trimmed = path.trim_end_matches('/');
        let parts: Vec<&str> = trimmed.split('/').skip(1).collect();
        let routed = is_routed(&catalogue, &parts);
        let lists_groups = matches!(parts.as_slice(), ["apis"]);
        let path = if routed || lists_groups { trimmed } else { path };
        let answer = self.document(call, path, &parts).await?;
        let any = lists_groups
            || matches!(path, "/" | "/index.html")
            || matches!(parts.first(), Some(&("healthz" | "livez" | "readyz")))
            || answer.status() == StatusCode::NOT_FOUND;
        let looks = call.method == Method::GET || (call.method == Method::HEAD && !routed);
        if any || looks { Ok(answer) } else { Err(Status::method_not_allowed()) }
    }

    async fn document(&self, call: &Call<'_>, path: &str, parts: &[&str]) -> Result<Response<Body>, Status> {
        match path {
            "/metrics/slis" => Ok(respond::text_as(health::figures(&(self.ready)()), METRICS)),
            "/metrics" => Ok(respond::text_as((self.metrics)(), METRICS)),
            "/openapi/v2" => Ok(self.openapi_v2(call).await),
            "/.well-known/openid-configuration" => {
                let document = self.access.issuer_document(&self.options.advertise);
                Ok(respond::public(&document, "application/json"))
            }
            "/openid/v1/jwks" => Ok(respond::public(&self.access.issuer_keys(), "application/jwk-set+json")),
            "/version" => Ok(respond::json_for_people(&discovery::version(&self.options))),
            "/" | "/index.html" => {
                Ok(respond::json_for_people(&discovery::paths(&self.registry.announced())))
            }
            _ => match parts {
                [probe @ ("healthz" | "livez" | "readyz"), check @ ..] if !path.ends_with('/') => {
                    health::answer(probe, &check.join("/"), &call.query, &(self.ready)())
                        .ok_or_else(Status::no_page)
                }
                ["api" | "apis", ..] => self.discover(call, path.trim_end_matches('/')),
                // Only behind a group's name is a slash at the end passed over.
                ["openapi", "v3"] if path.ends_with('/') => Ok(openapi::no_document()),
                ["openapi", "v3", rest @ ..] => Ok(self.openapi_v3(call, &rest.join("/")).await),
                ["version", ..] => Err(Status::no_resource()),
                _ => Err(Status::no_page()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_or_names_nothing_is_refused_before_anybody_looks() {
        let code = |path: &str| unreadable(path).map_or(0, |response| response.status().as_u16());
        assert_eq!((code("/api/v1/%zz"), code("/api/v1/%2"), code("/api/v1/a%2Fb")), (400, 400, 0));
        for path in ["/api/v1/watch", "/api/v1/watch/", "/apis/apps/v1/proxy"] {
            assert_eq!(code(path), 500, "{path}");
        }
        for path in ["/api/v1/watch/pods", "/api/v1/pods/watch", "/watch"] {
            assert_eq!(code(path), 0, "{path}");
        }
    }
}
