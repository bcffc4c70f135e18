package process

import (
	"runtime"
	"sync"
)

// spareThreads is how many threads are made before the first command. A command can use up all the processes that a
// container may have, threads of this program included, and a Go program that cannot make a thread when it needs one
// dies. The runtime never gives a thread back, so these are available for system calls while the command is being
// ended.
const spareThreads = 32

// reserveThreads makes n threads and leaves them to the runtime.
func reserveThreads(n int) {
	var all, done sync.WaitGroup
	all.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			all.Done()
			all.Wait()
		})
	}
	done.Wait()
}
