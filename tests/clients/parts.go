package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	autoscalingapply "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// clientGo is all that is done with client-go and controller-runtime.
var clientGo = []check{
	{"informers", sharedInformers},
	{"custom informers", customInformers},
	{"paging", paging},
	{"watches", watches},
	{"typed", typedClient},
	{"refusals", refusals},
	{"dynamic", dynamicClient},
	{"metadata", metadataClient},
	{"apply", applyClient},
	{"collections", collections},
	{"protobuf", protobuf},
	{"cbor", cborClient},
	{"leaders", leaders},
	{"discovery", discoveryClient},
	{"scale", scaleClient},
	{"eviction", eviction},
	{"events", eventRecorders},
	{"tokens", tokens},
	{"impersonation", impersonation},
	{"operator", operator},
}

// leaders: one of two candidates leads, gives way when it resigns, and is replaced when it is silent.
func leaders(ctx context.Context, t *target) error {
	var leading atomic.Int32
	var both atomic.Bool
	started := make(chan string, 8)
	candidate := func(name string, release bool) (context.CancelFunc, chan struct{}) {
		ctx, cancel := context.WithCancel(ctx)
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: t.namespace, Name: "leader"},
			Client:     t.typed.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: lock, Name: name, ReleaseOnCancel: release,
				LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(ctx context.Context) {
						if leading.Add(1) > 1 {
							both.Store(true)
						}
						started <- name
						<-ctx.Done()
						leading.Add(-1)
					},
					OnStoppedLeading: func() {},
				},
			})
		}()
		return cancel, ended
	}
	next := func() (string, error) {
		select {
		case name := <-started:
			return name, nil
		case <-time.After(patience):
			return "", fmt.Errorf("nobody leads")
		}
	}
	stopOne, oneEnded := candidate("one", true)
	defer stopOne()
	if name, err := next(); err != nil || name != "one" {
		return fmt.Errorf("%q leads first (%w)", name, err)
	}
	stopTwo, twoEnded := candidate("two", false)
	defer stopTwo()
	// Between two renewals: one that is under way when its sender goes may be written all the same.
	time.Sleep(100 * time.Millisecond)
	stopOne()
	<-oneEnded
	resigned := time.Now()
	if name, err := next(); err != nil || name != "two" {
		return fmt.Errorf("%q leads after the first resigned (%w)", name, err)
	}
	if waited := time.Since(resigned); waited > 2*time.Second {
		return fmt.Errorf("the resignation was not seen: the next one waited %v for the lease to run out", waited)
	}
	// Two falls silent without a word: three takes over when the lease has run out.
	stopTwo()
	<-twoEnded
	stopThree, threeEnded := candidate("three", true)
	if name, err := next(); err != nil || name != "three" {
		stopThree()
		return fmt.Errorf("%q leads after the second fell silent (%w)", name, err)
	}
	time.Sleep(100 * time.Millisecond)
	stopThree()
	<-threeEnded
	lease, err := t.typed.CoordinationV1().Leases(t.namespace).Get(ctx, "leader", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return first(
		want(!both.Load(), "two led at once"),
		want(lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == "", "the last one did not release the lease: %v", lease.Spec.HolderIdentity),
		want(lease.Spec.LeaseTransitions != nil && *lease.Spec.LeaseTransitions >= 2, "the lease tells of %v transitions", lease.Spec.LeaseTransitions),
	)
}

// discoveryClient: both ways of discovery tell the same, and mappers find kinds old and new.
func discoveryClient(ctx context.Context, t *target) error {
	config, sent := recorded(t.config)
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	catalogue := func(client discovery.DiscoveryInterface) (string, error) {
		_, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			return "", err
		}
		var lines []string
		for _, list := range lists {
			// Other checks define kinds of their own meanwhile.
			if strings.Contains(list.GroupVersion, "example.com") {
				continue
			}
			for _, r := range list.APIResources {
				verbs := append([]string{}, r.Verbs...)
				sort.Strings(verbs)
				lines = append(lines, fmt.Sprintf("%s %s %s %v %v %v %v", list.GroupVersion, r.Name, r.Kind, r.Namespaced, verbs, r.ShortNames, r.Categories))
			}
		}
		sort.Strings(lines)
		return strings.Join(lines, "\n"), nil
	}
	aggregated, err := catalogue(client)
	if err != nil {
		return err
	}
	if n := sent.count("GET /"); n != 2 {
		return fmt.Errorf("aggregated discovery took %d requests: %s", n, sent)
	}
	legacy, err := discovery.NewDiscoveryClientForConfig(t.config)
	if err != nil {
		return err
	}
	legacy.UseLegacyDiscovery = true
	one, err := catalogue(legacy)
	if err != nil {
		return err
	}
	if one != aggregated {
		return fmt.Errorf("the two ways differ:\n%s", firstDifference(one, aggregated))
	}
	version, err := client.ServerVersion()
	if err != nil {
		return err
	}
	document, err := client.OpenAPISchema()
	if err != nil {
		return err
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	apps := paths["apis/apps/v1"]
	if apps == nil {
		return fmt.Errorf("OpenAPI v3 has no apps/v1")
	}
	text, err := apps.Schema("application/json")
	if err != nil {
		return err
	}
	preferred, err := client.ServerPreferredNamespacedResources()
	err = first(err,
		want(version.Major == "1" && version.Minor == "36", "the version is %v", version),
		want(len(document.GetDefinitions().GetAdditionalProperties()) > 400, "OpenAPI v2 has few definitions"),
		want(strings.Contains(string(text), "io.k8s.api.apps.v1.Deployment"), "OpenAPI v3 of apps/v1 lacks Deployments"),
		want(len(preferred) > 10, "%d preferred lists", len(preferred)))
	if err != nil {
		return err
	}
	cached := memory.NewMemCacheClient(client)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	short := restmapper.NewShortcutExpander(mapper, cached, nil)
	for name, kind := range map[string]string{"deploy": "Deployment", "sts": "StatefulSet", "cm": "ConfigMap", "ing": "Ingress", "crd": "CustomResourceDefinition"} {
		if gvk, err := short.KindFor(schema.GroupVersionResource{Resource: name}); err != nil || gvk.Kind != kind {
			return fmt.Errorf("%s is a %s (%w)", name, gvk, err)
		}
	}
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	if err != nil || mapping.Resource.Resource != "deployments" || mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return fmt.Errorf("Deployments map to %v (%w)", mapping, err)
	}
	crd, err := newKind(ctx, t, "Novelty", "novelties")
	if err != nil {
		return err
	}
	return eventually(ctx, "the mapper to know a new kind", func() error {
		mapper.Reset()
		_, err := mapper.RESTMapping(schema.GroupKind{Group: crd.gvr.Group, Kind: crd.name}, "v1")
		return err
	})
}

func firstDifference(one, other string) string {
	left, right := strings.Split(one, "\n"), strings.Split(other, "\n")
	for i := range left {
		if i >= len(right) || left[i] != right[i] {
			return fmt.Sprintf("- %s\n+ %s", left[i], append(right, "(end)")[min(i, len(right))])
		}
	}
	return fmt.Sprintf("+ %s", right[len(left)])
}

// scaleClient: workloads and custom kinds by their scale alone.
func scaleClient(ctx context.Context, t *target) error {
	api := t.typed.AppsV1().Deployments(t.namespace)
	if _, err := api.Create(ctx, deployment("web", 1, "nginx"), metav1.CreateOptions{}); err != nil {
		return err
	}
	crd, err := newKind(ctx, t, "Herd", "herds")
	if err != nil {
		return err
	}
	if _, err := t.dynamic.Resource(crd.gvr).Namespace(t.namespace).Create(ctx, crd.object("one", map[string]any{"size": int64(2)}), metav1.CreateOptions{}); err != nil {
		return err
	}
	cached := memory.NewMemCacheClient(t.typed.Discovery())
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	scales, err := scale.NewForConfig(t.config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(t.typed.Discovery()))
	if err != nil {
		return err
	}
	for _, one := range []struct {
		resource schema.GroupResource
		name     string
		before   int32
	}{{schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", 1}, {crd.gvr.GroupResource(), "one", 2}} {
		client := scales.Scales(t.namespace)
		seen, err := client.Get(ctx, one.resource, one.name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("%s: %w", one.resource, err)
		}
		if seen.Spec.Replicas != one.before {
			return fmt.Errorf("%s has %d replicas", one.resource, seen.Spec.Replicas)
		}
		seen.Spec.Replicas = 4
		if seen, err = client.Update(ctx, one.resource, seen, metav1.UpdateOptions{}); err != nil || seen.Spec.Replicas != 4 {
			return fmt.Errorf("%s scaled to %+v (%w)", one.resource, seen, err)
		}
	}
	typed, err := api.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	applied, err := api.ApplyScale(ctx, "web", autoscalingapply.Scale().WithSpec(autoscalingapply.ScaleSpec().WithReplicas(6)), metav1.ApplyOptions{FieldManager: "scaler", Force: true})
	if err != nil {
		return err
	}
	_, err = api.UpdateScale(ctx, "web", &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: t.namespace, ResourceVersion: typed.ResourceVersion},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 9},
	}, metav1.UpdateOptions{})
	return first(
		want(typed.Spec.Replicas == 4 && typed.Status.Selector == "app=web", "the typed scale is %+v", typed),
		want(applied.Spec.Replicas == 6, "the applied scale is %+v", applied),
		want(apierrors.IsConflict(err), "a stale scale was answered with %v", err),
	)
}

// eviction: refused by a budget that allows none, and else the Pod's end.
func eviction(ctx context.Context, t *target) error {
	pods := t.typed.CoreV1().Pods(t.namespace)
	for _, name := range []string{"guarded", "free"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"no": "where"},
				Containers:   []corev1.Container{{Name: "main", Image: "nginx"}},
			},
		}
		// Where accounts are admitted, the account may come a moment later than its namespace.
		err := eventually(ctx, "a Pod", func() error {
			_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	one := intstr.FromInt32(1)
	budgets := t.typed.PolicyV1().PodDisruptionBudgets(t.namespace)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "budget"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}},
	}
	budget, err := budgets.Create(ctx, budget, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// As the controller that counts would: one disruption or none.
	allow := func(n int32) error {
		status := fmt.Sprintf(`{"status":{"observedGeneration":%d,"disruptionsAllowed":%d,"currentHealthy":%d,"desiredHealthy":1,"expectedPods":1}}`,
			budget.Generation, n, 1+n)
		_, err := budgets.Patch(ctx, "budget", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
		return err
	}
	if err := allow(0); err != nil {
		return err
	}
	// A running, ready Pod: what is pending may always be evicted.
	guarded, err := pods.Get(ctx, "guarded", metav1.GetOptions{})
	if err != nil {
		return err
	}
	guarded.Status.Phase = corev1.PodRunning
	guarded.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := pods.UpdateStatus(ctx, guarded, metav1.UpdateOptions{}); err != nil {
		return err
	}
	evict := func(name string, dry []string) error {
		return t.typed.PolicyV1().Evictions(t.namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Name: name, Namespace: t.namespace},
			DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: ptr(int64(0)), DryRun: dry},
		})
	}
	refused := evict("guarded", nil)
	if !apierrors.IsTooManyRequests(refused) || !apierrors.HasStatusCause(refused, policyv1.DisruptionBudgetCause) {
		return fmt.Errorf("the guarded Pod's eviction was answered with %v", refused)
	}
	if err := first(evict("free", []string{metav1.DryRunAll}), evict("free", nil)); err != nil {
		return err
	}
	_, err = pods.Get(ctx, "free", metav1.GetOptions{})
	missing := evict("nobody", nil)
	// Where a controller counts, the budget's status is its own.
	if !t.hub {
		return first(want(apierrors.IsNotFound(err), "the free Pod is still there: %v", err), want(apierrors.IsNotFound(missing), "nobody was evicted: %v", missing))
	}
	if err := first(allow(1), evict("guarded", []string{metav1.DryRunAll}), evict("guarded", nil)); err != nil {
		return err
	}
	after, budgetErr := budgets.Get(ctx, "budget", metav1.GetOptions{})
	if budgetErr != nil {
		return budgetErr
	}
	_, disrupted := after.Status.DisruptedPods["guarded"]
	return first(want(after.Status.DisruptionsAllowed == 0 && disrupted, "the budget is %+v", after.Status),
		want(apierrors.IsNotFound(err), "the free Pod is still there: %v", err),
		want(apierrors.IsNotFound(missing), "nobody was evicted: %v", missing))
}

// eventRecorders: the old recorder counts and aggregates by patches, the new one writes series.
func eventRecorders(ctx context.Context, t *target) error {
	object, err := t.typed.CoreV1().ConfigMaps(t.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "subject"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	old := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{MaxEvents: 5, QPS: 100, BurstSize: 100})
	defer old.Shutdown()
	old.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: t.typed.CoreV1().Events("")})
	recorder := old.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "clients"})
	for range 3 {
		recorder.Event(object, corev1.EventTypeNormal, "Same", "the same words")
	}
	for i := range 10 {
		recorder.Eventf(object, corev1.EventTypeWarning, "Similar", "words of number %d", i)
	}
	newer := events.NewEventBroadcasterAdapterWithContext(ctx, t.typed)
	newer.StartRecordingToSink(ctx.Done())
	series := newer.NewRecorder("clients.example.com/new")
	for range 3 {
		series.Eventf(object, nil, corev1.EventTypeNormal, "Repeated", "Testing", "the same words")
	}
	defer newer.Shutdown()
	return eventually(ctx, "the events", func() error {
		list, err := t.typed.CoreV1().Events(t.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=subject,involvedObject.kind=ConfigMap"})
		if err != nil {
			return err
		}
		var same, similar, combined, repeated int32
		for _, event := range list.Items {
			switch {
			case event.Reason == "Same":
				same = event.Count
			case event.Reason == "Similar" && strings.HasPrefix(event.Message, "(combined from similar events)"):
				combined = event.Count
			case event.Reason == "Similar":
				similar++
			case event.Reason == "Repeated" && event.Series != nil:
				repeated = event.Series.Count
			}
		}
		modern, err := t.typed.EventsV1().Events(t.namespace).List(ctx, metav1.ListOptions{})
		return first(err, want(same == 3 && similar == 4 && combined == 6 && repeated >= 2 && len(modern.Items) == len(list.Items),
			"same %d, similar %d, combined %d, repeated %d, %d in the new form", same, similar, combined, repeated, len(modern.Items)))
	})
}

// bearer is a client that shows only a token.
func bearer(config *rest.Config, token string) (kubernetes.Interface, error) {
	bare := rest.AnonymousClientConfig(config)
	bare.BearerToken = token
	return kubernetes.NewForConfig(bare)
}

func whoAmI(ctx context.Context, client kubernetes.Interface) (authenticationv1.UserInfo, error) {
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// tokens: an account's token says who it is, may do what its roles allow, and ends with what it is bound to.
func tokens(ctx context.Context, t *target) error {
	accounts := t.typed.CoreV1().ServiceAccounts(t.namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	secret, err := t.typed.CoreV1().Secrets(t.namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bound"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr(int64(3600)),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: "bound", UID: secret.UID},
	}}
	granted, err := accounts.CreateToken(ctx, "robot", request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	client, err := bearer(t.config, granted.Status.Token)
	if err != nil {
		return err
	}
	who, err := whoAmI(ctx, client)
	if err != nil {
		return err
	}
	name := "system:serviceaccount:" + t.namespace + ":robot"
	if who.Username != name || len(who.Extra["authentication.kubernetes.io/credential-id"]) != 1 {
		return fmt.Errorf("the token is %+v", who)
	}
	_, refused := client.CoreV1().Secrets(t.namespace).List(ctx, metav1.ListOptions{})
	roles := t.typed.RbacV1()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}}}}
	_, err = roles.Roles(t.namespace).Create(ctx, role, metav1.CreateOptions{})
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "robot", Namespace: t.namespace}},
	}
	_, err2 := roles.RoleBindings(t.namespace).Create(ctx, binding, metav1.CreateOptions{})
	if err := first(err, err2, want(apierrors.IsForbidden(refused), "without a role: %v", refused)); err != nil {
		return err
	}
	err = eventually(ctx, "the role", func() error {
		_, err := client.CoreV1().Secrets(t.namespace).List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return err
	}
	review, err := t.typed.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: granted.Status.Token}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated || review.Status.User.Username != name {
		return fmt.Errorf("the review says %+v (%w)", review, err)
	}
	if err := t.typed.CoreV1().Secrets(t.namespace).Delete(ctx, "bound", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return eventually(ctx, "the token's end", func() error {
		_, err := whoAmI(ctx, client)
		return want(apierrors.IsUnauthorized(err), "the token is still good: %v", err)
	})
}

// impersonation: another's name, groups and extras, and what may be done under them.
func impersonation(ctx context.Context, t *target) error {
	config := rest.CopyConfig(t.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "jane", UID: "77", Groups: []string{"developers"}, Extra: map[string][]string{"Team/Name": {"red", "blue"}},
	}
	jane, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	who, err := whoAmI(ctx, jane)
	if err != nil {
		return err
	}
	groups := strings.Join(who.Groups, ",")
	if who.Username != "jane" || who.UID != "77" || groups != "developers,system:authenticated" || len(who.Extra["team/name"]) != 2 {
		return fmt.Errorf("jane is %+v", who)
	}
	_, refused := jane.CoreV1().Pods(t.namespace).List(ctx, metav1.ListOptions{})
	allowed := func(client kubernetes.Interface, verb, resource string) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: t.namespace, Verb: verb, Resource: resource},
		}}
		made, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return made.Status.Allowed, nil
	}
	may, err := allowed(jane, "list", "pods")
	all, err2 := allowed(t.typed, "list", "pods")
	rules, err3 := jane.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: t.namespace}}, metav1.CreateOptions{})
	if err := first(err, err2, err3); err != nil {
		return err
	}
	_, tokenRefused := jane.CoreV1().ServiceAccounts(t.namespace).CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	return first(
		want(apierrors.IsForbidden(refused) && strings.Contains(refused.Error(), `User "jane" cannot list resource "pods"`), "jane's list: %v", refused),
		want(!may && all, "jane may: %v, the administrator may: %v", may, all),
		want(len(rules.Status.ResourceRules) > 0 && len(rules.Status.NonResourceRules) > 0, "jane's rules: %+v", rules.Status),
		want(apierrors.IsForbidden(tokenRefused), "jane's token: %v", tokenRefused),
	)
}
