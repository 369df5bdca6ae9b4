//! `karmadactl render`: what files would place where, and what each cluster would get, without a hub: for checks before anything is applied. In: files or
//! folders of templates, policies and clusters (`kubectl get clusters -o yaml` of a hub). Out: for each template its policy, every cluster with the
//! reason, and what each gets; or a folder of manifests for each cluster. It fails where a policy takes a template and no cluster does, or nobody
//! can read how many replicas it has.

mod files;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use karmada_api::object;
use karmada_core::placement_review;
use karmada_core::placement_review::files::{Evaluators, Files, Rendered, render};
use karmada_core::placement_review::shown::{self, Manifests};
use karmada_interpreter::Chain;
use karmada_lua::machine::Limits;
use karmada_lua::{Customization, Scripts};
use karmada_placement_expressions::PlacementExpressions;
use serde_json::{Value, json};

use self::files::{Found, Held, file_of, read, sorted};
use crate::output;
use crate::placement::{self, Shape, WhatIf};

/// Flags of `render`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A file or folder of templates, policies and clusters; `-` reads what is piped in. May be said several times.
    #[arg(long, short, required = true)]
    filename: Vec<PathBuf>,
    /// Write what each cluster gets into this folder, as CLUSTER/KIND.GROUP.NAMESPACE.NAME.yaml. What is there already stays, unless it has the same name.
    #[arg(long, value_name = "FOLDER")]
    output_dir: Option<PathBuf>,
    #[command(flatten)]
    what_if: WhatIf,
    #[command(flatten)]
    shape: Shape,
}

/// Renders.
pub fn run(arguments: &Arguments, now: Timestamp) -> Result<()> {
    let mut found = Vec::new();
    for file in &arguments.filename {
        found.extend(read(file)?);
    }
    let objects = found.iter().map(|(_, object)| object.clone()).collect();
    let Held { files, customizations } = sorted(objects, now)?;
    ensure!(!files.templates.is_empty(), "the files hold no template: objects beside policies and clusters");
    ensure!(
        !files.clusters.is_empty(),
        "the files hold no Cluster: add those of the hub (kubectl get clusters -o yaml)"
    );
    let what_if: placement_review::WhatIf = serde_json::from_value(arguments.what_if.as_spec())?;
    if let [first, ..] = what_if.unknown(&files.clusters)[..] {
        bail!("there is no cluster {first} among the files");
    }
    let rendered = rendered(&files, &what_if, customizations, now);
    if let Some(folder) = &arguments.output_dir {
        write(folder, &rendered)?;
    }
    let reviews: Vec<Value> =
        rendered.iter().map(|one| shown(&files, one, arguments.shape.manifests)).collect();
    placement::print(&reviews, &arguments.shape)?;
    whole(&files, &rendered, &found)
}

/// Whether all that a policy takes is read, placed and made.
fn whole(files: &Files, rendered: &[Rendered], found: &[Found]) -> Result<()> {
    let unread = unread(files, rendered, found);
    ensure!(unread.is_empty(), "nothing can be decided of {}", unread.join("; "));
    let homeless: Vec<String> = rendered
        .iter()
        .filter(|one| {
            one.review.policy.is_some() && !one.review.message.is_empty() && one.review.works.is_empty()
        })
        .map(|one| name(&files.templates[one.template]))
        .collect();
    ensure!(homeless.is_empty(), "no cluster takes {}", homeless.join(", "));
    let unmade = unmade(files, rendered);
    ensure!(unmade.is_empty(), "not all is rendered: {}", unmade.join("; "));
    Ok(())
}

/// Templates that a policy takes and of which nobody can say how they are to be placed, as their interpreter fails: each with its file and the
/// reason. The scheduler is not asked then, also where they follow others.
fn unread(files: &Files, rendered: &[Rendered], found: &[Found]) -> Vec<String> {
    let stops = |one: &&Rendered| one.review.policy.is_some() && one.review.decision.is_none();
    let told = |one: &Rendered| {
        let template = &files.templates[one.template];
        let file = file_of(found, template).display();
        format!("{file}: {}: {}", name(template), one.review.message)
    };
    rendered.iter().filter(stops).map(told).collect()
}

/// A hub has a script rest that took much of its time, and asks again later. Here nothing is asked again: what one of a hub may take, a busy machine
/// makes of it without a rest.
const PATIENT: Limits = Limits { memory: 64 << 20, time: Duration::from_secs(10) };

/// What becomes of the templates, as a hub with these customizations decides.
fn rendered(
    files: &Files,
    what_if: &placement_review::WhatIf,
    customizations: Vec<Customization>,
    now: Timestamp,
) -> Vec<Rendered> {
    let scripts = Scripts::limited(customizations, Arc::new(move || now), PATIENT);
    let interpreter = Chain::new(vec![Arc::new(scripts), Arc::new(Chain::default())]);
    let expressions = PlacementExpressions::default();
    render(files, what_if, Evaluators { interpreter: &interpreter, expressions: &expressions })
}

/// What some cluster would get and is not here, with the reason.
fn unmade(files: &Files, rendered: &[Rendered]) -> Vec<String> {
    let mut unmade = Vec::new();
    for one in rendered {
        let name = name(&files.templates[one.template]);
        let failed =
            one.review.works.iter().filter_map(|work| Some((&work.cluster, work.work.as_ref().err()?)));
        unmade.extend(failed.map(|(cluster, error)| format!("{name} for {cluster}: {error}")));
        unmade.extend(one.dependencies_failed.iter().map(|error| format!("what {name} depends on: {error}")));
        if one.review.left_out > 0 {
            unmade.push(format!("{name} is too large to be shown for {} clusters more", one.review.left_out));
        }
    }
    unmade
}

fn name(template: &Value) -> String {
    format!("{} {}", object::kind(template), object::name(template))
}

/// As a hub's answer to a PlacementReview reads.
fn shown(files: &Files, one: &Rendered, manifests: bool) -> Value {
    let manifests = if manifests { Manifests::Shown } else { Manifests::LeftOut };
    let mut status = shown::status(&one.review, manifests);
    if one.review.policy.is_none() && !one.follows.is_empty() {
        status["outcome"] = json!("Follows");
    }
    json!({"apiVersion": "edge.karmada.io/v1alpha1", "kind": "PlacementReview",
        "spec": {"manifest": files.templates[one.template]}, "status": status})
}

/// A file for each object and cluster.
fn write(folder: &Path, rendered: &[Rendered]) -> Result<()> {
    let mut written = BTreeSet::new();
    for work in rendered.iter().flat_map(|one| &one.review.works) {
        // What could not be made is told in the end.
        let Ok(made) = &work.work else { continue };
        for manifest in &made.spec.workload.manifests {
            let (group, _) = object::group_version(object::api_version(manifest));
            let parts = [object::kind(manifest), group, object::namespace(manifest), object::name(manifest)];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let places = [&*work.cluster, &*parts.join(".")];
            ensure!(
                !places.iter().any(|place| place.contains('/') || place.starts_with('.')),
                "{} in {} is no name of a file",
                places[1],
                places[0]
            );
            let file = folder.join(places[0]).join(format!("{}.yaml", places[1]));
            ensure!(written.insert(file.clone()), "the files hold {} twice", name(manifest));
            let text = output::yaml(std::slice::from_ref(manifest))?;
            let made =
                std::fs::create_dir_all(folder.join(places[0])).and_then(|()| std::fs::write(&file, text));
            made.with_context(|| format!("writing {}", file.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: c, image: nginx, envFrom: [{secretRef: {name: key}}]}]}}}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web}
spec:
  propagateDeps: true
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement: {clusterAffinity: {clusterNames: [north, south]}}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: north}
spec: {syncMode: Pull}
";

    fn held(text: &str) -> Result<Held> {
        sorted(placement::objects(text)?, Timestamp::UNIX_EPOCH)
    }

    fn files(text: &str) -> Result<Files> {
        held(text).map(|held| held.files)
    }

    fn plainly(files: &Files) -> Vec<Rendered> {
        rendered(files, &Default::default(), Vec::new(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn files_are_completed_as_a_hub_completes_them_and_written_by_cluster() {
        let files = files(FILES).unwrap();
        assert_eq!(files.templates[0]["spec"]["replicas"], 1);
        assert_eq!(object::namespace(&files.templates[1]), "default");
        let rendered = plainly(&files);
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &rendered).unwrap();
        let mut names: Vec<String> = std::fs::read_dir(folder.path().join("north"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["Deployment.apps.default.web.yaml", "Secret.default.key.yaml"]);
        assert_eq!(shown(&files, &rendered[1], false)["status"]["outcome"], "Follows");
        // Nothing of it is drawn: the same files give the same text.
        let again = plainly(&files);
        assert_eq!(shown(&files, &again[0], true), shown(&files, &rendered[0], true));
    }

    #[test]
    fn numbers_of_a_file_are_what_they_are_to_kubectl() {
        let pod = "spec: {terminationGracePeriodSeconds: 1e2, volumes: [{name: v, secret: {secretName: key, defaultMode: 0400}}], containers";
        let text = FILES.replace("spec: {containers", pod);
        assert_ne!(text, FILES);
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &plainly(&files(&text).unwrap())).unwrap();
        let written =
            std::fs::read_to_string(folder.path().join("north/Deployment.apps.default.web.yaml")).unwrap();
        assert!(written.contains("defaultMode: 256\n"), "{written}");
        assert!(written.contains("terminationGracePeriodSeconds: 100\n"), "{written}");
    }

    #[test]
    fn what_is_wrong_with_files_is_told_by_name() {
        let wrong = FILES.replace("syncMode: Pull", "syncMode: Both");
        let why = format!("{:#}", files(&wrong).unwrap_err());
        assert!(why.contains("Cluster north"), "{why}");
        let nameless = files("{apiVersion: v1, kind: Secret}").unwrap_err().to_string();
        assert!(nameless.contains("metadata.name"), "{nameless}");
        let webhook = "{apiVersion: config.karmada.io/v1alpha1, kind: ResourceInterpreterWebhookConfiguration, metadata: {name: x}}";
        assert!(files(webhook).unwrap_err().to_string().contains("webhooks are not asked here"));
        let filter =
            "metadata: {name: web, annotations: {edge.karmada.io/cluster-filter: 'cluster.no.such'}}";
        let wrong = FILES.replace(
            "metadata: {name: web}\nspec:\n  propagateDeps",
            &format!("{filter}\nspec:\n  propagateDeps"),
        );
        let why = format!("{:#}", files(&wrong).unwrap_err());
        assert!(why.contains("PropagationPolicy web") && why.contains("compilation failed"), "{why}");
    }

    #[test]
    fn a_definition_among_the_files_says_where_its_objects_are() {
        let definition = |kind: &str, scope: &str| {
            format!(
                "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{name: {kind}}}, spec: {{group: e.io, scope: {scope}, names: {{kind: {kind}}}}}}}\n---\n"
            )
        };
        let text = definition("Tree", "Cluster")
            + &definition("Cluster", "Namespaced")
            + "{apiVersion: e.io/v1, kind: Tree, metadata: {name: oak}}
---
{apiVersion: e.io/v1, kind: Cluster, metadata: {name: one}}
";
        let namespaces: Vec<String> =
            files(&text).unwrap().templates.iter().map(|one| object::namespace(one).to_owned()).collect();
        assert_eq!(namespaces, ["", "", "", "default"]);
        let unknown = "{apiVersion: cert-manager.io/v1, kind: ClusterIssuer, metadata: {name: ours}}";
        assert!(files(unknown).unwrap_err().to_string().contains("ClusterIssuer of cert-manager.io"));
    }

    #[test]
    fn what_is_not_rendered_is_told() {
        let twice = format!("{FILES}---\n{{apiVersion: v1, kind: Secret, metadata: {{name: key}}}}\n");
        let files_twice = files(&twice).unwrap();
        let rendered = plainly(&files_twice);
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path(), &rendered).unwrap_err().to_string().contains("Secret key twice"));
        let broken = format!(
            "{FILES}---\n{{apiVersion: policy.karmada.io/v1alpha1, kind: OverridePolicy, metadata: {{name: o}}, spec: {{resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment}}], overrideRules: [{{overriders: {{plaintext: [{{path: /spec/no/such, operator: remove}}]}}}}]}}}}\n"
        );
        let broken = files(&broken).unwrap();
        let rendered = plainly(&broken);
        let told = unmade(&broken, &rendered);
        assert!(told.len() == 1 && told[0].starts_with("Deployment web for north: "), "{told:?}");
    }

    #[test]
    fn a_residency_rule_of_the_files_keeps_objects_out_of_clusters() {
        let rule = |kind: &str| {
            format!(
                "{FILES}---\n{{apiVersion: edge.karmada.io/v1alpha1, kind: ResidencyRule, metadata: {{name: home}}, spec: {{resourceSelectors: [{{apiVersion: {kind}}}], clusterAffinity: {{clusterNames: [elsewhere]}}}}}}\n"
            )
        };
        let told = |kind: &str| {
            let files = files(&rule(kind)).unwrap();
            let rendered = plainly(&files);
            (unmade(&files, &rendered), rendered[0].review.message.clone())
        };
        let (unmade, message) = told("v1, kind: Secret");
        assert_eq!(unmade, ["Secret key for north: residency rule home does not allow it there"]);
        assert_eq!(message, "");
        let (_, message) = told("apps/v1, kind: Deployment");
        assert!(message.contains("did not match residency rule home"), "{message}");
    }

    #[test]
    fn expressions_choose_clusters_as_a_hub_has_them_do() {
        let filter = "metadata: {name: web, annotations: {edge.karmada.io/cluster-filter: \"cluster.metadata.name != 'north'\"}}";
        let text = FILES.replace(
            "metadata: {name: web}\nspec:\n  propagateDeps",
            &format!("{filter}\nspec:\n  propagateDeps"),
        );
        assert_ne!(text, FILES);
        let message = plainly(&files(&text).unwrap())[0].review.message.clone();
        assert!(message.contains("cluster-filter"), "{message}");
    }

    #[test]
    fn customizations_of_the_files_read_kinds_that_nobody_knows() {
        let customization = |script: &str| {
            format!(
                "{{apiVersion: config.karmada.io/v1alpha1, kind: ResourceInterpreterCustomization, metadata: {{name: trees}}, spec: {{target: {{apiVersion: e.io/v1, kind: Tree}}, customizations: {{dependencyInterpretation: {{luaScript: '{script}'}}}}}}}}\n---\n"
            )
        };
        let tree = "{apiVersion: e.io/v1, kind: Tree, metadata: {name: oak, namespace: default}, spec: {key: key}}\n---\n";
        let text = |script: &str| {
            customization(script)
                + tree
                + &FILES
                    .replace("{apiVersion: apps/v1, kind: Deployment}", "{apiVersion: e.io/v1, kind: Tree}")
        };
        let script = "function GetDependencies(tree) return {{apiVersion = \"v1\", kind = \"Secret\", namespace = \"default\", name = tree.spec.key}} end";
        let Held { files, customizations } = held(&text(script)).unwrap();
        let of =
            |customizations| rendered(&files, &Default::default(), customizations, Timestamp::UNIX_EPOCH);
        let secret = files.templates.iter().position(|one| object::kind(one) == "Secret").unwrap();
        assert_eq!(shown(&files, &of(customizations)[secret], false)["status"]["outcome"], "Follows");
        assert_ne!(shown(&files, &of(Vec::new())[secret], false)["status"]["outcome"], "Follows");
        let why = format!("{:#}", held(&text("no Lua (")).err().unwrap());
        assert!(why.contains("ResourceInterpreterCustomization trees"), "{why}");
        let Held { files, customizations } =
            held(&text("function GetDependencies(tree) return tree.no.such end")).unwrap();
        let told =
            unmade(&files, &rendered(&files, &Default::default(), customizations, Timestamp::UNIX_EPOCH));
        assert!(told.len() == 1 && told[0].starts_with("what Tree oak depends on: "), "{told:?}");
    }

    /// Whether it also follows another one, and so goes somewhere, is all the same.
    #[test]
    fn what_cannot_be_read_is_told_with_its_file() {
        let script = "function GetReplicas(tree) return tree.spec.no.such end";
        let text = format!(
            "{{apiVersion: config.karmada.io/v1alpha1, kind: ResourceInterpreterCustomization, metadata: {{name: trees}}, spec: {{target: {{apiVersion: e.io/v1, kind: Tree}}, customizations: {{replicaResource: {{luaScript: '{script}'}}}}}}}}
---
{{apiVersion: e.io/v1, kind: Tree, metadata: {{name: oak, namespace: default}}, spec: {{}}}}
---
{{apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {{name: trees}}, spec: {{resourceSelectors: [{{apiVersion: e.io/v1, kind: Tree}}], placement: {{}}}}}}
---
{FILES}"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trees.yaml");
        std::fs::write(&file, text).unwrap();
        let found = read(folder.path()).unwrap();
        let Held { files, customizations } =
            sorted(found.iter().map(|(_, object)| object.clone()).collect(), Timestamp::UNIX_EPOCH).unwrap();
        let rendered = rendered(&files, &Default::default(), customizations, Timestamp::UNIX_EPOCH);
        let why = whole(&files, &rendered, &found).unwrap_err().to_string();
        let start = format!("nothing can be decided of {}: Tree oak: ", file.display());
        assert!(why.starts_with(&start), "{why}");
        assert!(
            why.contains("the InterpretReplica script of ResourceInterpreterCustomization trees"),
            "{why}"
        );
        assert!(!why.contains("web"), "{why}");
    }

    #[test]
    fn a_customization_that_says_nothing_or_is_there_twice_is_refused() {
        let customization = |target: &str, members: &str| {
            format!(
                "{{apiVersion: config.karmada.io/v1alpha1, kind: ResourceInterpreterCustomization, metadata: {{name: trees}}, spec: {{target: {{{target}}}, customizations: {{{members}}}}}}}\n---\n"
            )
        };
        let tree = "apiVersion: e.io/v1, kind: Tree";
        let script = "healthInterpretation: {luaScript: 'function InterpretHealth(tree) return true end'}";
        for (text, why) in [
            (customization("apiVersion: e.io/v1", script), "spec.target"),
            (customization(tree, &script.replace("luaScript", "luascript")), "healthInterpretation"),
            (customization(tree, &script.replace("healthInter", "healthyInter")), "healthyInterpretation"),
            (customization(tree, script).repeat(2), "twice"),
        ] {
            let told = format!("{:#}", held(&text).err().unwrap());
            assert!(told.contains("ResourceInterpreterCustomization trees") && told.contains(why), "{told}");
        }
    }

    #[test]
    fn a_clusters_status_may_be_anything() {
        assert!(files("{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: a}, spec: {syncMode: Pull}, status: x}").is_ok());
    }

    #[test]
    fn a_manifest_never_leaves_its_clusters_folder() {
        let text = FILES
            .replace("metadata: {name: key}", "metadata: {name: ../../key}")
            .replace("secretRef: {name: key}", "secretRef: {name: ../../key}");
        let files = files(&text).unwrap();
        let rendered = plainly(&files);
        assert_eq!(rendered[1].review.works.len(), 1);
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path(), &rendered).unwrap_err().to_string().contains("no name of a file"));
    }
}
