package main

import (
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// goTypes are the types of Kubernetes' API by their name in OpenAPI: io.k8s.api.apps.v1.Deployment.
func goTypes() map[string]reflect.Type {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme} {
		if err := add(all); err != nil {
			panic(err)
		}
	}
	types := map[string]reflect.Type{}
	for _, found := range all.AllKnownTypes() {
		walk(found, types)
	}
	for _, more := range []any{version.Info{}, metav1.APIGroupList{}, metav1.APIResourceList{}, metav1.APIVersions{},
		metav1.PartialObjectMetadata{}, metav1.Status{}} {
		walk(reflect.TypeOf(more), types)
	}
	return types
}

func walk(at reflect.Type, types map[string]reflect.Type) {
	switch at.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		walk(at.Elem(), types)
	case reflect.Struct:
		name := component(at)
		if _, known := types[name]; known || !strings.HasPrefix(at.PkgPath(), "k8s.io/") {
			return
		}
		types[name] = at
		for field := range at.NumField() {
			walk(at.Field(field).Type, types)
		}
	}
}

// component is a type's name in OpenAPI.
func component(of reflect.Type) string {
	path := strings.TrimPrefix(of.PkgPath(), "k8s.io/")
	return "io.k8s." + strings.ReplaceAll(path, "/", ".") + "." + of.Name()
}

// goField is a field, and the embedded structs that lead to it.
type goField struct {
	reflect.StructField
	within []string
}

// fieldsOf are a struct's fields by their name in JSON, with those of structs that JSON shows in it.
func fieldsOf(of reflect.Type) map[string]goField {
	fields := map[string]goField{}
	for at := range of.NumField() {
		field := of.Field(at)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) && field.Type.Kind() == reflect.Struct {
			for name, inner := range fieldsOf(field.Type) {
				inner.within = append([]string{field.Name}, inner.within...)
				fields[name] = inner
			}
		} else if name != "" && name != "-" {
			fields[name] = goField{StructField: field}
		}
	}
	return fields
}

// held says how Go holds a field: kind, flags and type, as hub/schema/data/README.md tells.
func held(field goField) string {
	of, flags := field.Type, ""
	_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if strings.Contains(options, "omitempty") {
		flags += "e"
	}
	if strings.Contains(options, "omitzero") {
		flags += "z"
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
		flags += "p"
	}
	within := ""
	if len(field.within) > 0 {
		within = strings.Join(field.within, ".") + "/"
	}
	return kind(of) + flags + ":" + within + of.String()
}

func kind(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Struct:
		return "s"
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "y"
		}
		return "l"
	case reflect.Map:
		return "m"
	case reflect.String:
		return "t"
	case reflect.Bool:
		return "b"
	case reflect.Interface:
		return "i"
	default:
		return "n"
	}
}
