package process

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Whichever thread starts a command, the orphans of it come to the first one:
// this is what lets the end of a command look at that alone.
func TestOrphansComeToTheFirstThread(t *testing.T) {
	s := newTest(t)
	const n = 8
	dir := t.TempDir()
	all := make([]*Process, n)
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range all {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait() // every goroutine has a thread of its own by now
			c := sh(hide + fmt.Sprintf("hide $D/%d; echo up; exec sleep 300", i))
			c.Env = Environ(os.Environ(), "D="+dir)
			var err error
			if all[i], err = s.Start(c); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	leaders := make(map[int]bool)
	for _, p := range all {
		awaitOutput(t, p, "up")
		leaders[p.Pid()] = true
	}
	isLeader := func(pid int) bool { return leaders[pid] }
	children, ok1 := ownChildren()
	first, ok2 := adopted()
	if !ok1 || !ok2 {
		t.Skip("the kernel does not list children")
	}
	started := len(first)
	children, first = slices.DeleteFunc(children, isLeader), slices.DeleteFunc(first, isLeader)
	slices.Sort(children)
	slices.Sort(first)
	if len(children) < n || !slices.Equal(children, first) {
		t.Errorf("the orphans %v came to us and %v of them to the first thread", children, first)
	}
	if started-len(first) == n {
		t.Error("every command was started by the first thread, so this showed nothing")
	}
	for _, p := range all {
		p.Kill()
		p.Result()
	}
	for i := range all {
		if alive(t, filepath.Join(dir, fmt.Sprint(i))) {
			t.Errorf("the orphan of command %d lives on", i)
		}
	}
}
