package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// lines of a data file; none where there is no such file yet.
func lines(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// put writes a data file where it changed, and says how much.
func put(path string, before, after []string) error {
	if slices.Equal(before, after) {
		fmt.Printf("%s: as it was\n", path)
		return nil
	}
	fmt.Printf("%s: %d rows come, %d go\n", path, missing(before, after), missing(after, before))
	return os.WriteFile(path, []byte(strings.Join(after, "\n")+"\n"), 0o644)
}

// missing counts the lines of b that a does not have.
func missing(a, b []string) int {
	known := map[string]bool{}
	for _, line := range a {
		known[line] = true
	}
	count := 0
	for _, line := range b {
		if !known[line] {
			count++
		}
	}
	return count
}

// compact is JSON in one line with sorted keys, nothing escaped for HTML.
func compact(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(out.String(), "\n"), err
}
