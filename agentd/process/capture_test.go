package process

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// Head, omission and tail always add up to what was written, for any split into
// writes and any bound.
func FuzzCapture(f *testing.F) {
	f.Add([]byte("hello world"), 3, 4)
	f.Add([]byte(""), 1, 1)
	f.Add(bytes.Repeat([]byte("ab\n"), 100), 7, 16)
	f.Fuzz(func(t *testing.T, data []byte, step, keep int) {
		step, keep = 1+abs(step)%64, 1+abs(keep)%128
		c := capture{keep: keep}
		for chunk := range slices.Chunk(data, step) {
			c.Write(chunk)
		}
		got := c.result()
		if got.Total != int64(len(data)) || got.Lines != int64(bytes.Count(data, []byte("\n"))) {
			t.Fatalf("counted %d bytes %d lines of %d", got.Total, got.Lines, len(data))
		}
		switch {
		case len(got.Head) > keep:
			t.Fatalf("len(got.Head) = %d (%q), want at most %d", len(got.Head), got.Head, keep)
		case len(got.Tail) > keep:
			t.Fatalf("len(got.Tail) = %d (%q), want at most %d", len(got.Tail), got.Tail, keep)
		case got.Omitted() < 0:
			t.Fatalf("got.Omitted() = %d, want at least 0", got.Omitted())
		}
		if !bytes.HasPrefix(data, got.Head) || !bytes.HasSuffix(data, got.Tail) {
			t.Fatalf("head %q tail %q of %q", got.Head, got.Tail, data)
		}
		if got.Omitted() > 0 && (len(got.Head) < keep || len(got.Tail) < keep) {
			t.Fatalf("omitted %d bytes with room left", got.Omitted())
		}
	})
}

func abs(n int) int {
	if n < 0 {
		return -(n + 1)
	}
	return n
}

func TestEnviron(t *testing.T) {
	parent := []string{
		"PATH=/opt/bin", "HOME=/home/a", "LC_ALL=de_DE.UTF-8", "GOFLAGS=-mod=vendor", "CARGO_HOME=/c",
		"OPENAI_API_KEY=sk-1", "ANTHROPIC_API_KEY=sk-2", "GITHUB_TOKEN=t", "CARGO_REGISTRY_TOKEN=t", "HOLON_SOCKET=/s",
		"NPM_CONFIG__AUTH=x", "AWS_SECRET_ACCESS_KEY=x", "GOOGLE_APPLICATION_CREDENTIALS=/k", "EDITOR=vi", "MALFORMED",
		"GIT_AUTHOR_NAME=A", "TERM=xterm", "PAGER=less", "=C:=x", "MYSTERY=1",
	}
	got := Environ(parent, "EXTRA=1", "PATH=/mine:/opt/bin", "MY_API_KEY=wanted")
	want := map[string]bool{
		"PATH=/mine:/opt/bin": true, "HOME=/home/a": true, "LC_ALL=de_DE.UTF-8": true, "GOFLAGS=-mod=vendor": true,
		"CARGO_HOME=/c": true, "GIT_AUTHOR_NAME=A": true, "LANG=C.UTF-8": true, "EXTRA=1": true,
		"MY_API_KEY=wanted": true,
	}
	for _, q := range quiet {
		want[q] = true
	}
	for _, kv := range got {
		if !want[kv] {
			t.Errorf("%s must not be passed", kv)
		}
		delete(want, kv)
	}
	for kv := range want {
		t.Errorf("%s is missing", kv)
	}
	if !slices.IsSorted(got) {
		t.Error("not sorted:", strings.Join(got, " "))
	}
}
