package openai_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/agentd/model/modeltest"
	"holon/responses"
)

var update = flag.Bool("update", false, "rewrite golden files")

// Every recorded stream gives the right text, calls, usage and end, however its
// bytes arrive, over TCP and over a socket.
func TestRecordedStreams(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "shared", "fixtures", "provider-streams",
		"*.chunks.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("the recorded streams (../shared/fixtures/provider-streams) are not here")
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".chunks.txt")
		answers := recorded(t, file)
		if answers == nil {
			continue // of another provider or API
		}
		t.Run(name, func(t *testing.T) {
			for _, unix := range []bool{false, true} {
				var got []modeltest.Answer
				for _, events := range answers {
					tr := serve(t, unix, replay(events, true))
					a, failed := ask(t.Context(), t, tr, model.Request{})
					if failed == nil {
						checkAgainst(t, events[len(events)-1], a)
					}
					a.Text, a.Reasoning = digest(a.Text), digest(a.Reasoning)
					for i := range a.Summary {
						a.Summary[i] = digest(a.Summary[i])
					}
					for i := range a.Opaque {
						a.Opaque[i] = digest(a.Opaque[i])
					}
					got = append(got, a)
				}
				golden(t, name+".json", got)
			}
		})
	}
}

// recorded returns the answers in a file, each as its events; nil when they are
// not of the Responses API.
func recorded(t *testing.T, file string) (answers [][]string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read from
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		if responses.EventType([]byte(line)) == responses.EventCreated {
			answers = append(answers, nil)
		}
		if len(answers) == 0 {
			return nil
		}
		answers[len(answers)-1] = append(answers[len(answers)-1], line)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return answers
}

// checkAgainst compares an answer with what the terminal event says as a whole,
// which the transport does not look at when there were deltas.
func checkAgainst(t *testing.T, terminal string, got modeltest.Answer) {
	t.Helper()
	var ev struct {
		Response struct {
			Output []struct {
				Type, Arguments, Name string
				CallID                string `json:"call_id"`
				Content               []struct{ Type, Text string }
			}
			Usage responses.Usage
		}
	}
	if err := json.Unmarshal([]byte(terminal), &ev); err != nil {
		t.Fatal(err)
	}
	var want modeltest.Answer
	for _, item := range ev.Response.Output {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				want.Text += part.Text
			}
		case "reasoning":
			for _, part := range item.Content {
				want.Reasoning += part.Text
			}
		case "function_call":
			want.Calls = append(want.Calls, item.CallID+" "+item.Name+" "+item.Arguments)
		case "custom_tool_call":
			want.Calls = got.Calls // their input has a key of its own; the golden file has it
		}
	}
	if got.Text != want.Text || got.Reasoning != want.Reasoning || !cmp.Equal(got.Calls, want.Calls) ||
		got.Usage != ev.Response.Usage {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// digest stands for a long text in a golden file.
func digest(s string) string {
	if len(s) <= 40 {
		return s
	}
	return fmt.Sprintf("%d bytes, sha256 %x", len(s), sha256.Sum256([]byte(s)))
}

func golden(t *testing.T, name string, got any) {
	t.Helper()
	b, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
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
