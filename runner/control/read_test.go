package control

import (
	"testing"
	"testing/synctest"

	"holon/test/expect"
)

// A read that takes too long is not waited for.
func TestSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		_, inTime := soon(func() int { <-release; return 1 })
		expect.Equal(t, "a read that hangs is in time", inTime, false)
		close(release)
		found, inTime := soon(func() int { return 2 })
		expect.Equal(t, "a read is in time", inTime, true)
		expect.Equal(t, "found", found, 2)
	})
}
