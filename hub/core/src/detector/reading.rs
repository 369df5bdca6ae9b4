//! What a template says of the workload that it is: its replicas, or its parts.
//!
//! In: a template, and who reads it. Out: what its binding says of it. A kind that nobody knows is no workload.

use karmada_api::binding::{Component, ReplicaRequirements};
use karmada_api::object;
use karmada_interpreter::{InterpretError, Interpreter, Operation, Replicas};
use serde_json::Value;

/// What templates are read by.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// Who reads them.
    pub interpreter: &'a dyn Interpreter,
    /// What becomes of workloads that have parts.
    pub parts: Parts,
    /// Whether members' quotas count where room is asked for (gate ResourceQuotaEstimate).
    pub quotas_count: bool,
}

/// What a binding says of a workload of several pod templates, where the interpreter knows its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Its replicas, as of any workload.
    Together,
    /// Each part, and no replicas.
    Apart,
}

/// What a template says of the workload that it is.
#[derive(Default)]
pub(super) struct Workload {
    pub(super) replicas: Replicas,
    pub(super) components: Vec<Component>,
}

impl Reading<'_> {
    /// Reads a template. Nothing asks for priority classes where quotas do not count: bindings say none then, whoever
    /// told one.
    pub(super) fn workload(self, template: &Value) -> Result<Workload, InterpretError> {
        let mut workload = self.told(template)?;
        if !self.quotas_count {
            let of_parts =
                workload.components.iter_mut().filter_map(|part| part.replica_requirements.as_mut());
            of_parts.for_each(|asked| asked.priority_class_name.clear());
            let of_replicas = workload.replicas.requirements.as_mut();
            of_replicas.into_iter().for_each(|asked| asked.priority_class_name.clear());
        }
        Ok(workload)
    }

    /// What the interpreter says, and the priority class where it says none of a workload with one Pod template.
    fn told(self, template: &Value) -> Result<Workload, InterpretError> {
        let (api_version, kind) = (object::api_version(template), object::kind(template));
        let known = |operation| self.interpreter.enabled(api_version, kind, operation);
        if self.parts == Parts::Apart && known(Operation::InterpretComponent) {
            let components = self.interpreter.components(template)?;
            // One part alone is placed, and divided, as any workload is: by its replicas.
            let replicas = if let [only] = &components[..] { replicas_of(only) } else { Replicas::default() };
            return Ok(Workload { replicas, components });
        }
        if known(Operation::InterpretReplica) {
            let mut replicas = self.interpreter.replicas(template)?;
            if let Some(requirements) = &mut replicas.requirements {
                tell_priority_class(requirements, template);
            }
            return Ok(Workload { replicas, ..Workload::default() });
        }
        Ok(Workload::default())
    }
}

/// Quotas may hold for Pods of some priority classes only: the class of the Pod template is part of what a replica asks for.
fn tell_priority_class(requirements: &mut ReplicaRequirements, template: &Value) {
    let class = ["/spec/template/spec/priorityClassName", "/spec/priorityClassName"];
    let class = class.iter().find_map(|path| template.pointer(path)?.as_str());
    if let Some(class) = class.filter(|_| requirements.priority_class_name.is_empty()) {
        class.clone_into(&mut requirements.priority_class_name);
    }
}

/// A part as the replicas of a workload that has no other.
fn replicas_of(part: &Component) -> Replicas {
    let requirements = part.replica_requirements.clone().map(|asked| ReplicaRequirements {
        node_claim: asked.node_claim,
        resource_request: asked.resource_request,
        priority_class_name: asked.priority_class_name,
        ..ReplicaRequirements::default()
    });
    Replicas { count: part.replicas, requirements }
}
