//! A member's keys: its CA, the API server's certificate, an administrator's, and the key of service-account
//! tokens. Written once per member, so that restarts keep them.
//!
//! In: a folder, the member's name, its port. Out: key and certificate files there, and a kubeconfig that holds the administrator's. Not
//! for anything that strangers reach.

use std::path::Path;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData,
};

/// Writes `ca.crt`, `ca.key`, `server.crt`, `server.key`, `sa.key`, `sa.pub` and `admin.kubeconfig` into
/// `folder`; the kubeconfig's cluster, user and context are named `name`.
pub(crate) fn write(folder: &Path, name: &str, port: u16) -> Result<()> {
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.distinguished_name = named(&format!("{name}-ca"), None);
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    std::fs::write(folder.join("ca.crt"), &ca_pem)?;
    std::fs::write(folder.join("ca.key"), ca_key.serialize_pem())?;
    let issuer = Issuer::new(ca, ca_key);

    let names =
        ["localhost", "127.0.0.1", "10.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let mut server = CertificateParams::new(names.map(String::from))?;
    server.distinguished_name = named("kube-apiserver", None);
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let server_key = KeyPair::generate()?;
    std::fs::write(folder.join("server.crt"), server.signed_by(&server_key, &issuer)?.pem())?;
    std::fs::write(folder.join("server.key"), server_key.serialize_pem())?;

    let mut admin = CertificateParams::new(Vec::new())?;
    admin.distinguished_name = named("admin", Some("system:masters"));
    admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let admin_key = KeyPair::generate()?;
    let admin_pem = admin.signed_by(&admin_key, &issuer)?.pem();

    let tokens = KeyPair::generate()?;
    std::fs::write(folder.join("sa.key"), tokens.serialize_pem())?;
    std::fs::write(folder.join("sa.pub"), public_pem(&tokens))?;

    let kubeconfig = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority-data": STANDARD.encode(&ca_pem),
        }}],
        "users": [{"name": name, "user": {
            "client-certificate-data": STANDARD.encode(&admin_pem),
            "client-key-data": STANDARD.encode(admin_key.serialize_pem()),
        }}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    });
    std::fs::write(folder.join("admin.kubeconfig"), serde_json::to_string_pretty(&kubeconfig)?)?;
    Ok(())
}

fn named(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}

fn public_pem(key: &KeyPair) -> String {
    let encoded = STANDARD.encode(key.subject_public_key_info());
    format!("-----BEGIN PUBLIC KEY-----\n{encoded}\n-----END PUBLIC KEY-----\n")
}
