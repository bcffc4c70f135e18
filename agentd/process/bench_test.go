package process

import (
	"os"
	"slices"
	"testing"
	"time"
)

// BenchmarkOverhead is what supervision costs a command that does nothing: the
// median of ours over that of a bare fork, exec and wait with both streams read,
// one after the other in one loop, so that both meet the same machine. The floor
// has a process of its own, since a program that starts processes next to an exclusive
// supervisor loses their exit codes to it.
func BenchmarkOverhead(b *testing.B) {
	for _, how := range []struct {
		name string
		opts Options
		task bool
	}{
		{"shared", Options{}, false},
		{"exclusive", Options{Exclusive: true}, false},
		{"with a task", Options{Exclusive: true}, true},
	} {
		b.Run(how.name, func(b *testing.B) {
			floors := []*floor{startFloor(b, "exec"), startFloor(b, "syscalls"), startFloor(b, "session")}
			s := New(how.opts)
			defer s.Close()
			c := Command{Argv: []string{"sleep", "300"}, Dir: "/", Env: Environ(os.Environ())}
			if how.task {
				if _, err := s.Start(c); err != nil {
					b.Fatal(err)
				}
			}
			c.Argv = []string{"true"}
			took := make([][]time.Duration, 1+len(floors))
			for b.Loop() {
				began := time.Now()
				if _, err := s.Run(b.Context(), c); err != nil {
					b.Fatal(err)
				}
				took[0] = append(took[0], time.Since(began))
				for i, f := range floors {
					took[1+i] = append(took[1+i], f.run(b))
				}
			}
			ours := median(took[0])
			b.ReportMetric(float64(ours.Microseconds()), "p50-us")
			for i, f := range floors {
				m := median(took[1+i])
				b.ReportMetric(float64(m.Microseconds()), f.name+"-p50-us")
				b.ReportMetric(float64(ours)/float64(m), "ratio-to-"+f.name)
			}
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
