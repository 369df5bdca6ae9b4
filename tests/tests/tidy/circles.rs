//! Which files of a crate name which, and the circles among them.
//!
//! In: the sources of one crate. Out: groups of files that can only be understood together. A module and what is inside it are one
//! where only parent and child name each other: that a parent declares its children, and a child uses its parent's types, is
//! natural. Names are followed through `pub use` to the file that has them; tests are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// A module's place below the crate's root.
pub type Module = Vec<String>;

/// Module → the modules that it names.
type Graph = BTreeMap<Module, BTreeSet<Module>>;

static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"//[^\n]*").unwrap());
static INLINE_TESTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^#\[cfg\(test\)\]\s*\n(#\[[^\n]*\n)*mod \w+ \{").unwrap());
static TEST_MODULE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"#\[cfg\(test\)\]\s*(?:#\[[^\n]*\n\s*)*(?:pub(?:\([^)]*\))? )?mod (\w+);").unwrap()
});
static USE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);").unwrap());
static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(^|[^\w:])(\w+(?:::\w+)+)").unwrap());

/// What a `use` brings into a module: name → the place that it has in the crate; `None` for names of other crates.
type Names = BTreeMap<String, Option<Vec<String>>>;

/// One file, as far as it matters here.
struct SourceFile {
    text: String,
    names: Names,
    /// Places that it names, as they are written.
    mentions: Vec<Vec<String>>,
}

/// A crate's modules.
struct Crate(BTreeMap<Module, SourceFile>);

fn words(path: &str) -> Vec<String> {
    path.split("::").filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The paths of a `use`, each with the name that it gets.
fn flattened(before: &[String], tree: &str) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    if let (Some(open), true) = (tree.find('{'), tree.ends_with('}')) {
        let before = [before, &words(&tree[..open])].concat();
        let (mut depth, mut start, mut all) = (0, 0, Vec::new());
        let inner = &tree[open + 1..tree.len() - 1];
        for (at, letter) in inner.char_indices().chain([(inner.len(), ',')]) {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    all.extend(flattened(&before, &inner[start..at]));
                    start = at + 1;
                }
                _ => {}
            }
        }
        return all;
    }
    let (path, alias) =
        tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias.trim())));
    let mut path = [before, &words(path.trim())].concat();
    path.pop_if(|last| last == "self");
    let name = alias.map(str::to_owned).or_else(|| path.last().cloned());
    name.map(|name| vec![(path, name)]).unwrap_or_default()
}

fn module_of(file: &Path, root: &Path) -> Module {
    let below = file.strip_prefix(root).unwrap().with_extension("");
    let mut module: Module = below.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
    if module.len() == 1 && matches!(&*module[0], "lib" | "main") {
        module.clear();
    }
    module.pop_if(|last| last == "mod");
    module
}

impl Crate {
    fn read(files: &[(std::path::PathBuf, String)], root: &Path) -> Crate {
        let mut tests = BTreeSet::new();
        let mut all = BTreeMap::new();
        for (file, text) in files {
            let module = module_of(file, root);
            for test in TEST_MODULE.captures_iter(text) {
                tests.insert([&module[..], &[test[1].to_owned()]].concat());
            }
            let end = INLINE_TESTS.find(text).map_or(text.len(), |tests| tests.start());
            let text = COMMENT.replace_all(&text[..end], "").into_owned();
            all.insert(module, SourceFile { text, names: Names::new(), mentions: Vec::new() });
        }
        all.retain(|module, _| !(1..=module.len()).any(|end| tests.contains(&module[..end])));
        let mut krate = Crate(all);
        krate.link();
        krate
    }

    /// Reads what each module names.
    fn link(&mut self) {
        let modules: Vec<Module> = self.0.keys().cloned().collect();
        for module in modules {
            let text = self.0[&module].text.clone();
            let (mut names, mut mentions) = (Names::new(), Vec::new());
            for found in USE.captures_iter(&text) {
                for (path, name) in flattened(&[], &found[2].split_whitespace().collect::<Vec<_>>().join(" "))
                {
                    let place = self.place(&module, &path);
                    // What is published is not used here.
                    if found.get(1).is_none() {
                        mentions.extend(place.clone());
                    }
                    names.insert(name, place);
                }
            }
            let rest = USE.replace_all(&text, "");
            mentions
                .extend(PATH.captures_iter(&rest).filter_map(|path| self.place(&module, &words(&path[2]))));
            if let Some(source) = self.0.get_mut(&module) {
                (source.names, source.mentions) = (names, mentions);
            }
        }
    }

    /// A path as it is written in `module`, from the crate's root; `None` where it leads out of the crate.
    fn place(&self, module: &Module, path: &[String]) -> Option<Vec<String>> {
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => {
                let up = path.iter().take_while(|word| *word == "super").count();
                let base = module.get(..module.len().checked_sub(up)?)?;
                Some([base, &path[up..]].concat())
            }
            first => {
                let child = [&module[..], &[first.to_owned()]].concat();
                self.0.contains_key(&child).then(|| [module, path].concat())
            }
        }
    }

    /// The module that has what stands at a place.
    fn home(&self, place: &[String], depth: usize) -> Option<Module> {
        let place: Vec<String> = place.iter().filter(|word| *word != "*").cloned().collect();
        let end = (0..=place.len()).rev().find(|end| self.0.contains_key(&place[..*end]))?;
        let (module, rest) = (place[..end].to_vec(), &place[end..]);
        let Some(name) = rest.first() else { return Some(module) };
        match self.0[&module].names.get(name) {
            Some(Some(other)) if depth < 10 => self.home(&[other, &rest[1..]].concat(), depth + 1),
            Some(_) => None,
            None => Some(module),
        }
    }

    fn graph(&self) -> Graph {
        let named = |module: &Module, source: &SourceFile| {
            let homes = source.mentions.iter().filter_map(|place| self.home(place, 0));
            homes.filter(|home| home != module).collect()
        };
        self.0.iter().map(|(module, source)| (module.clone(), named(module, source))).collect()
    }
}

/// Everything that can be reached from `start` within `among`.
fn reached<'a>(graph: &'a Graph, among: &BTreeSet<&'a Module>, start: &'a Module) -> BTreeSet<&'a Module> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
    while let Some(module) = next.pop() {
        next.extend(graph[module].iter().filter(|other| among.contains(other) && seen.insert(*other)));
    }
    seen
}

/// Groups of more than one module that all reach each other.
fn knots<'a>(graph: &'a Graph, among: &BTreeSet<&'a Module>) -> Vec<BTreeSet<&'a Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        among.iter().map(|module| (*module, reached(graph, among, module))).collect();
    let mut done = BTreeSet::new();
    let mut all = Vec::new();
    for module in among {
        let knot: BTreeSet<&Module> =
            reach[module].iter().filter(|other| reach[*other].contains(module)).copied().collect();
        if knot.len() > 1 && done.insert(knot.clone()) {
            all.push(knot);
        }
    }
    all
}

/// What is left of the knots once a parent that holds all the others of its knot is taken out of it.
fn unnatural<'a>(graph: &'a Graph, among: &BTreeSet<&'a Module>) -> Vec<Vec<&'a Module>> {
    let judged = knots(graph, among).into_iter().flat_map(|mut knot| {
        let root = knot.iter().min_by_key(|module| module.len()).copied();
        match root.filter(|root| knot.iter().all(|module| module.starts_with(root))) {
            Some(root) => {
                knot.remove(root);
                unnatural(graph, &knot)
            }
            None => vec![knot.into_iter().collect()],
        }
    });
    judged.collect()
}

/// The circles of a crate, each as the names of its modules in order.
pub fn of(files: &[(std::path::PathBuf, String)], root: &Path) -> Vec<Vec<String>> {
    let graph = Crate::read(files, root).graph();
    let all: BTreeSet<&Module> = graph.keys().collect();
    let name = |module: &Module| if module.is_empty() { "lib".to_owned() } else { module.join("::") };
    unnatural(&graph, &all).into_iter().map(|knot| knot.into_iter().map(name).collect()).collect()
}
