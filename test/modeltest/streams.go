package modeltest

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"holon/test/expect"

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
	expect.NoError(t, err)
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
	expect.NoError(t, err)
	return string(data)
}

// Cuts returns the sizes of pieces in which a stream arrives, for [Write]: all of it
// at once, two bytes at a time, and random sizes. HOLON_TEST_SEEDS is the number of
// the random ones.
func Cuts(t testing.TB) [][]int {
	t.Helper()
	seeds := 6
	if text := os.Getenv("HOLON_TEST_SEEDS"); text != "" {
		var err error
		if seeds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	cuts := [][]int{nil, {2}}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		sizes := make([]int, 1+random.IntN(20))
		for i := range sizes {
			sizes[i] = 1 + random.IntN(500)
		}
		cuts = append(cuts, sizes)
	}
	return cuts
}

// Golden compares got, in JSON, with a file in testdata.
func Golden(t testing.TB, name string, got any) {
	t.Helper()
	data, err := json.MarshalIndent(got, "", "  ")
	expect.NoError(t, err)
	path := filepath.Join("testdata", name)
	if *update {
		expect.NoError(t, os.MkdirAll("testdata", 0o755))
		expect.NoError(t, os.WriteFile(path, append(data, '\n'), 0o600))
	}
	want, err := os.ReadFile(path)
	expect.NoError(t, err)
	if diff := cmp.Diff(string(want), string(data)+"\n"); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
