//! What kube-apiserver refuses in an AuthenticationConfiguration: whatever is taken here is also held.
//!
//! Pure. In: what the file says of issuers. Out: nothing, or the first thing that is wrong, by its field.

use std::collections::BTreeSet;

use karmada_registry::webhook;

use super::{Extra, Issuer, Jwt, Mapping, Mappings, Rule, UserRule};
use crate::token_claims;

/// Issuers that one file may name.
const ISSUERS: usize = 64;

/// Judges all issuers of a file.
pub(super) fn issuers(all: &[Jwt]) -> Result<(), String> {
    if all.len() > ISSUERS {
        return Err(format!("jwt: Too many: {}: must have at most {ISSUERS} items", all.len()));
    }
    let (mut urls, mut discoveries) = (BTreeSet::new(), BTreeSet::new());
    for (at, jwt) in all.iter().enumerate() {
        let wrong = |why: String| format!("jwt[{at}].{why}");
        issuer(&jwt.issuer).map_err(|why| wrong(format!("issuer.{why}")))?;
        if !urls.insert(&*jwt.issuer.url) {
            return Err(wrong(format!("issuer.url: Duplicate value: {:?}", jwt.issuer.url)));
        }
        let discovery = &*jwt.issuer.discovery_url;
        if !discovery.is_empty() && !discoveries.insert(discovery) {
            return Err(wrong(format!("issuer.discoveryURL: Duplicate value: {discovery:?}")));
        }
        rules(&jwt.claim_validation_rules).map_err(wrong)?;
        mappings(&jwt.claim_mappings).map_err(|why| wrong(format!("claimMappings.{why}")))?;
        user_rules(&jwt.user_validation_rules).map_err(wrong)?;
    }
    Ok(())
}

fn issuer(issuer: &Issuer) -> Result<(), String> {
    let Issuer { url, discovery_url, audiences, audience_match_policy, certificate_authority } = issuer;
    https(url).map_err(|why| format!("url: Invalid value: {url:?}: {why}"))?;
    if url == token_claims::ISSUER {
        let own = token_claims::ISSUER;
        return Err(format!(
            "url: Invalid value: {url:?}: URL must not overlap with disallowed issuers: [{own}]"
        ));
    }
    if !discovery_url.is_empty() {
        let wrong = |why: &str| format!("discoveryURL: Invalid value: {discovery_url:?}: {why}");
        if url.trim_end_matches('/') == discovery_url.trim_end_matches('/') {
            return Err(wrong("discoveryURL must be different from URL"));
        }
        https(discovery_url).map_err(wrong)?;
    }
    if audiences.is_empty() {
        return Err("audiences: Required value: at least one is required".to_owned());
    }
    let mut seen = BTreeSet::new();
    for (at, audience) in audiences.iter().enumerate() {
        if audience.is_empty() {
            return Err(format!("audiences[{at}]: Required value"));
        }
        if !seen.insert(audience) {
            return Err(format!("audiences[{at}]: Duplicate value: {audience:?}"));
        }
    }
    let policy = audience_match_policy.as_str();
    let is_fit = policy == "MatchAny" || (policy.is_empty() && audiences.len() == 1);
    if !is_fit {
        let may = if audiences.len() == 1 {
            "empty or MatchAny for single audience"
        } else {
            "MatchAny for multiple audiences"
        };
        return Err(format!(
            "audienceMatchPolicy: Invalid value: {policy:?}: audienceMatchPolicy must be {may}"
        ));
    }
    if !certificate_authority.is_empty() {
        webhook::authorities(certificate_authority.as_bytes())
            .map_err(|why| format!("certificateAuthority: Invalid value: \"<omitted>\": {why}"))?;
    }
    Ok(())
}

/// Whether a URL is one that an issuer may have: of https, with nothing but a host and a path.
fn https(url: &str) -> Result<(), &'static str> {
    let Some(rest) = url.strip_prefix("https://") else { return Err("URL scheme must be https") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("URL must not contain a username or password");
    }
    if rest.contains('#') {
        return Err("URL must not contain a fragment");
    }
    if rest.contains('?') {
        return Err("URL must not contain a query");
    }
    if authority.is_empty() || url.parse::<http::Uri>().is_err() {
        return Err("it is no URL");
    }
    Ok(())
}

fn rules(rules: &[Rule]) -> Result<(), String> {
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    for (at, rule) in rules.iter().enumerate() {
        let wrong = |why: String| Err(format!("claimValidationRules[{at}]{why}"));
        match (&*rule.claim, &*rule.expression) {
            ("", "") => return wrong(": Required value: claim or expression is required".to_owned()),
            (claim, "") => {
                if !rule.message.is_empty() {
                    return wrong(
                        ".message: Invalid value: may not be specified when claim is set".to_owned(),
                    );
                }
                if !claims.insert(claim) {
                    return wrong(format!(".claim: Duplicate value: {claim:?}"));
                }
            }
            ("", expression) => {
                if !rule.required_value.is_empty() {
                    let why = ".requiredValue: Invalid value: may not be specified when expression is set";
                    return wrong(why.to_owned());
                }
                if !expressions.insert(expression) {
                    return wrong(format!(".expression: Duplicate value: {expression:?}"));
                }
            }
            (claim, _) => {
                return wrong(format!(": Invalid value: {claim:?}: claim and expression can't both be set"));
            }
        }
    }
    Ok(())
}

fn mappings(mappings: &Mappings) -> Result<(), String> {
    if mappings.username.is_nothing() {
        return Err("username: Required value: claim or expression is required".to_owned());
    }
    mapping(&mappings.username).map_err(|why| format!("username{why}"))?;
    mapping(&mappings.groups).map_err(|why| format!("groups{why}"))?;
    if mappings.uid.is_twofold() {
        return Err("uid: Invalid value: claim and expression can't both be set".to_owned());
    }
    if mappings.uid.prefix.is_some() {
        return Err("uid.prefix: there is no such field".to_owned());
    }
    extra(&mappings.extra)
}

fn mapping(mapping: &Mapping) -> Result<(), String> {
    if mapping.is_twofold() {
        return Err(": Invalid value: claim and expression can't both be set".to_owned());
    }
    match &mapping.prefix {
        Some(prefix) if mapping.claim.is_empty() => {
            Err(format!(".prefix: Invalid value: {prefix:?}: may not be specified when expression is set"))
        }
        None if !mapping.claim.is_empty() => Err(".prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing".to_owned()),
        _ => Ok(()),
    }
}

impl Mapping {
    fn is_nothing(&self) -> bool {
        self.claim.is_empty() && self.expression.is_empty()
    }

    fn is_twofold(&self) -> bool {
        !self.claim.is_empty() && !self.expression.is_empty()
    }
}

fn extra(all: &[Extra]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for (at, Extra { key, value_expression }) in all.iter().enumerate() {
        let wrong = |why: &str| Err(format!("extra[{at}].key: Invalid value: {key:?}: {why}"));
        let (domain, path) = key.split_once('/').unwrap_or_default();
        if path.is_empty() || !karmada_schema::names::dns_subdomain(domain).is_empty() {
            return wrong("must be a domain-prefixed path (such as \"acme.io/foo\")");
        }
        if *key != key.to_lowercase() {
            return wrong("must be lowercase");
        }
        let is_of =
            |own: &str| domain.strip_suffix(own).is_some_and(|sub| sub.is_empty() || sub.ends_with('.'));
        if is_of("k8s.io") || is_of("kubernetes.io") {
            return wrong("k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use");
        }
        if !seen.insert(key) {
            return Err(format!("extra[{at}].key: Duplicate value: {key:?}"));
        }
        if value_expression.is_empty() {
            return Err(format!("extra[{at}].valueExpression: Required value"));
        }
    }
    Ok(())
}

fn user_rules(rules: &[UserRule]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for (at, UserRule { expression, .. }) in rules.iter().enumerate() {
        if expression.is_empty() {
            return Err(format!("userValidationRules[{at}].expression: Required value"));
        }
        if !seen.insert(expression) {
            return Err(format!("userValidationRules[{at}].expression: Duplicate value: {expression:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::read;

    const FILE: &str = r#"
apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: "https://a.example", audiences: [hub]}
  claimMappings: {username: {claim: sub, prefix: "o:"}}
"#;

    /// What kube-apiserver 1.34 refuses of such a file, and by which words.
    #[test]
    fn what_kube_apiserver_refuses_is_refused() {
        assert!(read(FILE).is_ok());
        let second = "- issuer: {url: URL, audiences: [hub]}\n  claimMappings: {username: {claim: sub, prefix: \"\"}}\n";
        assert!(read(&format!("{FILE}{}", second.replace("URL", "https://b.example"))).is_ok());
        let twice = format!("{FILE}{}", second.replace("URL", "https://a.example"));
        assert!(read(&twice).unwrap_err().contains("jwt[1].issuer.url: Duplicate value"));
        let (user, issuer) =
            ("username: {claim: sub, prefix: \"o:\"}", "url: \"https://a.example\", audiences: [hub]");
        let by_expression = "username: {expression: claims.sub, prefix: \"o:\"}";
        let with = |more: &str| format!("{user}, {more}");
        for (from, to, why) in [
            (user, by_expression, "claimMappings.username.prefix: Invalid value: \"o:\""),
            (user, &with("groups: {expression: claims.groups, prefix: a}"), "claimMappings.groups.prefix"),
            (user, &with("groups: {claim: groups}"), "groups.prefix: Required value"),
            (user, &with("uid: {claim: sub, prefix: x}"), "claimMappings.uid.prefix"),
            (
                user,
                &with("extra: [{key: authentication.kubernetes.io/pod-name, valueExpression: claims.sub}]"),
                "reserved",
            ),
            (user, &with("extra: [{key: k8s.io/a, valueExpression: claims.sub}]"), "reserved"),
            (user, &with("extra: [{key: NOPATH, valueExpression: claims.sub}]"), "domain-prefixed path"),
            (user, &with("extra: [{key: a.b/C, valueExpression: claims.sub}]"), "must be lowercase"),
            (
                user,
                &with(
                    "extra: [{key: a.b/c, valueExpression: claims.sub}, {key: a.b/c, valueExpression: claims.sub}]",
                ),
                "extra[1].key: Duplicate",
            ),
            (user, &with("extra: [{key: a.b/c, valueExpression: ''}]"), "valueExpression: Required"),
            (issuer, "url: \"https://u:p@a.example/\", audiences: [hub]", "username or password"),
            (issuer, "url: \"https://a.example/?x=1\", audiences: [hub]", "a query"),
            (issuer, "url: \"https://a.example/#f\", audiences: [hub]", "a fragment"),
            (
                issuer,
                "url: \"https://kubernetes.default.svc.cluster.local\", audiences: [hub]",
                "disallowed issuers",
            ),
            (issuer, "url: \"https://a.example\", audiences: [a, b]", "must be MatchAny for multiple"),
            (
                issuer,
                "url: \"https://a.example\", audiences: [a], audienceMatchPolicy: All",
                "must be empty or MatchAny",
            ),
            (
                issuer,
                "url: \"https://a.example\", audiences: [a, a], audienceMatchPolicy: MatchAny",
                "audiences[1]: Duplicate",
            ),
            (issuer, "url: \"https://a.example\", audiences: ['']", "audiences[0]: Required value"),
            (
                issuer,
                "url: \"https://a.example\", discoveryURL: \"https://a.example/\", audiences: [hub]",
                "must be different",
            ),
            (
                issuer,
                "url: \"https://a.example\", certificateAuthority: nonsense, audiences: [hub]",
                "certificateAuthority",
            ),
        ] {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE, "{to}");
            let told = read(&text).expect_err(to);
            assert!(told.contains(why), "{to}: {told}");
        }
    }

    #[test]
    fn no_rule_is_forgotten() {
        for (rules, why) in [
            (
                "claimValidationRules: [{claim: hd, requiredValue: a, expression: 'true'}]",
                "can't both be set",
            ),
            ("claimValidationRules: [{}]", "claim or expression is required"),
            (
                "claimValidationRules: [{claim: hd, requiredValue: a}, {claim: hd, requiredValue: b}]",
                "Rules[1].claim: Duplicate",
            ),
            ("claimValidationRules: [{claim: hd, requiredValue: a, message: words}]", "Rules[0].message"),
            ("claimValidationRules: [{expression: 'true', requiredValue: a}]", "Rules[0].requiredValue"),
            (
                "claimValidationRules: [{expression: 'true'}, {expression: 'true'}]",
                "Rules[1].expression: Duplicate",
            ),
            ("userValidationRules: [{expression: ''}]", "Required value"),
            (
                "userValidationRules: [{expression: 'true'}, {expression: 'true'}]",
                "Rules[1].expression: Duplicate",
            ),
            ("userValidationRules: [{expression: 'user.nope == 1'}]", "nope"),
        ] {
            let told = read(&format!("{FILE}  {rules}\n")).expect_err(rules);
            assert!(told.contains(why), "{rules}: {told}");
        }
        let fine = "userValidationRules: [{expression: \"!user.username.startsWith('system:') && user.groups.all(g, g != '') && user.extra.size() == 0 && user.uid != 'x'\"}]";
        assert!(read(&format!("{FILE}  {fine}\n")).is_ok());
    }
}
