//! What is written in Python: the official client, and an operator made with kopf, each a program of `tests/clients/python`.

use tests::clients::{python_or_skip, run};
use tests::folder::workspace_root;
use tests::subject::shared;

/// Runs a program to its end; its words are in the failure.
#[track_caller]
fn program(name: &str) {
    let Some(python) = python_or_skip() else { return };
    let subject = shared();
    let kubeconfig = subject.kubeconfig().display().to_string();
    let script = workspace_root().join("tests/clients/python").join(name).display().to_string();
    // An operator that hangs in its own threads is no reason for the suite to.
    let args = ["120", &python.display().to_string(), "-B", &script];
    let done = run("timeout".as_ref(), &args, &[("KUBECONFIG", &kubeconfig)]).ok();
    println!("{done}");
}

#[test]
fn the_python_client() {
    program("client.py");
}

#[test]
fn an_operator_of_kopf() {
    program("kopf_operator.py");
}
