//! What makes Pods, bounds their disruption or scales them. Names and order of the columns are data: `data/catalogue.jsonl`.
//!
//! In: an object of one of these kinds, and the time. Out: its cells, wide ones included. The Pod's own are in `pod`.

use serde_json::Value;

use super::Row;
use super::cells::{
    Fields as _, NONE, UNKNOWN, UNSET, containers, labels, scalar, selector, selector_or_none,
};
use karmada_schema::duration::human_duration;

const TEMPLATE: &str = "/spec/template/spec/containers";

fn replicas(row: Row<'_>) -> Value {
    format!("{}/{}", row.int("/status/readyReplicas"), row.int("/spec/replicas")).into()
}

pub(crate) fn deployment(row: Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row.list(TEMPLATE));
    vec![
        row.name(),
        replicas(row),
        row.int("/status/updatedReplicas").into(),
        row.int("/status/availableReplicas").into(),
        row.age(),
        names,
        images,
        selector(row.at("/spec/selector")).into(),
    ]
}

fn replicated(row: Row<'_>, selector: Value) -> Vec<Value> {
    let [names, images] = containers(row.list(TEMPLATE));
    vec![
        row.name(),
        row.int("/spec/replicas").into(),
        row.int("/status/replicas").into(),
        row.int("/status/readyReplicas").into(),
        row.age(),
        names,
        images,
        selector,
    ]
}

pub(crate) fn replica_set(row: Row<'_>) -> Vec<Value> {
    replicated(row, selector_or_none(row.at("/spec/selector")))
}

pub(crate) fn replication_controller(row: Row<'_>) -> Vec<Value> {
    replicated(row, labels(row.at("/spec/selector")).into())
}

pub(crate) fn stateful_set(row: Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row.list(TEMPLATE));
    vec![row.name(), replicas(row), row.age(), names, images]
}

pub(crate) fn daemon_set(row: Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row.list(TEMPLATE));
    let count = |field: &str| Value::from(row.int(&format!("/status/{field}")));
    vec![
        row.name(),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        labels(row.at("/spec/template/spec/nodeSelector")).into(),
        row.age(),
        names,
        images,
        selector_or_none(row.at("/spec/selector")),
    ]
}

pub(crate) fn controller_revision(row: Row<'_>) -> Vec<Value> {
    let owner = row.list("/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true);
    let controller = owner.map_or(NONE.to_owned(), |owner| {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let group =
            text("apiVersion").split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
        format!("{}{group}/{}", text("kind").to_lowercase(), text("name"))
    });
    vec![row.name(), controller.into(), row.int("/revision").into(), row.age()]
}

pub(crate) fn pod_template(row: Row<'_>) -> Vec<Value> {
    let [names, images] = containers(row.list("/template/spec/containers"));
    vec![row.name(), names, images, labels(row.at("/template/metadata/labels")).into()]
}

fn job_status(row: Row<'_>) -> &'static str {
    let is = |ty: &str| row.condition(ty).is_some_and(|condition| condition["status"] == "True");
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if row.is_deleting() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

pub(crate) fn job(row: Row<'_>) -> Vec<Value> {
    let succeeded = row.int("/status/succeeded");
    let completions = match (row.at("/spec/completions").as_i64(), row.int("/spec/parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let duration = row.time("/status/startTime").map_or(String::new(), |start| {
        let end = row.time("/status/completionTime").unwrap_or(row.now);
        human_duration(end.as_second() - start.as_second())
    });
    let [names, images] = containers(row.list(TEMPLATE));
    vec![
        row.name(),
        job_status(row).into(),
        completions.into(),
        duration.into(),
        row.age(),
        names,
        images,
        selector_or_none(row.at("/spec/selector")),
    ]
}

pub(crate) fn cron_job(row: Row<'_>) -> Vec<Value> {
    let suspend = match row.at("/spec/suspend").as_bool() {
        None => UNSET,
        Some(true) => "True",
        Some(false) => "False",
    };
    let last = match row.text("/status/lastScheduleTime") {
        None => NONE.to_owned(),
        Some(_) => row.since("/status/lastScheduleTime"),
    };
    let [names, images] = containers(row.list("/spec/jobTemplate/spec/template/spec/containers"));
    vec![
        row.name(),
        row.text_or("/spec/schedule", ""),
        row.at("/spec/timeZone").as_str().unwrap_or(NONE).into(),
        suspend.into(),
        row.list("/status/active").len().into(),
        last.into(),
        row.age(),
        names,
        images,
        selector_or_none(row.at("/spec/jobTemplate/spec/selector")),
    ]
}

pub(crate) fn pod_disruption_budget(row: Row<'_>) -> Vec<Value> {
    let limit = |pointer: &str| match row.at(pointer) {
        Value::Null => Value::from("N/A"),
        value => scalar(value).into(),
    };
    vec![
        row.name(),
        limit("/spec/minAvailable"),
        limit("/spec/maxUnavailable"),
        row.int("/status/disruptionsAllowed").into(),
        row.age(),
    ]
}

/// One metric of an autoscaler: what is, over what should be.
fn metric(spec: &Value, status: Option<&Value>) -> String {
    let ty = spec["type"].as_str().unwrap_or_default();
    let field = match ty {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (target, status) = (&spec[field]["target"], status.map(|status| &status[field]));
    let status = status.filter(|status| !status.is_null());
    let current = |of: &str| {
        status
            .map(|status| &status["current"][of])
            .filter(|value| !value.is_null())
            .map_or(UNKNOWN.to_owned(), scalar)
    };
    let average = target.get("averageValue");
    match (ty, average) {
        ("External" | "Object", Some(average)) => {
            format!("{}/{} (avg)", current("averageValue"), scalar(average))
        }
        ("External" | "Object", None) => {
            let now = status.map_or(UNKNOWN.to_owned(), |status| scalar(&status["current"]["value"]));
            format!("{now}/{}", scalar(&target["value"]))
        }
        ("Pods", _) => format!("{}/{}", current("averageValue"), scalar(&target["averageValue"])),
        (_, Some(average)) => {
            format!("{}: {}/{}", scalar(&spec[field]["name"]), current("averageValue"), scalar(average))
        }
        (_, None) => {
            let now = match current("averageUtilization") {
                unknown if unknown == UNKNOWN => unknown,
                number => format!("{number}%"),
            };
            let wanted = match &target["averageUtilization"] {
                Value::Null => "<auto>".to_owned(),
                number => format!("{number}%"),
            };
            format!("{}: {now}/{wanted}", scalar(&spec[field]["name"]))
        }
    }
}

pub(crate) fn horizontal_pod_autoscaler(row: Row<'_>) -> Vec<Value> {
    let mut list: Vec<String> = Vec::new();
    let statuses = row.list("/status/currentMetrics");
    for (index, spec) in row.list("/spec/metrics").iter().enumerate() {
        list.push(metric(spec, statuses.get(index)));
    }
    // autoscaling/v1 says CPU in fields of its own.
    if let Some(target) = row.at("/spec/targetCPUUtilizationPercentage").as_i64() {
        let now = row.at("/status/currentCPUUtilizationPercentage").as_i64();
        let now = now.map_or(UNKNOWN.to_owned(), |percent| format!("{percent}%"));
        list.push(format!("cpu: {now}/{target}%"));
    }
    let targets = match list.len() {
        0 => NONE.to_owned(),
        1 | 2 => list.join(", "),
        more => format!("{} + {} more...", list[..2].join(", "), more - 2),
    };
    let reference = format!(
        "{}/{}",
        scalar(row.at("/spec/scaleTargetRef/kind")),
        scalar(row.at("/spec/scaleTargetRef/name"))
    );
    let minimum = row.at("/spec/minReplicas").as_i64().map_or(UNSET.to_owned(), |n| n.to_string());
    vec![
        row.name(),
        reference.into(),
        targets.into(),
        minimum.into(),
        row.int("/spec/maxReplicas").into(),
        row.int("/status/currentReplicas").into(),
        row.age(),
    ]
}
