//! What a JSON patch may make of an object while it is carried out: a few operations that copy double it again and again, or wrap it
//! level by level.
//!
//! In: each operation, before it is carried out. Out: nothing, or why it goes no further. As in kube-apiserver, what all
//! copies add together is bounded; adding, replacing and moving add no more than the request holds. What stands behind an item of a list
//! that comes or goes is moved each time: that is bounded too.

use json_patch::PatchOperation;
use jsonptr::Pointer;
use serde_json::Value;

use super::PatchError;
use crate::object::extent::{Extent, MOST_BYTES, MOST_LEVELS};

/// Levels that operations may add by their paths before the object is measured again.
const UNMEASURED: usize = 500;

/// Items of lists that all operations together may move by one place, when they add or take away before them. It is ten times what the
/// most operations do at the front of a list of a thousand items.
const MOST_SHIFTED: usize = 100_000_000;

/// What was added so far.
#[derive(Debug, Default)]
pub(super) struct Growth {
    copied: usize,
    levels: usize,
    shifted: usize,
}

impl Growth {
    /// Takes an operation into account.
    pub fn take(&mut self, object: &Value, operation: &PatchOperation) -> Result<(), PatchError> {
        self.shifted += match operation {
            PatchOperation::Add(add) => behind(object, &add.path),
            PatchOperation::Remove(remove) => behind(object, &remove.path),
            PatchOperation::Copy(copy) => behind(object, &copy.path),
            PatchOperation::Move(moved) => behind(object, &moved.from) + behind(object, &moved.path),
            PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
        };
        if self.shifted > MOST_SHIFTED {
            return Err(PatchError::TooLarge(
                "The operations of the JSON patch move too many items of long lists: send the whole list instead".to_owned(),
            ));
        }
        match operation {
            PatchOperation::Copy(copy) => {
                let Some(from) = object.pointer(copy.from.as_str()) else { return Ok(()) };
                let extent = Extent::of(from);
                let levels = extent.levels + copy.path.count();
                if levels > MOST_LEVELS {
                    return Err(too_deep());
                }
                self.copied += extent.bytes;
                if self.copied > MOST_BYTES {
                    return Err(PatchError::unprocessable(&format!(
                        "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {MOST_BYTES}",
                        self.copied
                    )));
                }
            }
            PatchOperation::Move(moved) => {
                self.levels += moved.path.count();
                if self.levels > UNMEASURED {
                    self.levels = 0;
                    whole(object)?;
                }
            }
            PatchOperation::Add(add) if add.path.count() > MOST_LEVELS => return Err(too_deep()),
            _ => {}
        }
        Ok(())
    }
}

/// How many items of a list stand at a path or behind it.
fn behind(object: &Value, path: &Pointer) -> usize {
    let Some((parent, place)) = path.split_back() else { return 0 };
    let items = object.pointer(parent.as_str()).and_then(Value::as_array);
    let place = place.decoded().parse::<usize>().unwrap_or(usize::MAX);
    items.map_or(0, |items| items.len().saturating_sub(place))
}

/// Refuses an object that could not be read again.
pub(super) fn whole(object: &Value) -> Result<(), PatchError> {
    if Extent::of(object).levels > MOST_LEVELS { Err(too_deep()) } else { Ok(()) }
}

/// Refuses an object that could not be read again, or is larger than a request may be.
pub(super) fn fits(object: &Value) -> Result<(), PatchError> {
    let extent = Extent::of(object);
    if extent.levels > MOST_LEVELS {
        return Err(too_deep());
    }
    if extent.bytes > MOST_BYTES {
        return Err(PatchError::TooLarge(format!("the object would have more than {MOST_BYTES} bytes")));
    }
    Ok(())
}

fn too_deep() -> PatchError {
    PatchError::unprocessable(&format!("the object would have more than {MOST_LEVELS} levels"))
}
