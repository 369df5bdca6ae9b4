//! Compiles `protos/` with protox, so that no host needs protoc.
//!
//! In: `protos/fleet/v1/fleet.proto`. Out: Rust types in cargo's output folder.
//!
//! Every `bytes` field becomes `bytes::Bytes` (bodies are shared, not copied), and the codec is ours: tonic's
//! own allocates two buffers of 8 KiB per stream, which ten thousand idle agents would pay for.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=protos");
    let descriptors = protox::compile(["fleet/v1/fleet.proto"], ["protos"])?;
    tonic_prost_build::configure().bytes(".").codec_path("crate::SmallCodec").compile_fds(descriptors)?;
    Ok(())
}
