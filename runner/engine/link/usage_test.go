package link

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"testing"

	"holon/runner/engine"
)

// measured is an engine in which a command prints what it measured, and whose directories have one file.
type measured struct {
	Engine
	printed string
	size    int64
}

type printing struct{ io.Reader }

func (printing) Write(p []byte) (int, error) { return len(p), nil }
func (printing) Close() error                { return nil }

func (m measured) Exec(context.Context, engine.Handle, engine.User, []string) (io.ReadWriteCloser, error) {
	return printing{bytes.NewReader([]byte(m.printed))}, nil
}

func (m measured) Read(context.Context, engine.Handle, string) (io.ReadCloser, error) {
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	_ = tw.WriteHeader(&tar.Header{Name: "tree/closed/file", Size: m.size, Mode: 0o600})
	_, _ = tw.Write(make([]byte, m.size))
	_ = tw.Close()
	return io.NopCloser(&out), nil
}

// What a command cannot measure is read, so that a closed directory hides nothing.
func TestUsage(t *testing.T) {
	tree := t.TempDir()
	spec := engine.Spec{Mounts: []engine.Mount{{Source: tree, Target: "/tree"}}}
	for name, test := range map[string]struct {
		printed string
		want    int64
		fails   bool
	}{
		"all of it":           {"4096\n", 4096, false},
		"a closed directory":  {"4096\n/tree\n", 4096 + 1<<20, false},
		"no directory of its": {"4096\n/etc\n", 4096, false},
		"no number":           {"/tree\n", 0, true},
		"nothing":             {"", 0, true},
	} {
		got, err := Usage(t.Context(), measured{printed: test.printed, size: 1 << 20}, engine.Handle{}, spec)
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %d, %v, want %d", name, got, err, test.want)
		}
	}
}
