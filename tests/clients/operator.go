package main

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "example.com/clean-up"

// reconciler keeps one ConfigMap per object, and its status, as an operator does.
type reconciler struct {
	client.Client
	gvk     schema.GroupVersionKind
	cleaned atomic.Int32
}

func (r *reconciler) new() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(r.gvk)
	return object
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := r.new()
	if err := r.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !object.GetDeletionTimestamp().IsZero() {
		r.cleaned.Add(1)
		controllerutil.RemoveFinalizer(object, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, object))
	}
	if controllerutil.AddFinalizer(object, finalizer) {
		return ctrl.Result{}, r.Update(ctx, object)
	}
	size, _, _ := unstructured.NestedInt64(object.Object, "spec", "size")
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName() + "-child"}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		child.Data = map[string]string{"size": fmt.Sprint(size)}
		return controllerutil.SetControllerReference(object, child, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	before := object.DeepCopy()
	_ = unstructured.SetNestedField(object.Object, size, "status", "replicas")
	_ = unstructured.SetNestedField(object.Object, object.GetGeneration(), "status", "observedGeneration")
	return ctrl.Result{}, r.Status().Patch(ctx, object, client.MergeFrom(before))
}

// operator: a manager of controller-runtime with its cache, its elected leader and a controller that owns children.
func operator(ctx context.Context, t *target) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	crd, err := newKind(ctx, t, "Nest", "nests")
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(t.config, ctrl.Options{
		Scheme:                        scheme.Scheme,
		Metrics:                       server.Options{BindAddress: "0"},
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{t.namespace: {}}},
		LeaderElection:                true,
		LeaderElectionID:              "operator",
		LeaderElectionNamespace:       t.namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	r := &reconciler{Client: manager.GetClient(), gvk: crd.gvr.GroupVersion().WithKind(crd.name)}
	if err := ctrl.NewControllerManagedBy(manager).For(r.new()).Owns(&corev1.ConfigMap{}).Complete(r); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	nests := t.dynamic.Resource(crd.gvr).Namespace(t.namespace)
	if _, err := nests.Create(ctx, crd.object("one", map[string]any{"size": int64(3)}), metav1.CreateOptions{}); err != nil {
		return err
	}
	children := t.typed.CoreV1().ConfigMaps(t.namespace)
	settled := func(size int64) func() error {
		return func() error {
			object, err := nests.Get(ctx, "one", metav1.GetOptions{})
			if err != nil {
				return err
			}
			replicas, _, _ := unstructured.NestedInt64(object.Object, "status", "replicas")
			observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
			child, err := children.Get(ctx, "one-child", metav1.GetOptions{})
			return first(err, want(replicas == size && observed == object.GetGeneration() && child.Data["size"] == fmt.Sprint(size),
				"%v, child %v", object.Object, child))
		}
	}
	if err := eventually(ctx, "the first state", settled(3)); err != nil {
		return err
	}
	if _, err := nests.Patch(ctx, "one", "application/merge-patch+json", []byte(`{"spec":{"size":5}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "the second state", settled(5)); err != nil {
		return err
	}
	// The child is owned: its deletion wakes the controller, which makes it again.
	if err := children.Delete(ctx, "one-child", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "the child to be back", settled(5)); err != nil {
		return err
	}
	if err := nests.Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		return err
	}
	err = eventually(ctx, "the object to be cleaned up", func() error {
		_, err := nests.Get(ctx, "one", metav1.GetOptions{})
		return want(apierrors.IsNotFound(err) && r.cleaned.Load() > 0, "%v", err)
	})
	if err != nil {
		return err
	}
	// Who collects garbage is a controller of the server's; where it runs, the child goes with its owner.
	if t.hub {
		err = eventually(ctx, "the child to go", func() error {
			_, err := children.Get(ctx, "one-child", metav1.GetOptions{})
			return want(apierrors.IsNotFound(err), "%v", err)
		})
	}
	cancel()
	mapping, mapError := manager.GetRESTMapper().RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "v1")
	return first(err, <-ended, mapError, want(mapError == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace, "the mapper says %v", mapping))
}
