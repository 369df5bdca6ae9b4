//! The CEL of policies: which clusters they mean, and which of them first (annotations `edge.karmada.io/cluster-filter` and `cluster-score`).
//!
//! In: expressions; clusters; the template. Out: what is wrong with an expression and where, when a policy is written; a score or a fault for each
//! cluster, when a binding is scheduled. Compiled expressions are kept, a few hundred of them.
//!
//! An expression sees what [`visible`] declares, and no more: all that a Cluster is, but not the list of what it serves; of the template what everybody
//! may know who may read policies and bindings, so not the data of Secrets and ConfigMaps. What it costs is bounded by steps and not by time, so that a
//! busy machine decides as an idle one does: beyond what one cluster may cost that cluster is left out, beyond what a decision may cost nothing is
//! decided, and what is placed stays.

mod visible;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::cluster::Cluster;
use karmada_api::object;
use karmada_api::strings::annotations::{CLUSTER_FILTER, CLUSTER_SCORE};
use karmada_cel::{
    Budget, CompileError, Compiling, EvalError, Evaluator, Expected, Limits, Program, Type, Value as Cel,
};
use karmada_core::cluster_expressions::{ClusterExpressions, ExpressionCompiler, Fault, HIGHEST, Said};
use karmada_field::FieldError;
use parking_lot::Mutex;
use serde_json::Value;

use self::visible::{cluster as shown, names, object as shown_object};

/// Compiled expressions that are kept.
const KEPT: usize = 256;

/// No decision takes so long: it ends by steps before. Time alone would end it where the machine is busy, and another one would not.
const NEVER: Duration = Duration::from_secs(60);

/// What both expressions may cost on one cluster.
const ON_A_CLUSTER: Limits =
    Limits { steps: 40_000, call: 20_000, work: 400_000, bytes: 4 << 20, time: NEVER };

/// What they may cost in one decision.
const IN_A_DECISION: Limits =
    Limits { steps: 5_000_000, call: 20_000, work: 50_000_000, bytes: 2 << 30, time: NEVER };

/// The two expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Filter,
    Score,
}

impl Role {
    /// The annotation, and how it is called in a sentence.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Role::Filter => (CLUSTER_FILTER, "cluster-filter"),
            Role::Score => (CLUSTER_SCORE, "cluster-score"),
        }
    }

    fn compile(self, source: &str) -> Result<Program, CompileError> {
        let expected = if self == Role::Filter { Expected::Bool } else { Expected::Any };
        let program = Program::compile_within(source, &names(), expected, &Compiling::default())?;
        match &program.yields {
            Type::Int | Type::Dyn => Ok(program),
            _ if self == Role::Filter => Ok(program),
            other => Err(CompileError::Result { wanted: "int", found: other.to_string() }),
        }
    }
}

/// What is wrong with the expressions of an object that bears some; those that stood there before are not looked at again.
pub fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let wrong = |role: Role| {
        let (key, _) = role.names();
        let source = object::annotation(new, key).filter(|source| !source.is_empty())?;
        if old.and_then(|old| object::annotation(old, key)) == Some(source) {
            return None;
        }
        let error = role.compile(source).err()?;
        Some(FieldError::invalid(
            &format!("metadata.annotations[{key}]"),
            source,
            format!("compilation failed: {error}"),
        ))
    };
    [Role::Filter, Role::Score].into_iter().filter_map(wrong).collect()
}

type Compiled = Result<Arc<Program>, String>;

/// Compiles expressions, and keeps what it compiled.
#[derive(Default)]
pub struct PlacementExpressions {
    compiled: Mutex<BTreeMap<(Role, String), Compiled>>,
}

impl PlacementExpressions {
    /// The program of an expression; none where nothing is said.
    fn program(&self, role: Role, source: &str) -> Result<Option<Arc<Program>>, String> {
        if source.is_empty() {
            return Ok(None);
        }
        let key = (role, source.to_owned());
        if let Some(compiled) = self.compiled.lock().get(&key) {
            return compiled.clone().map(Some);
        }
        let (_, called) = role.names();
        let compiled = role
            .compile(source)
            .map(Arc::new)
            .map_err(|error| format!("{called}: compilation failed: {error}"));
        let mut kept = self.compiled.lock();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, compiled.clone());
        compiled.map(Some)
    }

    fn programs(&self, said: &Said) -> Result<Programs, String> {
        Ok(Programs {
            filter: self.program(Role::Filter, &said.filter)?,
            score: self.program(Role::Score, &said.score)?,
        })
    }
}

impl ExpressionCompiler for PlacementExpressions {
    fn look_at_object(&self, said: &Said) -> bool {
        self.programs(said).is_ok_and(|programs| programs.all().any(|program| program.uses("object")))
    }

    fn evaluator(&self, said: &Said, template: Option<&Value>) -> Box<dyn ClusterExpressions> {
        Box::new(Bound {
            programs: self.programs(said),
            said: said.clone(),
            object: template.map(shown_object),
            budget: Budget::new(IN_A_DECISION),
        })
    }
}

/// The expressions of a policy, compiled.
struct Programs {
    filter: Option<Arc<Program>>,
    score: Option<Arc<Program>>,
}

impl Programs {
    fn all(&self) -> impl Iterator<Item = &Arc<Program>> {
        self.filter.iter().chain(&self.score)
    }
}

/// The expressions of a policy over one template, within the budget of one decision.
struct Bound {
    /// Or why they cannot be evaluated: an earlier version took what this one does not, or a person wrote them on the binding.
    programs: Result<Programs, String>,
    said: Said,
    object: Option<Cel>,
    budget: Budget,
}

/// What an error comes to.
fn fault(role: Role, error: &EvalError) -> Fault {
    let (_, called) = role.names();
    match error {
        EvalError::Budget => Fault::Stopped(format!(
            "{called}: it costs too much over so many clusters: make it simpler, or have clusterAffinity name fewer"
        )),
        EvalError::Crowded => Fault::Stopped(format!("{called}: {error}")),
        EvalError::Call => Fault::Failed(format!("{called}: it costs too much")),
        // The key may be of what the object holds, and this is read by more people than the object.
        EvalError::NoSuchKey(_) => {
            Fault::Failed(format!("{called}: no such key (has() tells whether there is one)"))
        }
        EvalError::Failed(_) | EvalError::Type(_) => Fault::Failed(format!("{called}: {error}")),
    }
}

impl ClusterExpressions for Bound {
    fn score(&self, cluster: &Cluster) -> Result<i64, Fault> {
        let programs = self.programs.as_ref().map_err(|why| Fault::Stopped(why.clone()))?;
        let mut evaluator = Evaluator::within(ON_A_CLUSTER, &self.budget);
        evaluator.set("cluster", shown(cluster, &self.said));
        match &self.object {
            Some(object) => evaluator.set("object", object.clone()),
            None if programs.all().any(|program| program.uses("object")) => {
                return Err(Fault::Stopped("its template is not there".to_owned()));
            }
            None => {}
        }
        if let Some(filter) = &programs.filter
            && !evaluator.bool(filter).map_err(|error| fault(Role::Filter, &error))?
        {
            return Err(Fault::Filtered);
        }
        let Some(score) = &programs.score else { return Ok(0) };
        let value = evaluator.value(score).map_err(|error| fault(Role::Score, &error))?;
        let number =
            value.to_json().as_ref().and_then(Value::as_i64).filter(|number| (0..=HIGHEST).contains(number));
        number.ok_or_else(|| {
            Fault::Failed(format!("cluster-score: it yields no whole number from 0 to {HIGHEST}"))
        })
    }
}

#[cfg(test)]
mod tests;
