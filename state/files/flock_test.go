package files

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"holon/test/expect"
)

// A lock by flock is one holder's, and questions neither disturb it nor keep it from being taken.
func TestFlock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lease")
	expect.NoError(t, os.WriteFile(path, nil, 0o600))
	open := func() *os.File {
		f, err := os.Open(path)
		expect.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	holder, other, asker := open(), open(), open()
	var asking sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		f := open()
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					if _, err := flocked(f); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 1000 {
		expect.NoError(t, flock(holder))
		expect.ErrorIs(t, "a second holder", flock(other), unix.EAGAIN)
		held, err := flocked(asker)
		expect.NoError(t, err)
		expect.Equal(t, "held", held, true)
		expect.NoError(t, unix.Flock(int(holder.Fd()), unix.LOCK_UN))
		held, err = flocked(asker)
		expect.NoError(t, err)
		expect.Equal(t, "held after its end", held, false)
	}
	close(done)
	asking.Wait()
}
