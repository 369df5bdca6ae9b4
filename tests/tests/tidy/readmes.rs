//! What the rooms' READMEs say of files is there.
//!
//! In: the READMEs, with tables whose first column names modules in backticks, and paths in backticks anywhere. Out: the names that no file or folder of
//! the room has, the paths that lead nowhere.

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

/// Paths in backticks that lead nowhere: from the workspace's root, where they begin with a folder of it, or from the room or its
/// sources, where they begin with a module of it. What begins with anything else is no path of ours.
pub fn unknown_paths(readme: &str, root: &Path, sources: &Path) -> Vec<String> {
    let is_path = |word: &&str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/_-.".contains(c);
        word.contains('/') && word.chars().all(plain)
    };
    let words =
        readme.split("```").step_by(2).flat_map(|text| text.split('`').skip(1).step_by(2)).filter(is_path);
    let room = sources.parent().unwrap_or(sources);
    let leads_nowhere = |word: &&str| {
        let first = word.split('/').next().unwrap_or_default();
        let of_root = ["hub", "agent", "proto", "certs", "deploy", "tests"].contains(&first);
        let of_room = !first.is_empty() && sources.join(first).is_dir();
        let exists = |folder: &Path| is_there(word, folder) || folder.join(word).exists();
        (of_root || of_room) && ![root, room, sources].into_iter().any(exists)
    };
    words.filter(leads_nowhere).map(str::to_owned).collect()
}
