package runner

import (
	"context"
	"errors"
	"testing"

	"holon/runner/engine"
	"holon/test/expect"
)

// removing is an engine whose removals begin, and end when they are answered.
type removing struct {
	engine.Engine
	begun  chan struct{}
	answer chan error
}

func (r removing) Remove(context.Context, engine.Handle) error {
	r.begun <- struct{}{}
	return <-r.answer
}

// A container that was stopped is removed while its files are collected, once, and Close waits for that and reports it. One
// that runs is left alone.
func TestDiscard(t *testing.T) {
	e := removing{begun: make(chan struct{}, 2), answer: make(chan error, 2)}
	s := &Session{cfg: Config{Engine: e}, seam: seam{t.TempDir()}, created: true, forget: func() {}}
	s.Discard(t.Context())
	if s.removed != nil {
		t.Fatal("a container that runs is removed")
	}
	s.stopped = true
	s.Discard(t.Context())
	s.Discard(t.Context())
	<-e.begun
	broken := errors.New("broken")
	e.answer <- broken
	expect.ErrorIs(t, "Close()", s.Close(t.Context()), broken)
	expect.NoError(t, s.Close(t.Context())) // there is none any more
	expect.Equal(t, "removals", len(e.begun), 0)
}
