//! Under which name the program was called. In: its first argument. Out: what the usage calls it.

/// How the usage names the program: kubectl calls a plugin `kubectl-karmada`, and its user typed `kubectl karmada`.
pub fn name(argument: Option<&str>) -> &'static str {
    let file = argument.and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    if file.starts_with("kubectl-karmada") { "kubectl karmada" } else { "karmadactl" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_knows_its_name() {
        assert_eq!(name(Some("/usr/bin/kubectl-karmada")), "kubectl karmada");
        assert_eq!(name(Some("target/debug/karmadactl")), "karmadactl");
        assert_eq!(name(None), "karmadactl");
    }
}
