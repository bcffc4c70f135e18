package link

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holon/runner/engine"
	"holon/test/expect"
)

// measured is an engine whose directories have one file.
type measured struct {
	inside
	size int64
}

func (m measured) Read(context.Context, engine.Handle, string) (io.ReadCloser, error) {
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	_ = tw.WriteHeader(&tar.Header{Name: "tree/closed/file", Size: m.size, Mode: 0o600})
	_, _ = tw.Write(make([]byte, m.size))
	_ = tw.Close()
	return io.NopCloser(&out), nil
}

// answering answers every request with lines.
func answering(lines string) func(context.Context, io.ReadWriter) {
	return func(_ context.Context, stream io.ReadWriter) {
		for in := bufio.NewScanner(stream); in.Scan(); {
			if strings.Contains(in.Text(), `"end"`) {
				_, _ = io.WriteString(stream, lines)
				return
			}
		}
	}
}

// What cannot be measured is read, so that a closed directory hides nothing.
func TestUsage(t *testing.T) {
	tree := t.TempDir()
	spec := engine.Spec{Mounts: []engine.Mount{{Source: tree, Target: "/tree"}}}
	const sum = `{"s":4096,"end":true}` + "\n"
	for name, test := range map[string]struct {
		answer string
		want   int64
		fails  bool
	}{
		"all of it":           {sum, 4096, false},
		"a closed directory":  {`{"n":"L3RyZWU="}` + "\n" + sum, 4096 + 1<<20, false},
		"no directory of its": {`{"n":"L2V0Yw=="}` + "\n" + sum, 4096, false},
		"many directories":    {strings.Repeat(`{"n":"L2V0Yw=="}`+"\n", 2) + sum, 0, true},
		"no number":           {`{"s":"x","end":true}` + "\n", 0, true},
		"nothing":             {"", 0, true},
	} {
		eng := measured{inside{serve: answering(test.answer)}, 1 << 20}
		f := Open(eng, engine.Handle{Name: "x"}, join(t, eng, spec), false, "")
		got, err := f.Usage(t.Context(), spec, time.Minute)
		f.Close()
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %d, %v, want %d", name, got, err, test.want)
		}
	}
}

// Each file takes at least 4 KiB, one with two names once.
func TestUsageOfFiles(t *testing.T) {
	tree := t.TempDir()
	for i := range 3 {
		expect.NoError(t, os.WriteFile(filepath.Join(tree, fmt.Sprint(i)), []byte("x"), 0o600))
	}
	expect.NoError(t, os.Link(filepath.Join(tree, "0"), filepath.Join(tree, "again")))
	spec := engine.Spec{Mounts: []engine.Mount{{Source: tree, Target: tree}}}
	eng := inside{serve: serveHere}
	f := Open(eng, engine.Handle{Name: "x"}, join(t, eng, spec), false, "")
	t.Cleanup(f.Close)
	got, err := f.Usage(t.Context(), spec, time.Minute)
	expect.NoError(t, err)
	if got < 3*4<<10 || got > 3*64<<10 {
		t.Errorf("three files take %d", got)
	}
	spec.Mounts[0].Target += "/none"
	if _, err := f.Usage(t.Context(), spec, time.Minute); err == nil {
		t.Error("a directory that is not there was measured")
	}
}
