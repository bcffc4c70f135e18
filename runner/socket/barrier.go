package socket

import "sync"

// Barrier holds connections back until their requests can be answered. Methods are safe
// for concurrent use.
type Barrier struct {
	once sync.Once
	open chan struct{}
}

// NewBarrier returns a closed Barrier.
func NewBarrier() *Barrier { return &Barrier{open: make(chan struct{})} }

// Open lets connections in. It may be called more than once.
func (b *Barrier) Open() { b.once.Do(func() { close(b.open) }) }
