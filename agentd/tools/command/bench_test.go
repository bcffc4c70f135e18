package command

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/agentd/process"
	"holon/agentd/tools"
	wire "holon/responses/tasks"
)

// The floor: a shell started by os/exec, with its output read.
func BenchmarkBareShell(b *testing.B) {
	for b.Loop() {
		if out, err := exec.Command("bash", "-c", "true").CombinedOutput(); err != nil || len(out) > 0 {
			b.Fatal(err)
		}
	}
}

func BenchmarkExecCommand(b *testing.B) {
	h := newHarness(b)
	for b.Loop() {
		if o := h.call(b, b.Context(), ExecName, map[string]any{"cmd": "true"}); o.Canonical.Error != nil {
			b.Fatal(o.Canonical.Error)
		}
	}
}

// The same command bare, by the supervisor, and by the tool without and with
// files, in turn, so that all see the same machine. The figures are medians, in
// microseconds and as ratios to the bare one.
func BenchmarkExecInterleaved(b *testing.B) {
	h := newHarness(b, shared)
	bare := h.env
	bare.LogDir = ""
	started := process.Command{Argv: []string{"bash", "-c", "true"}, Dir: h.env.WorkDir, Env: h.env.Environ}
	call := tools.Call{Name: ExecName, Arguments: []byte(`{"cmd":"true"}`)}
	printing := tools.Call{Name: ExecName, Arguments: []byte(`{"cmd":"echo x"}`)}
	n := 0
	run := func(env tools.Env, c tools.Call) {
		n++
		c.ID = fmt.Sprintf("call_%d", n)
		if o := h.reg.Run(b.Context(), env, c); o.Canonical.Error != nil {
			b.Fatal(o.Canonical.Error)
		}
	}
	ways := []struct {
		name string
		run  func()
	}{
		{"bare", func() {
			cmd := exec.Command("bash", "-c", "true")
			cmd.Dir, cmd.Env = h.env.WorkDir, h.env.Environ
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				b.Fatal(err)
			}
		}},
		{"supervisor", func() {
			if _, err := h.sup.Run(b.Context(), started); err != nil {
				b.Fatal(err)
			}
		}},
		{"no-files", func() { run(bare, call) }},
		{"silent", func() { run(h.env, call) }},
		{"printing", func() { run(h.env, printing) }},
	}
	times := make([][]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			began := time.Now()
			way.run()
			times[i] = append(times[i], time.Since(began))
		}
	}
	var floor float64
	for i, way := range ways {
		slices.Sort(times[i])
		median := float64(times[i][len(times[i])/2].Microseconds())
		if i == 0 {
			floor = median
		}
		b.ReportMetric(median, way.name+"-µs")
		b.ReportMetric(median/floor, way.name+"/bare")
	}
}

func BenchmarkBatchOfTwelve(b *testing.B) {
	h := newHarness(b)
	items := make([]map[string]any, maxBatch)
	for i := range items {
		items[i] = map[string]any{"cmd": "true"}
	}
	for b.Loop() {
		if o := h.call(b, b.Context(), batchName, map[string]any{"items": items}); o.Canonical.Error != nil {
			b.Fatal(o.Canonical.Error)
		}
	}
}

// From the call of TaskInput until TaskOutput shows what the terminal echoes.
func BenchmarkTerminalEcho(b *testing.B) {
	h := newHarness(b)
	var id string
	for i := 0; b.Loop(); i++ {
		if i%100 == 0 { // the preview shall not grow without end
			b.StopTimer()
			id = h.promote(b, map[string]any{"cmd": "cat", "tty": true, "accepts_input": true,
				"duplicate_policy": startNew}).TaskHandle.TaskID
			b.StartTimer()
		}
		word := fmt.Sprintf("word%d", i)
		h.call(b, b.Context(), inputName, map[string]any{"task_id": id, "input": word + "\n"})
		for strings.Count(h.output(b, id, false).Task.OutputPreview, word+"\n") < 2 { // the echo and cat's own
			runtime.Gosched()
		}
		if i%100 == 99 {
			b.StopTimer()
			h.call(b, b.Context(), StopName, map[string]any{"task_id": id, "force": true})
			b.StartTimer()
		}
	}
}

// What a hundred running tasks take, in this process.
func BenchmarkHundredTasks(b *testing.B) {
	for b.Loop() {
		h := newHarness(b)
		before := resident(b)
		for i := range 100 {
			h.promote(b, map[string]any{"cmd": fmt.Sprintf("echo %d; exec sleep 600", i)})
		}
		runtime.GC()
		b.ReportMetric(float64(resident(b)-before)/100, "KB/task")
		for _, t := range result[wire.List](b, h.call(b, b.Context(), listName, map[string]any{})).Tasks {
			h.call(b, b.Context(), StopName, map[string]any{"task_id": t.ID, "force": true})
		}
	}
}

// resident is this process's resident memory in KB.
func resident(b *testing.B) (kb int) {
	b.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		b.Fatal(err)
	}
	return kb
}

// What the envelope costs without a process.
func BenchmarkEnvelope(b *testing.B) {
	h := newHarness(b)
	call := tools.Call{ID: "c", Name: listName}
	for b.Loop() {
		if o := h.reg.Run(b.Context(), h.env, call); o.Canonical.Error != nil {
			b.Fatal(o.Canonical.Error)
		}
	}
}
