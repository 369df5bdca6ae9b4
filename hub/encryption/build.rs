//! Compiles `protos/` with protox, so that no host needs protoc.
//!
//! In: `protos/kms/v2/kms.proto`. Out: the types and the client of a key management service, in `OUT_DIR`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=protos");
    let descriptors = protox::compile(["kms/v2/kms.proto"], ["protos"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
