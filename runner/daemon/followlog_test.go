package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
)

// What is written to the log is followed: a line when it is complete, also in a log that was begun anew.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the time between two looks passes at once
		d := &Daemon{files: filesIn(t.TempDir())}
		if err := os.MkdirAll(filepath.Dir(d.files.log()), 0o700); err != nil {
			t.Fatal(err)
		}
		write := func(text string, flags int) {
			f, err := os.OpenFile(d.files.log(), os.O_WRONLY|os.O_CREATE|flags, 0o600)
			if err == nil {
				_, err = f.WriteString(text)
			}
			if err != nil {
				t.Fatal(err)
			}
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
			if err != nil {
				t.Fatal(err)
			}
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
