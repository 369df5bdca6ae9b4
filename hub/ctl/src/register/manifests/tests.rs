//! Cases of the manifests that `register` applies.

use super::*;

fn installation(profile: Profile) -> Installation {
    Installation {
        namespace: "karmada-system".into(),
        cluster: "shop".into(),
        hub: "hub.example:5443".parse().unwrap(),
        pin: Pin::of_spki(b"key"),
        token: JoinToken::parse("abcdef.0123456789abcdef").unwrap(),
        image: "karmada-agent:test".into(),
        replicas: 1,
        profile,
        workload_namespaces: Vec::new(),
        provider: None,
        region: None,
        zones: Vec::new(),
    }
}

fn named(objects: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let name = |object: &Value| {
        let metadata = &object["metadata"];
        format!("{} {}/{}", text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
    };
    objects.iter().map(name).collect()
}

fn find<'a>(objects: &'a [Value], kind: &str, namespace: Option<&str>) -> &'a Value {
    let fits = |o: &&Value| o["kind"] == kind && namespace.is_none_or(|n| o["metadata"]["namespace"] == n);
    objects.iter().find(fits).unwrap()
}

/// Whether the rules let `verb` on `resource` of `group` through, without names.
fn allows(rules: &Value, group: &str, resource: &str, verb: &str) -> bool {
    let has =
        |list: &Value, word: &str| list.as_array().is_some_and(|l| l.iter().any(|x| x == word || x == "*"));
    rules.as_array().unwrap().iter().any(|rule| {
        rule["resourceNames"].is_null()
            && has(&rule["apiGroups"], group)
            && has(&rule["resources"], resource)
            && has(&rule["verbs"], verb)
    })
}

#[test]
fn each_profile_grants_what_it_names() {
    let table = [
        // group, resource, verb, namespaced, workloads, full: in the whole cluster
        ("", "nodes", "list", true, true, true),
        ("", "nodes", "delete", false, false, true),
        ("apps", "deployments", "patch", false, true, true),
        ("", "secrets", "get", false, true, true),
        ("", "namespaces", "create", false, true, true),
        ("rbac.authorization.k8s.io", "clusterroles", "create", false, false, true),
        ("apiextensions.k8s.io", "customresourcedefinitions", "create", false, false, true),
        ("", "persistentvolumes", "create", false, false, true),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "create", false, false, true),
    ];
    for (at, profile) in [Profile::Namespaced, Profile::Workloads, Profile::Full].into_iter().enumerate() {
        let objects = installation(profile).manifests();
        let rules = &find(&objects, "ClusterRole", None)["rules"];
        for (group, resource, verb, a, b, c) in table {
            assert_eq!(allows(rules, group, resource, verb), [a, b, c][at], "{profile:?} {verb} {resource}");
        }
        assert!(
            !allows(&json!(own_rules()), "", "secrets", "get")
                && !allows(&json!(own_rules()), "", "secrets", "list")
        );
    }
}

#[test]
fn an_installation_is_these_objects_in_this_order() {
    let plain = [
        "Namespace -/karmada-system",
        "ServiceAccount karmada-system/karmada-agent-sa",
        "ClusterRole -/karmada-agent",
        "ClusterRoleBinding -/karmada-agent",
        "Role karmada-system/karmada-agent",
        "RoleBinding karmada-system/karmada-agent",
        "Secret karmada-system/karmada-agent-join",
        "Secret karmada-system/karmada-agent-identity",
        "Deployment karmada-system/karmada-agent",
    ];
    for profile in [Profile::Workloads, Profile::Full] {
        assert_eq!(named(&installation(profile).manifests()), plain);
    }
    let mut narrow = installation(Profile::Namespaced);
    narrow.workload_namespaces = vec!["web".into()];
    let objects = narrow.manifests();
    let mut expected: Vec<&str> = plain.to_vec();
    expected.splice(6..6, ["Namespace -/web", "Role web/karmada-agent", "RoleBinding web/karmada-agent"]);
    assert_eq!(named(&objects), expected);
    let rules = &find(&objects, "Role", Some("web"))["rules"];
    assert!(
        allows(rules, "apps", "deployments", "patch")
            && !allows(rules, "rbac.authorization.k8s.io", "roles", "create")
    );
    assert_eq!(
        find(&objects, "Deployment", None)["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"],
        "web"
    );
    assert!(objects.iter().all(|object| object["metadata"]["labels"][MANAGED_BY] == MANAGER));
}

#[test]
fn the_agent_runs_hardened_with_its_arguments_and_the_token_is_only_in_its_secret() {
    let mut shop = installation(Profile::Full);
    shop.provider = Some("acme".into());
    shop.zones = vec!["a".into(), "b".into()];
    let objects = shop.manifests();
    let deployment = find(&objects, "Deployment", None);
    let (pod, spec) = (&deployment["spec"]["template"]["spec"], &deployment["spec"]);
    assert_eq!(spec["strategy"]["type"], "Recreate");
    let arguments: Vec<&str> =
        pod["containers"][0]["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(
        arguments.join(" "),
        format!(
            "--hub hub.example:5443 --token-file /etc/karmada/join/token --discovery-token-ca-cert-hash {} --cluster-name shop \
             --state-dir /var/lib/karmada/agent --identity-secret karmada-system/karmada-agent-identity --cluster-provider acme \
             --cluster-zones a,b",
            shop.pin
        )
    );
    let security = &pod["containers"][0]["securityContext"];
    assert_eq!(
        (&security["readOnlyRootFilesystem"], &security["allowPrivilegeEscalation"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        (&security["capabilities"]["drop"][0], &pod["securityContext"]["runAsNonRoot"]),
        (&json!("ALL"), &json!(true))
    );
    let secret = BASE64.encode("abcdef.0123456789abcdef");
    for object in &objects {
        let text = object.to_string();
        assert!(!text.contains("0123456789abcdef"));
        assert_eq!(text.contains(&secret), object["metadata"]["name"] == JOIN);
    }
    assert!(shop.identity_secret().get("data").is_none());
}

#[test]
fn an_installed_agent_is_recognised_and_a_new_token_restarts_it() {
    let shop = installation(Profile::Full);
    let live = shop.deployment();
    let pin = shop.pin.to_string();
    assert_eq!(
        installed(&live),
        Some(Installed { hub: "hub.example:5443".into(), pin, cluster: "shop".into() })
    );
    assert_eq!(
        installed(
            &json!({"spec": {"template": {"spec": {"containers": [{"command": ["/bin/karmada-agent"]}]}}}})
        ),
        None
    );
    assert!(!restarts(&live, &live));
    let mut defaulted = live.clone();
    defaulted["spec"]["template"]["spec"]["dnsPolicy"] = json!("ClusterFirst");
    assert!(!restarts(&defaulted, &live));
    let mut other = shop;
    other.token = JoinToken::parse("ghijkl.0123456789abcdef").unwrap();
    assert!(restarts(&live, &other.deployment()));
}
