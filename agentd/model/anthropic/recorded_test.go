package anthropic_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"holon/agentd/model"
	"holon/agentd/model/anthropic"
	"holon/agentd/model/modeltest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// Every recorded stream gives the right text, calls, usage and end, however its
// bytes arrive, over TCP and over a socket.
func TestRecordedStreams(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "fixtures", "provider-streams",
		"anthropic-*.chunks.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("the recorded streams (../shared/fixtures/provider-streams) are not here")
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".chunks.txt")
		events := lines(t, file)
		t.Run(name, func(t *testing.T) {
			want := accumulate(t, events)
			for _, unix := range []bool{false, true} {
				sizes := make(chan []int, 1)
				tr := serve(t, unix, func(w http.ResponseWriter, r *http.Request) { replay(events, <-sizes...)(w, r) })
				rapid.Check(t, func(rt *rapid.T) {
					sizes <- rapid.SliceOfN(rapid.IntRange(1, 500), 1, 20).Draw(rt, "sizes")
					a, failed := modeltest.Ask(t.Context(), t, tr, model.Request{Model: "claude-sonnet-4-5"})
					if failed != nil {
						rt.Fatal(failed)
					}
					if a.Text != want.Text || a.Refusal != want.Refusal || !slices.Equal(a.Calls, want.Calls) ||
						a.Usage != want.Usage {
						rt.Fatalf("got %+v\nwant %+v", a, want)
					}
					a.Text, a.Refusal = digest(a.Text), digest(a.Refusal)
					for i, call := range a.Calls {
						a.Calls[i] = digest(call)
					}
					golden(t, name+".json", a)
				})
			}
		})
	}
}

// accumulate returns what the official client makes of an answer.
func accumulate(t *testing.T, events []string) (want modeltest.Answer) {
	t.Helper()
	var m sdk.Message
	for _, line := range events {
		var ev sdk.MessageStreamEventUnion
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		if ev.Type == "ping" {
			continue
		}
		if err := m.Accumulate(ev); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			want.Text += b.Text
		case "tool_use":
			want.Calls = append(want.Calls, anthropic.TagCallID(b.ID, m.ID)+" "+b.Name+" "+string(b.Input))
		}
	}
	if m.StopReason == sdk.StopReasonRefusal {
		want.Refusal = m.StopDetails.Explanation
	}
	want.Usage.InputTokens, want.Usage.OutputTokens = m.Usage.InputTokens, m.Usage.OutputTokens
	want.Usage.TotalTokens = m.Usage.InputTokens + m.Usage.OutputTokens
	return want
}

// digest stands for a long text in a golden file.
func digest(s string) string {
	if len(s) <= 40 {
		return s
	}
	return fmt.Sprintf("%d bytes, sha256 %x", len(s), sha256.Sum256([]byte(s)))
}

// lines returns the lines of a file that are not empty.
func lines(t *testing.T, file string) (list []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read from
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if line := strings.TrimSpace(in.Text()); line != "" {
			list = append(list, line)
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func golden(t *testing.T, name string, got any) {
	t.Helper()
	b, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(b, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(b)+"\n"); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
