package command

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"holon/agentd/process"
	"holon/agentd/tools"
)

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
