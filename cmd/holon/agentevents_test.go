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
)

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
		cmd.Env = append(cmd.Env, "HOLON_ENGINE=local", "MY_TOKEN="+secret,
			"HOLON_MODEL=scripted/"+filepath.Join(dir, "scenario.yaml"))
		return cmd
	}
	if out, err := with("daemon", "start").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	defer func() {
		if out, err := with("daemon", "stop").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}()
	if out, err := with("prompt", "--follow", "another").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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
		FinalText string `json:"final_text"`
	}
}) {
	t.Helper()
	_ = os.Remove(gate) // there is none at first
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		case runEnded:
			if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return types, last
}
