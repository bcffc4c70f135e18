package command

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

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

func BenchmarkBatchOfTwelve(b *testing.B) {
	h := newHarness(b)
	items := make([]map[string]any, MaxBatch)
	for i := range items {
		items[i] = map[string]any{"cmd": "true"}
	}
	for b.Loop() {
		if o := h.call(b, b.Context(), BatchName, map[string]any{"items": items}); o.Canonical.Error != nil {
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
			id = h.promote(b, map[string]any{"cmd": "cat", "tty": true, "accepts_input": true, "duplicate_policy": startNew}).TaskHandle.TaskID
			b.StartTimer()
		}
		word := fmt.Sprintf("word%d", i)
		h.call(b, b.Context(), InputName, map[string]any{"task_id": id, "input": word + "\n"})
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
		for _, t := range result[wire.List](b, h.call(b, b.Context(), ListName, map[string]any{})).Tasks {
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
	call := tools.Call{ID: "c", Name: ListName}
	for b.Loop() {
		if o := h.reg.Run(b.Context(), h.env, call); o.Canonical.Error != nil {
			b.Fatal(o.Canonical.Error)
		}
	}
}
