package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// kind is a custom kind of one check.
type kind struct {
	gvr  schema.GroupVersionResource
	name string
}

func (k *kind) object(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": k.gvr.GroupVersion().String(), "kind": k.name,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// definition is the CRD of a kind in a group of its own, with a size, a status and a scale.
func definition(group, name, plural string) *unstructured.Unstructured {
	integer := map[string]any{"type": "integer"}
	text := map[string]any{"type": "string"}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"kind": name, "plural": plural, "singular": strings.ToLower(name), "listKind": name + "List"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object",
					"properties": map[string]any{
						"spec": map[string]any{"type": "object", "properties": map[string]any{
							"size":   map[string]any{"type": "integer", "minimum": int64(0), "default": int64(1)},
							"colour": text,
						}},
						"status": map[string]any{"type": "object", "properties": map[string]any{
							"replicas": integer, "selector": text, "observedGeneration": integer,
							"conditions": map[string]any{
								"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"type"},
								"items": map[string]any{"type": "object", "required": []any{"type", "status"}, "properties": map[string]any{
									"type": text, "status": text, "reason": text, "message": text, "lastTransitionTime": text,
									"observedGeneration": integer,
								}},
							},
						}},
					},
				}},
				"subresources": map[string]any{
					"status": map[string]any{},
					"scale": map[string]any{
						"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
					},
				},
			}},
		},
	}}
}

// newKind defines a kind in a group named after the check's namespace, and waits until it is served.
func newKind(ctx context.Context, t *target, name, plural string) (*kind, error) {
	group := t.namespace + ".example.com"
	crd := definition(group, name, plural)
	if _, err := t.dynamic.Resource(crds).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	made := &kind{gvr: schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}, name: name}
	return made, eventually(ctx, plural+" to be served", func() error {
		if _, err := t.dynamic.Resource(made.gvr).Namespace(t.namespace).List(ctx, metav1.ListOptions{}); err != nil {
			return err
		}
		return made.isDiscovered(t)
	})
}

// isDiscovered: a kind is served a moment before discovery tells of it, here and by kube-apiserver; what finds kinds by discovery reads it once.
func (made *kind) isDiscovered(t *target) error {
	groups, err := t.typed.Discovery().ServerGroups()
	if err != nil {
		return err
	}
	for _, group := range groups.Groups {
		if group.Name == made.gvr.Group {
			_, err := t.typed.Discovery().ServerResourcesForGroupVersion(made.gvr.GroupVersion().String())
			return err
		}
	}
	return fmt.Errorf("discovery does not tell of group %s", made.gvr.Group)
}

func isCode(err error, code int32) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == code
}

// deployment is a small one.
func deployment(name string, replicas int32, image string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"no": "where"},
					Containers: []corev1.Container{{
						Name: "main", Image: image,
						Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
						Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}},
					}},
				},
			},
		},
	}
}

// everydayWrites: what every controller does to workloads, with any content type.
func everydayWrites(ctx context.Context, client kubernetes.Interface, namespace string) error {
	api := client.AppsV1().Deployments(namespace)
	made, err := api.Create(ctx, deployment("web", 1, "nginx:1"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if made.Spec.RevisionHistoryLimit == nil || made.Spec.Template.Spec.Containers[0].Ports[0].Protocol != corev1.ProtocolTCP || made.UID == "" {
		return fmt.Errorf("defaults are missing: %+v", made.Spec)
	}
	stale := made.DeepCopy()
	// Where a controller writes its status meanwhile, as controllers do.
	var updated *appsv1.Deployment
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		made.Spec.Template.Spec.Containers[0].Image = "nginx:2"
		if updated, err = api.Update(ctx, made, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
			if fresh, getError := api.Get(ctx, "web", metav1.GetOptions{}); getError == nil {
				made = fresh
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	stale.Labels["x"] = "y"
	if _, err = api.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a stale update was answered with %v", err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		fresh, err := api.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		fresh.Labels["x"] = "y"
		_, err = api.Update(ctx, fresh, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if updated.Generation != 2 || updated.Spec.Template.Spec.Containers[0].Image != "nginx:2" {
		return fmt.Errorf("the update gave generation %d", updated.Generation)
	}
	strategic := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"A","value":"b"}]}]}}}}`)
	patched, err := api.Patch(ctx, "web", types.StrategicMergePatchType, strategic, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	patched, err = api.Patch(ctx, "web", types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/replicas","value":1},{"op":"remove","path":"/metadata/labels/x"}]`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	container := patched.Spec.Template.Spec.Containers[0]
	if container.Image != "nginx:2" || len(container.Env) != 1 || patched.Labels["x"] != "" {
		return fmt.Errorf("the patches gave %+v", patched)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		fresh, err := api.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		fresh.Status.Replicas = 1
		_, err = api.UpdateStatus(ctx, fresh, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}},
	}
	named, err := client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if !strings.HasPrefix(named.Name, "web-") || named.Spec.ClusterIP == "" || named.Spec.Ports[0].TargetPort.StrVal != "http" {
		return fmt.Errorf("the Service is %+v", named)
	}
	list, err := api.List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(list.Items) != 1 {
		return fmt.Errorf("the list is %v (%w)", list, err)
	}
	return first(
		client.CoreV1().Services(namespace).Delete(ctx, named.Name, metav1.DeleteOptions{}),
		api.Delete(ctx, "web", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &patched.UID}}),
	)
}

func typedClient(ctx context.Context, t *target) error {
	return everydayWrites(ctx, t.typed, t.namespace)
}

// refusals: errors that client code branches on are the ones it knows.
func refusals(ctx context.Context, t *target) error {
	warnings := &warned{}
	config := rest.CopyConfig(t.config)
	config.WarningHandler = warnings
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	api := client.AppsV1().Deployments(t.namespace)
	_, missing := api.Get(ctx, "nobody", metav1.GetOptions{})
	if _, err := api.Create(ctx, deployment("twice", 0, "nginx"), metav1.CreateOptions{}); err != nil {
		return err
	}
	_, twice := api.Create(ctx, deployment("twice", 0, "nginx"), metav1.CreateOptions{})
	bad := deployment("bad", -1, "")
	bad.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
	_, invalid := api.Create(ctx, bad, metav1.CreateOptions{})
	_, wrong := api.Patch(ctx, "twice", types.MergePatchType, []byte(`{`), metav1.PatchOptions{})
	_, other := api.Patch(ctx, "twice", types.PatchType("application/strange"), []byte(`{}`), metav1.PatchOptions{})
	gone := client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/x/configmaps").
		Param("continue", "bm90aGluZw").Param("limit", "1").Do(ctx).Error()
	precondition := api.Delete(ctx, "twice", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr(types.UID("another"))}})
	_, dry := api.Create(ctx, deployment("dry", 0, "nginx"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	_, dryGone := api.Get(ctx, "dry", metav1.GetOptions{})
	causes := map[string]bool{}
	var status apierrors.APIStatus
	if errors.As(invalid, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			causes[cause.Field] = true
		}
	}
	unknown := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "warned"}, "dataa": map[string]any{},
	}}
	untyped := t.dynamic.Resource(configMaps).Namespace(t.namespace)
	_, strict := untyped.Create(ctx, unknown, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	err = client.CoreV1().RESTClient().Post().Namespace(t.namespace).Resource("configmaps").
		Param("fieldValidation", "Warn").SetHeader("Content-Type", "application/json").
		Body([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"warned"},"dataa":{}}`)).Do(ctx).Error()
	return first(err,
		want(apierrors.IsNotFound(missing), "absent: %v", missing),
		want(apierrors.IsAlreadyExists(twice), "twice: %v", twice),
		want(apierrors.IsInvalid(invalid), "invalid: %v", invalid),
		want(causes["spec.replicas"] && causes["spec.template.metadata.labels"] && causes["spec.template.spec.containers[0].image"], "invalid: %v", causes),
		want(apierrors.IsBadRequest(wrong), "a broken patch: %v", wrong),
		want(apierrors.IsUnsupportedMediaType(other), "a strange patch: %v", other),
		want(apierrors.IsBadRequest(gone), "a strange token: %v", gone),
		want(apierrors.IsConflict(precondition), "a precondition: %v", precondition),
		want(dry == nil && apierrors.IsNotFound(dryGone), "a dry run: %v, then %v", dry, dryGone),
		want(apierrors.IsBadRequest(strict) && strings.Contains(strict.Error(), "unknown field \"dataa\""), "strict: %v", strict),
		want(len(warnings.texts) == 1 && strings.Contains(warnings.texts[0], "dataa"), "warned: %v", warnings.texts),
	)
}

type warned struct{ texts []string }

func (w *warned) HandleWarningHeader(code int, _ string, text string) {
	if code == 299 {
		w.texts = append(w.texts, text)
	}
}

// dynamicClient: a custom kind from its definition to its deletion.
func dynamicClient(ctx context.Context, t *target) error {
	crd, err := newKind(ctx, t, "Gadget", "gadgets")
	if err != nil {
		return err
	}
	api := t.dynamic.Resource(crd.gvr).Namespace(t.namespace)
	made, err := api.Create(ctx, crd.object("one", map[string]any{"colour": "red", "unknown": "gone"}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	size, _, _ := unstructured.NestedInt64(made.Object, "spec", "size")
	_, kept, _ := unstructured.NestedString(made.Object, "spec", "unknown")
	if size != 1 || kept || made.GetGeneration() != 1 {
		return fmt.Errorf("defaulting and pruning gave %v", made.Object)
	}
	_, refused := api.Create(ctx, crd.object("two", map[string]any{"size": int64(-1)}), metav1.CreateOptions{})
	if !apierrors.IsInvalid(refused) {
		return fmt.Errorf("a size of -1 was answered with %v", refused)
	}
	_ = unstructured.SetNestedField(made.Object, int64(7), "status", "replicas")
	_ = unstructured.SetNestedField(made.Object, int64(9), "spec", "size")
	status, err := api.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	size, _, _ = unstructured.NestedInt64(status.Object, "spec", "size")
	replicas, _, _ := unstructured.NestedInt64(status.Object, "status", "replicas")
	if size != 1 || replicas != 7 || status.GetGeneration() != 1 {
		return fmt.Errorf("the status' update gave %v", status.Object)
	}
	scaled, err := api.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{}, "scale")
	if err != nil {
		return err
	}
	if replicas, _, _ := unstructured.NestedInt64(scaled.Object, "spec", "replicas"); scaled.GetKind() != "Scale" || replicas != 5 {
		return fmt.Errorf("the scale is %v", scaled.Object)
	}
	config := crd.object("one", map[string]any{"colour": "blue"})
	if _, err := api.Apply(ctx, "one", config, metav1.ApplyOptions{FieldManager: "painter"}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a colour of another's was applied: %v", err)
	}
	applied, err := api.Apply(ctx, "one", config, metav1.ApplyOptions{FieldManager: "painter", Force: true})
	if err != nil {
		return err
	}
	if _, err := api.ApplyStatus(ctx, "one", &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": crd.gvr.GroupVersion().String(), "kind": crd.name, "metadata": map[string]any{"name": "one"},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	}}, metav1.ApplyOptions{FieldManager: "judge"}); err != nil {
		return err
	}
	colour, _, _ := unstructured.NestedString(applied.Object, "spec", "colour")
	if colour != "blue" {
		return fmt.Errorf("the colour is %s", colour)
	}
	// The definition goes, and its instances with it.
	if err := t.dynamic.Resource(crds).Delete(ctx, crd.gvr.GroupResource().String(), metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "the kind to be gone", func() error {
		_, err := api.Get(ctx, "one", metav1.GetOptions{})
		_, crdError := t.dynamic.Resource(crds).Get(ctx, crd.gvr.GroupResource().String(), metav1.GetOptions{})
		return want(apierrors.IsNotFound(err) && apierrors.IsNotFound(crdError), "%v; %v", err, crdError)
	})
}

// applyClient: typed apply configurations, with what a manager may extract, take over and give up.
func applyClient(ctx context.Context, t *target) error {
	api := t.typed.AppsV1().Deployments(t.namespace)
	labels := map[string]string{"app": "web"}
	config := func(replicas int32) *appsapply.DeploymentApplyConfiguration {
		container := coreapply.Container().WithName("main").WithImage("nginx:1").
			WithPorts(coreapply.ContainerPort().WithContainerPort(80))
		return appsapply.Deployment("web", t.namespace).WithLabels(labels).
			WithSpec(appsapply.DeploymentSpec().WithReplicas(replicas).
				WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
				WithTemplate(coreapply.PodTemplateSpec().WithLabels(labels).
					WithSpec(coreapply.PodSpec().WithContainers(container))))
	}
	mine := metav1.ApplyOptions{FieldManager: "mine"}
	made, err := api.Apply(ctx, config(1), mine)
	if err != nil {
		return err
	}
	again, err := api.Apply(ctx, config(1), mine)
	if err != nil {
		return err
	}
	// Controllers of Deployments, where they run, write too.
	if t.hub && made.ResourceVersion != again.ResourceVersion {
		return fmt.Errorf("applying the same wrote again")
	}
	_, err = api.Apply(ctx, config(3), metav1.ApplyOptions{FieldManager: "theirs"})
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsConflict(err) || len(status.Status().Details.Causes) != 1 {
		return fmt.Errorf("another's replicas were applied: %v", err)
	}
	cause := status.Status().Details.Causes[0]
	if cause.Type != metav1.CauseTypeFieldManagerConflict || cause.Field != ".spec.replicas" || !strings.Contains(cause.Message, "\"mine\"") {
		return fmt.Errorf("the conflict is told as %+v", cause)
	}
	taken, err := api.Apply(ctx, config(3), metav1.ApplyOptions{FieldManager: "theirs", Force: true})
	if err != nil {
		return err
	}
	extracted, err := appsapply.ExtractDeployment(taken, "mine")
	if err != nil {
		return err
	}
	if extracted.Spec.Replicas != nil || *extracted.Spec.Template.Spec.Containers[0].Image != "nginx:1" {
		return fmt.Errorf("mine still holds %+v", extracted.Spec)
	}
	// What a manager no longer applies, and nobody else owns, goes.
	extracted.WithLabels(map[string]string{"mine": "alone"})
	if _, err := api.Apply(ctx, extracted, mine); err != nil {
		return err
	}
	delete(extracted.Labels, "mine")
	left, err := api.Apply(ctx, extracted, mine)
	if err != nil {
		return err
	}
	if _, stays := left.Labels["mine"]; stays {
		return fmt.Errorf("a label that nobody owns stays")
	}
	condition := appsapply.DeploymentCondition().WithType("Tested").WithStatus(corev1.ConditionTrue)
	withStatus, err := api.ApplyStatus(ctx, appsapply.Deployment("web", t.namespace).
		WithStatus(appsapply.DeploymentStatus().WithConditions(condition)), metav1.ApplyOptions{FieldManager: "status"})
	if err != nil {
		return err
	}
	if fromStatus, err := appsapply.ExtractDeploymentStatus(withStatus, "status"); err != nil || len(fromStatus.Status.Conditions) != 1 {
		return fmt.Errorf("the status that was applied is %+v (%w)", withStatus.Status, err)
	}
	ports := coreapply.Service("web", t.namespace).WithSpec(coreapply.ServiceSpec().WithSelector(labels).
		WithPorts(coreapply.ServicePort().WithName("dns").WithPort(53).WithProtocol(corev1.ProtocolUDP),
			coreapply.ServicePort().WithName("dns-tcp").WithPort(53).WithProtocol(corev1.ProtocolTCP)))
	service, err := t.typed.CoreV1().Services(t.namespace).Apply(ctx, ports, mine)
	if err != nil {
		return err
	}
	account, err := t.typed.CoreV1().ServiceAccounts(t.namespace).Apply(ctx, coreapply.ServiceAccount("robot", t.namespace), mine)
	return first(err,
		want(len(service.Spec.Ports) == 2, "the ports are %+v", service.Spec.Ports),
		want(err == nil && account.UID != "", "the account is %+v", account))
}

// collections: deletions of many, of some, and with what stands in their way.
func collections(ctx context.Context, t *target) error {
	if err := someMaps(ctx, t, t.namespace, 10); err != nil {
		return err
	}
	api := t.typed.CoreV1().ConfigMaps(t.namespace)
	if _, err := api.Patch(ctx, "m-1", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := api.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "odd=true"}); err != nil {
		return err
	}
	left, err := api.List(ctx, metav1.ListOptions{LabelSelector: "odd"})
	if err != nil {
		return err
	}
	held, err := api.Get(ctx, "m-1", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(left.Items) != 6 || held.DeletionTimestamp == nil {
		return fmt.Errorf("%d are left, the held one is %+v", len(left.Items), held.ObjectMeta)
	}
	if _, err := api.Patch(ctx, "m-1", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	_, err = api.Get(ctx, "m-1", metav1.GetOptions{})
	return want(apierrors.IsNotFound(err), "the held one is still there: %v", err)
}
