package compaction_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/agentd/compaction"
	"holon/responses"
	"holon/test/expect"
)

func TestSeal(t *testing.T) {
	dir := t.TempDir()
	s := compaction.NewSealer(dir)
	const summary = "They said <hello> & \"goodbye\"."
	blob, err := s.Seal(summary)
	expect.NoError(t, err)
	if strings.Contains(blob, "hello") || !strings.HasPrefix(blob, "holon.c1.") {
		t.Errorf("the blob is %s", blob)
	}
	if again, err := s.Seal(summary); err != nil || again == blob {
		t.Errorf("two blobs of one summary are equal (%v)", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "compaction.key")); err != nil || info.Mode().Perm() != 0o600 ||
		info.Size() != 32 {
		t.Errorf("the key file: %v, %v", info, err)
	}
	// The process after a restart reads the key, and closes it to others.
	expect.NoError(t, os.Chmod(filepath.Join(dir, "compaction.key"), 0o644))
	if got, err := compaction.NewSealer(dir).Open(blob); err != nil || got != summary {
		t.Errorf("opened to %q, %v", got, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "compaction.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file is %v, %v", info.Mode(), err)
	}
	other := compaction.NewSealer(t.TempDir())
	if _, err := other.Open(blob); !unreadable(err) {
		t.Errorf("without a key: %v", err)
	}
	if _, err := other.Seal("x"); err != nil {
		t.Fatal(err)
	}
	flipped := []byte(blob)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string]string{
		"of another service": "gAAAAABpM0Yj-abc=", "empty": "", "no content": "holon.c1.",
		"another version": "holon.c2." + blob[9:], "no base64": "holon.c1.***",
		"altered": string(flipped), "cut": blob[:len(blob)-4], "longer": blob + "AAAA", "broken": blob + "\n",
		"huge": "holon.c1." + strings.Repeat("A", 5<<20),
	} {
		if _, err := s.Open(bad); !unreadable(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := other.Open(blob); !unreadable(err) {
		t.Errorf("with another key: %v", err)
	}
}

func unreadable(err error) bool {
	e, ok := errors.AsType[*responses.Error](err)
	return ok && e.Code == responses.CodeCompactionUnreadable && e.Status() == 400 && e.Hint != ""
}

func TestBadKeyFile(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"short": func(path string) error { return os.WriteFile(path, []byte("short"), 0o600) },
		"long":  func(path string) error { return os.WriteFile(path, make([]byte, 33), 0o600) },
		"link":  func(path string) error { return os.Symlink("/etc/hostname", path) },
		"a dir": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		expect.NoError(t, prepare(filepath.Join(dir, "compaction.key")))
		if _, err := compaction.NewSealer(dir).Seal("x"); err == nil {
			t.Errorf("%s: the key was used", name)
		}
		if _, err := compaction.NewSealer(dir).Open("holon.c1.AAAA"); err == nil || unreadable(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExpand(t *testing.T) {
	s := compaction.NewSealer(t.TempDir())
	blob, err := s.Seal("the summary")
	expect.NoError(t, err)
	plain := []responses.Item{say(responses.RoleUser, "a")}
	if got, err := s.Expand("input", plain); err != nil || &got[0] != &plain[0] {
		t.Errorf("without a compaction item: %v, %v", got, err)
	}
	item := &responses.Compaction{ID: "cmp_1", EncryptedContent: blob}
	items := []responses.Item{plain[0], item}
	got, err := s.Expand("input", items)
	switch {
	case err != nil:
		t.Fatalf("unexpected error: %v", err)
	case len(got) != 2:
		t.Fatalf("len(got) = %d (%+v), want 2", len(got), got)
	case got[0] != items[0]:
		t.Fatalf("got[0] = %v, want %v", got[0], items[0])
	case items[1] != item:
		t.Fatalf("items[1] = %v, want %+v", items[1], item)
	}
	switch m := got[1].(*responses.Message); {
	case m.Role != responses.RoleUser:
		t.Errorf("m.Role = %q, want %q", m.Role, responses.RoleUser)
	case m.ID != "cmp_1":
		t.Errorf(`m.ID = %q, want "cmp_1"`, m.ID)
	case !strings.HasSuffix(m.Text(), "\n\nthe summary"):
		t.Errorf("m.Text() = %q, want it to end with %q", m.Text(), "\n\nthe summary")
	}
	items[1] = &responses.Compaction{EncryptedContent: "gAAAA"}
	_, err = s.Expand("input", items)
	switch e, ok := errors.AsType[*responses.Error](err); {
	case !unreadable(err):
		t.Error("unreadable(err) = false, want true")
	case !ok:
		t.Errorf("%v", err)
	case e.Param != "input[1].encrypted_content":
		t.Errorf(`e.Param = %q, want "input[1].encrypted_content"`, e.Param)
	}
}

// A blob that a client made up opens to nothing, and never breaks the opener.
func FuzzOpen(f *testing.F) {
	s := compaction.NewSealer(f.TempDir())
	blob, err := s.Seal("summary")
	expect.NoError(f, err)
	for _, seed := range []string{"", "holon.c1.", "holon.c1.AAAA", "gAAAAABpM0Yj", blob[:20], blob + "A",
		strings.ToUpper(blob)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Equal(data, []byte(blob)) {
			return
		}
		if got, err := s.Open(string(data)); !unreadable(err) || got != "" {
			t.Errorf("%q opens to %q, %v", data, got, err)
		}
	})
}
