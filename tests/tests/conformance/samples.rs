//! A minimal valid object of every kind that is stored.

use base64::Engine;
use serde_json::Value;

/// One kind's object and where it goes.
pub struct Sample {
    /// The collection's path.
    pub collection: String,
    /// The plural.
    pub plural: String,
    /// The object.
    pub object: Value,
    /// Its subresources, as discovery names them.
    pub subresources: Vec<String>,
    /// Its verbs, as discovery names them.
    pub verbs: Vec<String>,
}

impl Sample {
    /// `group/version Kind`.
    pub fn kind(&self) -> String {
        format!("{} {}", text(&self.object["apiVersion"]), text(&self.object["kind"]))
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap()
    }

    /// The object's path.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection, self.name())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// Every object of `samples.yaml`: for kinds with a status subresource with a status, which a create must drop.
fn objects(namespace: &str) -> Vec<Value> {
    let samples = include_str!("samples.yaml");
    let samples = samples.replace("NAMESPACE", namespace).replace("REQUEST", &certificate_request());
    serde_saphyr::from_multiple(&samples).expect("the samples are YAML")
}

/// A PKCS#10 request as a CertificateSigningRequest carries it.
fn certificate_request() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::new(Vec::new()).unwrap().serialize_request(&key).unwrap();
    base64::engine::general_purpose::STANDARD.encode(request.pem().unwrap())
}

/// Every sample that `caller`'s server serves, in `namespace`. A kind that is served and has no sample fails here, and so does a
/// sample that is not served, unless the server is not ours.
#[track_caller]
pub fn all(caller: &crate::request::Caller, namespace: &str) -> Vec<Sample> {
    let ours = tests::subject::is_hub();
    let objects = objects(namespace);
    let mut samples = Vec::new();
    for object in &objects {
        let version = text(&object["apiVersion"]);
        let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let found = caller.get(&root);
        if found.code == 404 && !ours {
            continue;
        }
        let list = found.is(200).json();
        let resources = list["resources"].as_array().unwrap();
        let own = resources.iter().find(|r| r["kind"] == object["kind"] && !text(&r["name"]).contains('/'));
        let own = own.unwrap_or_else(|| panic!("{version} {} is not served", object["kind"]));
        let plural = text(&own["name"]).to_owned();
        let namespaced = own["namespaced"] == true;
        let parts = resources.iter().filter_map(|r| text(&r["name"]).strip_prefix(&format!("{plural}/")));
        let place = if namespaced { format!("{root}/namespaces/{namespace}") } else { root.clone() };
        samples.push(Sample {
            collection: format!("{place}/{plural}"),
            object: object.clone(),
            subresources: parts.map(str::to_owned).collect(),
            verbs: own["verbs"].as_array().unwrap().iter().map(|v| text(v).to_owned()).collect(),
            plural,
        });
    }
    samples
}
