package security

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holon/responses/turns"
	"holon/runner/oneshot"
	"holon/runner/turnfiles"
	"holon/test/expect"
)

// forgery tries what would change agentd's record of the turn or of others, one line an attempt: its name and why it
// failed.
const forgery = `
try() { name=$1; shift; if out=$("$@" 2>&1); then echo "$name	OK $out"; else echo "$name	${out##*: }"; fi; }
sh=/bin/sh; turn=$HOLON_OUTPUT_DIR/..
try "list state" ls /holon/state
try "read a response" $sh -c 'cat /holon/state/responses/*'
try "make a response" $sh -c 'echo "{}" > /holon/state/responses/resp_1.ndjson'
try "make a task" $sh -c 'mkdir -p /holon/state/tasks/task_1'
try "make a turn" mkdir /holon/output/turns/turn_1
try "move turns" mv /holon/output/turns /holon/output/moved
try "rewrite the record" $sh -c 'echo "{}" > $HOLON_OUTPUT_DIR/../turn.json'
try "rewrite the events" $sh -c 'echo "{}" > $HOLON_OUTPUT_DIR/../events.ndjson'
try "add a fact" $sh -c 'echo "{}" >> $HOLON_OUTPUT_DIR/../runtime.ndjson'
try "remove the events" rm $turn/events.ndjson
try "replace the turn" mv $turn/artifacts $turn/../moved
try "plant a patch" $sh -c 'echo x > $HOLON_OUTPUT_DIR/../diff.patch'
try "agentd's environment" cat /proc/1/environ
try "agentd's memory" head -c 1 /proc/1/mem
try "agentd's descriptors" ls /proc/1/fd
`

// signals are those by which a developer restarts a server, and worse.
const signals = `echo work > work.txt
kill 1; kill -QUIT 1; kill -KILL 1; kill -STOP 1
pkill -f [s]erve; pkill agentd; pkill -9 -f [h]olon
echo build > build.txt`

// What is agentd's can be neither read nor written by a command, and agentd goes on whatever a command signals.
func TestSeparation(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.attack(nil, forgery, signals, "kill -9 -1", "(setsid sh -c 'kill -9 -1' &); echo after").completed(t)
	got := r.outcomes(t)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if why := got[name]; !slices.Contains([]string{"Permission denied", "Operation not permitted"}, why) {
			t.Errorf("%s: %s, want a refusal", name, why)
		}
	}
	expect.Equal(t, "attempts", len(got), 15)
	patch := string(must(os.ReadFile(filepath.Join(r.dir, turns.PatchFile)))(t))
	for _, file := range []string{"work.txt", "build.txt"} {
		if !strings.Contains(patch, "+++ b/"+file) {
			t.Errorf("the change has no %s:\n%s", file, patch)
		}
	}
	end := must(turnfiles.ReadEnd(r.dir))(t)
	expect.Equal(t, "the answer", end.OutputText(), "Done.")
}

const stopping = `
rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: "trap '' TERM; while :; do kill -STOP -1; done", yield_time_ms: 300}}]
  - calls: [{tool: ExecCommand, arguments: {cmd: "echo stopped", yield_time_ms: 500}}]
  - text: Done.
`

// A command that stops all that it may signal stops neither agentd nor what agentd is about to start.
func TestStoppingEverything(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.attack(func(o *oneshot.Run) {
		o.Session.Scenario = filepath.Join(filepath.Dir(l.home), "stopping.yaml")
		expect.NoError(t, os.WriteFile(o.Session.Scenario, []byte(stopping), 0o600))
	}).completed(t)
	expect.Equal(t, "the answer", must(turnfiles.ReadEnd(r.dir))(t).OutputText(), "Done.")
}
