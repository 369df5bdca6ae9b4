//! Which kubeconfig counts, as kubectl decides it. In: the flag, KUBECONFIG, the home directory. Out: one merged kubeconfig and a
//! context that exists in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use kube::config::Kubeconfig;

/// The files to read, in their order: the flag's alone, else KUBECONFIG's list, else the one in the home directory.
fn files(flag: Option<&Path>, list: Option<&OsStr>, home: Option<&OsStr>) -> Vec<PathBuf> {
    if let Some(flag) = flag {
        return vec![flag.to_owned()];
    }
    let listed: Vec<PathBuf> = list
        .map(|list| std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()).collect())
        .unwrap_or_default();
    if listed.is_empty() {
        home.map(|home| Path::new(home).join(".kube/config")).into_iter().collect()
    } else {
        listed
    }
}

/// Reads and merges. A file of a list that is not there is passed over, as kubectl does; the flag's must be there.
pub fn load(flag: Option<&Path>) -> Result<Kubeconfig> {
    let files = files(flag, std::env::var_os("KUBECONFIG").as_deref(), std::env::var_os("HOME").as_deref());
    let present: Vec<&PathBuf> = files.iter().filter(|file| flag.is_some() || file.exists()).collect();
    if present.is_empty() {
        let looked: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        bail!("there is no kubeconfig at {}: give --kubeconfig FILE or set KUBECONFIG", looked.join(", "));
    }
    present.into_iter().try_fold(Kubeconfig::default(), |merged, file| {
        let next = Kubeconfig::read_from(file)
            .with_context(|| format!("reading the kubeconfig {}", file.display()))?;
        merged.merge(next).with_context(|| format!("merging the kubeconfig {}", file.display()))
    })
}

/// What a context stands for.
#[derive(Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The context's name.
    pub context: String,
    /// Its cluster's name.
    pub cluster: String,
    /// Its namespace, `default` if it names none.
    pub namespace: String,
}

/// The context asked for, else the current one. An error names those there are.
pub fn choose(config: &Kubeconfig, asked: Option<&str>) -> Result<Chosen> {
    let names = || config.contexts.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    let current = config.current_context.as_deref().filter(|name| !name.is_empty());
    let Some(name) = asked.or(current) else {
        bail!("the kubeconfig has no current-context: choose one with --context (there are: {})", names());
    };
    let named = config.contexts.iter().find(|context| context.name == name);
    let Some(context) = named.and_then(|context| context.context.as_ref()) else {
        bail!("the kubeconfig has no context {name} (there are: {})", names());
    };
    let namespace = context.namespace.clone().filter(|namespace| !namespace.is_empty());
    Ok(Chosen {
        context: name.to_owned(),
        cluster: context.cluster.clone(),
        namespace: namespace.unwrap_or_else(|| "default".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_beats_the_list_and_the_list_beats_home() {
        let (list, home) = (Some(OsStr::new("/a::/b")), Some(OsStr::new("/root")));
        assert_eq!(files(Some(Path::new("/c")), list, home), [PathBuf::from("/c")]);
        assert_eq!(files(None, list, home), [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(files(None, Some(OsStr::new("")), home), [PathBuf::from("/root/.kube/config")]);
        assert_eq!(files(None, None, None), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_context_is_chosen_or_those_there_are_are_named() {
        let text = r#"{"contexts": [
            {"name": "one", "context": {"cluster": "kind-one", "user": "u"}},
            {"name": "two", "context": {"cluster": "kind-two", "user": "u", "namespace": "web"}}]}"#;
        let config = Kubeconfig::from_yaml(text).unwrap();
        let two = choose(&config, Some("two")).unwrap();
        assert_eq!((two.cluster.as_str(), two.namespace.as_str()), ("kind-two", "web"));
        assert_eq!(choose(&config, Some("one")).unwrap().namespace, "default");
        for asked in [None, Some("three")] {
            let error = choose(&config, asked).unwrap_err().to_string();
            assert!(error.contains("one, two"), "{error}");
        }
    }
}
