//! Builds the member's programs, for a CI that wants it done beside cargo: `cargo run -p tests --bin
//! kube-build`. The same as `tests/kube/build <target>/kube/bin`, which does not wait for cargo.

use std::process::ExitCode;

fn main() -> ExitCode {
    match tests::kube::build(&tests::kube::bin_dir()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
