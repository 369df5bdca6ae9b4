//! The agent's writes to the member in memory, and how late they are carried out or answered.
//!
//! In: one write. Out: the object as it is after, or why not. One that gets no answer is carried out all the same, as a member does
//! that was slow over it when the agent stopped waiting.

use karmada_api::object;
use serde_json::{Map, Value};

use super::{MemoryMember, Put, State, ownership, same};
use crate::{MemberError, ObjectId};

/// How long the agent waits for an answer that does not come.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// A write of the agent's.
pub(super) enum Write {
    Create(Value),
    Apply(Value),
    Update(Value),
    Merge(ObjectId, Value),
}

impl MemoryMember {
    pub(super) async fn write(&self, write: Write) -> Result<Value, MemberError> {
        self.reached()?;
        let (unanswered, lateness) = {
            let state = self.inner.state.lock();
            (state.unanswered, state.lateness)
        };
        if let Some(lateness) = unanswered {
            let member = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(lateness).await;
                // Nobody hears what came of it.
                let _ = member.carry_out(&write);
            });
            tokio::time::sleep(TIMEOUT).await;
            return Err(MemberError::Unanswered("no answer in 30 s".into()));
        }
        self.on_the_way().await;
        let answer = self.carry_out(&write);
        if answer.is_ok() && !lateness.is_zero() {
            tokio::time::sleep(lateness).await;
        }
        answer
    }

    /// A write is one step: nothing comes between what it reads and what it stores.
    fn carry_out(&self, write: &Write) -> Result<Value, MemberError> {
        let mut state = self.inner.state.lock();
        let (next, put) = match write {
            Write::Create(object) => (state.created(object)?, Put::Create),
            Write::Apply(object) => (state.applied(object)?, Put::Write),
            Write::Update(object) => (state.updated(object)?, Put::Write),
            Write::Merge(id, patch) => (state.merged(id, patch)?, Put::Write),
        };
        self.put(&mut state, next, put)
    }
}

/// What each write makes of what is there.
impl State {
    fn created(&mut self, object: &Value) -> Result<Value, MemberError> {
        self.check(&ObjectId::of(object))?;
        let mut made = object.clone();
        ownership::created(&mut made, &self.clock());
        Ok(made)
    }

    fn applied(&mut self, object: &Value) -> Result<Value, MemberError> {
        let id = ObjectId::of(object);
        self.check(&id)?;
        let old = self.read(&id);
        let uid = object::uid(object);
        if !uid.is_empty() && old.as_ref().is_none_or(|old| object::uid(old) != uid) {
            return Err(MemberError::Conflict(format!("{id} is not the one of uid {uid}")));
        }
        let mut merged = old.clone().unwrap_or_else(|| Value::Object(Map::new()));
        if let Value::Object(fields) = object {
            merge(object::root(&mut merged), fields);
        }
        ownership::applied(&mut merged, object);
        if old.is_none_or(|old| !same(&old, &merged)) {
            ownership::changed(&mut merged, "Apply", &self.clock());
        }
        Ok(merged)
    }

    fn updated(&mut self, object: &Value) -> Result<Value, MemberError> {
        let id = ObjectId::of(object);
        self.check(&id)?;
        let mut next = object.clone();
        match self.read(&id) {
            None => return Err(MemberError::NotFound(format!("{id} not found"))),
            Some(old) if object::resource_version(&old) != object::resource_version(object) => {
                return Err(MemberError::Conflict(format!("{id} has been modified")));
            }
            Some(mut old) => {
                if let Some(status) = old.get_mut("status") {
                    object::root(&mut next).insert("status".into(), status.take());
                }
                ownership::created(&mut next, &self.clock());
            }
        }
        Ok(next)
    }

    fn merged(&mut self, id: &ObjectId, patch: &Value) -> Result<Value, MemberError> {
        self.check(id)?;
        let mut object = self.read(id).ok_or_else(|| MemberError::NotFound(format!("{id} not found")))?;
        let version = object::resource_version(patch);
        if !version.is_empty() && version != object::resource_version(&object) {
            return Err(MemberError::Conflict(format!("{id} has been modified")));
        }
        merge_patch(&mut object, patch);
        Ok(object)
    }
}

/// Merges applied fields: objects by key, everything else whole.
fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// RFC 7396.
fn merge_patch(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    let target = object::root(into);
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge_patch(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
