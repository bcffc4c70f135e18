package tui

import (
	"context"
	"sync"

	tea "charm.land/bubbletea/v2"
)

// feed carries what a backend tells into the program. One backend is followed at a time; events of another are dropped.
type feed struct {
	ctx    context.Context // the program's: a feed is a part of it and ends with it
	events chan fed

	mu     sync.Mutex
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// fed is an event with the conversation that it is of.
type fed struct {
	conversation int
	event        event
}

// fedMsg is the events that have come, in order.
type fedMsg []fed

// endedEvent is the end of following, which was not asked for.
type endedEvent struct{ err error }

func (endedEvent) event() {}

const fedAtOnce = 256

func newFeed(ctx context.Context) *feed {
	return &feed{ctx: ctx, events: make(chan fed, fedAtOnce), cancel: func() {}}
}

// follow is a command that follows b as the conversation of that number, instead of the one before.
func (f *feed) follow(conversation int, b backend) tea.Cmd {
	return func() tea.Msg {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.cancel()
		ctx, cancel := context.WithCancel(f.ctx)
		f.cancel = cancel
		f.wait.Go(func() {
			emit := func(e event) {
				select {
				case f.events <- fed{conversation, e}:
				case <-ctx.Done():
				}
			}
			err := b.follow(ctx, emit)
			if ctx.Err() == nil {
				emit(endedEvent{err})
			}
		})
		return nil
	}
}

// next is a command that waits for the next events and takes all that are there, so that a burst is drawn once.
func (f *feed) next() tea.Msg {
	var got fedMsg
	select {
	case e := <-f.events:
		got = append(got, e)
	case <-f.ctx.Done():
		return nil
	}
	for len(got) < fedAtOnce {
		select {
		case e := <-f.events:
			got = append(got, e)
			continue
		default:
		}
		break
	}
	return got
}

// close waits for what follows.
func (f *feed) close() {
	f.mu.Lock()
	f.cancel()
	f.mu.Unlock()
	f.wait.Wait()
}
