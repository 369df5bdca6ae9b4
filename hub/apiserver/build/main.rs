//! Packs Kubernetes' own texts on its kinds, which the k8s-openapi crate brings and which would sit in every process's memory as they are:
//! 620 KB become 140.
//!
//! In: those texts. Out: `texts.tsv.zz` in `OUT_DIR`, compressed with zlib; `openapi` includes it.

mod texts;

use std::io::Write as _;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build");
    pack("texts.tsv.zz", texts::published().as_bytes());
}

fn pack(name: &str, text: &[u8]) {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names OUT_DIR")).join(name);
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(text).expect("writing to memory");
    std::fs::write(out, packed.finish().expect("writing to memory")).expect("OUT_DIR is writable");
}
