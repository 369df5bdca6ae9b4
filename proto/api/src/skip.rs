//! Which values are left out of JSON.

/// Leaves out false.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
pub fn is_false(value: &bool) -> bool {
    !*value
}

/// Leaves out zero.
pub fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
