//! Names of the rows that note objects of a Work that is held and that its bodies name no more.
//!
//! In: the name of a Work, or of a row. Out: the other one. Pure.

/// What the row of a held Work's objects that its bodies name no more ends with. No Work has such a name.
const FORMER: &str = "/former";
/// No key of a row is longer: the hub takes none that is.
const LONGEST: usize = 253;

/// The row for marked objects that the held Work `work` does not name; `None` where that would be too long a name.
pub fn former_key(work: &str) -> Option<String> {
    Some(format!("{work}{FORMER}")).filter(|key| key.len() <= LONGEST)
}

/// The Work that the objects of row `key` name by their marks.
pub fn work_of_row(key: &str) -> &str {
    key.strip_suffix(FORMER).unwrap_or(key)
}
