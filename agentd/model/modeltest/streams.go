package modeltest

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// streamsDir holds the streams, from the directory of a transport's tests. Its
// README says what they are.
const streamsDir = "../../../test/streams"

// Stream is an answer of a provider, written by hand.
type Stream struct {
	Name   string
	Events []string
}

// Streams returns the streams of an API: "responses", "messages" or "chat".
func Streams(t testing.TB, api string) (list []Stream) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(streamsDir, api, "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 8 {
		t.Fatalf("%d streams of %s, want one for each path: %q", len(files), api, files)
	}
	for _, file := range files {
		name := filepath.Base(file)
		list = append(list, Stream{strings.TrimSuffix(name, ".ndjson"),
			strings.Split(strings.TrimSpace(File(t, api+"/"+name)), "\n")})
	}
	return list
}

// File returns the text of one of the files, such as "chat/text.json".
func File(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(streamsDir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Golden compares got, in JSON, with a file in testdata.
func Golden(t testing.TB, name string, got any) {
	t.Helper()
	data, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(data)+"\n"); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
