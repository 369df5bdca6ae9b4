package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// wellKnown are types with a form of their own in JSON.
var wellKnown = map[string]string{
	"io.k8s.apimachinery.pkg.api.resource.Quantity":                 "Q",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time":                     "T",
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":                "U",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Duration":                 "D",
	"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1":                 "R",
	"io.k8s.apimachinery.pkg.runtime.RawExtension":                  "R",
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString":               "I",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "R",
}

// ofNoGroup are kinds that every group has: options, refusals, what discovery answers, and objects without their bodies.
var ofNoGroup = []string{"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "DeleteOptions", "PartialObjectMetadata", "Status"}

// messages are the rows of protobuf.tsv: every served kind that is not a list, and what it consists of.
func messages(components map[string]map[string]any, resources []resource, types map[string]reflect.Type) ([]string, error) {
	rows := map[string]string{}
	for _, name := range roots(components, resources) {
		of, known := types[name]
		if !known {
			return nil, fmt.Errorf("no Go type for %s", name)
		}
		if err := message(of, rows); err != nil {
			return nil, err
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		out = append(out, name+"\t"+rows[name])
	}
	return out, nil
}

// roots are the names of the kinds that bodies may be of.
func roots(components map[string]map[string]any, resources []resource) []string {
	var names []string
	for name, schema := range components {
		_, isKind := schema["x-kubernetes-group-version-kind"]
		if isKind && !strings.HasSuffix(name, "List") && !strings.Contains(name, ".meta.") {
			names = append(names, name)
		}
	}
	for _, name := range ofNoGroup {
		names = append(names, "io.k8s.apimachinery.pkg.apis.meta.v1."+name)
	}
	// What a connection may ask for stands in no schema: options of exec, of port-forward and their like.
	for _, resource := range resources {
		for _, sub := range resource.Subresources {
			if len(sub.Kind) == 3 && sub.Kind[0] == "" {
				names = append(names, "io.k8s.api.core."+sub.Kind[1]+"."+sub.Kind[2])
			}
		}
	}
	return names
}

// message adds a struct's row, and those of what it holds.
func message(of reflect.Type, rows map[string]string) error {
	name := short(of)
	if _, known := rows[name]; known {
		return nil
	}
	rows[name] = ""
	var fields []string
	for at := range of.NumField() {
		field := of.Field(at)
		wire := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(wire) < 3 {
			continue
		}
		text, err := fieldText(field, wire, rows)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", field.Name, name, err)
		}
		fields = append(fields, text)
	}
	rows[name] = strings.Join(fields, " ")
	return nil
}

func fieldText(field reflect.StructField, wire []string, rows map[string]string) (string, error) {
	json, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	inParent := ""
	if json == "" {
		json = wireName(field, wire)
		if field.Anonymous || strings.Contains(options, "inline") {
			inParent = "^"
		}
	}
	of, err := form(field.Type, rows)
	return wire[1] + ":" + json + ":" + inParent + of, err
}

// wireName is a field's name in the message, for those that JSON does not name.
func wireName(field reflect.StructField, wire []string) string {
	for _, part := range wire {
		if name, found := strings.CutPrefix(part, "name="); found && name == "jSONSchemas" {
			return "schemas"
		} else if found {
			return name
		}
	}
	return strings.ToLower(field.Name[:1]) + field.Name[1:]
}

// form is how a type is written, as hub/schema/data/README.md tells.
func form(of reflect.Type, rows map[string]string) (string, error) {
	switch of.Kind() {
	case reflect.Pointer:
		return form(of.Elem(), rows)
	case reflect.String:
		return "s", nil
	case reflect.Bool:
		return "b", nil
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return "i", nil
	case reflect.Float64:
		return "f", nil
	case reflect.Map:
		inner, err := form(of.Elem(), rows)
		return "{" + inner, err
	case reflect.Slice:
		return listForm(of, rows)
	case reflect.Struct:
		if known, found := wellKnown[component(of)]; found {
			return known, nil
		}
		sign := "m"
		if strings.HasPrefix(of.Name(), "JSONSchemaPropsOr") {
			sign = "o"
		}
		return sign + short(of), message(of, rows)
	default:
		return "", fmt.Errorf("%s has no form", of)
	}
}

func listForm(of reflect.Type, rows map[string]string) (string, error) {
	if of.Elem().Kind() == reflect.Uint8 {
		return "y", nil
	}
	// A list with a name and a way to write it is a message of its own.
	if _, isMessage := reflect.PointerTo(of).MethodByName("Marshal"); isMessage && of.Elem().Kind() == reflect.String {
		return "l", nil
	}
	inner, err := form(of.Elem(), rows)
	return "[" + inner, err
}

// short is a message's name: the last two parts of its package's path, and its own.
func short(of reflect.Type) string {
	parts := strings.Split(of.PkgPath(), "/")
	return strings.Join(append(parts[len(parts)-2:], of.Name()), ".")
}
