package state_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/responses"
	"holon/responses/turns"
	"holon/state"
)

var update = flag.Bool("update", false, "write the golden files anew")

func manifest() *state.Manifest {
	at := turns.At(time.Date(2026, 11, 21, 10, 0, 0, 123e6, time.UTC))
	return &state.Manifest{
		Schema: state.ManifestSchema, RunID: "run_01kahx", Name: "fix <it>", Task: "fix it all",
		Status: state.StatusCompleted, Outcome: state.OutcomeSuccess,
		StartedAt: at, CompletedAt: at, Model: "scripted/demo", HolonVersion: "1.2.3", Image: "holon/base:latest",
		Timings:   state.Timings{PrepareMS: 1, StartMS: 2, TurnMS: 3, CollectMS: 4, StopMS: 5, TotalMS: 15},
		Usage:     new(turns.UsageOf(responses.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15})),
		Engine:    state.Engine{Name: "docker", Version: "20.10", ContainerID: "abc"},
		Toolchain: []state.Tool{{Program: "go", File: "sub/go.mod", Present: true, Below: "2"}},
		Limits: state.Limits{TimeoutMS: 1000, MaxRounds: 200, MemoryBytes: 1 << 30, CPUs: 1.5, Pids: 512, MaxTokens: 9,
			MaxRequests: 8, MaxCostMicros: 7},
		ModelUsage: &state.Account{Usage: state.Usage{Requests: 1, Estimated: 2, Unpriced: 3,
			Tokens: state.Tokens{Input: 4, CacheRead: 5, CacheWrite: 6, Output: 7, Reasoning: 8}, Total: 11, Cost: 9},
			Budget: state.Budget{MaxRequests: 8, MaxTokens: 9, MaxCost: 7}, Exhausted: "max_tokens",
			Models: map[string]state.Usage{}, Refused: []string{"a <tool>"}},
		Isolation: &state.Isolation{Network: state.Axis{Level: state.HardEnforced, Value: "none"}},
		Egress: &state.Egress{AllowHosts: []string{"*.example.org", "example.com"},
			PrivateHosts: []string{"m.example:81=10.0.0.1"}, Allowed: 2, Denied: 1},
		Services: []state.Service{{Name: "db", Image: "pg:16", ImageID: "sha256:1", Env: []string{"A"}, Ports: []int{5432},
			ContainerID: "c", Isolation: state.Isolation{Network: state.Axis{Level: state.RuntimeShaped, Value: "container:1"}}}},
		Workspace: &state.Workspace{
			Source: state.Source{Kind: "git", Path: "/a<b>", Prefix: "p", BaseCommit: "c", BaseTree: "t",
				Branch:       "main",
				ObjectFormat: "sha1", Dirty: true, Shallow: true,
				Submodules: []state.Submodule{{Path: "s", Commit: "c", Populated: true, BaseTree: "b"}},
				Warnings:   []state.Warning{{Code: "w", Path: "p", Message: "m"}}},
			Changes: &state.Diff{Patch: "diff.patch", PatchBytes: 3, BaseTree: "t", ResultTree: "r",
				Files: []state.FileChange{{Path: "x&y", From: "z", Status: "renamed", Mode: "100644", OldMode: "100755",
					Added: 1, Deleted: 2, Binary: true}},
				History: &state.History{Commit: "c", Commits: 2}}},
		Provider: &turns.ProviderTimeline{Attempts: []turns.ProviderAttempt{{ModelRef: "scripted/b", Attempt: 1}},
			RequestedModelRef: "scripted/demo", WinningModelRef: "scripted/b"},
		Turn: &state.TurnRef{TurnID: "turn_1", ResponseID: "resp_1", SessionID: "sess_1"},
		Checked: &state.Check{Command: "make test", RunID: "run_1-check", Status: state.CheckTimeout, ExitCode: new(1),
			DurationMS: 7, Output: "o", Restored: []string{"a_test.go"}, Changed: []string{"go.mod"},
			Error: &state.Failure{Code: "c"}},
		Attempts: []state.Attempt{{Number: 2, RunID: "run_1-2", Model: "m/n", Status: state.StatusCompleted,
			Outcome: state.OutcomeSuccess, Files: 1, Lines: 2, Result: "r", Took: 3, Rank: 1}},
		Winner: 2, Judge: &state.Judge{RunID: "run_1-judge", Model: "m/n", Choice: 2},
		Artifacts: []state.Artifact{{Path: "diff.patch", Bytes: 3, SHA256: strings.Repeat("0a", 32)}},
		Notes:     []state.Note{{At: at, Kind: "todo", Text: "tidy up"}},
		Warnings:  []string{"a warning"},
		Error:     &state.Failure{Code: "c", Message: "m", Param: "p", Hint: "h"},
	}
}

// The keys are a contract: others read manifest.json.
func TestManifestWire(t *testing.T) {
	got, err := manifest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/manifest.golden.json"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("manifest.json (-want +got):\n%s", diff)
	}
	back, err := state.DecodeManifest(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(manifest(), back); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

// A run that never got far has every key too.
func TestManifestEmpty(t *testing.T) {
	m := &state.Manifest{Schema: state.ManifestSchema, RunID: "run_1", Status: state.StatusFailed,
		Outcome: state.OutcomeRefused, ExitCode: 4,
		StartedAt: turns.At(time.Now()), CompletedAt: turns.At(time.Now())}
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"usage": "null", "model_usage": "null", "isolation": "null",
		"egress": "null", "workspace": "null", "turn": "null", "error": "null", "artifacts": "[]", "notes": "[]",
		"toolchain": "[]", "services": "[]", "warnings": "[]", "check": "null", "attempts": "[]", "winner": "0", "judge": "null",
		"provider_attempt_timeline": "null"} {
		if string(keys[key]) != want {
			t.Errorf("%s = %s, want %s", key, keys[key], want)
		}
	}
	if len(keys) != 33 {
		t.Errorf("%d keys", len(keys))
	}
	if back, err := state.DecodeManifest(text); err != nil || back.ModelUsage != nil || back.Isolation != nil ||
		back.Workspace != nil {
		t.Errorf("read back: %+v (%v)", back, err)
	}
}

func TestManifestCheck(t *testing.T) {
	digest := strings.Repeat("0", 64)
	for _, tc := range []struct {
		name   string
		change func(m *state.Manifest)
		param  string
	}{
		{"schema", func(m *state.Manifest) { m.Schema = "holon.run/2" }, "schema"},
		{"run id", func(m *state.Manifest) { m.RunID = "../x" }, "run_id"},
		{"running is never stored", func(m *state.Manifest) { m.Status = state.StatusRunning }, "status"},
		{"no status", func(m *state.Manifest) { m.Status = "" }, "status"},
		{"outcome", func(m *state.Manifest) { m.Outcome = "fine" }, "outcome"},
		{"exit code of another outcome", func(m *state.Manifest) { m.ExitCode = 1 }, "outcome"},
		{"no end", func(m *state.Manifest) { m.CompletedAt = turns.Time{} }, "completed_at"},
		{"absolute artifact", func(m *state.Manifest) {
			m.Artifacts = []state.Artifact{{Path: "/etc/passwd", SHA256: digest}}
		}, "artifacts[0].path"},
		{"artifact outside", func(m *state.Manifest) {
			m.Artifacts = []state.Artifact{{Path: "a/../../b", SHA256: digest}}
		}, "artifacts[0].path"},
		{"artifact of the directory", func(m *state.Manifest) {
			m.Artifacts = []state.Artifact{{Path: ".", SHA256: digest}}
		}, "artifacts[0].path"},
		{"negative size", func(m *state.Manifest) {
			m.Artifacts = []state.Artifact{{Path: "a", Bytes: -1, SHA256: digest}}
		}, "artifacts[0].bytes"},
		{"digest", func(m *state.Manifest) {
			m.Artifacts = []state.Artifact{{Path: "a", SHA256: digest},
				{Path: "b", SHA256: strings.ToUpper("ab" + digest[2:])}}
		}, "artifacts[1].sha256"},
		{"too many artifacts", func(m *state.Manifest) {
			m.Artifacts = make([]state.Artifact, state.MaxArtifacts+1)
		}, "artifacts"},
		{"too many warnings", func(m *state.Manifest) { m.Warnings = make([]string, 1001) }, "warnings"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := manifest()
			tc.change(m)
			_, err := m.Encode()
			e, ok := errors.AsType[*state.Error](err)
			if !ok || e.Code != state.CodeManifestInvalid || e.Param != tc.param {
				t.Fatalf("the error is %v", err)
			}
		})
	}
}

// A manifest that can be read is valid, and is the same when it is written and
// read again.
func FuzzDecodeManifest(f *testing.F) {
	valid, err := manifest().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add([]byte(`{"schema":"holon.run/1"}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`{"schema":"holon.run/1","run_id":"run_1","status":"failed","outcome":"failure","exit_code":1,` +
		`"started_at":"2026-11-21T10:00:00Z","completed_at":"2026-11-21T10:00:00Z","artifacts":[{"path":"../x"}],` +
		`"isolation":null,"new_key":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := state.DecodeManifest(data)
		if err != nil {
			if !state.IsCode(err, state.CodeManifestInvalid) {
				t.Fatalf("error = %v", err)
			}
			return
		}
		once, err := m.Encode()
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		again, err := state.DecodeManifest(once)
		if err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
		if twice, err := again.Encode(); err != nil || string(twice) != string(once) {
			t.Fatalf("%s, %v; want %s", twice, err, once)
		}
	})
}
