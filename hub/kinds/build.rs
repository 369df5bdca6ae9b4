//! Turns the plain facts of types (`data/facts.tsv`) into constants: each type's, in the order of its lines; and their plain defaults
//! (`data/defaults.tsv`) into a function. A line that cannot be read stops the build; so does a name in one that nothing has, and a type
//! whose facts nobody asks for is a warning.
//!
//! In: `data/facts.tsv` and `data/defaults.tsv`. Out: `facts.rs` and `defaults.rs` in `OUT_DIR`, which `validation` and `defaults` include.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=data/facts.tsv");
    println!("cargo::rerun-if-changed=data/defaults.tsv");
    println!("cargo::rerun-if-changed=build.rs");
    let mut out = String::new();
    for (name, facts) in by_type("data/facts.tsv", fact_of_line) {
        writeln!(out, "pub(crate) const {name}: &[Fact] = &[\n{facts}];").expect("writing to memory");
    }
    write("facts.rs", &out);
    let mut out = "fn plain(type_name: &str, fields: &mut Fields) {\n    match type_name {\n".to_owned();
    for (name, defaults) in by_type("data/defaults.tsv", default_of_line) {
        writeln!(out, "        {name:?} => {{\n{defaults}        }}").expect("writing to memory");
    }
    write("defaults.rs", &(out + "        _ => {}\n    }\n}\n"));
}

fn write(name: &str, text: &str) {
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names OUT_DIR"));
    std::fs::write(folder.join(name), text).expect("OUT_DIR is writable");
}

/// A table's lines by type, each as Rust has it.
fn by_type(path: &str, read: fn(&str) -> Result<(String, String), String>) -> BTreeMap<String, String> {
    let table = std::fs::read_to_string(path).expect("the table is part of the crate");
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    for (number, line) in (1..).zip(table.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, code) = read(line).unwrap_or_else(|why| panic!("{path}:{number}: {why}: {line}"));
        types.entry(name).or_default().push_str(&code);
    }
    types
}

/// The type that a line is of, and the call that lays its default in.
fn default_of_line(line: &str) -> Result<(String, String), String> {
    let [of, at, when, value] = line.split('\t').collect::<Vec<_>>()[..] else {
        return Err("a line has a type, a path, when, and a value".to_owned());
    };
    let (above, field) = at.rsplit_once('.').map_or((None, at), |(above, field)| (Some(above), field));
    let within = above.into_iter().flat_map(|above| above.split('.'));
    let within = within.fold("fields".to_owned(), |of, field| format!("object({of}, {field:?})"));
    let set = match when {
        "if unset" => "set",
        "if empty" => "set_blank",
        _ => return Err(format!("no default is laid in {when:?}")),
    };
    let call = format!("            {set}({within}, {field:?}, json!({value}));\n");
    Ok((of.trim_start_matches("api.").to_owned(), call))
}

/// The constant that a line is of, and the fact as Rust has it.
fn fact_of_line(line: &str) -> Result<(String, String), String> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [of, at, when, what, words] = match cells[..] {
        [of, at, when, what] => [of, at, when, what, ""],
        [of, at, when, what, words] => [of, at, when, what, words],
        _ => return Err("a line has a type, a path, when, a fact, and maybe words".to_owned()),
    };
    let steps: Result<Vec<String>, String> =
        at.split('.').filter(|part| !part.is_empty()).map(steps).collect();
    let steps = steps?.join(", ");
    let (when, what) = (condition(when)?, fact(what)?);
    let fact =
        format!("    Fact {{ at: &[{steps}], when: When::{when}, what: What::{what}, words: {words:?} }},\n");
    Ok((constant(of), fact))
}

/// The name of a type's constant: `api.core.v1.PodSpec` is `CORE_V1_POD_SPEC`.
fn constant(name: &str) -> String {
    let (mut out, mut small) = (String::new(), false);
    for sign in name.trim_start_matches("api.").chars() {
        if small && sign.is_uppercase() {
            out.push('_');
        }
        small = sign.is_lowercase();
        out.push(if sign.is_alphanumeric() { sign.to_ascii_uppercase() } else { '_' });
    }
    out
}

/// One part of a path: a field, `field=as it is told`, each with `[]` for the items of it, or
/// `[*]` where errors name the list alone.
fn steps(part: &str) -> Result<String, String> {
    let (field, items) = match (part.strip_suffix("[]"), part.strip_suffix("[*]")) {
        (Some(field), _) => (field, ", Step::Items"),
        (_, Some(field)) => (field, ", Step::ItemsOfAll"),
        _ => (part, ""),
    };
    match field.split('=').collect::<Vec<_>>()[..] {
        [field] => Ok(format!("Step::Field({field:?}){items}")),
        [field, told] => Ok(format!("Step::Called({field:?}, {told:?}){items}")),
        _ => Err(format!("no field: {part}")),
    }
}

fn condition(word: &str) -> Result<&'static str, String> {
    Ok(match word {
        "always" => "Always",
        "required" => "Required",
        "set" => "Set",
        "if set" => "IfSet",
        "if filled" => "IfFilled",
        _ => return Err(format!("nothing is looked at {word:?}")),
    })
}

fn fact(text: &str) -> Result<String, String> {
    let (word, rest) = text.split_once(": ").unwrap_or((text, ""));
    let number = |text: &str| text.parse::<i64>().map_err(|why| format!("{text:?}: {why}"));
    Ok(match word {
        "there" => "There".to_owned(),
        "one of" => format!("OneOf(&{:?})", rest.split(',').collect::<Vec<_>>()),
        "only" => format!("Only(&{:?})", rest.split(',').collect::<Vec<_>>()),
        "name" => format!("Name(names::{rest})"),
        "at least" => format!("AtLeast({})", number(rest)?),
        "at most" => format!("AtMost({})", number(rest)?),
        "between" => {
            let (least, most) = rest.split_once(" and ").ok_or("between two numbers")?;
            format!("Between({}, {})", number(least)?, number(most)?)
        }
        "port" => "Port".to_owned(),
        "port or name" => "PortOrName".to_owned(),
        "int or percent" => "IntOrPercent".to_owned(),
        "at most 100%" => "AtMostAll".to_owned(),
        "longest" => format!("Longest({})", number(rest)?),
        "most items" => format!("MostItems({})", number(rest)?),
        "once" => format!("Once({rest:?})"),
        "unique" => "Unique".to_owned(),
        "same" => "Same".to_owned(),
        "immutable" => "Immutable".to_owned(),
        "fixed" => "Fixed".to_owned(),
        "is" => format!("Is({})", constant(rest)),
        "code" => format!("Code(super::{rest})"),
        _ => return Err(format!("no such fact: {text:?}")),
    })
}
