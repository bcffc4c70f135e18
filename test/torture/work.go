package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holon/responses"
	"holon/test/agentclient"
	"holon/test/load"
)

// turn is a turn that a round submits, and what its client came to know.
type turn struct {
	id, session string
	model       string
	background  bool

	accepted   bool // an answer came
	ended      bool // its end came
	refused    error
	responseID string
	seen       []byte // the lines of its stream
}

// work is what a round has done: sessions side by side, each a chain of turns.
type work struct {
	sessions [][]*turn
	at       int // strike after so many events, if not 0
	after    time.Duration
	struck   chan struct{} // closed when it is time
	once     sync.Once
	tasks    int // commands that outlive their turns, at most
	events   atomic.Int64
}

// newWork draws the work: scenario files in the working directory, and when to
// strike.
func (r *round) newWork(ws, out, model string) *work {
	w := &work{struck: make(chan struct{})}
	kinds := []string{}
	for s := range 1 + r.rng.IntN(3) {
		chain := []*turn{}
		script := []any{}
		for k := range 1 + r.rng.IntN(3) {
			t := &turn{id: fmt.Sprintf("turn_%d_%d", s, k), session: fmt.Sprintf("sess_%d", s), model: model,
				background: r.chance(6)}
			chain = append(chain, t)
			rounds := []any{}
			for i := range 1 + r.rng.IntN(3) {
				kind, step := r.newStep(fmt.Sprintf("%s_%d", t.id, i), out+"/turns/"+t.id)
				if kinds = append(kinds, kind); kind == "task" {
					w.tasks++
				}
				rounds = append(rounds, step)
			}
			script = append(script, object{"rounds": append(rounds, object{"text": "That was turn " + t.id + "."})})
		}
		script = append(script, map[string]any{"rounds": []any{map[string]any{"text": "I go on."}}})
		data := load.Must(json.Marshal(map[string]any{"turns": script})) // YAML includes JSON
		name := fmt.Sprintf("s%d", s)
		load.Check(os.WriteFile(ws+"/"+name+".yaml", data, 0o644))
		for _, t := range chain {
			if t.model == "" {
				t.model = "scripted/" + name
			}
		}
		w.sessions = append(w.sessions, chain)
	}
	if r.chance(2) {
		w.at = 1 + r.rng.IntN(60)
	} else {
		w.after = r.upTo(500 * time.Millisecond)
	}
	r.tell("%d sessions, steps %s; strike after event %d or %s", len(w.sessions), strings.Join(kinds, " "), w.at,
		w.after)
	return w
}

type object = map[string]any

// step is what a model does in a round: it says something and calls a tool.
func step(text, tool string, arguments object) object {
	return object{"text": text, "calls": []any{object{"tool": tool, "arguments": arguments}}}
}

// newStep draws what a model does in a round. Every command says in the file
// "ran" that it ran.
func (r *round) newStep(name, turnDir string) (kind string, drawn object) {
	run := func(cmd string) object {
		return step("I run "+name+".", "ExecCommand", object{"cmd": "echo " + name + " >> ran; " + cmd})
	}
	switch r.rng.IntN(9) {
	case 0:
		return "command", run("echo out; echo err >&2; exit 3")
	case 1:
		return "slow", run(fmt.Sprintf("sleep 0.%d", 1+r.rng.IntN(4)))
	case 2:
		return "flood", run(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", 1+r.rng.IntN(1<<20)))
	case 3:
		return "artifact", run(fmt.Sprintf("mkdir -p %s/made; echo %s > %s/made/%s.txt", turnDir, name, turnDir, name))
	case 4:
		return "task", step("I run "+name+".", "ExecCommand", object{"yield_time_ms": 1,
			"cmd": "echo " + name + " >> ran; (trap '' TERM HUP; sleep 60) & sleep 60"})
	case 5:
		return "patch", step("I patch.", "ApplyPatch", object{"patch": "*** Begin Patch\n*** Add File: file_" + name +
			"\n+line\n*** End Patch\n"})
	case 7:
		drawn = run("true")
		drawn["error"] = object{"status": 503, "message": "out of order", "retry_after": "1ms", "attempts": 1}
		return "broken off", drawn
	case 6:
		call := func(name string) object {
			return object{"tool": "ExecCommand", "arguments": object{"cmd": "echo " + name + " >> ran"}}
		}
		return "several", object{"calls": []any{call(name + "a"), call(name + "b")}}
	}
	drawn = run("true")
	drawn["repeat"] = object{"text": "word ", "count": 5 + r.rng.IntN(300), "gap": "1ms"}
	delete(drawn, "text")
	return "stream", drawn
}

func (w *work) strike() { w.once.Do(func() { close(w.struck) }) }

// begin submits the turns. The instant comes at the chosen event, after the
// chosen time, or when all is done. wait waits for all clients.
func (w *work) begin(ctx context.Context, socket string) (wait func()) {
	ctx, cancel := context.WithTimeout(ctx, load.Patience)
	var group sync.WaitGroup
	if w.at == 0 {
		timer := time.AfterFunc(w.after, w.strike)
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
	for _, chain := range w.sessions {
		group.Go(func() { w.follow(ctx, socket, chain) })
	}
	over := make(chan struct{})
	go func() { group.Wait(); w.strike(); close(over) }()
	return func() {
		defer cancel()
		<-over
		if ctx.Err() != nil {
			load.Failf("a client still waits after %s", load.Patience)
		}
	}
}

func (w *work) follow(ctx context.Context, socket string, chain []*turn) {
	c := agentclient.Unix(socket)
	defer c.Close()
	previous := ""
	for _, t := range chain {
		err := w.submit(ctx, c, t, previous)
		if t.refused = err; err != nil || !t.ended {
			return
		}
		previous = t.responseID
	}
}

func (t *turn) request(previous string) *responses.Request {
	req := responses.NewRequest(t.model, responses.UserMessage("go"))
	req.PreviousResponseID = previous
	req.Holon = responses.Holon{TurnID: t.id, SessionID: t.session}
	return req
}

func (w *work) submit(ctx context.Context, c *agentclient.Client, t *turn, previous string) error {
	if t.background {
		resp, err := c.Background(ctx, t.request(previous))
		if err != nil {
			return err
		}
		t.accepted, t.responseID = true, resp.ID
		for ev, err := range c.Replay(ctx, resp.ID, agentclient.FromStart) {
			if err != nil {
				return err
			}
			w.count()
			t.ended = t.ended || responses.Terminal(ev.Type)
		}
		return nil
	}
	for line, err := range c.StreamRaw(ctx, t.request(previous)) {
		if err != nil {
			return err
		}
		w.count()
		if !t.accepted {
			t.accepted = true
			t.responseID = responseID(line)
		}
		t.seen = append(append(t.seen, line...), '\n')
		t.ended = responses.Terminal(responses.EventType(line))
	}
	return nil
}

func (w *work) count() {
	if n := w.events.Add(1); w.at > 0 && n == int64(w.at) {
		w.strike()
	}
}

func responseID(line []byte) string {
	var ev struct {
		Response struct {
			ID string `json:"id"`
		} `json:"response"`
	}
	_ = json.Unmarshal(bytes.TrimSpace(line), &ev) // "" is found to be wrong later
	return ev.Response.ID
}

func isCode(err error, code string) bool {
	e, ok := errors.AsType[*responses.Error](err)
	return ok && e.Code == code
}
