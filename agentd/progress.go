package agentd

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"holon/agentd/record"
	"holon/responses"
)

// progress is the output of a running turn so far, as far as it is visible.
// Each look reads only the events that came since the one before.
type progress struct {
	mu     sync.Mutex
	reader *record.Follower
	items  responses.Items
}

// present returns the response as it is now. While the turn runs, its output
// holds the items that are closed. The caller holds a view.
func (lt *liveTurn) present(ctx context.Context) (responses.Response, error) {
	status := lt.turn.Record().Status
	if status.Terminal() { // its end may be visible already; the rest is a moment
		select {
		case <-lt.done:
		case <-ctx.Done():
			return responses.Response{}, context.Cause(ctx)
		}
	}
	switch final, failure := lt.result(); {
	case failure != nil:
		return responses.Response{}, failure
	case final != nil:
		return *final, nil
	}
	items, err := lt.progress.read(ctx, lt.turn.Journal)
	if err != nil {
		return responses.Response{}, responses.Internal("the turn's events cannot be read", err)
	}
	resp := lt.response
	resp.Status, resp.Output = status, items
	return resp, nil
}

// read returns the items that are closed by now.
func (p *progress) read(ctx context.Context, journal *record.Journal) (responses.Items, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reader == nil {
		p.reader = journal.Follow()
	}
	for !p.reader.Waiting() {
		lines, err := p.reader.Next(ctx)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(record.AppendStream(nil, lines)) {
			if responses.EventType(line) != responses.EventItemDone {
				continue
			}
			ev, err := responses.DecodeEvent(bytes.TrimRight(line, "\n"))
			if err != nil {
				return nil, err
			}
			p.items = append(p.items, ev.Item)
		}
	}
	return slices.Clip(p.items), nil
}
