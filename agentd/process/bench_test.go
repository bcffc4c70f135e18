package process

import (
	"os"
	"os/exec"
	"testing"
)

// BenchmarkTrue against BenchmarkForkExec is what supervision costs a command.
func BenchmarkTrue(b *testing.B) {
	s := New(Options{Exclusive: true})
	defer s.Close()
	c := Command{Argv: []string{"true"}, Dir: "/", Env: Environ(os.Environ())}
	for b.Loop() {
		if _, err := s.Run(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkForkExec(b *testing.B) {
	path, err := exec.LookPath("true")
	if err != nil {
		b.Fatal(err)
	}
	env := Environ(os.Environ())
	for b.Loop() {
		cmd := &exec.Cmd{Path: path, Args: []string{"true"}, Dir: "/", Env: env}
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}
