//! Builds the member's programs, for a CI that wants it done beside cargo: `cargo run -p tests --bin
//! kube-build`. The same as `tests/kube/build <target>/kube/bin`, which does not wait for cargo.
//!
//! In: nothing. Out: the programs in `<target>/kube/bin`, and exit code 0; where they cannot be built, 1 and the reason on stderr.

use std::process::ExitCode;

fn main() -> ExitCode {
    match tests::kube_binaries::build(&tests::kube_binaries::bin_dir()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
