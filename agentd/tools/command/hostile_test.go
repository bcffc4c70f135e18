package command

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"holon/agentd/process"
	"holon/agentd/tools"
	wire "holon/responses/tasks"
	"holon/test/expect"
)

// A gigabyte on one line is counted and read to its end, and costs a bounded
// number of bytes of memory, disk and prompt.
func TestGigabyteOnOneLine(t *testing.T) {
	if testing.Short() {
		t.Skip("it moves a gigabyte")
	}
	const size = 1 << 30
	h := newHarness(t)
	h.env.Disk = process.NewBudget(4<<20, nil)
	h.run(t, map[string]any{"cmd": "true"}) // what is made once is made now
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o := h.run(t, map[string]any{"cmd": fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; echo ok >&2; exit 4`, size),
		"yield_time_ms": 600_000})
	runtime.ReadMemStats(&after)
	r := result[completedResult](t, o)
	// All that was ever allocated, freed since or not: ends of each stream that
	// fill a preview, the previews, and the envelope. Not a copy of the output.
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("%d bytes were allocated", took)
	}
	if budget := 8000 * tools.BytesPerToken; len(*r.StdoutPreview) > budget+1024 || len(o.Rendered) > budget+2048 {
		t.Errorf("the preview has %d bytes, the receipt %d", len(*r.StdoutPreview), len(o.Rendered))
	}
	switch {
	case r.ExitStatus != 4:
		t.Fatalf("r.ExitStatus = %d, want 4", r.ExitStatus)
	case !r.Truncated:
		t.Fatal("r.Truncated = false, want true")
	case r.StdoutArtifact == nil:
		t.Fatal("r.StdoutArtifact = nil, want a value")
	}
	info, err := os.Stat(filepath.Join(h.out, r.Artifacts[*r.StdoutArtifact].Path))
	if err != nil || info.Size() > 4<<20 || info.Size() < 3<<20 {
		t.Errorf("the file: %+v, %v", info, err)
	}
	for _, part := range []string{
		"Process exited with code 4\nstdout:\nxxxx", "stderr:\nok\n", fmt.Sprint(size) + " bytes in all",
		fmt.Sprintf("Note: stdout: the log file holds the first %d of %d bytes: the files of the turn may take no "+
			"more of the disk", info.Size(), size),
	} {
		if !strings.Contains(o.Rendered, part) {
			t.Errorf("the receipt has no %q:\n%.200s … %s", part, o.Rendered, o.Rendered[max(0, len(o.Rendered)-600):])
		}
	}
}

// A fork bomb runs into the limit on processes, is ended at its time with all it
// started, and the model reads what became of it.
func TestForkBomb(t *testing.T) {
	// Of no other process, so that only the bomb counts against the limit: the dead of the first one do too.
	first := 100_000 + rand.IntN(1_000_000)
	second := first + 1
	limited := func(uid int) []string {
		return []string{"prlimit", "--nproc=60:60", "setpriv", "--reuid", strconv.Itoa(uid), "--clear-groups",
			"--inh-caps=-all", "--bounding-set=-all", "--"}
	}
	as := limited(first)
	if out, err := exec.Command(as[0], append(as[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("a user of its own is needed to bound a fork bomb: %v %s", err, out)
	}
	// The shell itself forks once, before the limit is near: one that has to fork again may end by itself.
	bomb := func(uid int) string {
		return strings.Join(limited(uid), " ") +
			` sh -c 'bomb() { bomb | bomb & }; echo lit; bomb; exec sleep 1000'`
	}
	t.Run("ended at its time", func(t *testing.T) {
		o := newHarness(t, withoutTasks).run(t, map[string]any{"cmd": bomb(first), "yield_time_ms": 1000})
		for _, part := range []string{`"kind":"command_timeout"`, `"ok":false`, "everything it started is gone"} {
			if !strings.Contains(o.Rendered, part) {
				t.Errorf("no %q in %s", part, o.Rendered)
			}
		}
		if n := processesOf(t, first); n > 0 {
			t.Errorf("%d processes are left", n)
		}
	})
	t.Run("as a task", func(t *testing.T) {
		h := newHarness(t)
		id := result[promotedResult](t, h.run(t, map[string]any{"cmd": bomb(second), "yield_time_ms": 300})).TaskHandle.TaskID
		h.until(t, id, "Cannot fork") // it has grown to its limit
		stop := h.call(t, t.Context(), StopName, map[string]any{"task_id": id, "force": true})
		if r := result[wire.StopResult](t, stop); !r.Task.Status.Terminal() ||
			!strings.Contains(stop.Rendered, "killed") {
			t.Errorf("%s", stop.Rendered)
		}
		if n := processesOf(t, second); n > 0 {
			t.Errorf("%d processes are left", n)
		}
	})
}

// processesOf counts the processes of a user that run.
func processesOf(t *testing.T, uid int) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	expect.NoError(t, err)
	for _, e := range entries {
		status, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err == nil && bytes.Contains(status, fmt.Appendf(nil, "\nUid:\t%d\t", uid)) &&
			!bytes.Contains(status, []byte("\nState:\tZ")) {
			n++
		}
	}
	return n
}

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
