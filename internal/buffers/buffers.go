// Package buffers lends byte slices that are needed for a moment, so that neither a
// stream that is silent holds one nor a stream that floods makes new ones.
package buffers

import "sync"

// Sizes of the slices: the first holds the lines of a small turn, and one that
// has grown beyond the second is not kept.
const (
	least = 4 << 10
	most  = 64 << 10
)

var pool sync.Pool // of *[]byte

// Get returns an empty slice with room for n bytes at least.
func Get(n int) []byte {
	if b, _ := pool.Get().(*[]byte); b != nil && cap(*b) >= n {
		return (*b)[:0]
	}
	return make([]byte, 0, max(n, least))
}

// Put takes back a slice that Get returned, grown or not. The caller no longer
// uses it.
func Put(b []byte) {
	if cap(b) >= least && cap(b) <= most {
		pool.Put(&b)
	}
}
