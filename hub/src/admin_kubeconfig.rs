//! The administrator's kubeconfig, in the hub's directory.
//!
//! In: the server's address, the CAs, the present. Out: the file, written anew where its credential ends soon, or is of a CA that signs no more.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use karmada_certs::{ADMIN_ORGANIZATION, KeyedCertificate, PeerIdentity, Subject};
use karmada_schema::yaml;
use serde_json::json;

use crate::data_dir::{DataDir, lasts};

/// The administrator's certificate.
const ADMIN_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

impl DataDir {
    /// The administrator's kubeconfig.
    pub fn kubeconfig_file(&self) -> PathBuf {
        self.file("admin.kubeconfig")
    }

    /// The administrator's certificate, as the kubeconfig holds it.
    pub fn administrator(&self) -> Option<PeerIdentity> {
        let text = karmada_certs::files::read(&self.kubeconfig_file()).ok()??;
        PeerIdentity::from_pem(&credential_of(&text)?.certificate_pem).ok()
    }

    /// Writes the administrator's kubeconfig for `server`. One that is there keeps its credential, unless that is of another CA
    /// than the one that signs, has ended or ends soon.
    ///
    /// # Errors
    /// The file cannot be read or written, or no certificate can be made.
    pub fn write_kubeconfig(&self, server: &str, now: Timestamp) -> Result<()> {
        let file = self.kubeconfig_file();
        let before = karmada_certs::files::read(&file).context("reading the administrator's kubeconfig")?;
        let authorities = self.authorities();
        let signs = |kept: &KeyedCertificate| {
            let issuer = PeerIdentity::from_pem(&kept.certificate_pem).map(|kept| kept.issuer);
            issuer.is_ok_and(|issuer| authorities.ends().first().is_some_and(|ca| ca.name == issuer))
        };
        let kept =
            before.as_deref().and_then(credential_of).filter(|kept| signs(kept) && kept_lasts(kept, now));
        let admin = match kept {
            Some(admin) => admin,
            None => {
                let subject = Subject {
                    common_name: "system:admin".to_owned(),
                    organizations: vec![ADMIN_ORGANIZATION.to_owned()],
                };
                let made = authorities.signing().issue_client_with_key(&subject, ADMIN_LIFE, now);
                made.context("making the administrator's certificate")?
            }
        };
        let text = kubeconfig(server, &authorities.bundle_pem(), &admin);
        if before.is_some_and(|before| before == text) {
            return Ok(());
        }
        karmada_certs::files::write_private(&file, text.as_bytes())
            .with_context(|| format!("writing {}", file.display()))
    }
}

/// The client certificate in a kubeconfig.
fn credential_of(text: &str) -> Option<KeyedCertificate> {
    let config = yaml::read::<{ yaml::FILE }>(text).ok()?;
    let data = |value: &serde_json::Value| {
        let bytes = BASE64.decode(value.as_str()?).ok()?;
        String::from_utf8(bytes).ok()
    };
    let user = &config["users"][0]["user"];
    let certificate_pem = data(&user["client-certificate-data"])?;
    let key_pem = data(&user["client-key-data"])?;
    Some(KeyedCertificate { certificate_pem, key_pem })
}

fn kept_lasts(kept: &KeyedCertificate, now: Timestamp) -> bool {
    PeerIdentity::from_pem(&kept.certificate_pem).is_ok_and(|kept| lasts(&kept, now))
}

/// A kubeconfig with everything inline and one context, `karmada-apiserver`.
fn kubeconfig(server: &str, ca_pem: &str, admin: &KeyedCertificate) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "karmada-apiserver", "cluster": {
            "server": server, "certificate-authority-data": BASE64.encode(ca_pem)}}],
        "users": [{"name": "karmada-admin", "user": {
            "client-certificate-data": BASE64.encode(&admin.certificate_pem),
            "client-key-data": BASE64.encode(&admin.key_pem)}}],
        "contexts": [{"name": "karmada-apiserver", "context": {"cluster": "karmada-apiserver", "user": "karmada-admin"}}],
        "current-context": "karmada-apiserver",
    });
    // JSON is YAML, and a kubeconfig is read by machines: no second writer is needed.
    serde_json::to_string_pretty(&config).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use karmada_certs::Authorities;

    use super::*;
    use crate::data_dir::AuthorityOf;

    #[test]
    fn the_administrators_credential_is_kept_until_its_end_is_near() {
        let folder = tempfile::tempdir().unwrap();
        let day = |day: i64| Timestamp::from_second(1_760_000_000 + day * 24 * 3600).unwrap();
        let written = |now: Timestamp| {
            let data = DataDir::open(folder.path(), now).unwrap();
            data.write_kubeconfig("https://hub:5443", now).unwrap();
            let text = std::fs::read_to_string(data.kubeconfig_file()).unwrap();
            credential_of(&text).unwrap()
        };
        let first = written(day(0));
        let ends = |kept: &KeyedCertificate| PeerIdentity::from_pem(&kept.certificate_pem).unwrap().not_after;
        assert_eq!(written(day(300)).certificate_pem, first.certificate_pem);
        let second = written(day(310));
        assert_eq!(ends(&second), day(310 + 365), "ten days more than two months before its end");
        // A hub that was off for years.
        let third = written(day(1000));
        assert_eq!(ends(&third), day(1365));
        let data = DataDir::open(folder.path(), day(1000)).unwrap();
        assert_eq!(data.authorities().ends()[0].end, day(3650));
        let before = ends(&written(day(1000)));
        Authorities::change(&DataDir::authority_folder(folder.path(), AuthorityOf::Hub), day(1100)).unwrap();
        let of_the_new = written(day(1100));
        assert!(ends(&of_the_new) > before, "while both are trusted, it is of the one that stays");
        assert_eq!(written(day(1101)).certificate_pem, of_the_new.certificate_pem);
        // A clock that was two years ahead for a while, and is right again.
        assert!(ends(&written(day(1101 + 730))) > day(2000));
        assert_eq!(ends(&written(day(1102))), day(1102 + 365), "one of that time has not begun");
    }
}
