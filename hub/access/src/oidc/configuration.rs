//! The structured form of what is said of issuers: `apiserver.config.k8s.io` AuthenticationConfiguration.
//!
//! Pure. In: the file's text. Out: the issuers. Expressions are compiled as they are read, so that what cannot be
//! held is told at start.

mod refusals;

use karmada_schema::yaml;
use serde::Deserialize;

use super::cel_mappings::Expressions;
use super::{Anonymous, IssuerOptions};

/// Taken of issuers whose configuration names no algorithms: what kube-apiserver takes.
const ALGORITHMS: [&str; 8] = ["RS256", "RS384", "RS512", "ES256", "ES384", "PS256", "PS384", "PS512"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    jwt: Vec<Jwt>,
    #[serde(default)]
    anonymous: Option<AnonymousText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AnonymousText {
    enabled: bool,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Condition {
    path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Jwt {
    issuer: Issuer,
    claim_mappings: Mappings,
    #[serde(default)]
    claim_validation_rules: Vec<Rule>,
    #[serde(default)]
    user_validation_rules: Vec<UserRule>,
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
    extra: Vec<Extra>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Extra {
    key: String,
    value_expression: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UserRule {
    expression: String,
    #[serde(default)]
    message: String,
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
    #[serde(default)]
    message: String,
}

/// Reads the file.
pub(super) fn read(text: &str) -> Result<(Vec<IssuerOptions>, Anonymous), String> {
    // By way of JSON: the YAML reader is large, and made once for that.
    let value = yaml::read::<{ yaml::FILE }>(text).map_err(|error| error.to_string())?;
    let file: File = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let versions = ["v1", "v1beta1", "v1alpha1"].map(|version| format!("apiserver.config.k8s.io/{version}"));
    if file.kind != "AuthenticationConfiguration" || !versions.contains(&file.api_version) {
        return Err(format!(
            "expected apiserver.config.k8s.io/v1, Kind=AuthenticationConfiguration, got {}, Kind={}",
            file.api_version, file.kind
        ));
    }
    let anonymous = match file.anonymous {
        None => Anonymous::Everywhere,
        Some(said) if !said.enabled && !said.conditions.is_empty() => {
            return Err(
                "anonymous.conditions: enabled should be set to true when conditions are defined".to_owned()
            );
        }
        Some(said) if !said.enabled => Anonymous::Nowhere,
        Some(said) if said.conditions.is_empty() => Anonymous::Everywhere,
        Some(said) => Anonymous::At(said.conditions.into_iter().map(|one| one.path).collect()),
    };
    refusals::issuers(&file.jwt)?;
    let issuers = file.jwt.into_iter().enumerate();
    let issuers = issuers.map(|(at, jwt)| jwt.options().map_err(|why| format!("jwt[{at}]: {why}")));
    Ok((issuers.collect::<Result<_, _>>()?, anonymous))
}

impl Jwt {
    fn options(self) -> Result<IssuerOptions, String> {
        let Jwt { issuer, claim_mappings: mappings, claim_validation_rules: rules, user_validation_rules } =
            self;
        let (by_claim, by_expression): (Vec<Rule>, Vec<Rule>) =
            rules.into_iter().partition(|rule| rule.expression.is_empty());
        let options = IssuerOptions {
            username_prefix: Some(mappings.username.prefix.unwrap_or_default()),
            groups_prefix: mappings.groups.prefix.unwrap_or_default(),
            url: issuer.url,
            discovery_url: issuer.discovery_url,
            audiences: issuer.audiences,
            username_claim: mappings.username.claim,
            groups_claim: mappings.groups.claim,
            uid_claim: mappings.uid.claim,
            required_claims: by_claim.into_iter().map(|rule| (rule.claim, rule.required_value)).collect(),
            ca_pem: issuer.certificate_authority.into_bytes(),
            algorithms: ALGORITHMS.map(str::to_owned).to_vec(),
            username_expression: mappings.username.expression,
            groups_expression: mappings.groups.expression,
            uid_expression: mappings.uid.expression,
            extra: mappings.extra.into_iter().map(|extra| (extra.key, extra.value_expression)).collect(),
            claim_rules: by_expression.into_iter().map(|rule| (rule.expression, rule.message)).collect(),
            user_rules: user_validation_rules
                .into_iter()
                .map(|rule| (rule.expression, rule.message))
                .collect(),
        };
        verified_email(&options)?;
        Expressions::compile(&options).map(|_| options)
    }
}

/// Who takes a name from an email must see to it that it was verified.
fn verified_email(options: &IssuerOptions) -> Result<(), String> {
    const VERIFIED: &str = "claims.email_verified";
    let unverified = options.username_expression.replace(VERIFIED, "").contains("claims.email");
    let mut all = vec![&options.username_expression];
    all.extend(options.extra.iter().map(|(_, expression)| expression));
    all.extend(options.claim_rules.iter().map(|(expression, _)| expression));
    if unverified && !all.iter().any(|expression| expression.contains(VERIFIED)) {
        return Err(
            "claimMappings.username.expression: claims.email_verified must be used where claims.email is"
                .into(),
        );
    }
    Ok(())
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
        let (all, anonymous) = read(FILE).unwrap();
        assert_eq!(anonymous, Anonymous::Everywhere);
        let said = |more: &str| read(&format!("{FILE}{more}")).map(|(_, anonymous)| anonymous);
        assert_eq!(said("anonymous: {enabled: false}"), Ok(Anonymous::Nowhere));
        let healthz = said("anonymous: {enabled: true, conditions: [{path: /healthz}]}").unwrap();
        assert!(healthz.allows("/healthz") && !healthz.allows("/version"));
        assert!(said("anonymous: {enabled: false, conditions: [{path: /a}]}").is_err());
        let one = &all[0];
        assert_eq!((all.len(), one.url.as_str(), one.username_claim.as_str()), (1, "https://i", "sub"));
        assert_eq!((one.username_prefix.as_deref(), one.groups_claim.as_str()), (Some("i:"), "roles"));
        assert_eq!(one.required_claims["hd"], "example.org");
        let by_expression = FILE.replace("{claim: sub, prefix: \"i:\"}", "{expression: \"claims.sub\"}");
        assert_eq!(read(&by_expression).unwrap().0[0].username_expression, "claims.sub");
        for (from, to, part) in [
            ("https://i", "http://i", "must be https"),
            ("{claim: sub, prefix: \"i:\"}", "{expression: claims.}", "username.expression"),
            ("{claim: sub, prefix: \"i:\"}", "{expression: claims.email}", "email_verified"),
            ("{claim: sub, prefix: \"i:\"}", "{claim: sub, prefix: a, expression: claims.sub}", "both"),
            ("{claim: sub, prefix: \"i:\"}", "{}", "required"),
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
