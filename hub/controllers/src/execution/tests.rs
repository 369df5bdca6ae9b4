//! The execution controller as a shell.

use serde_json::json;

use super::*;
use crate::rig::{WORK_API, bears_trouble, key};

#[tokio::test(start_paused = true)]
async fn a_work_that_is_held_back_says_so_whatever_happens_between() {
    let work = json!({"apiVersion": WORK_API, "kind": "Work", "metadata": {"name": "w", "namespace": "karmada-es-m1"},
        "spec": {"suspendDispatching": true, "workload": {"manifests": []}}});
    let (api, writes) = bears_trouble(&[work], async |rig| {
        Execution::new(rig.shared.clone()).reconcile(&key("karmada-es-m1", "w")).await
    })
    .await;
    assert_eq!(writes, 1);
    let work = api.value(WORK_API, "Work", "karmada-es-m1", "w").unwrap();
    assert_eq!(work["status"]["conditions"][0]["type"], "Dispatching");
}
