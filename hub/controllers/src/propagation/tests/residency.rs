//! A ResidencyRule that comes, changes and goes, with all loops running: what it takes away (nothing), what it tells, whom it wakes.

use super::*;

const RULE: (&str, &str) = ("edge.karmada.io/v1alpha1", "ResidencyRule");
const BINDING: (&str, &str) = (BINDING_API, "ResourceBinding");

fn rule(sites: &[String]) -> Value {
    json!({"apiVersion": RULE.0, "kind": RULE.1, "metadata": {"name": "home", "generation": 1},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "web-0"}], "clusterAffinity": {"clusterNames": sites}}})
}

impl Fleet {
    async fn later(&self) {
        running::rest(&self.rig, 2 * crate::residency_rule_status::SETTLES).await;
    }

    fn status(&self) -> Value {
        self.rig.api.value(RULE.0, RULE.1, "", "home").unwrap()["status"].clone()
    }

    /// Where web-0 is.
    fn places(&self) -> Vec<String> {
        let works = self.rig.api.values(WORK_API, "Work");
        let own = works.iter().filter(|work| work["spec"]["workload"]["manifests"][0]["metadata"]["name"] == "web-0");
        own.map(|work| work["metadata"]["namespace"].as_str().unwrap().replace("karmada-es-", "")).collect()
    }

    /// Has something happen after which it is decided again where web-0 goes.
    async fn decide(&self) {
        self.rig.edit(CLUSTER, &key("", &site(1)), |cluster| cluster["metadata"]["labels"]["note"] = json!("x")).await;
        self.later().await;
    }

    /// What people were told, by kind and name of what it is about.
    async fn told(&self) -> Vec<(String, String)> {
        let (recorder, stop) = (self.rig.shared.recorder.clone(), CancellationToken::new());
        let soon = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            stop.cancel();
        };
        tokio::join!(recorder.run(stop.clone()), soon);
        let events = self.rig.api.values("v1", "Event");
        let own = events.iter().filter(|event| event["reason"] == "ResidencyViolated");
        let text = |event: &Value, field: &str| event["involvedObject"][field].as_str().unwrap().to_owned();
        own.map(|event| (text(event, "kind"), text(event, "name"))).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_comes_takes_nothing_away_and_tells_of_it() {
    let fleet = Fleet::new(4).await;
    assert_eq!(fleet.places(), [site(0), site(1)]);
    let works = fleet.rig.api.values(WORK_API, "Work");
    fleet.rig.api.seed(rule(&[site(1)]));
    fleet.later().await;
    assert_eq!(fleet.rig.api.values(WORK_API, "Work"), works, "nothing is touched");
    let status = fleet.status();
    assert_eq!((&status["violatingWorks"], &status["conditions"][0]["status"]), (&json!(1), &json!("False")));
    assert_eq!(status["violations"][0]["object"], "ConfigMap default/web-0");
    assert_eq!(status["violations"][0]["cluster"], json!(site(0)));
    // Nothing new goes there.
    edit_template(&fleet.rig, "web-0", "new").await;
    fleet.later().await;
    let data = |at: usize| -> Value {
        let works = fleet.rig.api.values(WORK_API, "Work");
        let manifests = works.iter().map(|work| work["spec"]["workload"]["manifests"][0].clone());
        manifests.filter(|one| one["metadata"]["name"] == "web-0").nth(at).unwrap()["data"]["of"].clone()
    };
    assert_eq!((data(0), data(1)), (json!("web-0"), json!("new")));
    // The next decision takes it away there, whatever has it made.
    fleet.decide().await;
    let leaving: Vec<Value> = fleet.rig.api.values(WORK_API, "Work");
    let of = |work: &&Value| work["spec"]["workload"]["manifests"][0]["metadata"]["name"] == "web-0";
    let first = leaving.iter().find(of).unwrap();
    assert!(first["metadata"]["deletionTimestamp"].is_string() && first["metadata"]["namespace"] == format!("karmada-es-{}", site(0)));
    assert_eq!(fleet.status()["violatingWorks"], 1, "it is there until its cluster says that it is gone");
    let name = first["metadata"]["name"].as_str().unwrap();
    fleet.rig.remove((WORK_API, "Work"), &key(&format!("karmada-es-{}", site(0)), name)).await;
    fleet.later().await;
    assert_eq!((&fleet.status()["violatingWorks"], &fleet.status()["conditions"][0]["status"]), (&json!(0), &json!("True")));
    let mut told = fleet.told().await;
    told.sort();
    let of = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
    assert_eq!(told, [of("ConfigMap", "web-0"), of("ResidencyRule", "home"), of("ResourceBinding", "web-0-configmap")]);
    fleet.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_person_places_against_a_rule_is_told_and_comes_once_the_rule_allows_it() {
    let fleet = Fleet::new(4).await;
    fleet.rig.api.seed(rule(&[site(0), site(1)]));
    fleet.later().await;
    assert_eq!(fleet.status()["conditions"][0]["status"], "True");
    let binding = key("default", "web-0-configmap");
    fleet.rig.edit(BINDING, &binding, |binding| {
        binding["spec"]["schedulerName"] = json!("a-person");
        binding["spec"]["clusters"] = json!([{"name": site(0)}, {"name": site(1)}, {"name": site(3)}]);
    }).await;
    fleet.later().await;
    assert_eq!(fleet.places(), [site(0), site(1)]);
    let mut told = fleet.told().await;
    told.sort();
    assert_eq!(told, [("ConfigMap".to_owned(), "web-0".to_owned()), ("ResourceBinding".to_owned(), "web-0-configmap".to_owned())]);
    fleet.rig.edit(RULE, &key("", "home"), |rule| rule["spec"]["clusterAffinity"] = json!({"labelSelector": {"matchLabels": {"home": "yes"}}})).await;
    fleet.rig.edit(CLUSTER, &key("", &site(3)), |cluster| cluster["metadata"]["labels"]["home"] = json!("yes")).await;
    fleet.later().await;
    assert_eq!(fleet.places(), [site(0), site(1), site(3)]);
    fleet.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_goes_wakes_those_that_it_covered() {
    let fleet = Fleet::new(4).await;
    fleet.rig.api.seed(rule(&[site(1)]));
    fleet.later().await;
    fleet.decide().await;
    let placed = |fleet: &Fleet| fleet.rig.api.value(BINDING.0, BINDING.1, "default", "web-0-configmap").unwrap()["spec"]["clusters"].clone();
    assert_eq!(placed(&fleet), json!([{"name": site(1)}]));
    fleet.rig.delete(RULE, &key("", "home")).await;
    fleet.later().await;
    assert_eq!(placed(&fleet), json!([{"name": site(0)}, {"name": site(1)}]));
    fleet.end().await;
}
