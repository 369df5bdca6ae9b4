//! What a file may say, and how it is refused where it may not.

use super::*;

const KEY: &str = "c2VjcmV0IGlzIHNlY3VyZSwgb3IgaXMgaXQ/Pz8/Pz8=";

fn read(resources: &str) -> Result<Configuration, Invalid> {
    Configuration::read(&format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n{resources}"
    ))
}

fn refused(resources: &str) -> String {
    read(resources).expect_err(resources).0
}

fn element(names: &str, providers: &str) -> String {
    format!("- resources: [{names}]\n  providers: [{providers}]\n")
}

/// What a resource is written with.
fn first(configuration: &Configuration, group: &str, resource: &str) -> String {
    match configuration.providers_of(group, resource).map(|(_, rule)| &rule.providers[0]) {
        None => "nothing".into(),
        Some(Provider::Identity) => "identity".into(),
        Some(Provider::Keyed(_, keys)) => keys[0].name.clone(),
        Some(Provider::Kms(plugin)) => plugin.name.clone(),
    }
}

fn aes(name: &str) -> String {
    format!("{{aesgcm: {{keys: [{{name: {name}, secret: {KEY}}}]}}}}")
}

#[test]
fn the_rule_of_a_resource_comes_before_its_groups_and_that_before_all() {
    let text = [
        element("secrets, bars.example.com", &aes("one")),
        element("\"*.apps\"", &aes("two")),
        element("\"*.\"", &aes("three")),
        element("\"*.*\"", "{identity: {}}"),
    ]
    .concat();
    let all = read(&text).unwrap();
    assert_eq!(first(&all, "", "secrets"), "one");
    assert_eq!(first(&all, "example.com", "bars"), "one");
    assert_eq!(first(&all, "apps", "deployments"), "two");
    assert_eq!(first(&all, "", "configmaps"), "three");
    assert_eq!(first(&all, "batch", "jobs"), "identity");
    let one = read(&element("secrets", &aes("one"))).unwrap();
    assert_eq!(first(&one, "", "configmaps"), "nothing");
}

#[test]
fn what_carries_secrets_is_covered_with_them() {
    for (group, resource) in CARRIERS {
        let of = |text: &str| first(&read(text).unwrap(), group, resource);
        let named = element(&format!("{resource}.{group}"), "{identity: {}}");
        let secrets = element("secrets", &aes("one"));
        assert_eq!(of(&secrets), "one", "{resource}");
        assert_eq!(of(&[secrets.clone(), named.clone()].concat()), "identity", "named itself");
        assert_eq!(of(&element("configmaps", &aes("two"))), "two", "ConfigMaps are in Works, too");
        let open = element("secrets", "{identity: {}}");
        assert_eq!(of(&[open.clone(), element("configmaps", &aes("two"))].concat()), "two");
        assert_eq!(of(&open), "nothing");
        let everything = [secrets, element("\"*.*\"", "{identity: {}}")].concat();
        assert_eq!(of(&everything), "one", "everything is no name of its own");
    }
}

#[test]
fn a_resource_that_is_named_again_gets_further_providers() {
    let text = [element("secrets", &aes("one")), element("secrets", &aes("two"))].concat();
    let (_, rule) = read(&text).map(|all| (0, all.rules)).unwrap();
    assert_eq!(rule[0].providers.len(), 2);
    let masked = [element("\"*.apps\"", &aes("one")), element("deployments.apps", &aes("two"))].concat();
    assert_eq!(refused(&masked), "resource \"deployments.apps\" is masked by earlier rule \"*.apps\"");
    let masked = [element("\"*.*\"", &aes("one")), element("secrets", &aes("two"))].concat();
    assert_eq!(refused(&masked), "resource \"secrets\" is masked by earlier rule \"*.*\"");
}

#[test]
fn faults_are_told_in_kube_apiservers_words() {
    let identity = "{identity: {}}";
    let provider = |text: &str| refused(&element("secrets", text));
    assert_eq!(Configuration::read("").unwrap_err().0, "the encryption provider configuration is empty");
    assert_eq!(refused("  []"), "resources: Required value: at least one resources is required");
    assert_eq!(
        refused(&element("", identity)),
        "resources[0].resources: Required value: at least one resources[0].resources is required"
    );
    assert_eq!(
        refused(&element("secrets", "")),
        "resources[0].providers: Required value: at least one resources[0].providers is required"
    );
    for (name, why) in [
        ("Secrets", "resource name should not contain capital letters"),
        (
            "\"*\"",
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
        ),
        ("apiserveripinfo", "resources which do not have REST API/s cannot be encrypted"),
        ("secrets.extensions", "'extensions' group has been removed and cannot be used for encryption"),
        ("\"secrets.*\"", "encrypting the same resource across groups is not supported"),
    ] {
        let plain = name.trim_matches('"');
        let expected = format!("resources[0].resources[0]: Invalid value: {plain:?}: {why}");
        assert_eq!(refused(&element(name, identity)), expected);
    }
    assert!(
        refused(&element("secrets, secrets", identity))
            .contains("the same resource cannot be specified multiple times")
    );
    assert!(refused(&element("secrets, \"*.\"", identity)).contains("using overlapping resources"));
    assert!(provider("{}").contains("provider does not contain any of the expected providers"));
    let two = format!("{{identity: {{}}, aesgcm: {{keys: [{{name: a, secret: {KEY}}}]}}}}");
    assert!(provider(&two).contains("more than one provider specified in a single element"));
    let keys = |keys: &str| provider(&format!("{{aescbc: {{keys: [{keys}]}}}}"));
    let at = "resources[0].providers[0].aescbc.keys";
    assert_eq!(keys(""), format!("{at}: Required value: at least one keys is required"));
    assert_eq!(
        keys("{name: a, secret: AAAA}"),
        format!(
            "{at}[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 3, expected one of [16 24 32]"
        )
    );
    assert_eq!(
        keys("{name: a, secret: \"?\"}"),
        format!("{at}[0].secret: Invalid value: \"REDACTED\": secrets must be base64 encoded")
    );
    assert_eq!(
        keys("{}"),
        format!(
            "[{at}[0].name: Required value: name is a mandatory field for a key, \
             {at}[0].secret: Required value: secret is a mandatory field for a key]"
        )
    );
    let short = provider("{secretbox: {keys: [{name: a, secret: AAAAAAAAAAAAAAAAAAAAAA==}]}}");
    assert!(short.contains("got 16, expected one of [32]"), "{short}");
}

#[test]
fn a_key_management_service_is_named_reached_and_of_version_two() {
    let kms = |rest: &str| read(&element("secrets", &format!("{{kms: {{{rest}}}}}")));
    let refused = |rest: &str| kms(rest).expect_err(rest).0;
    let good = "apiVersion: v2, name: a, endpoint: \"unix:///run/kms.sock\"";
    let plugin = |text: &str| match kms(text).unwrap().rules.remove(0).providers.remove(0) {
        Provider::Kms(plugin) => plugin,
        other => panic!("{other:?}"),
    };
    assert_eq!(plugin(good).timeout, Duration::from_secs(3));
    assert_eq!(plugin(&format!("{good}, timeout: 1.5s")).timeout, Duration::from_millis(1500));
    assert_eq!(plugin(&format!("{good}, timeout: 1m30s")).timeout, Duration::from_secs(90));
    assert!(refused(&format!("{good}, timeout: 0s")).contains("timeout should be a positive value"));
    assert!(refused(&format!("{good}, cachesize: 9")).contains("cachesize is not supported in v2"));
    assert!(refused("name: a, endpoint: \"unix:///a\"").contains("KMSv1 is deprecated"));
    assert!(
        refused("apiVersion: v3, name: a, endpoint: \"unix:///a\"").contains("unsupported apiVersion v3")
    );
    assert!(
        refused("apiVersion: v2, name: \"a:b\", endpoint: \"unix:///a\"").contains("must not contain ':'")
    );
    let tcp = refused("apiVersion: v2, name: a, endpoint: \"tcp://a:1\"");
    assert!(tcp.contains("unsupported scheme \"tcp\" for KMS provider, only unix is supported"), "{tcp}");
    let twice = [
        element("secrets", &format!("{{kms: {{{good}}}}}")),
        element("configmaps", &format!("{{kms: {{{good}}}}}")),
    ];
    assert!(
        read(&twice.concat()).unwrap_err().0.contains("duplicate KMS provider name a, names must be unique")
    );
}

#[test]
fn no_refusal_shows_a_key() {
    let secret = "hunter2hunter2";
    for text in [
        format!(
            "- resources: [secrets]\n  providers: [{{aesgcm: {{keys: [{{name: a, secret: [{secret}]}}]}}}}]\n"
        ),
        format!(
            "- resources: [secrets]\n  providers: [{{aesgcm: {{keys: [{{name: a, secrets: {secret}}}]}}}}]\n"
        ),
        format!(
            "- resources: [secrets]\n  providers: [{{aesgcm: {{keys: [{{name: a, secret: {secret}}}]}}}}]\n"
        ),
        format!("- resources: [secrets]\n  providers: [{{{secret}: {{}}}}]\n"),
        secret.to_owned(),
    ] {
        let why = refused(&text);
        assert!(!why.contains(secret), "{why}");
    }
    let shown = format!("{:?}", read(&element("secrets", &aes("one"))).unwrap());
    assert!(
        !shown.contains("secret is secure") && !shown.contains(KEY) && !shown.contains("115, 101"),
        "{shown}"
    );
}
