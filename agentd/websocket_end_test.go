package agentd_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

func TestSocketDisconnect(t *testing.T) {
	t.Parallel()
	h := start(t)
	for name, c := range map[string]struct {
		fields string
		status responses.Status
	}{
		"stored":             {``, responses.StatusCompleted},
		"not stored":         {`"store":false,`, responses.StatusCancelled},
		"stored, but cancel": {`"holon":{"turn_id":"turn_c","on_disconnect":"cancel"},`, responses.StatusCancelled},
		"not stored, goes on": {`"store":false,"holon":{"turn_id":"turn_d","on_disconnect":"continue"},`,
			responses.StatusCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			id := map[string]string{"stored, but cancel": "turn_c", "not stored, goes on": "turn_d"}[name]
			if id == "" {
				id = "turn_" + strings.ReplaceAll(name, " ", "_")
				c.fields += `"holon":{"turn_id":"` + id + `"},`
			}
			w := h.dial()
			w.create(c.fields + `"input":"x"`)
			h.gate.wait(t, 1)
			w.create(`"input":"begun only if the end of the connection is seen later"`)
			expect.NoError(t, w.conn.CloseNow())
			if c.status == responses.StatusCompleted {
				h.gate.release <- struct{}{}
			}
			eventually(t, "the turn is "+string(c.status), func() bool { return h.record(id).Status == c.status })
			eventually(t, "no turn is left", func() bool {
				select {
				case h.gate.release <- struct{}{}:
				default:
				}
				health := h.health()
				return health.ActiveTurns+health.QueuedTurns == 0
			})
		})
	}
}

// At the end of its lifetime a connection tells its turn to the end first.
func TestSocketLifetime(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.WebSocket.Lifetime = 500 * time.Millisecond })
	w := h.dial()
	w.create(`"input":"x"`)
	h.gate.wait(t, 1)
	// One that is idle ends when its lifetime is over. It began later, so that of the
	// first is over too, while the turn runs.
	if e, _ := h.dial().failed(); e.Code != responses.CodeConnectionLimit {
		t.Errorf("an idle one is told %v, want %s", e, responses.CodeConnectionLimit)
	}
	w.create(`"input":"too late"`)
	h.gate.release <- struct{}{}
	if _, resp := w.turn(); resp.Status != responses.StatusCompleted {
		t.Errorf("the turn is %s", resp.Status)
	}
	if e, status := w.failed(); e.Code != responses.CodeConnectionLimit || status != 400 {
		t.Errorf("%d %v", status, e)
	}
	expect.Equal(t, "ended", w.closed(), websocket.StatusNormalClosure)
}

// At a shutdown the running turn is told to its end, new ones are refused, and
// every connection ends as one whose server goes away.
func TestSocketShutdown(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Turns.Grace = patience })
	idle, busy := h.dial(), h.dial()
	busy.create(`"input":"x"`)
	h.gate.wait(t, 1)
	h.server.Shutdown()
	eventually(t, "it drains", func() bool { return h.health().Status == turns.HealthDraining })
	idle.create(`"input":"x"`)
	if e, status := idle.failed(); e.Code != responses.CodeDraining || status != 503 {
		t.Errorf("a new turn: %d %v", status, e)
	}
	h.gate.release <- struct{}{}
	if _, resp := busy.turn(); resp.Status != responses.StatusCompleted {
		t.Errorf("the running turn is %s", resp.Status)
	}
	for name, w := range map[string]*ws{"idle": idle, "busy": busy} {
		expect.Equal(t, name+": ended", w.closed(), websocket.StatusGoingAway)
	}
	expect.NoError(t, h.stop())
}

// A peer that neither reads nor answers holds nothing up: neither its turn nor a
// shutdown, which ends the connection.
func TestSocketStalledReader(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("long", "rounds: [{repeat: {text: '"+strings.Repeat("x", 500)+"', count: 5000}}]")
	conn := h.upgrade(t)
	message := create(`"model":"` + ref + `","input":"x","holon":{"turn_id":"turn_flood"}`)
	frame := append([]byte{0x81, 0x80 | byte(len(message))}, 0, 0, 0, 0)
	if _, err := conn.Write(append(frame, message...)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the turn ends without its reader", func() bool {
		_, err := os.Stat(h.file("turn_flood", turns.RecordFile))
		return err == nil && h.record("turn_flood").Status == responses.StatusCompleted
	})
	began := time.Now()
	expect.NoError(t, h.stop())
	if took := time.Since(began); took > patience {
		t.Errorf("the server ended after %s", took)
	}
}

// Pings of either side keep a connection, however long it is idle.
func TestSocketPings(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.WebSocket.Ping = 20 * time.Millisecond })
	ref := h.scenario("hello", hello)
	pinged := make(chan struct{}, 100)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://agentd/responses",
		&websocket.DialOptions{HTTPClient: h.http, OnPingReceived: func(context.Context, []byte) bool {
			select {
			case pinged <- struct{}{}:
			default:
			}
			return true
		}})
	expect.NoError(t, err)
	w := &ws{t, conn}
	defer func() { _ = conn.CloseNow() }()
	frames := make(chan []byte, 1000)
	go func() {
		defer close(frames)
		for {
			_, data, err := conn.Read(ctx)
			if err != nil {
				return
			}
			frames <- data
		}
	}()
	for range 3 {
		select {
		case <-pinged:
		case <-ctx.Done():
			t.Fatal("the server does not ping")
		}
	}
	if err := conn.Ping(ctx); err != nil {
		t.Errorf("the server answers no ping: %v", err)
	}
	w.create(`"model":"` + ref + `","input":"x"`)
	for data := range frames {
		if ev, err := responses.DecodeEvent(data); err != nil || responses.Terminal(ev.Type) {
			break
		}
	}
	if ctx.Err() != nil {
		t.Error("the turn has no end")
	}
}
