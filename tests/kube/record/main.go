// Records what the hub holds as facts of a kube-apiserver: schemas, served resources with their columns, enums, protobuf's field
// numbers, and the version.
//
// In: the folder of the built programs (etcd, kube-apiserver), and the hub's folder with today's data. Out: the data files, written
// anew where they differ; rows that are not Kubernetes' own stay as they are. Schemas, resources and enums are asked of the running
// server; how Go holds a field, and its number in protobuf, are read from the Go types of the same version.
//
//	go run ./record BIN HUB        (tests/kube/move does it)
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: record BIN HUB (the folder of etcd and kube-apiserver, and the hub's)")
		os.Exit(2)
	}
	if err := record(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func record(bin, hub string) error {
	server, err := startServer(bin)
	if err != nil {
		return err
	}
	defer server.stop()
	version, err := server.version()
	if err != nil {
		return err
	}
	components, err := server.components()
	if err != nil {
		return err
	}
	resources, err := server.resources()
	if err != nil {
		return err
	}
	types := goTypes()
	files := []struct {
		path  string
		write func(before []string) ([]string, error)
	}{
		{"schema/data/kubernetes-version", func([]string) ([]string, error) { return []string{version}, nil }},
		{"schema/data/schemas.tsv", func(before []string) ([]string, error) { return schemas(components, types, before) }},
		{"schema/data/protobuf.tsv", func([]string) ([]string, error) { return messages(components, resources, types) }},
		{"kinds/data/catalogue.jsonl", func(before []string) ([]string, error) { return catalogue(resources, before) }},
		{"apiserver/data/enums.tsv", func(before []string) ([]string, error) { return enums(components, before), nil }},
	}
	for _, file := range files {
		path := filepath.Join(hub, file.path)
		before := lines(path)
		after, err := file.write(before)
		if err != nil {
			return fmt.Errorf("%s: %w", file.path, err)
		}
		if err := put(path, before, after); err != nil {
			return err
		}
	}
	return nil
}
