//! What is built on client-go: each subcommand of `tests/clients`, in the ways that feature gates give it.

use tests::clients::{programs_or_skip, run};

use tests::subject::shared;

/// Runs checks of a subcommand; all of them where none is named.
#[track_caller]
fn checks(subcommand: &str, names: &[&str], env: &[(&str, &str)]) {
    let Some(programs) = programs_or_skip() else { return };
    let subject = shared();
    let kubeconfig = subject.kubeconfig().display().to_string();
    let args = [&[kubeconfig.as_str(), subcommand], names].concat();
    let done = run(&programs.clients, &args, env).ok();
    println!("{done}");
}

#[test]
fn client_go() {
    checks("client-go", &[], &[]);
}

#[test]
fn client_go_with_streamed_lists() {
    let watches = ["informers", "custom informers", "watches", "operator"];
    checks("client-go", &watches, &[("KUBE_FEATURE_WatchListClient", "true")]);
}

#[test]
fn client_go_that_prefers_cbor() {
    let gates = [("KUBE_FEATURE_ClientsAllowCBOR", "true"), ("KUBE_FEATURE_ClientsPreferCBOR", "true")];
    checks("client-go", &["cbor", "dynamic", "custom informers"], &gates);
}

#[test]
fn argo_cd_syncs() {
    checks("gitops-engine", &[], &[]);
}

#[test]
fn flux_applies() {
    checks("flux-ssa", &[], &[]);
}
