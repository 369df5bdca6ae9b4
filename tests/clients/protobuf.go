// A client that speaks protobuf and takes nothing else: objects, lists in
// pages, watches, refusals, metadata alone, definitions and APIServices.
package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
)

const protobufType = "application/vnd.kubernetes.protobuf"

func protobuf(ctx context.Context, t *target) error {
	config, sent := recorded(t.config)
	config.ContentType, config.AcceptContentTypes = protobufType, protobufType
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := everydayWrites(ctx, client, t.namespace); err != nil {
		return fmt.Errorf("%w; answers came as %v", err, sent.types)
	}
	if other := slices.IndexFunc(sent.types, func(media string) bool { return media != protobufType }); other >= 0 {
		return fmt.Errorf("an answer came as %q", sent.types[other])
	}
	for _, part := range []func(context.Context, *target, *rest.Config, kubernetes.Interface) error{
		protobufPages, protobufWatch, protobufRefusals, protobufMetadata, protobufDefinitions, protobufServices,
	} {
		if err := part(ctx, t, config, client); err != nil {
			return err
		}
	}
	return nil
}

func settings(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"form": "protobuf"}},
		Data:       map[string]string{"text": "a\x00b", "empty": ""},
		BinaryData: map[string][]byte{"bytes": {0, 255, 1}},
	}
}

// protobufPages: what is listed page by page is what JSON's client sees.
func protobufPages(ctx context.Context, t *target, _ *rest.Config, client kubernetes.Interface) error {
	api, plain := client.CoreV1().ConfigMaps(t.namespace), t.typed.CoreV1().ConfigMaps(t.namespace)
	for n := range 7 {
		if _, err := api.Create(ctx, settings(fmt.Sprintf("page-%d", n)), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	options := metav1.ListOptions{LabelSelector: "form=protobuf", Limit: 3}
	var found []corev1.ConfigMap
	for pages := 1; ; pages++ {
		list, err := api.List(ctx, options)
		if err != nil {
			return err
		}
		found = append(found, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			if pages != 3 {
				return fmt.Errorf("%d pages", pages)
			}
			break
		}
	}
	all, err := plain.List(ctx, metav1.ListOptions{LabelSelector: "form=protobuf"})
	if err != nil {
		return err
	}
	return want(len(found) == 7 && apiequality.Semantic.DeepEqual(found, all.Items), "listed %v, in JSON %v", found, all.Items)
}

func protobufWatch(ctx context.Context, t *target, _ *rest.Config, client kubernetes.Interface) error {
	api := client.CoreV1().ConfigMaps(t.namespace)
	begun := true
	watcher, err := api.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=watched", AllowWatchBookmarks: true, SendInitialEvents: &begun,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	made, err := api.Create(ctx, settings("watched"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := api.Delete(ctx, "watched", metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, kind := range []watch.EventType{watch.Bookmark, watch.Added, watch.Deleted} {
		event, open := <-watcher.ResultChan()
		object, is := event.Object.(*corev1.ConfigMap)
		if !open || event.Type != kind || !is {
			return fmt.Errorf("the watch tells %s %+v, not %s", event.Type, event.Object, kind)
		}
		if kind == watch.Added && !apiequality.Semantic.DeepEqual(object, made) {
			return fmt.Errorf("the watch tells of %+v", object)
		}
	}
	old, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		return want(apierrors.IsResourceExpired(err), "an old place was answered with %v", err)
	}
	defer old.Stop()
	event := <-old.ResultChan()
	// Where history goes back as far, the first event is an object.
	if event.Type == watch.Error {
		return want(apierrors.IsResourceExpired(apierrors.FromObject(event.Object)), "an old place: %+v", event.Object)
	}
	return nil
}

func protobufRefusals(ctx context.Context, t *target, _ *rest.Config, client kubernetes.Interface) error {
	api := client.CoreV1().ConfigMaps(t.namespace)
	_, err := api.Get(ctx, "nowhere", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("what is not there: %v", err)
	}
	_, err = api.Create(ctx, settings("Not a name"), metav1.CreateOptions{})
	status, is := err.(apierrors.APIStatus)
	if !apierrors.IsInvalid(err) || !is || len(status.Status().Details.Causes) != 1 || status.Status().Details.Causes[0].Field != "metadata.name" {
		return fmt.Errorf("a bad name: %v", err)
	}
	return nil
}

func protobufMetadata(ctx context.Context, t *target, config *rest.Config, _ kubernetes.Interface) error {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	for resource, least := range map[string]int{"configmaps": 7, "secrets": 0} {
		list, err := client.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(t.namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) < least {
			return fmt.Errorf("metadata of %s: %v, %w", resource, list, err)
		}
	}
	patch := []byte(`{"metadata":{"labels":{"seen":"yes"}}}`)
	one, err := client.Resource(configMaps).Namespace(t.namespace).Patch(ctx, "page-0", types.MergePatchType, patch, metav1.PatchOptions{})
	return first(err, want(one != nil && one.Labels["seen"] == "yes", "metadata is %+v", one))
}

func protobufDefinitions(ctx context.Context, t *target, config *rest.Config, _ kubernetes.Interface) error {
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return err
	}
	yes, least := true, 0.5
	schema := &apiextensionsv1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"spec": {
				Type: "object", Default: &apiextensionsv1.JSON{Raw: []byte(`{"size":1}`)},
				Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"size":  {Type: "number", Minimum: &least, Enum: []apiextensionsv1.JSON{{Raw: []byte("1")}, {Raw: []byte("2.5")}}},
					"list":  {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
					"names": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
					"any":   {Type: "object", XPreserveUnknownFields: &yes},
				},
				XValidations: apiextensionsv1.ValidationRules{{Rule: "self.size > 0.0", Message: "too small"}},
			},
		},
	}
	group := t.namespace + ".example.org"
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "forms." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "forms", Kind: "Form"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
	api := client.ApiextensionsV1().CustomResourceDefinitions()
	made, err := api.Create(ctx, definition, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a definition: %w", err)
	}
	defer api.Delete(ctx, made.Name, metav1.DeleteOptions{})
	if !apiequality.Semantic.DeepEqual(made.Spec.Versions, definition.Spec.Versions) {
		return fmt.Errorf("the definition came back as %+v", made.Spec.Versions)
	}
	err = eventually(ctx, "the definition", func() error {
		now, err := api.Get(ctx, made.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		served := slices.ContainsFunc(now.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
		return want(served, "its conditions are %+v", now.Status.Conditions)
	})
	if err != nil {
		return err
	}
	list, err := api.List(ctx, metav1.ListOptions{})
	return first(err, want(list != nil && len(list.Items) > 0, "no definition is listed"))
}

func protobufServices(ctx context.Context, _ *target, config *rest.Config, _ kubernetes.Interface) error {
	client, err := aggregator.NewForConfig(config)
	if err != nil {
		return err
	}
	list, err := client.ApiregistrationV1().APIServices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	own := slices.IndexFunc(list.Items, func(s apiregistrationv1.APIService) bool { return s.Name == "v1.apps" })
	return want(own >= 0 && list.Items[own].Spec.Group == "apps", "the APIServices are %+v", list.Items)
}
