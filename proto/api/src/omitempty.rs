//! Which values are left out of JSON.
//!
//! In: a value about to be written. Out: whether its field is left out, as Go's `omitempty` would. For `skip_serializing_if`.

/// Leaves out false.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
pub fn is_false(value: &bool) -> bool {
    !*value
}

/// Leaves out zero.
pub fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
