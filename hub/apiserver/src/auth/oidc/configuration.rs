//! The structured form of what is said of issuers: `apiserver.config.k8s.io` AuthenticationConfiguration.
//!
//! Pure. In: the file's text. Out: the issuers. Mappings and rules by claim are carried out; those in CEL are refused by name, so
//! that nobody believes in a rule that is not held.

use serde::Deserialize;
use serde_json::Value;

use super::IssuerOptions;

/// Taken of issuers whose configuration names no algorithms: what kube-apiserver takes.
const ALGORITHMS: [&str; 8] = ["RS256", "RS384", "RS512", "ES256", "ES384", "PS256", "PS384", "PS512"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    jwt: Vec<Jwt>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Jwt {
    issuer: Issuer,
    claim_mappings: Mappings,
    #[serde(default)]
    claim_validation_rules: Vec<Rule>,
    #[serde(default)]
    user_validation_rules: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Issuer {
    url: String,
    #[serde(default, rename = "discoveryURL")]
    discovery_url: String,
    #[serde(default)]
    certificate_authority: String,
    audiences: Vec<String>,
    #[serde(default)]
    audience_match_policy: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mappings {
    username: Mapping,
    #[serde(default)]
    groups: Mapping,
    #[serde(default)]
    uid: Mapping,
    #[serde(default)]
    extra: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mapping {
    #[serde(default)]
    claim: String,
    #[serde(default)]
    prefix: Option<String>,
    #[serde(default)]
    expression: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    #[serde(default)]
    claim: String,
    #[serde(default)]
    required_value: String,
    #[serde(default)]
    expression: String,
}

/// Reads the file.
pub(super) fn read(text: &str) -> Result<Vec<IssuerOptions>, String> {
    let file: File = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let versions = ["v1", "v1beta1", "v1alpha1"].map(|version| format!("apiserver.config.k8s.io/{version}"));
    if file.kind != "AuthenticationConfiguration" || !versions.contains(&file.api_version) {
        return Err(format!(
            "expected apiserver.config.k8s.io/v1, Kind=AuthenticationConfiguration, got {}, Kind={}",
            file.api_version, file.kind
        ));
    }
    file.jwt
        .into_iter()
        .enumerate()
        .map(|(at, jwt)| jwt.options().map_err(|why| format!("jwt[{at}]: {why}")))
        .collect()
}

impl Jwt {
    fn options(self) -> Result<IssuerOptions, String> {
        let Jwt { issuer, claim_mappings: mappings, claim_validation_rules: rules, user_validation_rules } =
            self;
        let expressions = [&mappings.username, &mappings.groups, &mappings.uid];
        let has_expressions = expressions.iter().any(|mapping| !mapping.expression.is_empty())
            || rules.iter().any(|rule| !rule.expression.is_empty());
        if has_expressions || !mappings.extra.is_empty() || !user_validation_rules.is_empty() {
            return Err("mappings and rules in CEL are not carried out: say them by claim".to_owned());
        }
        if !issuer.url.starts_with("https://") {
            return Err(format!("issuer.url: {:?}: URL scheme must be https", issuer.url));
        }
        if issuer.audiences.is_empty() {
            return Err("issuer.audiences: at least one is required".to_owned());
        }
        if !matches!(issuer.audience_match_policy.as_str(), "" | "MatchAny") {
            return Err(format!(
                "issuer.audienceMatchPolicy: {:?} is not known",
                issuer.audience_match_policy
            ));
        }
        let with_prefix = |mapping: &Mapping, field: &str| match (&*mapping.claim, &mapping.prefix) {
            ("", _) => Ok(String::new()),
            (_, Some(prefix)) => Ok(prefix.clone()),
            (_, None) => Err(format!("claimMappings.{field}.prefix: required where claim is set")),
        };
        if mappings.username.claim.is_empty() {
            return Err("claimMappings.username.claim: required".to_owned());
        }
        Ok(IssuerOptions {
            username_prefix: Some(with_prefix(&mappings.username, "username")?),
            groups_prefix: with_prefix(&mappings.groups, "groups")?,
            url: issuer.url,
            discovery_url: issuer.discovery_url,
            audiences: issuer.audiences,
            username_claim: mappings.username.claim,
            groups_claim: mappings.groups.claim,
            uid_claim: mappings.uid.claim,
            required_claims: rules.into_iter().map(|rule| (rule.claim, rule.required_value)).collect(),
            ca_pem: issuer.certificate_authority.into_bytes(),
            algorithms: ALGORITHMS.map(str::to_owned).to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: "https://i", audiences: [hub], audienceMatchPolicy: MatchAny}
  claimMappings:
    username: {claim: sub, prefix: "i:"}
    groups: {claim: roles, prefix: ""}
  claimValidationRules:
  - {claim: hd, requiredValue: example.org}
"#;

    #[test]
    fn issuers_are_read_and_what_is_not_held_is_refused() {
        let all = read(FILE).unwrap();
        let one = &all[0];
        assert_eq!((all.len(), one.url.as_str(), one.username_claim.as_str()), (1, "https://i", "sub"));
        assert_eq!((one.username_prefix.as_deref(), one.groups_claim.as_str()), (Some("i:"), "roles"));
        assert_eq!(one.required_claims["hd"], "example.org");
        for (from, to, part) in [
            ("https://i", "http://i", "must be https"),
            ("{claim: sub, prefix: \"i:\"}", "{expression: claims.sub}", "CEL"),
            (", prefix: \"i:\"", "", "username.prefix"),
            ("audiences: [hub]", "audiences: []", "audiences"),
            ("kind: Auth", "kind: Other", "expected"),
            ("hd", "hd, else: 1", "else"),
        ] {
            let why = read(&FILE.replacen(from, to, 1)).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
