package socket

import "sync"

// Gate holds connections back until what they ask for can be told. Methods are safe
// for concurrent use.
type Gate struct {
	once sync.Once
	open chan struct{}
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{open: make(chan struct{})} }

// Open lets connections in. It may be called more than once.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }
