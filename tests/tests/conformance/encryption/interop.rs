//! A judge of the stored forms: what a real kube-apiserver wrote into etcd is read by our providers, and what they write by it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use karmada_encryption::{Configuration, EncryptionProviders};
use serde_json::{Value, json};
use tests::folder::Folder;
use tests::member::{Member, MemberOptions};
use tests::runtime;

use super::plugin::Plugin;
use super::{key, write_private};

/// A resource for each provider: where it is served, where etcd has it, and what of it is found again.
const RESOURCES: [(&str, &str, &str); 4] = [
    ("secrets", "/registry/secrets/default/one", "aescbc"),
    ("configmaps", "/registry/configmaps/default/one", "aesgcm"),
    ("services", "/registry/services/specs/default/one", "secretbox"),
    ("endpoints", "/registry/services/endpoints/default/one", "kms"),
];

fn configuration(socket: &str) -> String {
    let element = |(resource, _, provider): (&str, &str, &str)| {
        let provider = match provider {
            "kms" => format!("kms: {{apiVersion: v2, name: house, endpoint: \"unix://{socket}\"}}"),
            other => format!("{other}: {{keys: [{{name: one, secret: \"{}\"}}]}}", key(1)),
        };
        format!("- resources: [{resource}]\n  providers: [{{{provider}}}, {{identity: {{}}}}]\n")
    };
    let elements: String = RESOURCES.into_iter().map(element).collect();
    format!("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n{elements}")
}

/// etcd's own API, in JSON.
fn etcd(member: &Member, call: &str, body: &Value) -> Value {
    use http_body_util::BodyExt as _;
    let request = http::Request::post(format!("{}/v3/kv/{call}", member.etcd()))
        .header("content-type", "application/json")
        .body(http_body_util::Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let client =
        hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
    let body = runtime().block_on(async {
        let answer = client.request(request).await.unwrap();
        answer.into_body().collect().await.unwrap().to_bytes()
    });
    serde_json::from_slice(&body).unwrap()
}

fn raw(member: &Member, at: &str) -> Bytes {
    let answer = etcd(member, "range", &json!({"key": STANDARD.encode(at)}));
    let value = answer["kvs"][0]["value"].as_str().unwrap_or_else(|| panic!("{at}: {answer}"));
    STANDARD.decode(value).unwrap().into()
}

fn object(resource: &str) -> Value {
    let metadata = json!({"name": "one", "labels": {"marker": "marked-marked"}});
    match resource {
        "services" => json!({"metadata": metadata, "spec": {"ports": [{"port": 80}]}}),
        _ => json!({"metadata": metadata}),
    }
}

#[test]
fn what_kube_apiserver_wrote_is_read_and_what_is_written_it_reads() {
    let folder = Folder::new("interop");
    let socket = folder.join("kms.sock");
    let plugin = Plugin::start(&socket);
    let text = configuration(&socket.display().to_string());
    let file = folder.join("encryption.yaml");
    write_private(&file, &text);
    let flag = format!("--encryption-provider-config={}", file.display());
    let member =
        Member::start(MemberOptions { apiserver_args: vec![flag], ..MemberOptions::bare("encrypted") });
    let ours = Configuration::read(&text).unwrap();
    let random = |buffer: &mut [u8]| {
        let mut bytes = uuid_bytes();
        buffer.iter_mut().for_each(|byte| *byte = bytes.next().unwrap());
    };
    let ours = runtime().block_on(async {
        let ours = EncryptionProviders::new(ours, Arc::new(random)).unwrap();
        ours.check_services().await.unwrap();
        ours
    });
    for (resource, at, provider) in RESOURCES {
        let path = format!("/api/v1/namespaces/default/{resource}");
        member.api().create(&path, &object(resource)).unwrap();
        let stored = raw(&member, at);
        assert!(stored.starts_with(format!("k8s:enc:{provider}:v").as_bytes()), "{stored:?}");
        let opened = runtime().block_on(ours.open("", resource, at, &stored));
        let opened = opened.unwrap_or_else(|why| panic!("{why}: {}", STANDARD.encode(&stored)));
        let text = String::from_utf8_lossy(&opened.value).into_owned();
        assert!(text.starts_with("k8s\0") && text.contains("marked-marked"), "{text}");
        assert!(!opened.is_stale, "{provider}: their first key is ours");
        println!(
            "{provider} {at}\n  stored {}\n  value {}",
            STANDARD.encode(&stored),
            STANDARD.encode(&opened.value)
        );

        let other = Bytes::from(opened.value.iter().copied().collect::<Vec<u8>>());
        let other = replaced(&other, b"marked-marked", b"byus!!-byus!!");
        let sealed = ours.seal("", resource, at, other).unwrap();
        etcd(&member, "put", &json!({"key": STANDARD.encode(at), "value": STANDARD.encode(&sealed)}));
        let read = member.api().get(&format!("{path}/one")).unwrap().unwrap();
        assert_eq!(read["metadata"]["labels"]["marker"], "byus!!-byus!!", "{provider}");
    }
    assert!(plugin.decrypted() >= 2, "each had the other's seed decrypted");
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Bytes {
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    [&bytes[..at], to, &bytes[at + from.len()..]].concat().into()
}

/// Bytes that differ from call to call: these keys guard nothing.
fn uuid_bytes() -> impl Iterator<Item = u8> {
    use std::hash::{BuildHasher as _, RandomState};
    let state = RandomState::new();
    (0_u64..).flat_map(move |n| state.hash_one(n).to_le_bytes())
}
