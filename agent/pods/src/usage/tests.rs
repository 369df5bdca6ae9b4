//! What an agent says of Pods, over a member whose answers a test gives.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::stream::BoxStream;
use karmada_api::cluster::ApiEnablement;
use karmada_member::memory::MemoryMember;
use karmada_member::{MemberError, MemberEvent, ObjectId, Passing, Probe, Watch};
use karmada_proto::v1::{MeasuredPod, PodReadiness, PodStage};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

/// Answers by the path that is asked for, and what was asked.
struct Answering {
    memory: MemoryMember,
    answers: BTreeMap<&'static str, (u16, Value)>,
    asked: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Member for Answering {
    async fn pass(&self, request: Request<Passing>) -> Result<http::Response<Passing>, MemberError> {
        self.asked.lock().push(request.uri().to_string());
        let found = self.answers.iter().find(|(path, _)| request.uri().to_string().contains(*path));
        let (status, body) = found.map_or((404, Value::Null), |(_, answer)| answer.clone());
        let body = http_body_util::Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
        let response = http::Response::builder().status(status).body(body.boxed_unsync());
        response.map_err(|error| MemberError::Other(error.to_string()))
    }
    async fn get(&self, id: &ObjectId) -> Result<Option<Value>, MemberError> {
        self.memory.get(id).await
    }
    async fn apply(&self, object: &Value) -> Result<Value, MemberError> {
        self.memory.apply(object).await
    }
    async fn create(&self, object: &Value) -> Result<Value, MemberError> {
        self.memory.create(object).await
    }
    async fn update(&self, object: &Value) -> Result<Value, MemberError> {
        self.memory.update(object).await
    }
    async fn merge(&self, id: &ObjectId, patch: &Value) -> Result<Value, MemberError> {
        self.memory.merge(id, patch).await
    }
    async fn delete(&self, id: &ObjectId, uid: &str) -> Result<(), MemberError> {
        self.memory.delete(id, uid).await
    }
    fn watch(&self, watch: Watch) -> BoxStream<'static, Result<MemberEvent, MemberError>> {
        self.memory.watch(watch)
    }
    async fn resource(&self, gvk: &Gvk) -> Result<String, MemberError> {
        self.memory.resource(gvk).await
    }
    async fn api_enablements(&self) -> Result<(Vec<ApiEnablement>, bool), MemberError> {
        self.memory.api_enablements().await
    }
    async fn version(&self) -> Result<String, MemberError> {
        self.memory.version().await
    }
    async fn probe(&self) -> Probe {
        self.memory.probe().await
    }
    fn breaks(&self) -> u64 {
        self.memory.breaks()
    }
}

const NOW: &str = "2026-05-01T12:00:00Z";
const PODS: &str = "/api/v1/namespaces/shop/pods?";
const MEASURED: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods?";

type Asked = Arc<Mutex<Vec<String>>>;

fn usages<const N: usize>(answers: [(&'static str, (u16, Value)); N]) -> (PodUsages, Asked) {
    let asked = Asked::default();
    let memory = MemoryMember::new("site1", 1, Duration::ZERO);
    let member = Answering { memory, answers: answers.into(), asked: asked.clone() };
    let clock: Clock = Arc::new(|| NOW.parse().unwrap());
    (PodUsages::new(Arc::new(member), clock), asked)
}

fn cpu(target: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn share() -> Value {
    json!({"type": "Utilization", "averageUtilization": 50})
}

async fn ask(usages: &PodUsages, metrics: &Value) -> Result<PodUsage, (AskRefusalCode, String)> {
    let question = PodUsageOf {
        namespace: "shop".into(),
        selector: "app in (web)".into(),
        metrics: metrics.to_string().into(),
    };
    match usages.answer(question, Duration::from_secs(5)).await {
        answer::Result::PodUsage(usage) => Ok(usage),
        answer::Result::Refusal(refusal) => Err((refusal.code(), refusal.message)),
        other => panic!("{other:?}"),
    }
}

/// Half a CPU is asked for, of which a sidecar asks for a tenth.
fn pod(name: &str) -> Value {
    let requests = |cpu: &str| json!({"requests": {"cpu": cpu}});
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "resources": requests("400m")}],
        "initContainers": [{"name": "proxy", "restartPolicy": "Always", "resources": requests("100m")}, {"name": "once"}]},
        "status": {"phase": "Running", "startTime": "2026-05-01T11:00:00Z",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-05-01T11:01:00Z"}]}})
}

fn measured(pods: &[(&str, Value)]) -> (u16, Value) {
    let item = |(name, containers): &(&str, Value)| json!({"metadata": {"name": name}, "timestamp": "2026-05-01T11:59:50Z", "window": "15.5s", "containers": containers});
    (200, json!({"items": pods.iter().map(item).collect::<Vec<_>>()}))
}

#[tokio::test]
async fn what_pods_use_is_told_of_the_containers_that_are_meant() {
    let mut ending = pod("web-2");
    ending["metadata"]["deletionTimestamp"] = json!(NOW);
    ending["status"] = json!({"phase": "Pending"});
    let containers = json!([{"name": "c", "usage": {"cpu": "250m", "memory": "1Gi"}}, {"name": "proxy", "usage": {"cpu": "50m"}}]);
    let (usages, asked) = usages([
        (PODS, (200, json!({"items": [pod("web-1"), ending]}))),
        (MEASURED, measured(&[("web-1", containers)])),
    ]);
    let one = json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": share()}});
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
    let told = ask(&usages, &json!([cpu(&share()), one, memory])).await.unwrap();
    let [first, second] = &told.pods[..] else { panic!("{told:?}") };
    let measures =
        |pod: &MeasuredPod| pod.measures.iter().map(|one| (one.milli, one.request)).collect::<Vec<_>>();
    assert_eq!(measures(first), [(Some(300), Some(500)), (Some(250), Some(400)), (None, None)]);
    assert_eq!((first.measures[0].age, first.measures[0].window), (10, 15));
    assert_eq!(
        (first.started_for, first.readiness(), first.ready_for),
        (Some(3600), PodReadiness::Ready, 3540)
    );
    assert_eq!((second.stage(), second.deleting, second.started_for), (PodStage::Pending, true, None));
    assert_eq!((second.readiness(), second.measures[0].milli), (PodReadiness::Unspecified, None));
    assert!(told.readings.iter().all(|reading| reading.unknown.is_empty()), "{told:?}");
    let asked = asked.lock();
    assert_eq!(asked.len(), 2, "the metrics server once, and one page of Pods");
    assert!(asked.iter().all(|path| path.contains("labelSelector=app%20in%20%28web%29")), "{asked:?}");
}

#[tokio::test]
async fn what_is_not_known_is_said_and_the_rest_is_told_all_the_same() {
    let mut bare = pod("web-1");
    bare["spec"]["containers"][0]["resources"] = json!({});
    let refusal =
        json!({"kind": "Status", "message": "the server is currently unable to handle the request"});
    let (away, _) = usages([(PODS, (200, json!({"items": [bare]}))), (MEASURED, (503, refusal))]);
    let rps = json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "1"}}});
    let told = ask(&away, &json!([cpu(&share()), rps, {"type": "External"}])).await.unwrap();
    let unknown = |at: usize| told.readings[at].unknown.as_str();
    assert!(unknown(0).contains("currently unable to handle"), "{told:?}");
    assert_eq!(unknown(1), "the member does not serve the metric rps in custom.metrics.k8s.io");
    assert_eq!(unknown(2), "it is not known here");
    assert_eq!(told.readings[0].unrequested, "missing request for cpu in container c of Pod web-1");
    assert_eq!(told.pods.len(), 1);
    let (none, _) = usages([(PODS, (200, json!({"items": null})))]);
    let told = ask(&none, &json!([cpu(&share())])).await.unwrap();
    assert_eq!(told.readings[0].unknown, "the member does not serve metrics.k8s.io");
}

#[tokio::test]
async fn metrics_of_ones_own_are_told_of_pods_and_of_objects() {
    let values = |value: &str| json!({"items": [{"describedObject": {"name": "web-1"}, "metricName": "m", "timestamp": NOW, "value": value}]});
    let (usages, asked) = usages([
        ("/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/%2A/rps?", (200, values("0"))),
        ("/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/*/rps?", (200, values("1500m"))),
        ("/custom.metrics.k8s.io/v1beta2/namespaces/shop/deployments.apps/web/hits?", (200, values("20"))),
        (PODS, (200, json!({"items": [pod("web-1")]}))),
    ]);
    let rps = json!({"type": "Pods", "pods": {"metric": {"name": "rps", "selector": {"matchLabels": {"verb": "GET"}}},
        "target": {"type": "AverageValue", "averageValue": "1"}}});
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let hits = json!({"type": "Object", "object": {"describedObject": object, "metric": {"name": "hits"}, "target": {"type": "Value", "value": "1"}}});
    let told = ask(&usages, &json!([rps, hits])).await.unwrap();
    assert_eq!(told.pods[0].measures[0].milli, Some(1500));
    assert_eq!(told.readings[1].milli, Some(20_000));
    let asked = asked.lock();
    assert!(asked.iter().any(|path| path.ends_with("&metricLabelSelector=verb%3DGET")), "{asked:?}");
    assert!(
        !asked.iter().any(|path| path.contains("metrics.k8s.io/v1beta1/namespaces/shop/pods?")),
        "in vain"
    );
}

#[tokio::test]
async fn an_answer_is_bounded_and_a_question_is_judged() {
    let page = |next: &str| {
        let pods: Vec<Value> = (0..50).map(|at| pod(&format!("web-{at}"))).collect();
        json!({"metadata": {"continue": next}, "items": pods})
    };
    let (all, asked) = usages([("continue=&", (200, page(""))), ("limit=50&continue=", (200, page("more")))]);
    let (code, words) = ask(&all, &json!([cpu(&share())])).await.unwrap_err();
    assert_eq!(code, AskRefusalCode::NotKnown);
    assert!(words.contains("more Pods than an answer holds"), "{words}");
    assert!(asked.lock().len() < 100, "it is not read on for ever");
    let many: Vec<Value> = (0..33).map(|_| cpu(&share())).collect();
    for metrics in [json!({"no": "list"}), json!(many)] {
        assert_eq!(ask(&all, &metrics).await.unwrap_err().0, AskRefusalCode::BadQuestion);
    }
    let everything = PodUsageOf { namespace: "shop".into(), metrics: "[]".into(), ..PodUsageOf::default() };
    let refused = all.answer(everything, Duration::from_secs(1)).await;
    assert!(matches!(refused, answer::Result::Refusal(_)), "all Pods of a namespace are no workload's");
}

#[test]
fn what_is_told_is_cut_at_a_letter() {
    assert_eq!(short(&"é".repeat(400)).len(), 500);
}
