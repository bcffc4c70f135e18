package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holon/state"
	"holon/test/expect"
)

// The same fact has the same key and value in manifest.json, `holon show`, `holon run` and `holon ps`, and the table of
// keys in the documentation is what they print.
func TestKeysAgree(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: \"echo x > a\"}}]\n"+
		"  - text: Done.\n")
	ran := object(t, command("run", "--quiet", "--json", "--name", "first", "--output", filepath.Join(dir, "out"),
		"say <x>"))
	shown := object(t, command("show", "--json", "first"))
	var manifest map[string]any
	data, err := os.ReadFile(filepath.Join(dir, "out", state.ManifestFile))
	if err != nil || json.Unmarshal(data, &manifest) != nil {
		t.Fatal(err)
	}
	listed := object(t, command("ps", "--all", "--json"))

	columns := documentedKeys(t)
	for i, have := range []map[string]any{shown, ran, listed} {
		if want, got := columns[i], slices.Sorted(maps.Keys(have)); !slices.Equal(want, got) {
			t.Errorf("column %d of the documentation has the keys\n%q, the program\n%q", i+1, want, got)
		}
	}
	agree(t, "show --json", manifest, shown)
	agree(t, "run --json", manifest, ran)
	agree(t, "ps --json", manifest, listed)
	if !reflect.DeepEqual(ran["token_usage"], manifest["usage"]) || manifest["usage"] == nil {
		t.Errorf("token_usage = %v, want usage = %v", ran["token_usage"], manifest["usage"])
	}
}

// agree compares what two objects both have; one that is a part of the other may lack keys.
func agree(t *testing.T, where string, manifest, other map[string]any) {
	t.Helper()
	for key, value := range other {
		want, both := manifest[key]
		part, isObject := value.(map[string]any)
		if whole, ok := want.(map[string]any); ok && isObject {
			agree(t, where+" "+key, whole, part)
			if extra := difference(part, whole); len(extra) > 0 {
				t.Errorf("%s: %s has %q, which the manifest has not", where, key, extra)
			}
		} else if both && !reflect.DeepEqual(value, want) {
			t.Errorf("%s: %s = %v, the manifest has %v", where, key, value, want)
		}
	}
}

func difference(a, b map[string]any) (only []string) {
	for key := range a {
		if _, ok := b[key]; !ok {
			only = append(only, key)
		}
	}
	return only
}

// object runs a command that prints one object, or a list of one.
func object(t *testing.T, cmd *exec.Cmd) (one map[string]any) {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	out = bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(out), []byte("[")), []byte("]"))
	if err := json.Unmarshal(out, &one); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return one
}

var (
	keyName  = regexp.MustCompile("`([a-z_]+)`")
	explains = regexp.MustCompile(`\([^)]*\)`)
)

// documentedKeys are the keys of each column of the table below "## Keys", sorted.
func documentedKeys(t *testing.T) (columns [3][]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/run.md")
	expect.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n## Keys\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != len(columns)+3 {
			continue
		}
		for _, key := range keyName.FindAllStringSubmatch(explains.ReplaceAllString(cells[1], ""), -1) {
			for i := range columns {
				if strings.TrimSpace(cells[i+2]) != "" {
					columns[i] = append(columns[i], key[1])
				}
			}
		}
	}
	for i := range columns {
		slices.Sort(columns[i])
	}
	return columns
}
