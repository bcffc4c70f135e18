package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"holon/test/expect"
)

// A log that grows too large is moved away while it is written to; another file
// is left alone.
func TestTurnLog(t *testing.T) {
	t.Parallel()
	f := files{dir: t.TempDir()}
	log, _, err := f.openLog()
	expect.NoError(t, err)
	defer log.Close()
	other, err := os.Create(f.log() + ".other")
	expect.NoError(t, err)
	defer other.Close()
	for _, out := range []*os.File{log, other} {
		for _, text := range []string{strings.Repeat("a", 50), strings.Repeat("b", 60)} {
			if _, err := out.WriteString(text); err != nil {
				t.Fatal(err)
			}
			expect.NoError(t, f.turnLog(out, 100))
		}
		if _, err := out.WriteString("after"); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int{f.log(): 5, f.log() + ".1": 110, other.Name(): 115} {
		if info, err := os.Stat(name); err != nil || info.Size() != int64(want) {
			t.Errorf("%s has %d bytes, want %d (%v)", name, info.Size(), want, err)
		}
	}
}

// What is written to the log is followed: a line when it is complete, also in a log that was begun anew.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the time between two looks passes at once
		d := &Daemon{files: filesIn(t.TempDir())}
		expect.NoError(t, os.MkdirAll(filepath.Dir(d.files.log()), 0o700))
		write := func(text string, flags int) {
			f, err := os.OpenFile(d.files.log(), os.O_WRONLY|os.O_CREATE|flags, 0o600)
			if err == nil {
				_, err = f.WriteString(text)
			}
			expect.NoError(t, err)
			f.Close()
		}
		write("old\nlast\n", os.O_APPEND)
		logs, err := d.Logs(1)
		if err != nil || !slices.Equal(logs.Lines, []string{"last"}) {
			t.Fatalf("got %q, %v", logs.Lines, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		write("one\ntwo\nthr", os.O_APPEND)
		var got []string
		for line, err := range d.Follow(ctx, logs) {
			expect.NoError(t, err)
			switch got = append(got, line); line {
			case "two":
				write("ee\n", os.O_APPEND)
			case "three":
				write("new\n", os.O_TRUNC)
			case "new":
				cancel()
			}
		}
		if want := []string{"one", "two", "three", "new"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
