package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"holon/test/expect"
)

// Opening and reading a named pipe end with the context, even if the pipe has no writer.
func TestInputEndsWithItsContext(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	expect.NoError(t, syscall.Mkfifo(pipe, 0o600))
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	if _, err := openInput(ctx, notTerminals(nil, nil), pipe); !errors.Is(err, stopped) {
		t.Errorf("opening a pipe without a writer: %v, want %v", err, stopped)
	}
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // which also lets go of the reader that was left behind
	expect.NoError(t, err)
	defer writer.Close()
	ctx, stop = context.WithCancelCause(t.Context())
	in, err := openInput(ctx, notTerminals(nil, nil), pipe)
	expect.NoError(t, err)
	defer in.Close()
	if _, err := writer.WriteString("line\n"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(in, got); err != nil || string(got) != "line\n" {
		t.Errorf("read %q, %v, want what was written", got, err)
	}
	stop(stopped)
	if _, err := in.Read(got); !errors.Is(err, stopped) {
		t.Errorf("a read in silence: %v, want %v", err, stopped)
	}
}
