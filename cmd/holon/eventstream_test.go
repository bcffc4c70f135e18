package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/state"
)

// Events are printed as they happen: the command of the run ends only when the test has read that it began. The last
// one holds the answer and the manifest, and secrets are hidden in all of them.
func TestStreamOfEvents(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: \"until [ -e $GATE ]; do "+
		"sleep 0.05; done; echo $MY_TOKEN\"}}]\n  - text: The answer.\n")
	gate := filepath.Join(dir, "gate")
	cmd := command("run", "--engine", "local", "--workspace", filepath.Join(dir, "work"), "--output-format", "stream-json",
		"--env", "GATE="+gate, "--env", "MY_TOKEN=sentinel-0123456789", "--model",
		"scripted/"+filepath.Join(dir, "scenario.yaml"), "--quiet", "x")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var types []string
	var last struct {
		Type, Status string
		Payload      struct {
			FinalText string          `json:"final_text"`
			Manifest  json.RawMessage `json:"manifest"`
		}
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "sentinel") {
			t.Errorf("a line holds a secret: %s", lines.Text())
		}
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		if types = append(types, last.Type); last.Type == "tool.started" {
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"turn.started", "model.requested", "tool.result", "turn.completed", messageCompleted} {
		if !slices.Contains(types, want) {
			t.Errorf("there is no event %s in %q", want, types)
		}
	}
	if types[1] != "turn.submitted" {
		t.Errorf("the second event is %s, want turn.submitted", types[1])
	}
	if said, over := slices.Index(types, messageCompleted), len(types)-1; said < 0 || said > over ||
		types[said+1] != "model.completed" {
		t.Errorf("the message does not stand before the end of its round: %q", types)
	}
	m, err := state.DecodeManifest(last.Payload.Manifest)
	if err != nil || last.Type != runEnded || last.Payload.FinalText != "The answer." || m.ExitCode != 0 {
		t.Errorf("the last event is %+v (%v), want %s with the answer and the manifest", last, err, runEnded)
	}
}
