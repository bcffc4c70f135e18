package tui

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"

	"holon/test/expect"
)

// long is a conversation of so many rows.
func long(t testing.TB, n int) *lab {
	l := newLab(t, Target{Agent: "main"}, 120, 40)
	l.model.secrets = func(s string) string { return s }
	for i := range n / 2 {
		l.event(message1(fmt.Sprint("m", i), "what about number "+fmt.Sprint(i)+"?"),
			answerRow(fmt.Sprint("a", i), fmt.Sprintf("Number **%d** is `fine`.\n\n- one\n- two %s\n", i, strings.Repeat("word ", 30)), false))
	}
	return l
}

// BenchmarkKeystroke measures from a key to the view of it, with 10,000 rows; p99-ms is of single keys.
func BenchmarkKeystroke(b *testing.B) {
	l := long(b, maxRows)
	var took, worked []time.Duration
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := 0; b.Loop(); i++ {
		start, cpu := time.Now(), worktime(b)
		switch i % 20 {
		case 18:
			l.keys("pgup")
		case 19:
			l.send(tea.KeyPressMsg{Code: tea.KeyEnd, Mod: tea.ModCtrl})
		default:
			l.keys("x")
		}
		if i%100 == 99 {
			l.model.composer.Reset()
		}
		_ = l.model.View()
		took, worked = append(took, time.Since(start)), append(worked, worktime(b)-cpu)
	}
	for unit, all := range map[string][]time.Duration{"p99-ms": took, "p99-cpu-ms": worked} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, unit)
	}
}

// worktime is what the thread has computed, which other processes do not make longer.
func worktime(b *testing.B) time.Duration {
	var t unix.Timespec
	expect.NoError(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

// BenchmarkWriting measures a text of 20 KB while it is written, a piece a frame, with 10,000 rows above it.
func BenchmarkWriting(b *testing.B) {
	l := long(b, maxRows)
	text := strings.Repeat("Some **words** of an answer, and `code`.\n\n", 500)
	for i := 0; b.Loop(); i++ {
		l.event(answerRow("writing", text[:(i*40)%len(text)], true))
		_ = l.model.View()
	}
}

// BenchmarkMemory reports what 10,000 rows, all of which were shown, keep.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		l := long(b, maxRows)
		for i := range l.model.rows.list {
			l.model.rows.lines(&l.model.rows.list[i])
		}
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MB")
		if status, err := os.ReadFile("/proc/self/status"); err == nil {
			for line := range strings.Lines(string(status)) {
				var kb float64
				if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kb); err == nil {
					b.ReportMetric(kb/1024, "resident-MB")
				}
			}
		}
		runtime.KeepAlive(l)
	}
}
