package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/state"
	"holon/test/expect"
)

// Events are printed as they happen: the command of the run ends only when the test has read that it began. The last
// one holds the answer and the manifest, and secrets are hidden in all of them.
func TestStreamOfEvents(t *testing.T) {
	t.Parallel()
	const secret = "sentinel-0123456789"
	dir, command := localRuns(t, "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: \"until [ -e $GATE ]; do "+
		"sleep 0.05; done; echo $MY_TOKEN\"}}]\n  - text: The answer.\n")
	gate := filepath.Join(dir, "gate")
	types, last := streamOf(t, command("run", "--output-format", "stream-json", "--env", "GATE="+gate, "--env",
		"MY_TOKEN="+secret, "--quiet", "x"), secret, gate)
	for _, want := range []string{"turn.started", "model.requested", "tool.result", "turn.completed", messageCompleted} {
		if !slices.Contains(types, want) {
			t.Errorf("there is no event %s in %q", want, types)
		}
	}
	if types[1] != "turn.submitted" {
		t.Errorf("the second event is %s, want turn.submitted", types[1])
	}
	if at, over := slices.Index(types, messageCompleted), len(types)-1; at < 0 || at > over ||
		types[at+1] != "model.completed" {
		t.Errorf("the message does not stand before the end of its round: %q", types)
	}
	m, err := state.DecodeManifest(last.Payload.Manifest)
	if err != nil || last.Type != runEnded || last.Payload.FinalText != "The answer." || m.ExitCode != 0 {
		t.Errorf("the last event is %+v (%v), want %s with the answer and the manifest", last, err, runEnded)
	}
}

// The events of an agent are printed as they happen: its command ends only when the test has read that it began. The
// last line says how it ended, no line is of another message, and secrets are hidden in all of them.
func TestStreamOfAgent(t *testing.T) {
	t.Parallel()
	const secret = "sentinel-0123456789"
	dir, command := localRuns(t, `rounds:
  - cases:
      - {when: {user: {contains: another}}, text: Something else.}
      - calls: [{tool: ExecCommand, arguments: {cmd: "until [ -e ../../../gate ]; do sleep 0.05; done; echo `+
		secret+`", yield_time_ms: 60000}}]
  - text: The answer.
`)
	with := func(args ...string) *exec.Cmd {
		cmd := command(args...)
		cmd.Env = append(cmd.Env, "MY_TOKEN="+secret)
		return cmd
	}
	startDaemon(t, dir, with)
	succeed(t, with("prompt", "--follow", "another"))
	prompt := []string{"prompt", "--follow", "--key", "k", "--output-format", "stream-json", "--quiet", "x"}
	for _, way := range [][]string{prompt, {"run", "--agent", "main", "--output-format", "stream-json", "--quiet", "x"}} {
		types, last := streamOf(t, with(way...), secret, filepath.Join(dir, "gate"))
		for _, want := range []string{"queue.changed", "turn.started", "tool.started", "tool.result", "turn.completed"} {
			if !slices.Contains(types, want) {
				t.Errorf("%v: there is no event %s in %q", way, want, types)
			}
		}
		if n := strings.Count(strings.Join(types, " "), "turn.started"); n != 1 || types[len(types)-1] != runEnded {
			t.Errorf("%v: %d turns in %q, want one and %s last", way, n, types, runEnded)
		}
		if last.Status != "completed" || last.Payload.FinalText != "The answer." {
			t.Errorf("%v: the last event is %+v", way, last)
		}
	}
	again, last := streamOf(t, with(prompt...), secret, filepath.Join(dir, "gate"))
	if !slices.Contains(again, "turn.completed") || last.Payload.FinalText != "The answer." {
		t.Errorf("of a message that has ended: %q and %+v, want its events too", again, last)
	}
}

// streamOf is the classes of the events that a command prints, and the last event. It opens the gate of the scenario's
// command when that has begun.
func streamOf(t *testing.T, cmd *exec.Cmd, secret, gate string) (types []string, last struct {
	Type, Status string
	Payload      struct {
		FinalText string          `json:"final_text"`
		Manifest  json.RawMessage `json:"manifest"`
	}
}) {
	t.Helper()
	_ = os.Remove(gate) // there is none at first
	out, err := cmd.StdoutPipe()
	expect.NoError(t, err)
	expect.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), secret) {
			t.Errorf("a line holds a secret: %s", lines.Text())
		}
		var head struct{ Type string }
		if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		types = append(types, head.Type)
		switch head.Type {
		case "tool.started":
			expect.NoError(t, os.WriteFile(gate, nil, 0o600))
		case runEnded:
			expect.NoError(t, json.Unmarshal(lines.Bytes(), &last))
		}
	}
	expect.NoError(t, cmd.Wait())
	return types, last
}
