package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"holon/runner/agent/view"
	"holon/runner/control/wire"
)

// liveAnswer shows on a terminal what an agent writes, while it writes it.
type liveAnswer struct {
	streams Streams
	on      bool // there is a terminal to show it on
	cancel  context.CancelFunc
	ended   sync.WaitGroup

	mu      sync.Mutex
	writing *answer // nil when no message is being written
	item    string  // that is shown
	text    strings.Builder
	told    []string      // the newest messages that were shown whole
	changed chan struct{} // receives when a message was shown whole

	calls    int           // of the newest recorded round, that were not shown yet
	recorded bool          // what was done after the message that is shown was shown, as far as is known
	caught   chan struct{} // receives when recorded is set
}

// lastWords is how long a message is waited for that the record has already, or for the record of what was done before
// a message, and maxTold how many are known.
const (
	lastWords = time.Second
	maxTold   = 20
)

// showLive shows what the agent writes in the turn of a message until it is closed. Without a terminal, or quiet, it
// shows nothing.
func (r *remote) showLive(ctx context.Context, sent wire.Enqueued, quiet bool) *liveAnswer {
	l := &liveAnswer{streams: r.streams, cancel: func() {}, changed: make(chan struct{}, 1),
		caught: make(chan struct{}, 1)}
	if quiet || !r.streams.OutTTY || !r.streams.ErrTTY || r.streams.CI {
		return l
	}
	l.on = true
	ctx, l.cancel = context.WithCancel(ctx)
	l.ended.Go(func() { r.Live(ctx, sent.AgentID, sent.MessageID, l.show) })
	return l
}

// show prints a piece of a message.
func (l *liveAnswer) show(m wire.Live) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.ItemID != l.item {
		l.print(l.rest())
		if l.item != "" {
			l.awaitRecord()
		}
		l.item, l.writing, l.recorded = m.ItemID, &answer{}, false
		l.text.Reset()
	}
	if l.writing == nil || m.Offset != l.text.Len() {
		return // it was shown to its end
	}
	l.text.WriteString(m.Text)
	l.print(l.writing.write(l.streams, m.Text))
	if m.Done {
		l.print(l.rest())
		l.told = append(l.told[max(0, len(l.told)-maxTold):], strings.TrimSpace(l.text.String()))
		select {
		case l.changed <- struct{}{}:
		default:
		}
	}
}

// awaitRecord waits a moment until the calls that follow a message were shown: what is written comes faster than what
// is recorded. The caller holds mu, which is released meanwhile.
func (l *liveAnswer) awaitRecord() {
	patience := time.NewTimer(lastWords)
	defer patience.Stop()
	for expired := false; !l.recorded && !expired; {
		l.mu.Unlock()
		select {
		case <-l.caught:
		case <-patience.C:
			expired = true
		}
		l.mu.Lock()
	}
}

// done counts calls that were shown, of those that a recorded round made.
func (l *liveAnswer) done(made, shown int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = max(0, l.calls+made-shown)
	if l.recorded = l.calls == 0; l.recorded {
		select {
		case l.caught <- struct{}{}:
		default:
		}
	}
}

// rest ends the message that is being written. The caller holds mu.
func (l *liveAnswer) rest() []string {
	if l.writing == nil {
		return nil
	}
	rows := l.writing.end(l.streams)
	l.writing = nil
	return rows
}

func (l *liveAnswer) print(rows []string) {
	for _, row := range rows {
		fmt.Fprintln(l.streams.Out, row)
	}
}

// line prints a line about what is done, between the messages.
func (l *liveAnswer) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.streams.Err, "  "+text)
}

// opening prints a line about the beginning, unless the answer came before it.
func (l *liveAnswer) opening(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.item == "" {
		fmt.Fprintln(l.streams.Err, "  "+text)
	}
}

// close ends it, and reports whether the last text of a turn stands on the terminal.
func (l *liveAnswer) close(last string) bool {
	l.await(last)
	l.cancel()
	l.ended.Wait()
	l.mu.Lock()
	l.print(l.rest())
	l.mu.Unlock()
	return l.showed(last)
}

// await waits a moment until a message is shown, and reports whether it is. The record has it already, or its
// beginning.
func (l *liveAnswer) await(text string) bool {
	if !l.on || strings.TrimSpace(text) == "" {
		return false
	}
	patience := time.NewTimer(lastWords)
	defer patience.Stop()
	for !l.showed(text) {
		select {
		case <-l.changed:
		case <-patience.C:
			return l.showed(text)
		}
	}
	return true
}

// showed reports whether a message that was shown whole is a text, or begins with one that was cut.
func (l *liveAnswer) showed(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin, cut := strings.CutSuffix(strings.TrimSpace(text), "…")
	return slices.ContainsFunc(l.told, func(told string) bool {
		return told == strings.TrimSpace(text) || cut && strings.HasPrefix(told, begin)
	})
}

// lastOf is what a message's turn said last.
func lastOf(end view.MessageState) string {
	if end.Turn == nil {
		return ""
	}
	return end.Turn.Last
}
