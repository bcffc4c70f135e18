package settings

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"holon/test/expect"
)

// A value that needs it is in force only for the text, and in the directory, that a person agreed to.
func TestConsent(t *testing.T) {
	t.Parallel()
	home, one, other := t.TempDir(), t.TempDir(), t.TempDir()
	load := func(top, text string) *Loaded {
		expect.NoError(t, os.MkdirAll(filepath.Join(top, filepath.Dir(ProjectFile)), 0o700))
		expect.NoError(t, os.WriteFile(filepath.Join(top, ProjectFile), []byte(text), 0o600))
		l := Load(Sources{Project: top, Consents: home})
		expect.NoError(t, l.Err())
		return l
	}
	const text = "services: ['db=pg,A=b']\n"
	l := load(one, text)
	expect.Equal(t, "pending", len(l.Pending), 1)
	expect.Equal(t, "in force", len(l.Services), 0)
	expect.NoError(t, l.Agree(l.Pending[0], home, time.Unix(1, 0)))
	expect.Equal(t, "in force after it", len(l.Services), 1)
	expect.Equal(t, "pending after it", len(l.Pending), 0)
	for name, tt := range map[string]struct {
		top, text string
		pending   int
	}{
		"again": {one, text, 0}, "written otherwise": {one, "services:\n- db=pg,A=b\n", 0},
		"elsewhere": {other, text, 1}, "another value": {one, "services: ['db=pg,A=c']\n", 1},
	} {
		l := load(tt.top, tt.text)
		expect.Equal(t, name+": pending", len(l.Pending), tt.pending)
		expect.Equal(t, name+": in force", len(l.Services), 1-tt.pending)
	}
	l = load(other, text)
	expect.NoError(t, l.Override("services", "--service", "x=y"))
	expect.Equal(t, "pending with a flag", len(l.Pending), 0)
	expect.Equal(t, "with a flag", l.Services[0], "x=y")
}
