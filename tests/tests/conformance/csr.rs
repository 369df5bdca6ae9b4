//! CertificateSigningRequests: from a key to a user of the API, by the real kubectl.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::AuthInfo;
use serde_json::{Value, json};
use tests::wait::{TIMEOUT, eventually, so};

use crate::request::Calls as _;
use tests::subject::{is_hub, shared};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A request's PEM and its key's.
fn asked(name: &str, group: &str) -> (String, String) {
    asked_for(name, group, &[])
}

/// The same, for further names.
fn asked_for(name: &str, group: &str, names: &[String]) -> (String, String) {
    let key = karmada_certs::ClientKey::generate().unwrap();
    let organizations = if group.is_empty() { Vec::new() } else { vec![group.to_owned()] };
    let subject = karmada_certs::Subject { common_name: name.to_owned(), organizations };
    let der = STANDARD.encode(key.request_for(&subject, names).unwrap());
    let lines: Vec<&str> = der.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let pem = format!(
        "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
        lines.join("\n")
    );
    (pem, key.to_pem())
}

fn request(name: &str, pem: &str, usages: &Value) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": "kubernetes.io/kube-apiserver-client", "request": STANDARD.encode(pem), "usages": usages,
            "expirationSeconds": 3600, "username": "somebody-else"}})
}

#[test]
fn an_approved_request_makes_a_user() {
    let subject = shared();
    let (caller, kubectl) = (subject.caller(), subject.kubectl());
    let (pem, key) = asked("jane", "developers");
    let made = caller.post(REQUESTS, &request("csr-jane", &pem, &json!(["client auth"]))).is(201).json();
    assert_ne!(made["spec"]["username"], "somebody-else", "who asks is the server's to say");
    kubectl.ok(&["certificate", "approve", "csr-jane"]);
    if !is_hub() {
        // The members' controllers hold no key to sign with.
        return;
    }
    let certificate = eventually("the certificate", TIMEOUT, || {
        let object = caller.get(&format!("{REQUESTS}/csr-jane")).is(200).json();
        so(object["status"]["certificate"].is_string(), || object["status"].to_string())?;
        Ok(object["status"]["certificate"].as_str().unwrap().to_owned())
    });
    let credentials = AuthInfo {
        client_certificate_data: Some(certificate),
        client_key_data: Some(STANDARD.encode(key).into()),
        ..AuthInfo::default()
    };
    let jane = caller.with(credentials);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let who = jane.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).is(201).json();
    assert_eq!(who["status"]["userInfo"]["username"], "jane");
    assert!(who["status"]["userInfo"]["groups"].as_array().unwrap().contains(&json!("developers")), "{who}");
    let shown = kubectl.ok(&["get", "csr", "csr-jane"]);
    assert!(shown.contains("Approved,Issued"), "{shown}");
    caller.delete(&format!("{REQUESTS}/csr-jane"), &Value::Null).is(200);
}

#[test]
fn what_is_denied_or_wrong_is_not_signed() {
    let subject = shared();
    let (caller, kubectl) = (subject.caller(), subject.kubectl());
    let (pem, _) = asked("eve", "");
    caller.post(REQUESTS, &request("csr-denied", &pem, &json!(["client auth"]))).is(201);
    kubectl.ok(&["certificate", "deny", "csr-denied"]);
    let object = caller.get(&format!("{REQUESTS}/csr-denied")).is(200).json();
    assert_eq!(object["status"]["conditions"][0]["type"], "Denied");
    assert_eq!(object["status"]["certificate"], Value::Null);

    caller.post(REQUESTS, &request("csr-server", &pem, &json!(["client auth", "server auth"]))).is(201);
    kubectl.ok(&["certificate", "approve", "csr-server"]);
    eventually("the failure", TIMEOUT, || {
        if !is_hub() {
            return Ok(());
        }
        let object = caller.get(&format!("{REQUESTS}/csr-server")).is(200).json();
        let failed = object["status"]["conditions"].as_array().unwrap().iter().any(|c| c["type"] == "Failed");
        so(failed, || object["status"].to_string())
    });

    let (pem, _) = asked("root", "system:masters");
    let refused = caller.post(REQUESTS, &request("csr-root", &pem, &json!(["client auth"])));
    let message = refused.refusal(403, "Forbidden");
    assert_eq!(
        message,
        "certificatesigningrequests.certificates.k8s.io \"csr-root\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    );
    for name in ["csr-denied", "csr-server"] {
        caller.delete(&format!("{REQUESTS}/{name}"), &Value::Null).is(200);
    }
}

#[test]
fn a_kubelet_gets_its_serving_certificate() {
    let subject = shared();
    let (caller, kubectl) = (subject.caller(), subject.kubectl());
    if !is_hub() {
        // The members' controllers hold no key to sign with.
        return;
    }
    let names = ["node.example.org".to_owned()];
    let (node, _) = asked_for("system:node:a", "system:nodes", &names);
    let (hub, _) = asked_for("system:node:a", "system:nodes", &["localhost".to_owned()]);
    let (any, _) = asked_for("system:node:a", "system:nodes", &["*.example.org".to_owned()]);
    let hubs_own = "a DNS or IP subjectAltName is one that the hub itself goes by";
    let (other, _) = asked("anybody", "");
    for (name, pem, usages, wanted) in [
        ("csr-node", &node, json!(["digital signature", "server auth"]), ""),
        // By the same CA agents know the hub.
        ("csr-hub", &hub, json!(["digital signature", "server auth"]), hubs_own),
        ("csr-any", &any, json!(["digital signature", "server auth"]), hubs_own),
        (
            "csr-no-node",
            &other,
            json!(["digital signature", "server auth"]),
            "subject organization is not system:nodes",
        ),
        (
            "csr-usages",
            &node,
            json!(["server auth"]),
            "usages did not match [digital signature key encipherment server auth]",
        ),
    ] {
        let mut made = request(name, pem, &usages);
        made["spec"]["signerName"] = json!("kubernetes.io/kubelet-serving");
        caller.post(REQUESTS, &made).is(201);
        kubectl.ok(&["certificate", "approve", name]);
        let status = eventually(name, TIMEOUT, || {
            let status = caller.get(&format!("{REQUESTS}/{name}")).is(200).json()["status"].clone();
            let failed = status["conditions"].as_array().is_some_and(|all| all.len() > 1);
            so(failed || status["certificate"].is_string(), || status.to_string())?;
            Ok(status)
        });
        assert_eq!(status["certificate"].is_string(), wanted.is_empty(), "{name}: {status}");
        if !wanted.is_empty() {
            assert_eq!(status["conditions"][1]["message"], wanted);
        }
        caller.delete(&format!("{REQUESTS}/{name}"), &Value::Null).is(200);
    }
}

#[test]
fn approving_needs_the_signer() {
    let subject = shared();
    let caller = subject.caller();
    let (pem, _) = asked("carl", "");
    caller.post(REQUESTS, &request("csr-carl", &pem, &json!(["client auth"]))).is(201);
    let rules = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "csr-nearly"},
        "rules": [{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests", "certificatesigningrequests/approval"], "verbs": ["*"]}]});
    caller.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &rules).is(201);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "csr-nearly"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "csr-nearly"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nearly"}]});
    caller.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).is(201);
    let kubectl = subject.kubectl();
    let told = eventually("the role to be known", TIMEOUT, || {
        let told = kubectl.run(&["--as", "nearly", "certificate", "approve", "csr-carl"]);
        so(told.stderr.contains("signerName"), || format!("{told:?}"))?;
        Ok(told.stderr)
    });
    let words =
        "user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\"";
    assert!(told.contains(words), "{told}");
    for path in [
        &format!("{REQUESTS}/csr-carl"),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/csr-nearly",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/csr-nearly",
    ] {
        caller.delete(path, &Value::Null).is(200);
    }
}
