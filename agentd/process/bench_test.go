package process

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkTrue against BenchmarkBareTrue is what supervision costs a command.
func BenchmarkTrue(b *testing.B) {
	s := New(Options{Exclusive: true})
	defer s.Close()
	c := Command{Argv: []string{"true"}, Dir: "/", Env: Environ(os.Environ())}
	benchmarkPercentiles(b, func() {
		if res, err := s.Run(b.Context(), c); err != nil || res.ExitCode != 0 {
			b.Fatal(res, err)
		}
	})
}

// BenchmarkTrueBesideTask is BenchmarkTrue while another command runs.
func BenchmarkTrueBesideTask(b *testing.B) {
	s := New(Options{Exclusive: true})
	defer s.Close()
	c := Command{Argv: []string{"sleep", "300"}, Dir: "/", Env: Environ(os.Environ())}
	if _, err := s.Start(c); err != nil {
		b.Fatal(err)
	}
	c.Argv = []string{"true"}
	benchmarkPercentiles(b, func() {
		if _, err := s.Run(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkBareTrue is the floor: fork, exec and wait, with no output kept.
func BenchmarkBareTrue(b *testing.B) { benchmarkBare(b, false) }

// BenchmarkBareTruePipes is the floor with the output read.
func BenchmarkBareTruePipes(b *testing.B) { benchmarkBare(b, true) }

func benchmarkBare(b *testing.B, pipes bool) {
	path, err := exec.LookPath("true")
	if err != nil {
		b.Fatal(err)
	}
	env := Environ(os.Environ())
	benchmarkPercentiles(b, func() {
		cmd := &exec.Cmd{Path: path, Args: []string{"true"}, Dir: "/", Env: env}
		if pipes {
			var out, err bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &err
		}
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	})
}

// benchmarkPercentiles times each call of do: where processes are scheduled, the
// mean says more about the machine than about the code.
func benchmarkPercentiles(b *testing.B, do func()) {
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		do()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}
