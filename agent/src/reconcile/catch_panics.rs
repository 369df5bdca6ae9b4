//! Where the agent reads objects of the member, and bodies: an odd one may make a reader panic, and must not take the agent with it.
//!
//! Comes in: what is to be read. Goes out: the answer, or an error in its place. Every call of the interpreter goes through
//! [`Guarded`]; what else reads objects in the engine's own task goes through [`read`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jiff::Timestamp;
use karmada_api::binding::{AggregatedStatusItem, Component};
use karmada_api::object;
use karmada_interpreter::{Answer, DependentObject, InterpretError, Interpreter, Operation, Replicas};
use serde_json::Value;

/// Runs `read`; `None` where it panicked.
pub fn read<T>(read: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(read)).ok()
}

/// An interpreter that answers with an error where another one panics.
pub struct Guarded(pub Arc<dyn Interpreter>);

impl Guarded {
    fn ask<T>(&self, object: &Value, ask: impl FnOnce(&dyn Interpreter) -> Answer<T>) -> Answer<T> {
        let asked = read(|| ask(&*self.0));
        asked.unwrap_or_else(|| {
            let (kind, name) = (object::kind(object), object::name(object));
            Err(InterpretError::Object(format!(
                "{kind} {name} cannot be read: reading it made the agent panic"
            )))
        })
    }

    /// The same for what changes `object`: it is left as it was.
    fn change(
        &self,
        object: &mut Value,
        ask: impl FnOnce(&dyn Interpreter, &mut Value) -> Answer<()>,
    ) -> Answer<()> {
        let mut changed = object.clone();
        self.ask(object, |interpreter| ask(interpreter, &mut changed))?;
        *object = changed;
        Ok(())
    }
}

impl Interpreter for Guarded {
    fn enabled(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        read(|| self.0.enabled(api_version, kind, operation)).unwrap_or(false)
    }

    fn replicas(&self, object: &Value) -> Answer<Replicas> {
        self.ask(object, |interpreter| interpreter.replicas(object))
    }

    fn components(&self, object: &Value) -> Answer<Vec<Component>> {
        self.ask(object, |interpreter| interpreter.components(object))
    }

    fn revise_replica(&self, object: &mut Value, replicas: i64) -> Answer<()> {
        self.change(object, |interpreter, object| interpreter.revise_replica(object, replicas))
    }

    fn retain(&self, desired: &mut Value, observed: &Value) -> Answer<()> {
        self.change(desired, |interpreter, desired| interpreter.retain(desired, observed))
    }

    fn aggregate_status(
        &self,
        object: &mut Value,
        items: &[AggregatedStatusItem],
        now: Timestamp,
    ) -> Answer<()> {
        self.change(object, |interpreter, object| interpreter.aggregate_status(object, items, now))
    }

    fn reflect_status(&self, object: &Value) -> Answer<Option<Value>> {
        self.ask(object, |interpreter| interpreter.reflect_status(object))
    }

    fn health(&self, object: &Value) -> Answer<bool> {
        self.ask(object, |interpreter| interpreter.health(object))
    }

    fn dependencies(&self, object: &Value) -> Answer<Vec<DependentObject>> {
        self.ask(object, |interpreter| interpreter.dependencies(object))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use karmada_interpreter::{Native, health_of};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::reconcile::{apply, member_body};

    /// Panics over what is labelled `odd`.
    pub struct Odd;

    impl Odd {
        fn look(object: &Value) {
            assert!(object::label(object, "odd").is_none(), "this one is odd");
        }
    }

    impl Interpreter for Odd {
        fn enabled(&self, _: &str, _: &str, _: Operation) -> bool {
            true
        }
        fn replicas(&self, object: &Value) -> Answer<Replicas> {
            Self::look(object);
            Native.replicas(object)
        }
        fn components(&self, object: &Value) -> Answer<Vec<Component>> {
            Self::look(object);
            Native.components(object)
        }
        fn revise_replica(&self, object: &mut Value, replicas: i64) -> Answer<()> {
            Self::look(object);
            Native.revise_replica(object, replicas)
        }
        fn retain(&self, desired: &mut Value, observed: &Value) -> Answer<()> {
            Self::look(observed);
            Native.retain(desired, observed)
        }
        fn aggregate_status(
            &self,
            object: &mut Value,
            items: &[AggregatedStatusItem],
            now: Timestamp,
        ) -> Answer<()> {
            Self::look(object);
            Native.aggregate_status(object, items, now)
        }
        fn reflect_status(&self, object: &Value) -> Answer<Option<Value>> {
            Self::look(object);
            Native.reflect_status(object)
        }
        fn health(&self, object: &Value) -> Answer<bool> {
            Self::look(object);
            Native.health(object)
        }
        fn dependencies(&self, object: &Value) -> Answer<Vec<DependentObject>> {
            Self::look(object);
            Native.dependencies(object)
        }
    }

    #[test]
    fn a_panic_is_an_error_and_changes_nothing() {
        let guarded = Guarded(Arc::new(Odd));
        let odd =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"odd": "1"}}});
        let error = guarded.reflect_status(&odd).unwrap_err().to_string();
        assert!(error.contains("Pod p"), "{error}");
        let mut same = odd.clone();
        assert!(guarded.retain(&mut same, &odd).is_err() && same == odd);
        assert_eq!(health_of(&guarded, &odd), karmada_api::binding::Health::Unknown);
    }

    /// Any JSON, with names that interpreters look for.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z0-9Mi.é-]{0,8}".prop_map(Value::from),
        ];
        let names = prop::sample::select(vec![
            "metadata",
            "spec",
            "status",
            "template",
            "containers",
            "replicas",
            "readyReplicas",
            "conditions",
            "labels",
            "annotations",
            "managedFields",
            "fieldsV1",
            "generation",
            "observedGeneration",
            "volumes",
            "resources",
            "requests",
            "cpu",
            "type",
            "name",
            "limits",
            "selector",
            "parallelism",
            "rules",
            "phase",
        ]);
        leaf.prop_recursive(5, 48, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn any_object() -> impl Strategy<Value = Value> {
        let kinds = prop::sample::select(vec![
            ("apps/v1", "Deployment"),
            ("apps/v1", "StatefulSet"),
            ("apps/v1", "DaemonSet"),
            ("batch/v1", "Job"),
            ("batch/v1", "CronJob"),
            ("v1", "Pod"),
            ("v1", "Service"),
            ("v1", "ServiceAccount"),
            ("v1", "PersistentVolume"),
            ("v1", "PersistentVolumeClaim"),
            ("policy/v1", "PodDisruptionBudget"),
            ("networking.k8s.io/v1", "Ingress"),
            ("autoscaling/v2", "HorizontalPodAutoscaler"),
            ("example.com/v1", "Thing"),
        ]);
        (kinds, any_json()).prop_map(|((version, kind), mut object)| {
            object::root(&mut object).insert("apiVersion".into(), version.into());
            object::root(&mut object).insert("kind".into(), kind.into());
            object
        })
    }

    proptest! {
        /// Nothing that a member or a hub can send takes the agent down; and what the built-in interpreter cannot read is an error,
        /// not a panic that happens to be caught.
        #[test]
        fn no_json_takes_the_agent_down(desired in any_object(), observed in any_object(), odd in any_json()) {
            for manifest in [&desired, &odd] {
                for seen in [&observed, &odd] {
                    prop_assert!(read(|| Native.reflect_status(seen)).is_some(), "reflecting {seen}");
                    prop_assert!(read(|| Native.health(seen)).is_some(), "the health of {seen}");
                    prop_assert!(read(|| Native.replicas(seen)).is_some(), "the replicas of {seen}");
                    prop_assert!(read(|| Native.dependencies(seen)).is_some(), "the dependencies of {seen}");
                    prop_assert!(read(|| Native.retain(&mut manifest.clone(), seen)).is_some(), "retaining {seen} in {manifest}");
                    prop_assert!(read(|| apply::in_sync(&Native, "m", "w", manifest, None, seen)).is_some(), "comparing {seen}");
                    prop_assert!(read(|| (member_body::digest(seen), member_body::adoption(seen), member_body::strip_patch(seen))).is_some(), "{seen}");
                }
            }
        }
    }
}
