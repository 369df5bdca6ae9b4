//! Each kind of credential with its expired, wrong and unknown variants.

use super::*;

#[tokio::test]
async fn a_join_token_is_its_secret_while_it_lasts() {
    let mut wrong_type = join_token("typed0", &[]);
    wrong_type["type"] = json!("Opaque");
    let mut leaving = join_token("leavin", &[]);
    leaving["metadata"]["deletionTimestamp"] = json!(NOW);
    let hub = hub(vec![
        join_token("abcdef", &[]),
        join_token("forevr", &[("expiration", "")]),
        join_token("oldone", &[("expiration", "2026-05-01T11:59:59Z")]),
        join_token("oddone", &[("expiration", "tomorrow")]),
        join_token("noauth", &[("usage-bootstrap-authentication", "false")]),
        join_token("master", &[("auth-extra-groups", "system:masters")]),
        join_token("idless", &[("token-id", "abcdef")]),
        join_token("nosecr", &[("token-secret", "")]),
        wrong_type,
        leaving,
    ])
    .await;
    let table = [
        ("abcdef.0123456789abcdef", true),
        ("forevr.0123456789abcdef", true),
        ("abcdef.0123456789abcdeX", false),
        ("abcdef.0123456789abcdee", false),
        ("abcdef.", false),
        ("unknow.0123456789abcdef", false),
        ("oldone.0123456789abcdef", false),
        ("oddone.0123456789abcdef", false),
        ("noauth.0123456789abcdef", false),
        ("master.0123456789abcdef", false),
        ("idless.0123456789abcdef", false),
        ("nosecr.0123456789abcdef", false),
        ("typed0.0123456789abcdef", false),
        ("leavin.0123456789abcdef", false),
        ("garbage", false),
    ];
    for (token, good) in table {
        let outcome = hub.authenticator.authenticate(&bearing(token), None);
        assert_eq!(outcome.as_ref().map_err(|status| status.code).err(), (!good).then_some(401), "{token}");
        if let Ok(user) = outcome {
            assert!(user.name.starts_with("system:bootstrap:"));
            assert_eq!(
                user.groups,
                ["system:bootstrappers", "system:bootstrappers:karmada:default-cluster-token", AUTHENTICATED]
            );
        }
    }
}

#[tokio::test]
async fn a_certificate_goes_first_and_nobody_is_anonymous() {
    let hub = hub(Vec::new()).await;
    let agent = user("system:karmada:agent:a", &["system:karmada:agents"]);
    let known = hub.authenticator.authenticate(&bearing("garbage"), Some(&agent)).unwrap();
    assert_eq!(known.groups, ["system:karmada:agents", AUTHENTICATED]);
    let nobody = hub.authenticator.authenticate(&HeaderMap::new(), None).unwrap();
    assert_eq!((nobody.name.as_str(), nobody.groups), (ANONYMOUS, vec![UNAUTHENTICATED.to_owned()]));
    let basic = HeaderMap::from_iter([(http::header::AUTHORIZATION, HeaderValue::from_static("Basic YTpi"))]);
    assert_eq!(hub.authenticator.authenticate(&basic, None).unwrap().name, ANONYMOUS);
}

#[tokio::test]
async fn an_account_token_lives_no_longer_than_what_it_names() {
    let mut leaving = account("leaving");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-05-01T11:00:00Z");
    let hub = hub(vec![account("robot"), leaving, pod("web", "robot")]).await;
    let good = |change: &dyn Fn(&mut Claims)| {
        let mut claims = Claims {
            aud: vec![token_claims::ISSUER.into()],
            exp: Some(now().as_second() + 600),
            iat: Some(now().as_second()),
            nbf: Some(now().as_second()),
            iss: token_claims::ISSUER.into(),
            jti: "t".into(),
            sub: "system:serviceaccount:shop:robot".into(),
            bound: Some(BoundClaims {
                namespace: "shop".into(),
                serviceaccount: ObjectClaim { name: "robot".into(), uid: "uid-robot".into() },
                pod: Some(ObjectClaim { name: "web".into(), uid: "uid-web".into() }),
                ..BoundClaims::default()
            }),
            ..Claims::default()
        };
        change(&mut claims);
        Signed.issue(&claims).unwrap()
    };
    let renamed = |name: &'static str| {
        move |c: &mut Claims| {
            c.sub = format!("system:serviceaccount:shop:{name}");
            c.bound.as_mut().unwrap().serviceaccount =
                ObjectClaim { name: name.into(), uid: format!("uid-{name}") };
        }
    };
    let table: Vec<(&str, String, bool)> = vec![
        ("as issued", good(&|_| {}), true),
        ("within the leeway", good(&|c| c.exp = Some(now().as_second() - 59)), true),
        ("expired", good(&|c| c.exp = Some(now().as_second() - 61)), false),
        ("without an end", good(&|c| c.exp = None), false),
        ("not yet", good(&|c| c.nbf = Some(now().as_second() + 61)), false),
        ("for another audience", good(&|c| c.aud = vec!["vault".into()]), false),
        ("for no audience", good(&|c| c.aud.clear()), false),
        ("of another issuer", good(&|c| c.iss = "https://elsewhere".into()), false),
        ("with another subject", good(&|c| c.sub = "system:serviceaccount:shop:admin".into()), false),
        (
            "of an account of that name, made anew",
            good(&|c| c.bound.as_mut().unwrap().serviceaccount.uid = "older".into()),
            false,
        ),
        ("of an account that is not there", good(&renamed("ghost")), false),
        ("of an account that left an hour ago", good(&renamed("leaving")), false),
        (
            "of a Pod made anew",
            good(&|c| c.bound.as_mut().unwrap().pod.as_mut().unwrap().uid = "older".into()),
            false,
        ),
        (
            "of a Pod that is not there",
            good(&|c| c.bound.as_mut().unwrap().pod.as_mut().unwrap().name = "gone".into()),
            false,
        ),
        ("unsigned", good(&|_| {}).replace("signed.", "forged."), false),
    ];
    for (what, token, accepted) in table {
        let outcome = hub.authenticator.authenticate(&bearing(&token), None);
        assert_eq!(outcome.is_ok(), accepted, "{what}");
        if let Ok(user) = outcome {
            assert_eq!(
                (user.name.as_str(), user.uid.as_str()),
                ("system:serviceaccount:shop:robot", "uid-robot")
            );
            assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:shop", AUTHENTICATED]);
            assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["web"]);
        }
    }
}

#[tokio::test]
async fn a_token_in_a_secret_lives_as_long_as_the_secret_holds_it() {
    let token =
        |secret: &str, uid: &str| Signed.issue(&Claims::legacy("shop", "robot", uid, secret)).unwrap();
    let (held, other) = (token("robot-token", "uid-robot"), token("other", "uid-robot"));
    let stale = token("stale", "older");
    let ended = token("ended", "uid-robot");
    let kind = "kubernetes.io/service-account-token";
    let mut invalid = secret("ended", kind, &[("token", &ended)]);
    invalid["metadata"]["labels"] = json!({"kubernetes.io/legacy-token-invalid-since": "2026-04-30"});
    let hub = hub(vec![
        account("robot"),
        invalid,
        secret("robot-token", kind, &[("token", &held)]),
        secret("other", kind, &[("token", "something else")]),
        secret("stale", kind, &[("token", &stale)]),
    ])
    .await;
    for (token, accepted) in
        [(held, true), (other, false), (stale, false), (ended, false), (token("gone", "uid-robot"), false)]
    {
        assert_eq!(hub.authenticator.authenticate(&bearing(&token), None).is_ok(), accepted);
    }
}
