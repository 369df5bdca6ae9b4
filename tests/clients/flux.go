package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// flux is what Flux's kustomize-controller does through github.com/fluxcd/pkg/ssa.
var flux = []check{
	{"staged", fluxStaged},
	{"drift", fluxDrift},
	{"kubectl", fluxKubectl},
	{"immutable", fluxImmutable},
	{"wait", fluxWait},
}

const fluxManager = "flux-manager"

// resources is a manager as Flux makes it.
func resources(t *target) (*ssa.ResourceManager, error) {
	httpClient, err := rest.HTTPClientFor(t.config)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(t.config, httpClient)
	if err != nil {
		return nil, err
	}
	kube, err := client.New(t.config, client.Options{Mapper: mapper})
	if err != nil {
		return nil, err
	}
	poller := polling.NewStatusPoller(kube, mapper, polling.Options{})
	manager := ssa.NewResourceManager(kube, poller, ssa.Owner{Field: fluxManager, Group: "kustomize.toolkit.fluxcd.io"})
	manager.SetConcurrency(4)
	return manager, nil
}

// manifests reads YAML in which NAMESPACE stands for the check's own.
func manifests(t *target, yaml string) ([]*unstructured.Unstructured, error) {
	return utils.ReadObjects(strings.NewReader(strings.ReplaceAll(yaml, "NAMESPACE", t.namespace)))
}

func quick() ssa.ApplyOptions {
	options := ssa.DefaultApplyOptions()
	options.WaitInterval = 50 * time.Millisecond
	options.WaitTimeout = patience
	return options
}

// actions tells how often each action stands in a change set.
func actions(set *ssa.ChangeSet, action ssa.Action, n int) error {
	if set == nil {
		return fmt.Errorf("there is no change set")
	}
	found := 0
	for _, entry := range set.Entries {
		if entry.Action == action {
			found++
		}
	}
	return want(found == n && len(set.Entries) == n, "not %d %s, but:\n%s", n, action, set)
}

const fluxApp = `
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE-app}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kites.NAMESPACE.example.com}
spec:
  group: NAMESPACE.example.com
  names: {kind: Kite, plural: kites}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {length: {type: integer}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAMESPACE-role}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
---
apiVersion: NAMESPACE.example.com/v1
kind: Kite
metadata: {name: one, namespace: NAMESPACE-app}
spec: {length: 3}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: NAMESPACE-app}
data: {a: b}
---
apiVersion: v1
kind: Secret
metadata: {name: secret, namespace: NAMESPACE-app}
stringData: {word: secret}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: NAMESPACE-app}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: robot, namespace: NAMESPACE-app}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAMESPACE-role}
subjects: [{kind: ServiceAccount, name: robot, namespace: NAMESPACE-app}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: NAMESPACE-app}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE-app}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {no: where}
      containers:
      - {name: web, image: nginx, ports: [{name: http, containerPort: 80}], resources: {limits: {cpu: 1000m, memory: 1Gi}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: often, namespace: NAMESPACE-app}
spec:
  schedule: "*/5 * * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: NAMESPACE-app}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: NAMESPACE-app}
spec: {rules: [{host: example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
`

const fluxPolicy = `
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: nobody, namespace: NAMESPACE-app}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: nobody}]
  placement: {clusterAffinity: {clusterNames: [one]}, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: nobody, namespace: NAMESPACE-app}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: nobody}]
  overrideRules: [{overriders: {plaintext: [{path: /data/a, operator: replace, value: c}]}}]
`

// fluxStaged: definitions and namespaces first, then the rest; again, and nothing is written; then all is pruned.
func fluxStaged(ctx context.Context, t *target) error {
	manager, err := resources(t)
	if err != nil {
		return err
	}
	yaml := fluxApp
	if t.hub {
		yaml += fluxPolicy
	}
	read := func() ([]*unstructured.Unstructured, error) {
		objects, err := manifests(t, yaml)
		if err != nil {
			return nil, err
		}
		manager.SetOwnerLabels(objects, "app", t.namespace)
		return objects, normalize.UnstructuredList(objects)
	}
	objects, err := read()
	if err != nil {
		return err
	}
	set, err := manager.ApplyAllStaged(ctx, objects, quick())
	if err := first(err, actions(set, ssa.CreatedAction, len(objects))); err != nil {
		return fmt.Errorf("the first time: %w", err)
	}
	if objects, err = read(); err != nil {
		return err
	}
	set, err = manager.ApplyAllStaged(ctx, objects, quick())
	if err := first(err, actions(set, ssa.UnchangedAction, len(objects))); err != nil {
		return fmt.Errorf("the second time: %w", err)
	}
	for _, object := range objects {
		entry, live, merged, err := manager.Diff(ctx, object, ssa.DefaultDiffOptions())
		if err != nil {
			return err
		}
		if entry.Action != ssa.UnchangedAction {
			return fmt.Errorf("%s drifted by itself: %v is to be %v", entry.Subject, live, merged)
		}
	}
	options := ssa.DefaultDeleteOptions()
	options.Inclusions = manager.GetOwnerLabels("app", t.namespace)
	set, err = manager.DeleteAll(ctx, objects, options)
	if err := first(err, actions(set, ssa.DeletedAction, len(objects))); err != nil {
		return fmt.Errorf("pruning: %w", err)
	}
	if !t.hub {
		return nil
	}
	return manager.WaitForTermination(objects, ssa.WaitOptions{Interval: 50 * time.Millisecond, Timeout: patience})
}

const fluxSmall = `
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: NAMESPACE}
data: {a: b}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE, labels: {app: web}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {nodeSelector: {no: where}, containers: [{name: web, image: nginx, env: [{name: A, value: b}]}]}
`

// fluxDrift: what others change is seen and corrected; what others add in fields of their own stays.
func fluxDrift(ctx context.Context, t *target) error {
	manager, err := resources(t)
	if err != nil {
		return err
	}
	apply := func() (*ssa.ChangeSet, error) {
		objects, err := manifests(t, fluxSmall)
		if err != nil {
			return nil, err
		}
		return manager.ApplyAll(ctx, objects, quick())
	}
	set, err := apply()
	if err := first(err, actions(set, ssa.CreatedAction, 2)); err != nil {
		return err
	}
	deployments := t.typed.AppsV1().Deployments(t.namespace)
	other := metav1.PatchOptions{FieldManager: "somebody"}
	_, err = deployments.Patch(ctx, "web", types.StrategicMergePatchType,
		[]byte(`{"metadata":{"annotations":{"their":"own"}},"spec":{"replicas":4,"template":{"spec":{"containers":[{"name":"web","image":"other"}]}}}}`), other)
	if err != nil {
		return err
	}
	objects, err := manifests(t, fluxSmall)
	if err != nil {
		return err
	}
	drifted := 0
	for _, object := range objects {
		entry, _, merged, err := manager.Diff(ctx, object, ssa.DefaultDiffOptions())
		if err != nil {
			return err
		}
		if entry.Action == ssa.ConfiguredAction {
			drifted++
			if replicas, _, _ := unstructured.NestedInt64(merged.Object, "spec", "replicas"); replicas != 1 {
				return fmt.Errorf("the diff would set %d replicas", replicas)
			}
		}
	}
	if drifted != 1 {
		return fmt.Errorf("%d objects drifted, not one", drifted)
	}
	set, err = apply()
	if err != nil {
		return err
	}
	changes := set.ToMap()
	if changes["Deployment/"+t.namespace+"/web"] != ssa.ConfiguredAction || changes["ConfigMap/"+t.namespace+"/config"] != ssa.UnchangedAction {
		return fmt.Errorf("the correction was:\n%s", set)
	}
	now, err := deployments.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if *now.Spec.Replicas != 1 || now.Spec.Template.Spec.Containers[0].Image != "nginx" || now.Annotations["their"] != "own" {
		return fmt.Errorf("corrected to %+v", now)
	}
	set, err = apply()
	return first(err, actions(set, ssa.UnchangedAction, 2))
}

// fluxKubectl: what kubectl applied before is taken over whole, so that its fields go when Flux drops them.
func fluxKubectl(ctx context.Context, t *target) error {
	manager, err := resources(t)
	if err != nil {
		return err
	}
	// As kubectl apply leaves it: an update by its manager, and the last configuration as an annotation.
	last := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"config"},"data":{"a":"b","old":"gone"}}`
	made := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "config", "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": last}},
		"data":     map[string]any{"a": "b", "old": "gone"},
	}
	api := t.dynamic.Resource(configMaps).Namespace(t.namespace)
	if _, err := api.Create(ctx, &unstructured.Unstructured{Object: made}, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"}); err != nil {
		return err
	}
	objects, err := manifests(t, fluxSmall)
	if err != nil {
		return err
	}
	options := quick()
	options.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{"kubectl.kubernetes.io/last-applied-configuration"},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
		},
	}
	if _, err := manager.ApplyAll(ctx, objects[:1], options); err != nil {
		return err
	}
	now, err := api.Get(ctx, "config", metav1.GetOptions{})
	if err != nil {
		return err
	}
	data, _, _ := unstructured.NestedStringMap(now.Object, "data")
	if _, stays := data["old"]; stays || data["a"] != "b" || len(now.GetAnnotations()) != 0 {
		return fmt.Errorf("after the take-over: %v", now.Object)
	}
	for _, entry := range now.GetManagedFields() {
		if strings.HasPrefix(entry.Manager, "kubectl") {
			return fmt.Errorf("kubectl still manages %s", entry.FieldsV1)
		}
	}
	return nil
}

// fluxImmutable: a change of what cannot change is refused, and recreates the object where that is asked for.
func fluxImmutable(ctx context.Context, t *target) error {
	manager, err := resources(t)
	if err != nil {
		return err
	}
	read := func(label string) ([]*unstructured.Unstructured, error) {
		return manifests(t, strings.ReplaceAll(fluxSmall, "{app: web}", "{app: "+label+"}"))
	}
	objects, err := read("web")
	if err != nil {
		return err
	}
	if _, err := manager.ApplyAll(ctx, objects, quick()); err != nil {
		return err
	}
	before, err := t.typed.AppsV1().Deployments(t.namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if objects, err = read("other"); err != nil {
		return err
	}
	_, err = manager.ApplyAll(ctx, objects, quick())
	if err == nil || !strings.Contains(err.Error(), "field is immutable") {
		return fmt.Errorf("another selector was answered with %v", err)
	}
	if objects, err = read("other"); err != nil {
		return err
	}
	options := quick()
	options.Force = true
	if _, err := manager.ApplyAll(ctx, objects, options); err != nil {
		return err
	}
	after, err := t.typed.AppsV1().Deployments(t.namespace).Get(ctx, "web", metav1.GetOptions{})
	return first(err, want(err == nil && after.UID != before.UID && after.Spec.Selector.MatchLabels["app"] == "other", "recreated as %+v", after))
}

// fluxWait: kstatus takes a Deployment for ready when its status says so, and not before.
func fluxWait(ctx context.Context, t *target) error {
	manager, err := resources(t)
	if err != nil {
		return err
	}
	objects, err := manifests(t, fluxSmall)
	if err != nil {
		return err
	}
	if _, err := manager.ApplyAll(ctx, objects, quick()); err != nil {
		return err
	}
	options := ssa.WaitOptions{Interval: 50 * time.Millisecond, Timeout: time.Second}
	waited := manager.Wait(objects, options)
	if waited == nil || !strings.Contains(waited.Error(), "Deployment/"+t.namespace+"/web") {
		return fmt.Errorf("waiting for what nobody runs ended with %v", waited)
	}
	ready := `{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,
		"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`
	if t.hub {
		_, err = t.typed.AppsV1().Deployments(t.namespace).Patch(ctx, "web", types.MergePatchType, []byte(ready), metav1.PatchOptions{}, "status")
		options.Timeout = patience
		if err := first(err, manager.Wait(objects, options)); err != nil {
			return err
		}
	}
	if _, err := manager.DeleteAll(ctx, objects, ssa.DefaultDeleteOptions()); err != nil {
		return err
	}
	options.Timeout = patience
	if err := manager.WaitForTermination(objects, options); err != nil {
		return err
	}
	_, err = t.typed.AppsV1().Deployments(t.namespace).Get(ctx, "web", metav1.GetOptions{})
	return want(apierrors.IsNotFound(err), "the Deployment is still there: %v", err)
}
