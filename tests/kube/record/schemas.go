package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

const reference = "#/components/schemas/"

// components are the schemas of everything that the server publishes, by name.
func (s *server) components() (map[string]map[string]any, error) {
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := s.get("/openapi/v3", "", &index); err != nil {
		return nil, err
	}
	all := map[string]map[string]any{}
	for _, path := range index.Paths {
		var document struct {
			Components struct{ Schemas map[string]map[string]any }
		}
		if err := s.get(path.ServerRelativeURL, "application/json", &document); err != nil {
			return nil, err
		}
		maps.Copy(all, document.Components.Schemas)
	}
	return all, nil
}

// schemas are the rows of schemas.tsv: those of Kubernetes' own types, and the others as they were.
func schemas(components map[string]map[string]any, types map[string]reflect.Type, before []string) ([]string, error) {
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(components)) {
		schema := plain(components[name]).(map[string]any)
		if properties, ok := schema["properties"].(map[string]any); ok {
			of, known := types[name]
			if !known {
				return nil, fmt.Errorf("no Go type for %s", name)
			}
			fields := fieldsOf(of)
			for property, of := range properties {
				field, known := fields[property]
				if !known {
					return nil, fmt.Errorf("no Go field for %s of %s", property, name)
				}
				of.(map[string]any)["x-go"] = held(field)
			}
		}
		text, err := compact(schema)
		if err != nil {
			return nil, err
		}
		rows = append(rows, name+"\t"+text)
	}
	first := slices.IndexFunc(before, func(row string) bool { return strings.HasPrefix(row, "io.k8s.") })
	kept := slices.DeleteFunc(slices.Clone(before), func(row string) bool { return strings.HasPrefix(row, "io.k8s.") })
	return slices.Concat(kept[:first], rows, kept[first:]), nil
}

// plain is a schema without what is told elsewhere: descriptions (nowhere) and enums (enums.tsv). References are bare names.
func plain(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range value {
			if properties, ok := inner.(map[string]any); ok && key == "properties" {
				named := map[string]any{}
				for name, property := range properties {
					named[name] = plain(property)
				}
				out[key] = named
			} else if key != "description" && key != "enum" {
				out[key] = plain(inner)
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for at, inner := range value {
			out[at] = plain(inner)
		}
		return out
	case string:
		return strings.TrimPrefix(value, reference)
	default:
		return value
	}
}

// enums are the rows of enums.tsv, after its comment.
func enums(components map[string]map[string]any, before []string) []string {
	var rows []string
	for name, schema := range components {
		properties, _ := schema["properties"].(map[string]any)
		for property, of := range properties {
			of := of.(map[string]any)
			short := strings.TrimPrefix(name, "io.k8s.")
			if values, ok := of["enum"].([]any); ok {
				rows = append(rows, short+"\t"+property+"\t"+joined(values))
			}
			items, _ := of["items"].(map[string]any)
			if values, ok := items["enum"].([]any); ok {
				rows = append(rows, short+"\t"+property+"[]\t"+joined(values))
			}
		}
	}
	slices.Sort(rows)
	comment := slices.DeleteFunc(slices.Clone(before), func(row string) bool { return !strings.HasPrefix(row, "#") })
	return append(comment, rows...)
}

func joined(values []any) string {
	var texts []string
	for _, value := range values {
		texts = append(texts, fmt.Sprint(value))
	}
	return strings.Join(texts, ",")
}
