package command

import (
	"strings"
	"testing"

	"holon/agentd/process"
)

// Results of commands that do not end, close their output, or write after their
// end, as the model reads them.
func TestReceiptsOfHostileCommands(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options []option
		args    map[string]any
		want    []string
		never   string
	}{
		{"it closes its output and goes on", nil,
			map[string]any{"cmd": "echo last; exec >&- 2>&-; sleep 600", "yield_time_ms": 300},
			[]string{"Command promoted to background task\nTask: task_", "Initial output:\nlast"}, ""},
		{"it closes its output and ends", nil, map[string]any{"cmd": "exec >&- 2>&-; sleep 0.05; exit 3"},
			[]string{"Process exited with code 3\n(no output)"}, ""},
		{"a child writes after the end", nil, map[string]any{"cmd": "(sleep 1; echo late) & echo early"},
			[]string{"Process exited with code 0\nstdout:\nearly\nNote: ", "that the command left running were ended"},
			"late"},
		{"a child in a session of its own writes after the end", nil,
			map[string]any{"cmd": "setsid sh -c 'sleep 1; echo late' & echo early"},
			[]string{"Process exited with code 0\nstdout:\nearly\nNote: ", "that the command left running were ended"},
			"late"},
		{"it takes its own group down", nil, map[string]any{"cmd": "echo on; kill -9 0"},
			[]string{"Process exited with code 137\n(command was killed by signal 9 (SIGKILL))\nstdout:\non"}, ""},
		{"it stops itself", []option{withoutTasks},
			map[string]any{"cmd": "echo on; kill -STOP $$; echo never", "yield_time_ms": 200},
			[]string{`"kind":"command_timeout"`, `"stdout_preview":"on\n`}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newHarness(t, tt.options...).run(t, tt.args)
			for _, part := range tt.want {
				if !strings.Contains(o.Rendered, part) {
					t.Errorf("no %q in %s", part, o.Rendered)
				}
			}
			if tt.never != "" && strings.Contains(o.Rendered, tt.never) {
				t.Errorf("%q is in %s", tt.never, o.Rendered)
			}
		})
	}
}

// A task whose file ends early says so, while it runs and after its end.
func TestTaskOutputThatWasNotKept(t *testing.T) {
	h := newHarness(t)
	h.env.Disk = process.NewBudget(1000, nil)
	id := h.promote(t, map[string]any{"cmd": "seq 1 10000; read x; echo done >&2; read x",
		"accepts_input": true}).TaskHandle.TaskID
	h.until(t, id, "\n10000\n") // before the other stream can take a byte of the budget
	h.call(t, t.Context(), inputName, map[string]any{"task_id": id, "input": "\n"})
	h.until(t, id, "done\n")
	const note = "Note: stdout: the log file holds the first 1000 of 48894 bytes: the files of the turn may take no " +
		"more of the disk\n"
	if o := h.call(t, t.Context(), OutputName,
		map[string]any{"task_id": id, "block": false}); !strings.Contains(o.Rendered, note) {
		t.Errorf("while it runs: %s", o.Rendered[max(0, len(o.Rendered)-600):])
	}
	h.call(t, t.Context(), inputName, map[string]any{"task_id": id, "input": "\n"})
	if o := h.call(t, t.Context(), OutputName, map[string]any{"task_id": id}); !strings.Contains(o.Rendered, note) {
		t.Errorf("after its end: %s", o.Rendered[max(0, len(o.Rendered)-600):])
	}
}
