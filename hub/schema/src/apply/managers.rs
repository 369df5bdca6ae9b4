//! `metadata.managedFields`: who owns what, read, changed and written.
//!
//! In: an object, and what a writer owns now. Out: the owners as a map from manager to paths, and the object with that written back; an
//! error where a stored entry is malformed. Managers that own nothing any more are dropped, and of more than ten updaters the oldest become
//! one.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Writer;
use super::set::Set;

/// More update entries than this are folded into one.
const MAX_UPDATERS: usize = 10;

/// How a manager wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// What makes an entry one: an applier's version is not part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub name: String,
    pub operation: Operation,
    pub subresource: String,
    /// Empty for appliers.
    pub api_version: String,
}

impl Manager {
    fn new(name: &str, operation: Operation, subresource: &str, api_version: &str) -> Manager {
        let name = if name.is_empty() { "unknown" } else { name };
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Manager {
            name: name.into(),
            operation,
            subresource: subresource.into(),
            api_version: api_version.into(),
        }
    }

    fn of(writer: Writer<'_>, operation: Operation) -> Manager {
        Manager::new(writer.manager, operation, writer.subresource, writer.api_version)
    }
}

#[derive(Clone, Debug)]
struct Entry {
    api_version: String,
    time: Option<String>,
    set: Set,
}

/// All entries of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Managers {
    entries: BTreeMap<Manager, Entry>,
}

impl Managers {
    /// Reads an object's managedFields; none where it has none.
    ///
    /// # Errors
    /// A malformed entry.
    pub(super) fn read(object: &Value) -> Result<Managers, String> {
        let mut entries = BTreeMap::new();
        let list = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        for (index, entry) in list.into_iter().flatten().enumerate() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
                other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
            }
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            let set = match &entry["fieldsV1"] {
                Value::Null => Set::default(),
                fields => Set::from_fields(fields)?,
            };
            let manager = Manager::new(text("manager"), operation, text("subresource"), api_version);
            let time = entry["time"].as_str().map(ToOwned::to_owned);
            entries.insert(manager, Entry { api_version: api_version.to_owned(), time, set });
        }
        Ok(Managers { entries })
    }

    /// Whether the object asks to forget all ownership: an empty list, or one empty entry.
    pub(super) fn is_reset(object: &Value) -> bool {
        match object.pointer("/metadata/managedFields") {
            Some(Value::Array(list)) => match list.as_slice() {
                [] => true,
                [Value::Object(entry)] => entry.is_empty(),
                _ => false,
            },
            _ => false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Everything that anyone owns.
    pub(super) fn all(&self) -> Set {
        let mut all = Set::default();
        self.entries.values().for_each(|entry| all.absorb(&entry.set));
        all
    }

    /// The entries' managers, versions and sets, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Manager, &str, &Set)> {
        self.entries.iter().map(|(manager, entry)| (manager, entry.api_version.as_str(), &entry.set))
    }

    pub(super) fn change_each(&mut self, change: impl Fn(&Manager, &Set) -> Set) {
        for (manager, entry) in &mut self.entries {
            entry.set = change(manager, &entry.set);
        }
        self.entries.retain(|_, entry| !entry.set.is_empty());
    }

    /// Changes all but the applier's own entry.
    pub(super) fn change_others(&mut self, writer: Writer<'_>, change: impl Fn(&Set) -> Set) {
        let own = Manager::of(writer, Operation::Apply);
        self.change_each(|manager, set| if *manager == own { set.clone() } else { change(set) });
    }

    /// Changes the applier's own entry.
    pub(super) fn change_own(&mut self, writer: Writer<'_>, change: impl Fn(&Set) -> Set) {
        let own = Manager::of(writer, Operation::Apply);
        self.change_each(|manager, set| if *manager == own { change(set) } else { set.clone() });
    }

    /// Whether `manager` is the applier itself.
    pub(super) fn is_applier(manager: &Manager, writer: Writer<'_>) -> bool {
        *manager == Manager::of(writer, Operation::Apply)
    }

    /// Adds to what a writer owns, now.
    pub(super) fn add(&mut self, writer: Writer<'_>, operation: Operation, set: &Set) {
        let entry = self.entries.entry(Manager::of(writer, operation)).or_insert_with(|| Entry {
            api_version: String::new(),
            time: None,
            set: Set::default(),
        });
        entry.api_version = writer.api_version.to_owned();
        // kube-apiserver loses the times of scales on the way back to their objects.
        entry.time = (writer.subresource != "scale").then(|| writer.now.to_owned());
        entry.set.absorb(set);
    }

    /// Sets what an applier owns; answers what it owned. The time stays until [`Managers::touch`].
    pub(super) fn replace(&mut self, writer: Writer<'_>, set: Set) -> Option<Set> {
        let manager = Manager::of(writer, Operation::Apply);
        let before = self.entries.remove(&manager);
        let time = before.as_ref().and_then(|entry| entry.time.clone());
        self.entries.insert(manager, Entry { api_version: writer.api_version.to_owned(), time, set });
        before.map(|entry| entry.set)
    }

    /// The applier changed the object now.
    pub(super) fn touch(&mut self, writer: Writer<'_>) {
        if let Some(entry) = self.entries.get_mut(&Manager::of(writer, Operation::Apply)) {
            entry.time = Some(writer.now.to_owned());
        }
    }

    /// Folds the oldest update entries of a version into one `ancient-changes` where there are too many.
    pub(super) fn cap(&mut self) {
        let updaters = self.entries.keys().filter(|manager| manager.operation == Operation::Update);
        let mut updaters: Vec<Manager> = updaters.cloned().collect();
        let mut count = updaters.len();
        updaters.sort_by_key(|manager| (self.entries[manager].time.clone(), manager.clone()));
        let mut first: BTreeMap<String, Manager> = BTreeMap::new();
        for manager in updaters {
            if count <= MAX_UPDATERS {
                return;
            }
            let version = manager.api_version.clone();
            let Some(oldest) = first.get(&version).cloned() else {
                first.insert(version, manager);
                continue;
            };
            let bucket = Manager::new("ancient-changes", Operation::Update, "", &version);
            if !self.entries.contains_key(&bucket)
                && let Some(entry) = self.entries.remove(&oldest)
            {
                self.entries.insert(bucket.clone(), entry);
            }
            if bucket == manager {
                continue;
            }
            if let (Some(entry), Some(folded)) =
                (self.entries.remove(&manager), self.entries.get_mut(&bucket))
            {
                folded.set.absorb(&entry.set);
                folded.time = entry.time;
                count -= 1;
            }
        }
    }

    /// Writes the entries into an object, in kube-apiserver's order.
    pub(super) fn write(&self, object: &mut Value) {
        let mut order: Vec<(&Manager, &Entry)> = self.entries.iter().collect();
        order.sort_by_key(|(manager, entry)| {
            (manager.operation, &entry.time, &manager.name, &entry.api_version, &manager.subresource)
        });
        let list: Vec<Value> = order.into_iter().map(|(manager, entry)| encode(manager, entry)).collect();
        let Some(object) = object.as_object_mut() else { return };
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        let Some(metadata) = metadata.as_object_mut() else { return };
        if list.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), Value::Array(list));
        }
    }
}

fn encode(manager: &Manager, entry: &Entry) -> Value {
    let mut out = json!({
        "manager": manager.name,
        "operation": manager.operation.text(),
        "apiVersion": entry.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": entry.set.to_fields(),
    });
    if let Some(time) = &entry.time {
        out["time"] = json!(time);
    }
    if !manager.subresource.is_empty() {
        out["subresource"] = json!(manager.subresource);
    }
    out
}
