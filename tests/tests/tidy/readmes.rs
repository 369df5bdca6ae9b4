//! What the rooms' READMEs say of files is there.
//!
//! In: the READMEs, with tables whose first column names modules in backticks. Out: the names that no file or folder of the room has.

use std::path::Path;

/// Names in the first column of tables of files that the room's sources do not have.
pub fn unknown_modules(readme: &str, sources: &Path) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut is_of_files = false;
    for line in readme.lines() {
        let Some(cell) = line.strip_prefix('|').and_then(|line| line.split('|').next()).map(str::trim) else {
            is_of_files = false;
            continue;
        };
        is_of_files |= matches!(cell, "file" | "files" | "module" | "modules");
        if is_of_files {
            let names = cell.split('`').skip(1).step_by(2);
            unknown.extend(names.filter(|name| !is_there(name, sources)).map(str::to_owned));
        }
    }
    unknown
}

/// Whether a file, a folder, or any that a `*` stands for is there.
fn is_there(name: &str, sources: &Path) -> bool {
    let name = name.trim_end_matches('/').trim_end_matches(".rs");
    if let Some((folder, pattern)) =
        name.rsplit_once('/').or(Some(("", name))).filter(|(_, file)| file.contains('*'))
    {
        let end = pattern.trim_start_matches('*');
        let entries = std::fs::read_dir(sources.join(folder)).into_iter().flatten().flatten();
        return entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .any(|file| file.strip_suffix(".rs").is_some_and(|file| file.ends_with(end)));
    }
    sources.join(name).is_dir() || sources.join(format!("{name}.rs")).is_file()
}
