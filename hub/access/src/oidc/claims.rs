//! What a verified token's claims make of its bearer, as kube-apiserver's OIDC authenticator reads them. Pure.
//!
//! In: an issuer's options and expressions, the claims of a token whose signature is verified, and the time. Out: the [`User`], or in words
//! why there is none; those words are for the log and no caller.

use karmada_registry::User;
use serde_json::Value;

use super::IssuerOptions;
use super::cel_mappings::Expressions;

/// How far ahead of us an issuer's clock may be (seconds), as its `nbf` is judged.
const LEEWAY: f64 = 300.0;

/// The user whom the claims name at `now`. `Err` says why none.
pub(super) fn user(
    options: &IssuerOptions,
    expressions: &Expressions,
    claims: &Value,
    now: jiff::Timestamp,
) -> Result<User, String> {
    let now = now.as_second() as f64;
    check_claims(options, claims, now)?;
    let made = expressions.of_claims(claims)?;
    let name = match made.username {
        Some(name) => name,
        None => named(options, claims)?,
    };
    if name.is_empty() {
        return Err("it makes an empty name".to_owned());
    }
    let groups = match made.groups {
        Some(groups) => groups,
        None => grouped(options, claims)?,
    };
    let mut user = User { name, groups, extra: made.extra, ..User::default() };
    user.uid = match made.uid {
        Some(uid) => uid,
        None if options.uid_claim.is_empty() => String::new(),
        None => claims[&options.uid_claim].as_str().unwrap_or_default().to_owned(),
    };
    if let Some(id) = claims["jti"].as_str().filter(|id| !id.is_empty()) {
        let key = "authentication.kubernetes.io/credential-id".to_owned();
        user.extra.insert(key, vec![format!("JTI={id}")]);
    }
    plain(&user)?;
    expressions.allow(&user)?;
    Ok(user)
}

/// Refuses what would read as another user in a log, or end a name early for who reads it.
fn plain(user: &User) -> Result<(), String> {
    let controls = |text: &String| text.chars().any(char::is_control);
    let wrong = match user {
        User { name, .. } if controls(name) => "name",
        User { uid, .. } if controls(uid) => "uid",
        User { groups, .. } if groups.iter().any(controls) => "group",
        User { extra, .. } if extra.values().flatten().any(controls) => "fact",
        _ => return Ok(()),
    };
    Err(format!("it makes a {wrong} with control characters"))
}

/// Whether the token is good now, for us, with the claims it must have.
fn check_claims(options: &IssuerOptions, claims: &Value, now: f64) -> Result<(), String> {
    let end = time(claims, "exp")?.ok_or("it names no end")?;
    if now > end {
        return Err("it has expired".to_owned());
    }
    if time(claims, "nbf")?.is_some_and(|start| now + LEEWAY < start) {
        return Err("it is not valid yet".to_owned());
    }
    time(claims, "iat")?;
    let meant_for = texts(claims, "aud")?;
    if !meant_for.iter().any(|audience| options.audiences.contains(audience)) {
        return Err("it is meant for somebody else".to_owned());
    }
    for (claim, wanted) in &options.required_claims {
        if claims[claim] != **wanted {
            return Err(format!("its claim {claim} is not as required"));
        }
    }
    Ok(())
}

/// The user name, where it is a claim.
fn named(options: &IssuerOptions, claims: &Value) -> Result<String, String> {
    let claim = &options.username_claim;
    let name = claims[claim].as_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("its claim {claim} is no name"))?;
    if claim == "email" && claims.get("email_verified").is_some_and(|verified| *verified != true) {
        return Err("its email is not verified".to_owned());
    }
    let prefix = match &options.username_prefix {
        Some(prefix) => prefix.clone(),
        None if claim == "email" => String::new(),
        None => format!("{}#", options.url),
    };
    Ok(format!("{prefix}{name}"))
}

/// The groups, where they are a claim. Where the token says that the claim is kept elsewhere, it is refused: it is not fetched, and who has
/// those groups must not be taken for somebody without any.
fn grouped(options: &IssuerOptions, claims: &Value) -> Result<Vec<String>, String> {
    let claim = &options.groups_claim;
    if claim.is_empty() {
        return Ok(Vec::new());
    }
    let elsewhere = |claim: &str| claims["_claim_names"].get(claim).is_some();
    if claims[claim].is_null() && elsewhere(claim) {
        return Err(format!("its claim {claim} is kept elsewhere, where it is not fetched from"));
    }
    let groups = texts(claims, claim)?.into_iter();
    Ok(groups.map(|group| format!("{}{group}", options.groups_prefix)).collect())
}

/// A claim that is a time, in seconds, or is not there.
fn time(claims: &Value, claim: &str) -> Result<Option<f64>, String> {
    match &claims[claim] {
        Value::Null => Ok(None),
        Value::Number(seconds) => Ok(seconds.as_f64()),
        _ => Err(format!("its claim {claim} is no number")),
    }
}

/// A claim that is a text or a list of texts, or is not there.
fn texts(claims: &Value, claim: &str) -> Result<Vec<String>, String> {
    let all = match &claims[claim] {
        Value::Null => Some(Vec::new()),
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => None,
    };
    all.ok_or_else(|| format!("its claim {claim} is neither a text nor a list of texts"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options() -> IssuerOptions {
        IssuerOptions {
            url: "https://i".into(),
            audiences: vec!["hub".into()],
            username_claim: "sub".into(),
            groups_claim: "groups".into(),
            groups_prefix: "oidc:".into(),
            uid_claim: "uid".into(),
            required_claims: [("hd".to_owned(), "example.org".to_owned())].into(),
            ..IssuerOptions::default()
        }
    }

    #[allow(clippy::needless_pass_by_value, reason = "the calls read better")]
    fn read(options: &IssuerOptions, changed: Value) -> Result<User, String> {
        let mut claims = json!({"iss": "https://i", "aud": "hub", "exp": 1000, "sub": "jane", "hd": "example.org", "groups": ["a", "b"]});
        for (claim, value) in changed.as_object().unwrap() {
            claims[claim] = value.clone();
        }
        user(options, &Expressions::default(), &claims, jiff::Timestamp::from_second(900).unwrap())
    }

    #[test]
    fn claims_make_a_user() {
        let jane = read(&options(), json!({"jti": "x"})).unwrap();
        assert_eq!(
            (jane.name.as_str(), jane.groups),
            ("https://i#jane", vec!["oidc:a".into(), "oidc:b".into()])
        );
        assert_eq!(jane.extra["authentication.kubernetes.io/credential-id"], ["JTI=x"]);
        assert_eq!(read(&options(), json!({"groups": "one"})).unwrap().groups, ["oidc:one"]);
        assert!(read(&options(), json!({"groups": null})).unwrap().groups.is_empty());
        let bare = IssuerOptions { username_prefix: Some(String::new()), ..options() };
        assert_eq!(read(&bare, json!({"aud": ["other", "hub"]})).unwrap().name, "jane");
        let mail = IssuerOptions { username_claim: "email".into(), ..options() };
        assert_eq!(read(&mail, json!({"email": "j@x"})).unwrap().name, "j@x");
        assert!(read(&mail, json!({"email": "j@x", "email_verified": false})).is_err());
    }

    #[test]
    fn what_is_wrong_with_claims_is_told() {
        for (changed, why) in [
            (json!({"exp": 899}), "it has expired"),
            (json!({"exp": null}), "it names no end"),
            (json!({"nbf": 1201}), "it is not valid yet"),
            (json!({"aud": "other"}), "it is meant for somebody else"),
            (json!({"aud": null}), "it is meant for somebody else"),
            (json!({"hd": "other"}), "its claim hd is not as required"),
            (json!({"nbf": "801"}), "its claim nbf is no number"),
            (json!({"nbf": [800]}), "its claim nbf is no number"),
            (json!({"iat": "yesterday"}), "its claim iat is no number"),
            (json!({"aud": ["hub", 5]}), "its claim aud is neither a text nor a list of texts"),
            (json!({"aud": {"hub": 1}}), "its claim aud is neither a text nor a list of texts"),
            (json!({"groups": 5}), "its claim groups is neither a text nor a list of texts"),
            (json!({"groups": {"a": 1}}), "its claim groups is neither a text nor a list of texts"),
            (json!({"groups": ["a", 5, null]}), "its claim groups is neither a text nor a list of texts"),
            (
                json!({"groups": [["system:masters"]]}),
                "its claim groups is neither a text nor a list of texts",
            ),
            (json!({"groups": ["a\nb"]}), "it makes a group with control characters"),
            (json!({"sub": "a\u{0}b"}), "it makes a name with control characters"),
            (json!({"sub": "a\n"}), "it makes a name with control characters"),
            (json!({"uid": "a\r"}), "it makes a uid with control characters"),
            (
                json!({"groups": null, "_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"endpoint": "https://i/g"}}}),
                "its claim groups is kept elsewhere, where it is not fetched from",
            ),
            (json!({"sub": ""}), "its claim sub is no name"),
            (json!({"sub": 5}), "its claim sub is no name"),
        ] {
            assert_eq!(read(&options(), changed).unwrap_err(), why);
        }
        assert!(read(&options(), json!({"nbf": 1199})).is_ok(), "clocks differ a little");
    }
}
