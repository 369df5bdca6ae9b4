package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/argoproj/gitops-engine/pkg/cache"
	"github.com/argoproj/gitops-engine/pkg/diff"
	"github.com/argoproj/gitops-engine/pkg/engine"
	"github.com/argoproj/gitops-engine/pkg/health"
	"github.com/argoproj/gitops-engine/pkg/sync"
	"github.com/argoproj/gitops-engine/pkg/sync/common"
	"github.com/argoproj/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/gitops-engine/pkg/utils/tracing"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// gitops is what Argo CD does through its engine.
var gitops = []check{
	{"cache", gitopsCache},
	{"engine", gitopsEngine},
	{"sync", gitopsSync},
	{"server side", gitopsServerSide},
	{"diff", gitopsDiff},
	{"waves", gitopsWaves},
}

const gcMark = "clients.example.com/app"

// argo is a cluster cache and an engine over it, as Argo CD's agent makes them.
type argo struct {
	t      *target
	cache  cache.ClusterCache
	engine engine.GitOpsEngine
	stop   engine.StopFunc
}

// mark tells which application an object belongs to.
type mark struct{ app string }

func newArgo(t *target, namespaces ...string) (*argo, error) {
	clusterCache := cache.NewClusterCache(t.config,
		cache.SetNamespaces(namespaces),
		cache.SetClusterResources(true),
		cache.SetLogr(logr.Discard()),
		cache.SetPopulateResourceInfoHandler(func(object *unstructured.Unstructured, _ bool) (any, bool) {
			app := object.GetAnnotations()[gcMark]
			return &mark{app}, app != ""
		}),
	)
	made := &argo{t: t, cache: clusterCache, engine: engine.NewEngine(t.config, clusterCache, engine.WithLogr(logr.Discard()))}
	stop, err := made.engine.Run()
	made.stop = stop
	return made, err
}

// mine tells what of the cluster belongs to the application.
func (a *argo) mine(r *cache.Resource) bool {
	info, is := r.Info.(*mark)
	return is && info.app == a.t.namespace
}

// sync makes the cluster hold what the YAML says, and nothing else of this application: step by step, each with a look at
// what is there, as Argo CD's controller does.
func (a *argo) sync(ctx context.Context, yaml string, options ...sync.SyncOpt) ([]common.ResourceSyncResult, error) {
	phase, message, started := common.OperationRunning, "", metav1.Now()
	var results []common.ResourceSyncResult
	options = append([]sync.SyncOpt{sync.WithPrune(true), sync.WithLogr(logr.Discard())}, options...)
	for deadline := time.Now().Add(patience); !phase.Completed(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return results, fmt.Errorf("the sync does not end: %s\n%s", message, told(results))
		}
		objects, err := a.objects(yaml)
		if err != nil {
			return nil, err
		}
		live, err := a.cache.GetManagedLiveObjs(objects, a.mine)
		if err != nil {
			return nil, err
		}
		reconciled := sync.Reconcile(objects, live, a.t.namespace, a.cache)
		kubectl := &kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}
		step, cleanup, err := sync.NewSyncContext("revision", reconciled, a.t.config, a.t.config, kubectl, a.t.namespace,
			a.cache.GetOpenAPISchema(), append(options, sync.WithInitialState(phase, message, results, started))...)
		if err != nil {
			return nil, err
		}
		step.Sync()
		phase, message, results = step.GetState()
		cleanup()
	}
	return results, want(phase.Successful(), "the sync ended as %s: %s\n%s", phase, message, told(results))
}

func (a *argo) objects(yaml string) ([]*unstructured.Unstructured, error) {
	objects, err := kube.SplitYAML([]byte(strings.ReplaceAll(yaml, "NAMESPACE", a.t.namespace)))
	for _, object := range objects {
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[gcMark] = a.t.namespace
		object.SetAnnotations(annotations)
	}
	return objects, err
}

func told(results []common.ResourceSyncResult) string {
	var text strings.Builder
	for _, r := range results {
		fmt.Fprintf(&text, "%s: %s %s %s %s\n", r.ResourceKey.String(), r.SyncPhase, r.Status, r.HookPhase, r.Message)
	}
	return text.String()
}

// statuses counts results by their code.
func statuses(results []common.ResourceSyncResult) map[common.ResultCode]int {
	counts := map[common.ResultCode]int{}
	for _, result := range results {
		counts[result.Status]++
	}
	return counts
}

// gitopsCache: every kind that is served is listed and watched, and who owns whom is known.
func gitopsCache(ctx context.Context, t *target) error {
	a, err := newArgo(t)
	if err != nil {
		return err
	}
	defer a.stop()
	info := a.cache.GetClusterInfo()
	if info.SyncError != nil || info.APIsCount < 50 || info.ResourcesCount < 100 {
		return fmt.Errorf("the cache holds %d resources of %d kinds (%w)", info.ResourcesCount, info.APIsCount, info.SyncError)
	}
	if !strings.HasPrefix(strings.TrimPrefix(a.cache.GetServerVersion(), "v"), "1.36") {
		return fmt.Errorf("the version is %s", a.cache.GetServerVersion())
	}
	if a.cache.GetGVKParser().Type(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}) == nil {
		return errors.New("the OpenAPI document has no type of Deployments")
	}
	if t.hub && a.cache.GetGVKParser().Type(schema.GroupVersionKind{Group: "policy.karmada.io", Version: "v1alpha1", Kind: "PropagationPolicy"}) == nil {
		return errors.New("the OpenAPI document has no type of PropagationPolicies")
	}
	seen := make(chan string, 1024)
	unsubscribe := a.cache.OnResourceUpdated(func(now, before *cache.Resource, _ map[kube.ResourceKey]*cache.Resource) {
		if now != nil {
			seen <- now.Ref.Name
		}
	})
	defer unsubscribe()
	owner, err := t.dynamic.Resource(configMaps).Namespace(t.namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "owner"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = t.dynamic.Resource(configMaps).Namespace(t.namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "child", "ownerReferences": []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": string(owner.GetUID()),
		}}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	err = eventually(ctx, "the tree", func() error {
		var names []string
		a.cache.IterateHierarchyV2([]kube.ResourceKey{kube.NewResourceKey("", "ConfigMap", t.namespace, "owner")},
			func(r *cache.Resource, _ map[kube.ResourceKey]*cache.Resource) bool {
				names = append(names, r.Ref.Name)
				return true
			})
		return want(strings.Join(names, " ") == "owner child", "the tree is %v", names)
	})
	if err != nil {
		return err
	}
	// A kind that comes later is watched too.
	crd, err := newKind(ctx, t, "Latecomer", "latecomers")
	if err != nil {
		return err
	}
	if _, err := t.dynamic.Resource(crd.gvr).Namespace(t.namespace).Create(ctx, crd.object("late", map[string]any{}), metav1.CreateOptions{}); err != nil {
		return err
	}
	deadline := time.After(patience)
	for {
		select {
		case name := <-seen:
			if name == "late" {
				return nil
			}
		case <-deadline:
			return errors.New("an object of a kind that came later was not seen")
		}
	}
}

const argoApp = `
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: NAMESPACE}
data: {a: b}
---
apiVersion: v1
kind: Secret
metadata: {name: secret, namespace: NAMESPACE}
stringData: {word: secret}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: NAMESPACE}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http, protocol: TCP}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {no: where}
      containers: [{name: web, image: 'nginx:1', ports: [{name: http, containerPort: 80, protocol: TCP}], resources: {limits: {cpu: 1000m}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: balloons.NAMESPACE.example.com}
spec:
  group: NAMESPACE.example.com
  names: {kind: Balloon, plural: balloons}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {colour: {type: string}, size: {type: integer, default: 3}}}
---
apiVersion: NAMESPACE.example.com/v1
kind: Balloon
metadata: {name: one, namespace: NAMESPACE, annotations: {argocd.argoproj.io/sync-options: SkipDryRunOnMissingResource=true}}
spec: {colour: red}
`

const argoPolicy = `
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: nobody, namespace: NAMESPACE}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: nobody, namespace: NAMESPACE}]
  placement: {clusterAffinity: {clusterNames: [one]}}
`

func (a *argo) app() (string, int) {
	if a.t.hub {
		return argoApp + argoPolicy, 7
	}
	return argoApp, 6
}

// gitopsEngine: the engine's own loop, with an application that needs no second look.
func gitopsEngine(ctx context.Context, t *target) error {
	a, err := newArgo(t, t.namespace)
	if err != nil {
		return err
	}
	defer a.stop()
	plain := argoApp[:strings.Index(argoApp, "---\napiVersion: apiextensions")]
	for round, count := range []map[common.ResultCode]int{{common.ResultCodeSynced: 4}, {common.ResultCodeSynced: 4}, {common.ResultCodeSynced: 1, common.ResultCodePruned: 3}} {
		if round == 2 {
			plain = plain[:strings.Index(plain, "---")]
		}
		objects, err := a.objects(plain)
		if err != nil {
			return err
		}
		results, err := a.engine.Sync(ctx, objects, a.mine, "revision", t.namespace, sync.WithPrune(true), sync.WithLogr(logr.Discard()))
		if err != nil {
			return fmt.Errorf("round %d: %w\n%s", round, err, told(results))
		}
		if found := statuses(results); !maps.Equal(found, count) {
			return fmt.Errorf("round %d: %v, not %v:\n%s", round, found, count, told(results))
		}
	}
	return nil
}

func gitopsSync(ctx context.Context, t *target) error {
	return syncPruneAndRepair(ctx, t)
}

func gitopsServerSide(ctx context.Context, t *target) error {
	return syncPruneAndRepair(ctx, t, sync.WithServerSideApply(true), sync.WithServerSideApplyManager("argocd-controller"))
}

// syncPruneAndRepair: an application comes, stays, is repaired, changes and goes.
func syncPruneAndRepair(ctx context.Context, t *target, options ...sync.SyncOpt) error {
	a, err := newArgo(t, t.namespace)
	if err != nil {
		return err
	}
	defer a.stop()
	yaml, count := a.app()
	results, err := a.sync(ctx, yaml, options...)
	if err != nil {
		return fmt.Errorf("the first sync: %w", err)
	}
	if statuses(results)[common.ResultCodeSynced] != count {
		return fmt.Errorf("the first sync:\n%s", told(results))
	}
	if err := a.inSync(ctx, yaml); err != nil {
		return err
	}
	deployments := t.typed.AppsV1().Deployments(t.namespace)
	before, err := deployments.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	// Again: nothing is written.
	if _, err := a.sync(ctx, yaml, options...); err != nil {
		return fmt.Errorf("the second sync: %w", err)
	}
	after, err := deployments.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if before.Generation != after.Generation {
		return errors.New("a second sync changed the Deployment")
	}
	patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:broken"}]}}}}`)
	if _, err := deployments.Patch(ctx, "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		return err
	}
	if err := a.outOfSync(ctx, yaml, "Deployment"); err != nil {
		return err
	}
	// Forced where the server side applies: the field is somebody else's now.
	if _, err := a.sync(ctx, yaml, append(options, sync.WithOperationSettings(false, true, false, false))...); err != nil {
		return fmt.Errorf("the repair: %w", err)
	}
	if err := eventually(ctx, "the repair", func() error { return a.inSync(ctx, yaml) }); err != nil {
		return err
	}
	// Who collects garbage is a controller; without one nothing that is deleted in the foreground goes.
	if !t.hub {
		return nil
	}
	// What is no longer in the text is pruned: the instance first, then its definition and the rest.
	smaller := yaml[:strings.Index(yaml, "---\napiVersion: NAMESPACE.example.com")]
	smallest := yaml[:strings.Index(yaml, "---\napiVersion: v1\nkind: Service")]
	for _, step := range []struct {
		yaml   string
		pruned int
	}{{smaller, count - 5}, {smallest, 3}} {
		results, err = a.sync(ctx, step.yaml, options...)
		if err != nil {
			return fmt.Errorf("pruning: %w", err)
		}
		if n := statuses(results)[common.ResultCodePruned]; n != step.pruned {
			return fmt.Errorf("%d pruned, not %d:\n%s", n, step.pruned, told(results))
		}
		// The cache hears of it a moment later; a sync before that would prune again what is gone.
		if err := a.caughtUp(ctx, step.yaml); err != nil {
			return err
		}
	}
	return eventually(ctx, "what was pruned to go", func() error {
		_, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		_, stays := t.typed.CoreV1().ConfigMaps(t.namespace).Get(ctx, "config", metav1.GetOptions{})
		_, crd := t.dynamic.Resource(crds).Get(ctx, "balloons."+t.namespace+".example.com", metav1.GetOptions{})
		return first(stays, want(apierrors.IsNotFound(err) && apierrors.IsNotFound(crd), "the Deployment: %v, the definition: %v", err, crd))
	})
}

// caughtUp waits until the cache holds nothing of the application but what the YAML says.
func (a *argo) caughtUp(ctx context.Context, yaml string) error {
	return eventually(ctx, "the cache", func() error {
		objects, err := a.objects(yaml)
		if err != nil {
			return err
		}
		live, err := a.cache.GetManagedLiveObjs(objects, a.mine)
		return first(err, want(len(live) == len(objects), "%d of the application's objects are live, not %d", len(live), len(objects)))
	})
}

// diffs compares the YAML with what the cache holds.
func (a *argo) diffs(yaml string) (map[string]bool, error) {
	objects, err := a.objects(yaml)
	if err != nil {
		return nil, err
	}
	live, err := a.cache.GetManagedLiveObjs(objects, func(*cache.Resource) bool { return false })
	if err != nil {
		return nil, err
	}
	reconciled := sync.Reconcile(objects, live, a.t.namespace, a.cache)
	list, err := diff.DiffArray(reconciled.Target, reconciled.Live, diff.WithLogr(logr.Discard()))
	if err != nil {
		return nil, err
	}
	modified := map[string]bool{}
	for i, one := range list.Diffs {
		if one.Modified {
			modified[reconciled.Target[i].GetKind()] = true
		}
	}
	return modified, nil
}

func (a *argo) inSync(ctx context.Context, yaml string) error {
	return eventually(ctx, "the application to be in sync", func() error {
		modified, err := a.diffs(yaml)
		return first(err, want(len(modified) == 0, "these differ: %v", modified))
	})
}

func (a *argo) outOfSync(ctx context.Context, yaml, kind string) error {
	return eventually(ctx, "the application to be out of sync", func() error {
		modified, err := a.diffs(yaml)
		return first(err, want(len(modified) == 1 && modified[kind], "these differ: %v", modified))
	})
}

// gitopsDiff: the server's own dry run, and the merge by the types of the OpenAPI document, see what drifted.
func gitopsDiff(ctx context.Context, t *target) error {
	a, err := newArgo(t, t.namespace)
	if err != nil {
		return err
	}
	defer a.stop()
	manager := "argocd-controller"
	yaml, _ := a.app()
	if _, err := a.sync(ctx, yaml, sync.WithServerSideApply(true), sync.WithServerSideApplyManager(manager)); err != nil {
		return err
	}
	// The type of a kind that came after the cache is in the parser only after the next look at the document.
	a.cache.Invalidate()
	if err := a.cache.EnsureSynced(); err != nil {
		return err
	}
	resources, cleanup, err := kube.ManageServerSideDiffDryRuns(t.config, a.cache.GetOpenAPISchema(), tracing.NopTracer{}, logr.Discard(), func(string) (kube.CleanupFunc, error) {
		return func() {}, nil
	})
	if err != nil {
		return err
	}
	defer cleanup()
	ways := map[string][]diff.Option{
		"server side": {diff.WithServerSideDiff(true), diff.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(resources))},
		"structured":  {diff.WithStructuredMergeDiff(true)},
		"three-way":   {},
	}
	compare := func(kind string, options []diff.Option) (*diff.DiffResult, error) {
		objects, err := a.objects(yaml)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if object.GetKind() != kind {
				continue
			}
			gvk := object.GroupVersionKind()
			live, err := (&kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}).GetResource(ctx, t.config, gvk, object.GetName(), object.GetNamespace())
			if err != nil {
				return nil, err
			}
			options = append([]diff.Option{diff.WithLogr(logr.Discard()), diff.WithManager(manager), diff.WithGVKParser(a.cache.GetGVKParser())}, options...)
			result, err := diff.Diff(object, live, options...)
			return result, err
		}
		return nil, fmt.Errorf("there is no %s", kind)
	}
	kinds := []string{"ConfigMap", "Secret", "Service", "Deployment", "CustomResourceDefinition", "Balloon"}
	if t.hub {
		kinds = append(kinds, "PropagationPolicy")
	}
	for name, options := range ways {
		for _, kind := range kinds {
			result, err := compare(kind, options)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if result.Modified {
				return fmt.Errorf("%s: %s differs right after the sync:\nlive      %s\npredicted %s", name, kind, result.NormalizedLive, result.PredictedLive)
			}
		}
	}
	patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:broken"}]}}}}`)
	if _, err := t.typed.AppsV1().Deployments(t.namespace).Patch(ctx, "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		return err
	}
	for name, options := range ways {
		if result, err := compare("Deployment", options); err != nil || !result.Modified {
			return fmt.Errorf("%s: a broken image is no difference (%v)", name, err)
		}
	}
	return nil
}

const argoWaves = `
apiVersion: v1
kind: ConfigMap
metadata: {name: first, namespace: NAMESPACE, annotations: {argocd.argoproj.io/sync-wave: "-1"}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE, annotations: {argocd.argoproj.io/sync-wave: "0"}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {nodeSelector: {no: where}, containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: last, namespace: NAMESPACE, annotations: {argocd.argoproj.io/sync-wave: "1"}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: before
  namespace: NAMESPACE
  annotations: {argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/hook-delete-policy: HookSucceeded}
spec: {template: {spec: {nodeSelector: {no: where}, restartPolicy: Never, containers: [{name: main, image: busybox}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: after, namespace: NAMESPACE, annotations: {argocd.argoproj.io/hook: PostSync, argocd.argoproj.io/hook-delete-policy: BeforeHookCreation}}
`

// gitopsWaves: hooks before and after, waves one after the other, each only when the one before is healthy.
func gitopsWaves(ctx context.Context, t *target) error {
	if !t.hub {
		return nil
	}
	a, err := newArgo(t, t.namespace)
	if err != nil {
		return err
	}
	defer a.stop()
	ended := make(chan error, 1)
	go func() {
		_, err := a.sync(ctx, argoWaves)
		ended <- err
	}()
	absent := func(name string) error {
		_, err := t.typed.CoreV1().ConfigMaps(t.namespace).Get(ctx, name, metav1.GetOptions{})
		return want(apierrors.IsNotFound(err), "%s is there before its time (%v)", name, err)
	}
	jobs, deployments := t.typed.BatchV1().Jobs(t.namespace), t.typed.AppsV1().Deployments(t.namespace)
	err = eventually(ctx, "the hook before", func() error {
		_, err := jobs.Get(ctx, "before", metav1.GetOptions{})
		return err
	})
	if err := first(err, absent("first")); err != nil {
		return err
	}
	done := `{"status":{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:01Z","succeeded":1,"conditions":[
		{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}`
	if _, err := jobs.Patch(ctx, "before", types.MergePatchType, []byte(done), metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	err = eventually(ctx, "the Deployment", func() error {
		_, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		return err
	})
	if err := first(err, absent("last")); err != nil {
		return err
	}
	live, err := a.cache.GetManagedLiveObjs(nil, func(r *cache.Resource) bool { return r.Ref.Kind == "Deployment" })
	if err != nil {
		return err
	}
	for _, object := range live {
		if status, err := health.GetResourceHealth(object, nil); err != nil || status.Status != health.HealthStatusProgressing {
			return fmt.Errorf("the Deployment that nobody runs is %v (%w)", status, err)
		}
	}
	ready := `{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,
		"conditions":[{"type":"Available","status":"True"}]}}`
	if _, err := deployments.Patch(ctx, "web", types.MergePatchType, []byte(ready), metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	select {
	case err := <-ended:
		if err != nil {
			return err
		}
	case <-time.After(patience):
		return errors.New("the sync does not end")
	}
	_, err = t.typed.CoreV1().ConfigMaps(t.namespace).Get(ctx, "last", metav1.GetOptions{})
	_, err2 := t.typed.CoreV1().ConfigMaps(t.namespace).Get(ctx, "after", metav1.GetOptions{})
	if err := first(err, err2); err != nil {
		return err
	}
	return eventually(ctx, "the hook before to be deleted", func() error {
		_, err := jobs.Get(ctx, "before", metav1.GetOptions{})
		return want(apierrors.IsNotFound(err), "%v", err)
	})
}
