package load

import (
	"context"
	"errors"
	"testing"

	"holon/runner/agent/view"
	"holon/runner/control/client"
	"holon/runner/control/wire"
)

// A listener finds missing events, repeated events, and a stream that begins anew.
func TestListener(t *testing.T) {
	event := func(seq int64) client.Item { return client.Item{Event: &view.EventEnvelope{EventSeq: seq}} }
	for name, tc := range map[string]struct {
		items []client.Item
		err   error
		ok    bool
	}{
		"each once":  {[]client.Item{event(1), event(2), event(3)}, nil, true},
		"a gap":      {[]client.Item{event(1), event(3)}, nil, false},
		"twice":      {[]client.Item{event(1), event(1)}, nil, false},
		"late":       {[]client.Item{event(2)}, nil, false},
		"anew":       {[]client.Item{event(1), {Reset: &wire.StreamControl{Reason: "cursor_ahead"}}}, nil, false},
		"broken off": {nil, errors.New("the daemon is gone"), false},
	} {
		t.Run(name, func(t *testing.T) {
			l := &Listener{agent: "a", moved: make(chan struct{})}
			ok := true
			for _, item := range tc.items {
				ok = ok && l.take(item, nil)
			}
			if tc.err != nil {
				ok = l.take(client.Item{}, tc.err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // what came is there at once
			err := l.Through(ctx, int64(len(tc.items)))
			if ok != tc.ok || (err == nil) != tc.ok {
				t.Errorf("take says %v, Through %v", ok, err)
			}
			if l.Through(ctx, 9) == nil {
				t.Error("events came that never were")
			}
		})
	}
}
