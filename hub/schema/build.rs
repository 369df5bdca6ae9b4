//! Packs the schema facts, which would sit in every process's memory as text: 480 KB become 35.
//!
//! In: `data/schemas.tsv`. Out: `schemas.tsv.zz` in `OUT_DIR`, compressed with zlib; `builtin` includes and unpacks it.

use std::io::Write as _;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=data/schemas.tsv");
    println!("cargo::rerun-if-changed=build.rs");
    let schemas = std::fs::read("data/schemas.tsv").expect("data/schemas.tsv is part of the crate");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names OUT_DIR"));
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&schemas).expect("writing to memory");
    let packed = packed.finish().expect("writing to memory");
    std::fs::write(out.join("schemas.tsv.zz"), packed).expect("OUT_DIR is writable");
}
