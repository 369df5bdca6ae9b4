package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resource is a row of catalogue.jsonl.
type resource struct {
	Group        string        `json:"group"`
	Version      string        `json:"version"`
	Plural       string        `json:"plural"`
	Kind         string        `json:"kind"`
	Singular     string        `json:"singular"`
	Namespaced   bool          `json:"namespaced"`
	Style        string        `json:"style"`
	Verbs        []string      `json:"verbs"`
	ShortNames   []string      `json:"shortNames,omitempty"`
	Categories   []string      `json:"categories,omitempty"`
	Columns      [][4]any      `json:"columns,omitempty"`
	Subresources []subresource `json:"subresources,omitempty"`
}

type subresource struct {
	Name  string   `json:"name"`
	Verbs []string `json:"verbs"`
	// Group, version and kind of what it takes, where that is not the resource itself.
	Kind []string `json:"kind,omitempty"`
}

// notServed are kinds that the hub does not serve, so that who needs them is told so: policies that change objects in CEL are not
// carried out.
var notServed = []string{"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}

// resources are what the server serves and the hub as well, in the server's own order.
func (s *server) resources() ([]resource, error) {
	var groups metav1.APIGroupList
	if err := s.get("/apis", "application/json", &groups); err != nil {
		return nil, err
	}
	roots := []string{"/api/v1"}
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			roots = append(roots, "/apis/"+version.GroupVersion)
		}
	}
	var all []resource
	for _, root := range roots {
		found, err := s.resourcesOf(root)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (s *server) resourcesOf(root string) ([]resource, error) {
	var list metav1.APIResourceList
	if err := s.get(root, "application/json", &list); err != nil {
		return nil, err
	}
	group, version, found := strings.Cut(list.GroupVersion, "/")
	if !found {
		group, version = "", list.GroupVersion
	}
	var all []resource
	for _, one := range list.APIResources {
		plural, _, isSub := strings.Cut(one.Name, "/")
		if isSub || slices.Contains(notServed, plural) {
			continue
		}
		row := resource{Group: group, Version: version, Plural: plural, Kind: one.Kind, Singular: one.SingularName,
			Namespaced: one.Namespaced, Style: "go", Verbs: one.Verbs, ShortNames: one.ShortNames, Categories: one.Categories}
		row.Subresources = subresources(list.APIResources, row)
		if slices.Contains(one.Verbs, "list") {
			columns, err := s.columns(root + "/" + plural)
			if err != nil {
				return nil, err
			}
			row.Columns = columns
		}
		all = append(all, row)
	}
	return all, nil
}

func subresources(all []metav1.APIResource, of resource) []subresource {
	var found []subresource
	for _, one := range all {
		plural, name, isSub := strings.Cut(one.Name, "/")
		if !isSub || plural != of.Plural {
			continue
		}
		sub := subresource{Name: name, Verbs: one.Verbs}
		group, version := one.Group, one.Version
		if version == "" {
			group, version = of.Group, of.Version
		}
		if group != of.Group || version != of.Version || one.Kind != of.Kind {
			sub.Kind = []string{group, version, one.Kind}
		}
		found = append(found, sub)
	}
	return found
}

func (s *server) columns(path string) ([][4]any, error) {
	var table metav1.Table
	if err := s.get(path+"?limit=1", "application/json;as=Table;v=v1;g=meta.k8s.io", &table); err != nil {
		return nil, err
	}
	var columns [][4]any
	for _, column := range table.ColumnDefinitions {
		columns = append(columns, [4]any{column.Name, column.Type, column.Format, column.Priority})
	}
	return columns, nil
}

// catalogue are the rows of catalogue.jsonl: those of Kubernetes' own kinds, and the others as they were.
func catalogue(resources []resource, before []string) ([]string, error) {
	var rows []string
	for _, resource := range resources {
		row, err := compact(resource)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	for _, row := range before {
		var one struct{ Style string }
		if err := json.Unmarshal([]byte(row), &one); err != nil {
			return nil, fmt.Errorf("%w in the row %s", err, row)
		}
		if one.Style != "go" {
			rows = append(rows, row)
		}
	}
	return rows, nil
}
