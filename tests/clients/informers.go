package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// someMaps creates n ConfigMaps named m-0, m-1…
func someMaps(ctx context.Context, t *target, namespace string, n int) error {
	for i := range n {
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d", i), Labels: map[string]string{"odd": fmt.Sprint(i%2 == 1)}},
			Data:       map[string]string{"n": fmt.Sprint(i)},
		}
		if _, err := t.typed.CoreV1().ConfigMaps(namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// counted counts an informer's notifications.
type counted struct{ added, updated, deleted atomic.Int64 }

func (c *counted) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.added.Add(1) },
		UpdateFunc: func(before, after any) { c.update(before, after) },
		DeleteFunc: func(any) { c.deleted.Add(1) },
	}
}

func (c *counted) update(before, after any) {
	one, _ := meta.Accessor(before)
	two, _ := meta.Accessor(after)
	if one != nil && two != nil && one.GetResourceVersion() != two.GetResourceVersion() {
		c.updated.Add(1)
	}
}

func (c *counted) is(added, updated, deleted int64) error {
	return want(c.added.Load() == added && c.updated.Load() == updated && c.deleted.Load() == deleted,
		"%d added, %d updated, %d deleted", c.added.Load(), c.updated.Load(), c.deleted.Load())
}

// sharedInformers: typed, dynamic and metadata informers see what is there and what changes, by the way that
// the feature gate WatchListClient asks for.
func sharedInformers(ctx context.Context, t *target) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := someMaps(ctx, t, t.namespace, 25); err != nil {
		return err
	}
	config, sent := recorded(t.config)
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	bare, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	odd := func(options *metav1.ListOptions) { options.LabelSelector = "odd=true" }
	factory := informers.NewSharedInformerFactoryWithOptions(typed, 0, informers.WithNamespace(t.namespace), informers.WithTweakListOptions(odd))
	// The server's own ConfigMap (kube-root-ca.crt) bears no label.
	ours := func(options *metav1.ListOptions) { options.LabelSelector = "odd" }
	all := dynamicinformer.NewFilteredDynamicSharedInformerFactory(untyped, 0, t.namespace, ours)
	partial := metadatainformer.NewFilteredSharedInformerFactory(bare, 0, t.namespace, ours)
	cluster := informers.NewSharedInformerFactory(typed, 0)
	counts := [3]counted{}
	sources := []cache.SharedIndexInformer{
		factory.Core().V1().ConfigMaps().Informer(),
		all.ForResource(configMaps).Informer(),
		partial.ForResource(configMaps).Informer(),
		cluster.Core().V1().Namespaces().Informer(),
		cluster.Apps().V1().Deployments().Informer(),
		cluster.Rbac().V1().ClusterRoles().Informer(),
		factory.Core().V1().Secrets().Informer(),
	}
	for i := range counts {
		if _, err := sources[i].AddEventHandler(counts[i].handler()); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	all.Start(ctx.Done())
	partial.Start(ctx.Done())
	cluster.Start(ctx.Done())
	waiting, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for i, source := range sources {
		if !cache.WaitForCacheSync(waiting.Done(), source.HasSynced) {
			return fmt.Errorf("informer %d did not sync; sent: %s", i, sent)
		}
	}
	lister := factory.Core().V1().ConfigMaps().Lister().ConfigMaps(t.namespace)
	found, err := lister.List(labels.Everything())
	if err != nil || len(found) != 12 {
		return fmt.Errorf("%d odd maps, not 12 (%v)", len(found), err)
	}
	path := "GET /api/v1/namespaces/" + t.namespace + "/configmaps?"
	streamed, listed := sent.count(path, "sendInitialEvents=true"), sent.count(path)-sent.count(path, "watch=true")
	if clientfeatures.FeatureGates().Enabled(clientfeatures.WatchListClient) {
		err = want(streamed == 3 && listed == 0, "WatchList is on, but %d streamed and %d listed: %s", streamed, listed, sent)
	} else {
		err = want(streamed == 0 && listed == 3, "WatchList is off, but %d streamed and %d listed: %s", streamed, listed, sent)
	}
	if err != nil {
		return err
	}
	maps := t.typed.CoreV1().ConfigMaps(t.namespace)
	_, err = maps.Patch(ctx, "m-1", types.MergePatchType, []byte(`{"data":{"n":"one"}}`), metav1.PatchOptions{})
	// Out of the selector, and into it: to a selecting watcher that is a deletion and an addition.
	_, err2 := maps.Patch(ctx, "m-3", types.MergePatchType, []byte(`{"metadata":{"labels":{"odd":"no"}}}`), metav1.PatchOptions{})
	_, err3 := maps.Patch(ctx, "m-4", types.MergePatchType, []byte(`{"metadata":{"labels":{"odd":"true"}}}`), metav1.PatchOptions{})
	if err := first(err, err2, err3, maps.Delete(ctx, "m-5", metav1.DeleteOptions{})); err != nil {
		return err
	}
	if err := eventually(ctx, "the selecting informer", func() error { return counts[0].is(13, 1, 2) }); err != nil {
		return err
	}
	for _, i := range []int{1, 2} {
		if err := eventually(ctx, fmt.Sprintf("informer %d", i), func() error { return counts[i].is(25, 3, 1) }); err != nil {
			return err
		}
	}
	object, err := lister.Get("m-1")
	return first(err, want(err == nil && object.Data["n"] == "one", "the lister holds %v", object))
}

// customInformers: a kind that is defined while the client runs is watched like any other.
func customInformers(ctx context.Context, t *target) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	crd, err := newKind(ctx, t, "Probe", "probes")
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(t.dynamic, 0, t.namespace, nil)
	informer := factory.ForResource(crd.gvr).Informer()
	var seen counted
	if _, err := informer.AddEventHandler(seen.handler()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the informer did not sync")
	}
	probes := t.dynamic.Resource(crd.gvr).Namespace(t.namespace)
	made, err := probes.Create(ctx, crd.object("one", map[string]any{"size": int64(1)}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(made.Object, int64(2), "spec", "size"); err != nil {
		return err
	}
	if made, err = probes.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := probes.Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "the informer", func() error { return seen.is(1, 1, 1) })
}

// secrets creates n of them: nobody but the check makes any in its namespace.
func secrets(ctx context.Context, t *target, n int) error {
	for i := range n {
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%02d", i)}}
		if _, err := t.typed.CoreV1().Secrets(t.namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// paging: a list in chunks is one list, also while it is written to.
func paging(ctx context.Context, t *target) error {
	if err := secrets(ctx, t, 23); err != nil {
		return err
	}
	api := t.typed.CoreV1().Secrets(t.namespace)
	page, err := api.List(ctx, metav1.ListOptions{Limit: 5})
	if err != nil {
		return err
	}
	if page.RemainingItemCount == nil || *page.RemainingItemCount != 18 || page.Continue == "" {
		return fmt.Errorf("the first page tells of %v more, token %q", page.RemainingItemCount, page.Continue)
	}
	calls := 0
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		if calls++; calls == 2 {
			// After the first page: not in the list that was begun.
			late := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "z-late"}}
			if _, err := api.Create(ctx, late, metav1.CreateOptions{}); err != nil {
				return nil, err
			}
		}
		return api.List(ctx, options)
	}))
	pages.PageSize = 5
	pages.PageBufferSize = 0
	list, paginated, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	seen := 0
	err = pages.EachListItem(ctx, metav1.ListOptions{}, func(runtime.Object) error { seen++; return nil })
	exact, err2 := api.List(ctx, metav1.ListOptions{ResourceVersion: page.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if err := first(err, err2); err != nil {
		return err
	}
	return first(
		want(paginated && calls >= 5 && len(items) == 23, "%d items in %d calls", len(items), calls),
		want(seen == 24, "%d items one by one, not 24", seen),
		want(len(exact.Items) == 23, "%d items at the first page's version", len(exact.Items)),
	)
}

// watches: events come once and in order through clients that begin again where a watch ended.
func watches(ctx context.Context, t *target) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	api := t.typed.CoreV1().Secrets(t.namespace)
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	// The server ends each watch after a second; the retry watcher goes on at the last version that it saw.
	begun := 0
	source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		begun++
		options.TimeoutSeconds = ptr(int64(1))
		return api.Watch(ctx, options)
	}}
	retry, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, source)
	if err != nil {
		return err
	}
	defer retry.Stop()
	const writes = 24
	failed := make(chan error, 1)
	go func() {
		for i := range writes {
			object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w-%02d", i)}}
			if _, err := api.Create(ctx, object, metav1.CreateOptions{}); err != nil {
				failed <- err
				return
			}
			time.Sleep(120 * time.Millisecond)
		}
	}()
	for next := 0; next < writes; {
		select {
		case event := <-retry.ResultChan():
			if event.Type == watch.Bookmark {
				continue
			}
			object, is := event.Object.(*corev1.Secret)
			if name := fmt.Sprintf("w-%02d", next); !is || event.Type != watch.Added || object.Name != name {
				return fmt.Errorf("event %d is %s %v", next, event.Type, event.Object)
			}
			next++
		case err := <-failed:
			return err
		case <-time.After(patience):
			return fmt.Errorf("only %d events came in %d watches", next, begun)
		}
	}
	if err := want(begun > 1, "one watch did it all: nothing was tried again"); err != nil {
		return err
	}
	condition := func(event watch.Event) (bool, error) {
		object, is := event.Object.(*corev1.Secret)
		if is && event.Type == watch.Added && object.Name == "w-00" {
			return false, api.Delete(ctx, "w-00", metav1.DeleteOptions{})
		}
		return event.Type == watch.Deleted, nil
	}
	whole := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return api.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return api.Watch(ctx, options)
		},
	}
	event, err := watchtools.UntilWithSync(ctx, whole, &corev1.Secret{}, nil, condition)
	if err != nil {
		return err
	}
	deleted, is := event.Object.(*corev1.Secret)
	return want(is && deleted.Name == "w-00", "what was deleted is %v", event.Object)
}

// metadataClient: the same objects without their bodies.
func metadataClient(ctx context.Context, t *target) error {
	client, err := metadata.NewForConfig(t.config)
	if err != nil {
		return err
	}
	if err := someMaps(ctx, t, t.namespace, 4); err != nil {
		return err
	}
	api := client.Resource(configMaps).Namespace(t.namespace)
	one, err := api.Get(ctx, "m-0", metav1.GetOptions{})
	if err != nil {
		return err
	}
	list, err := api.List(ctx, metav1.ListOptions{LabelSelector: "odd=true"})
	if err != nil {
		return err
	}
	err = first(
		want(one.Name == "m-0" && one.Labels["odd"] == "false", "got %+v", one),
		want(len(list.Items) == 2, "%d odd ones", len(list.Items)),
	)
	if err != nil {
		return err
	}
	// The namespace's own kube-root-ca.crt comes when it comes.
	events, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: "metadata.name=m-0"})
	if err != nil {
		return err
	}
	defer events.Stop()
	patched, err := api.Patch(ctx, "m-0", types.MergePatchType, []byte(`{"metadata":{"labels":{"seen":"yes"}}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	event := <-events.ResultChan()
	object, is := event.Object.(*metav1.PartialObjectMetadata)
	if !is || object.Labels["seen"] != "yes" || object.ResourceVersion != patched.ResourceVersion {
		return fmt.Errorf("the watch tells %s %+v", event.Type, event.Object)
	}
	if err := api.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "odd=true"}); err != nil {
		return err
	}
	left, err := api.List(ctx, metav1.ListOptions{LabelSelector: "odd"})
	return first(err, want(err == nil && len(left.Items) == 2, "%v are left", left))
}

// cbor: a dynamic client that prefers it, as the feature gates ClientsAllowCBOR and ClientsPreferCBOR ask for.
func cborClient(ctx context.Context, t *target) error {
	config := rest.CopyConfig(t.config)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	api := client.Resource(configMaps).Namespace(t.namespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "bytes"}, "data": map[string]any{"a": "b"},
	}}
	// The first writes may be refused with 415: from then on the client writes JSON.
	err = eventually(ctx, "a write", func() error {
		_, err := api.Create(ctx, object, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	_, err = api.Apply(ctx, "bytes", object, metav1.ApplyOptions{FieldManager: "cbor", Force: true})
	if err != nil {
		return err
	}
	got, err := api.Get(ctx, "bytes", metav1.GetOptions{})
	if err != nil {
		return err
	}
	data, _, _ := unstructured.NestedString(got.Object, "data", "a")
	list, err := api.List(ctx, metav1.ListOptions{})
	return first(err, want(data == "b" && list != nil && len(list.Items) >= 1, "read %v", got.Object))
}
